//! What is said: the scene, the proof as text or JSON, the live table, and what to try next.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::Path;

use oneseal_keystore::{Initialised, IssuerUrl};
use serde_json::{Value, json};

use super::Proof;
use super::fleet::{AUDIENCE, Fleet};
use super::place::Place;
use super::round::{Published, Round, Sighting, Survival, Verification};
use super::table::{self, Paint, counted};

/// What does not change while it runs.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    /// The forwarder's URL.
    pub(super) issuer: &'a IssuerUrl,
    /// The data directory.
    pub(super) place: &'a Place,
    /// The ring.
    pub(super) initialised: &'a Initialised,
}

impl Scene<'_> {
    /// Who, where, which key.
    pub(super) fn header(&self) -> String {
        let made = if self.initialised.created { "made now" } else { "kept from an earlier start" };
        let mut text = format!("issuer  {}\nring    {} ({made})\n", self.issuer, self.place.ring().display());
        for (kid, algorithm) in &self.initialised.keys {
            let _ = writeln!(text, "key     {algorithm} {kid}");
        }
        text.push('\n');
        text
    }

    /// What to do while it runs.
    pub(super) fn live_hints(&self, fleet: &Fleet) -> String {
        let Some(first) = fleet.replicas().first() else { return String::new() };
        let (oneseal, issuer, admin) = (program(), self.issuer, quoted_path(first.admin()));
        format!(
            "Try, in another terminal:\n  curl -s {}\n  {oneseal} mint --admin {admin} --sub me --aud {AUDIENCE} \\\n    \
             | {oneseal} verify - --issuer {issuer} --aud {AUDIENCE}\n  kill -9 {}   # it comes back, with the same \
             key\nCtrl-C ends it.\n\n",
            issuer.url_of(&issuer.jwks_path()),
            fleet.replicas().last().map_or(0, |replica| replica.pid()),
        )
    }

    /// The proof for people: table, kill, differences, summary, and where to go from here.
    pub(super) fn as_text(&self, proof: &Proof) -> String {
        let Proof { round, survival } = proof;
        let paint = paint();
        let mut text = table::table(round, paint);
        text.push('\n');
        if let Some(survival) = survival {
            text.push_str(&table::survival(survival, round, paint));
        }
        text.push_str(&table::differences(&proof.differences(), paint));
        let _ = writeln!(text, "{}", table::summary(round, survival.as_ref()));
        let home = self.place.dir().join("replicas");
        if !proof.differences().is_empty() {
            let _ = writeln!(text, "\nWhat the replicas have to say: {}/*/log", home.display());
            return text;
        }
        let (oneseal, ring) = (program(), quoted_path(&self.place.ring()));
        let dir = quoted_path(self.place.dir());
        let _ = write!(
            text,
            "\nNext:\n  {oneseal} quickstart --dir {dir}   # on a terminal: live, until Ctrl-C\n  {oneseal} keys list \
             --provider file:{ring} --issuer {}\n",
            self.issuer
        );
        text
    }

    /// The proof for scripts.
    pub(super) fn as_json(&self, proof: &Proof) -> Value {
        let Proof { round, survival } = proof;
        let Initialised { created, keys, ring_key, identity, .. } = self.initialised;
        let keys: Vec<_> =
            keys.iter().map(|(kid, alg)| json!({ "kid": kid.as_str(), "alg": alg.as_str() })).collect();
        let differences = proof.differences();
        json!({
            "summary": table::summary(round, survival.as_ref()),
            "differences": differences,
            "issuer": self.issuer.as_str(),
            "dir": self.place.dir(),
            "ring": {
                "created": created,
                "digest": identity.digest.to_string(),
                "ring_key": ring_key.as_ref().map(|kid| kid.as_str()),
                "keys": keys,
            },
            "replicas": round.replicas.iter().map(replica_json).collect::<Vec<_>>(),
            "issuer_jwks": published_json(&round.issuer),
            "verifications": verifications_json(&round.verifications),
            "kill": survival.as_ref().map(survival_json),
        })
    }
}

/// The live table: drawn over itself, with what has happened so far.
#[derive(Debug, Default)]
pub(super) struct Live {
    rounds: usize,
    verified: usize,
    restarts: Vec<usize>,
    /// How many lines the last drawing has.
    lines: usize,
    /// How many restarts the last drawing told of.
    told_restarts: usize,
}

impl Live {
    /// Replica `number` was found dead and started again.
    pub(super) fn revived(&mut self, number: usize) {
        self.restarts.push(number);
    }

    /// A round is over.
    pub(super) fn seen(&mut self, round: &Round) {
        self.rounds += 1;
        self.verified += round.verified();
    }

