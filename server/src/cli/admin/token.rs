//! `oneseal admin token new`: a token for its holder, and the table by which servers know it.
//!
//! Standard output has the token, once, or a new file that is named for it; standard error has what to put into the
//! configuration. Neither a server nor any other file of ours ever has the token itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use oneseal::{Clock, SystemClock, UnixTime};
use serde_json::json;

use super::super::Globals;
use crate::admin_token::{Scope, Scopes, Token};
use crate::config::admin_tokens::{check_name, moment, scope};
use crate::exit::{Exit, Failure};
use crate::{files, output, times};

/// What to do with tokens.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token of 256 random bits, and the table of the configuration that lets its holder in
    ///
    /// Standard output (or the file of --out) gets the token, which is shown this once and kept nowhere else; standard
    /// error the table [[admin.tokens]] for the configuration, which holds no secret. To change a token, make its
    /// successor under a name of its own, such as ci-2: servers take both until the first one's table is removed.
    New(New),
}

/// Whose token it is to be.
#[derive(Debug, clap::Args)]
struct New {
    /// What logs call its holder: of its own for each token, so ci-2 for the successor of ci while both are taken
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// What it may do: read, mint, keys, with commas between them
    #[arg(long, visible_alias = "scope", value_name = "SCOPES", value_delimiter = ',', value_parser = scope, required = true)]
    scopes: Vec<Scope>,
    /// The day or moment (UTC) from which on it is refused, such as 2027-01-31, or how long until then, such as 90d
    #[arg(long, value_name = "DATE|DURATION")]
    expires: Option<Expires>,
    /// Write the token into this new file, which its owner alone may read, in place of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object in place of both: token (null with --out), name, scopes, sha256, expires
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// The system has no random bytes, or standard output cannot be written (70); the file is there already (78), or
/// cannot be written.
pub(super) async fn run(args: Args, _: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::New(args) => new(args),
    }
}

fn new(args: New) -> Result<Exit, Failure> {
    let New { name, scopes, expires, out, json } = args;
    let mut set = Scopes::default();
    if !scopes.iter().all(|scope| set.add(*scope)) {
        return Err(Failure::usage("--scopes names one twice"));
    }
    let expires = expires.map(|expires| expires.after(SystemClock.wall())).transpose()?;
    let expires = expires.map(times::rfc3339);
    let token = Token::generate().map_err(|_| Failure::internal("the system gives no random bytes"))?;
    let scopes: Vec<_> = set.iter().map(Scope::as_str).collect();
    let sha256 = token.digest().to_string();
    if let Some(path) = &out {
        write_new(path, token.expose()).map_err(|error| files::not_written(path, error))?;
    }
    if json {
        let shown = out.is_none().then(|| token.expose());
        let members =
            json!({ "token": shown, "name": name, "scopes": scopes, "sha256": sha256, "expires": expires });
        return output::answer(members, Exit::Done);
    }
    if out.is_none() {
        output::print_line(token.expose())?;
    }
    let place = out.map_or_else(|| "on standard output".to_owned(), |path| format!("in {path:?}"));
    output::complain(table(&place, &name, &scopes, &sha256, expires.as_deref()).trim_end());
    Ok(Exit::Done)
}

/// Whole, or not at all: half a token is none, and would keep the next one out.
fn write_new(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    let written = file.write_all(format!("{token}\n").as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        drop(fs::remove_file(path));
    }
    written
}

/// TOML that needs no escapes: names, scopes and digests have letters that need none.
fn table(place: &str, name: &str, scopes: &[&str], sha256: &str, expires: Option<&str>) -> String {
    let scopes: Vec<_> = scopes.iter().map(|scope| format!("\"{scope}\"")).collect();
    let expires = expires.map(|expires| format!("expires = {expires}\n")).unwrap_or_default();
    format!(
        "# The token is {place} and nowhere else. For the configuration of every replica:\n\
         [[admin.tokens]]\nname = \"{name}\"\nscopes = [{}]\nsha256 = \"{sha256}\"\n{expires}",
        scopes.join(", ")
    )
}

fn name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

/// When it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expires {
    At(UnixTime),
    After(Duration),
}

impl FromStr for Expires {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = moment(text) {
            return Ok(Self::At(time));
        }
        match humantime::parse_duration(text) {
            Ok(span) => Ok(Self::After(span)),
            Err(_) if text.parse::<u64>().is_ok() => Err(format!(
                "a number alone does not say of what: write {text}d for days, or a day as 2027-01-31"
            )),
            Err(_) => {
                Err("write a day as 2027-01-31, a moment in UTC as 2027-01-31T12:00:00Z, or a time as 90d"
                    .to_owned())
            }
        }
    }
}

impl Expires {
    fn after(self, now: UnixTime) -> Result<UnixTime, Failure> {
        let at = match self {
            Self::At(at) => at,
            Self::After(span) => now + span,
        };
        if at <= now {
            return Err(Failure::usage("--expires is over already: the token could never be used"));
        }
        if moment(&times::rfc3339(at)).is_err() {
            return Err(Failure::usage(
                "--expires is beyond the year 9999: leave it out for a token without an end",
            ));
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_day_a_moment_or_a_time_from_now() {
        let now = UnixTime(1_800_000_000);
        let after =
            |text: &str| text.parse::<Expires>().expect(text).after(now).map_err(|failure| failure.exit());
        assert_eq!(after("2027-01-31"), Ok(UnixTime(1_801_353_600)));
        assert_eq!(after("2027-01-31T00:00:01Z"), Ok(UnixTime(1_801_353_601)));
        assert_eq!(after("90d"), Ok(now + Duration::from_secs(90 * 86_400)));
        assert_eq!(after("2020-01-01"), Err(Exit::Usage));
        assert_eq!(after("0s"), Err(Exit::Usage));
        assert_eq!(after("9000years"), Err(Exit::Usage), "no date of a configuration says that");
        for number in ["5", "2027", "1801353600"] {
            let said = number.parse::<Expires>().expect_err(number);
            assert!(said.contains(&format!("write {number}d for days")), "{said}");
        }
        for text in ["", "soon", "2027-13-01", "31.1.2027", "-1d"] {
            assert!(text.parse::<Expires>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_table_is_what_the_configuration_reads() {
        let token = Token::generate().expect("random bytes");
        let sha256 = token.digest().to_string();
        let text =
            table("on standard output", "ci", &["read", "mint"], &sha256, Some("2027-01-31T00:00:00Z"));
        assert!(!text.contains(token.expose()));
        crate::config::read_text(text.as_bytes());
        let document: toml::Table = toml::from_str(&text).expect("TOML");
        let table = &document["admin"]["tokens"][0];
        assert_eq!(table["name"].as_str(), Some("ci"));
        assert_eq!(table["sha256"].as_str(), Some(sha256.as_str()));
        assert_eq!(table["scopes"].as_array().map(Vec::len), Some(2));
        assert!(table["expires"].is_datetime());
    }
}