    /// The next drawing: over the last one on a terminal that can. Elsewhere below it, and only when there is news.
    pub(super) fn draw(&mut self, round: &Round, proof: &Proof, differences: &[String]) -> String {
        let paint = paint();
        let has_news =
            self.lines == 0 || self.told_restarts != self.restarts.len() || !differences.is_empty();
        if paint == Paint::Plain && !has_news {
            return String::new();
        }
        self.told_restarts = self.restarts.len();
        let mut text = table::table(round, paint);
        text.push('\n');
        if let Some(survival) = &proof.survival {
            text.push_str(&table::survival(survival, &proof.round, paint));
        }
        text.push_str(&table::differences(differences, paint));
        let _ = writeln!(text, "{} · {}", table::summary(round, None), self.so_far());
        let up = std::mem::replace(&mut self.lines, text.lines().count());
        match paint {
            Paint::Plain => text,
            // Long lines are cut for the moment: a wrapped one would count as two.
            Paint::Color if up == 0 => format!("{NO_WRAP}{text}{WRAP}"),
            Paint::Color => format!("{NO_WRAP}\x1b[{up}A\x1b[J{text}{WRAP}"),
        }
    }

    /// The last words.
    pub(super) fn farewell(&self) -> String {
        format!("\nended: {}; the ring stays for the next start\n", self.so_far())
    }

    fn so_far(&self) -> String {
        let (rounds, verified) = (self.rounds, self.verified);
        let mut text = format!("{} so far, {verified} tokens verified", counted(rounds, "round"));
        if let Some(last) = self.restarts.last() {
            let times = counted(self.restarts.len(), "restart");
            let _ = write!(text, ", {times}, replica {last} last");
        }
        text
    }
}

fn replica_json(sighting: &Sighting) -> Value {
    let Sighting { number, pid, address, jwks, token } = sighting;
    json!({
        "replica": number,
        "pid": pid,
        "address": address.to_string(),
        "jwks": published_json(jwks),
        "signed_by": token.as_ref().ok().map(|minted| &minted.kid),
    })
}

fn published_json(published: &Result<Published, String>) -> Value {
    match published {
        Ok(Published { digest, etag }) => json!({ "sha256": digest.to_string(), "etag": etag }),
        Err(reason) => json!({ "error": reason }),
    }
}

fn verifications_json(verifications: &[Verification]) -> Vec<Value> {
    let one = |verification: &Verification| {
        let Verification { minted_on, verified_on, refused } = verification;
        json!({ "minted_on": minted_on, "verified_on": verified_on, "ok": refused.is_none(), "refused": refused })
    };
    verifications.iter().map(one).collect()
}

fn survival_json(survival: &Survival) -> Value {
    let Survival { number, killed_pid, pid, back_after, meanwhile, old_tokens, after } = survival;
    let jwks =
        after.replicas.iter().find(|sighting| sighting.number == *number).map(|sighting| &sighting.jwks);
    json!({
        "replica": number,
        "killed_pid": killed_pid,
        "pid": pid,
        "back_after_ms": u64::try_from(back_after.as_millis()).unwrap_or(u64::MAX),
        "issuer_jwks_meanwhile": published_json(meanwhile),
        "jwks": jwks.map(published_json),
        "old_tokens": verifications_json(old_tokens),
        "verifications": verifications_json(&after.verifications),
    })
}

/// The program as it was called: what a person can type again.
fn program() -> String {
    let called = std::env::args_os().next().and_then(|called| called.into_string().ok());
    quoted(called.as_deref().unwrap_or("oneseal"))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn paint() -> Paint {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    if io::stdout().is_terminal() && !is_dumb && !is_set("NO_COLOR") { Paint::Color } else { Paint::Plain }
}

const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

#[cfg(test)]
mod tests {
    use super::super::round::tests::{good, round, survival};
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, shell) in
            [("oneseal", "oneseal"), ("./a b", "'./a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), shell);
        }
    }

    #[test]
    fn the_live_table_counts_what_has_happened() {
        let proof = Proof { round: round(good()), survival: Some(survival(round(good()))) };
        let mut live = Live::default();
        live.seen(&proof.round);
        live.revived(3);
        let text = live.draw(&proof.round, &proof, &[]);
        let last = text.lines().last().expect("lines");
        assert_eq!(
            last,
            "3 replicas, 1 JWKS, 6 of 6 cross-verifications · 1 round so far, 6 tokens verified, 1 restart, \
             replica 3 last"
        );
        assert_eq!(live.lines, text.lines().count());
    }
}
