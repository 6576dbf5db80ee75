//! What the help and the manual page of each verb say beside its options: how it ends, and examples that run.
//!
//! One table for both, with a row for each verb; a test of the command line runs the examples.

use clap::Command;

/// One verb.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its words, such as `keys export`.
    pub(crate) verb: &'static str,
    /// Exit codes and what they mean here, without those of [`COMMON`].
    exits: &'static [(u8, &'static str)],
    /// Shell lines.
    pub(crate) examples: &'static [&'static str],
}

impl Page {
    /// The row of `verb`.
    pub(crate) fn of(verb: &str) -> Option<&'static Self> {
        PAGES.iter().find(|page| page.verb == verb)
    }

    /// Every exit code with its meaning, ascending.
    pub(crate) fn exits(&self) -> Vec<(u8, &'static str)> {
        let mut exits: Vec<_> = self.exits.iter().chain(COMMON).copied().collect();
        exits.sort_by_key(|(code, _)| *code);
        exits
    }
}

/// `command` with exit codes and examples behind the help of each verb.
pub(crate) fn complete(command: Command) -> Command {
    described(command, "")
}

fn described(command: Command, verb: &str) -> Command {
    let command = command.mut_subcommands(|command| {
        let verb = format!("{verb} {}", command.get_name());
        described(command, verb.trim())
    });
    match Page::of(verb) {
        Some(page) => command.after_help(short(page)).after_long_help(long(page)),
        None => command,
    }
}

fn short(page: &Page) -> String {
    let codes: Vec<_> = page.exits().iter().map(|(code, _)| code.to_string()).collect();
    format!("Exit codes: {}; --help explains them.", codes.join(", "))
}

fn long(page: &Page) -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in page.exits() {
        text.push_str(&format!("  {code:>3}  {meaning}\n"));
    }
    if !page.examples.is_empty() {
        text.push_str("\nExamples:\n");
    }
    for line in page.examples {
        text.push_str(&format!("  $ {line}\n"));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Environment variables, for the manual pages.
pub(crate) const ENVIRONMENT: [(&str, &str); 6] = [
    ("ONESEAL_CONFIG", "The configuration file, if --config does not name one."),
    (
        "ONESEAL__SECTION__KEY",
        "A key of the configuration, such as ONESEAL__ISSUER__URL; stronger than the file, weaker than a flag. With _FILE \
         behind the name of a secret one, the file that holds it.",
    ),
    ("ONESEAL_LOG", "What is logged, such as info or oneseal=debug,warn."),
    (
        "ONESEAL_WORKERS",
        "Unset or empty in this version, which has no background workers; a name is refused.",
    ),
    ("COLUMNS", "The width of help texts, where standard output is no terminal."),
    ("NO_COLOR", "If set, help texts and mistakes have no colours."),
];

/// How any verb may end.
const COMMON: &[(u8, &str)] = &[
    (64, "the command line makes no sense"),
    (70, "a fault of oneseal itself, or the answer could not be written"),
];

/// What each code means where no verb is named.
pub(crate) const ANY: &[(u8, &str)] = &[
    (0, "done"),
    (1, "the answer is no"),
    (64, "the command line makes no sense"),
    (69, "a provider, a database or a server does not answer"),
    (70, "a fault of oneseal itself, or the answer could not be written"),
    (71, "an address cannot be bound"),
    (75, "too early or in conflict: try later"),
    (77, "denied"),
    (78, "configuration, key or place refused"),
];

const NO_KEY: (u8, &str) = (78, "configuration, key or place refused, or nothing there");
const DENIED: (u8, &str) = (77, "the provider or the file system says no");
const SILENT: (u8, &str) = (69, "the provider does not answer");
const DONE: (u8, &str) = (0, "done");
const NOT_WRITTEN: (u8, &str) =
    (69, "provider, registry or replica do not answer, or it is not known whether it was written");
const EARLY: (u8, &str) = (75, "too early, or in conflict: the same may work later");
const NOT_ALLOWED: (u8, &str) = (77, "the provider, the file system or the replica says no");
const NOT_KEPT: (u8, &str) = (78, "the rules are against it, or configuration, key or place are refused");

/// Every verb.
pub(crate) static PAGES: &[Page] = &[
    Page {
        verb: "serve",
        exits: &[
            (0, "ended in order by a signal"),
            (69, "the provider did not answer within process.boot_timeout"),
            (71, "an address cannot be bound"),
            (75, "in conflict with another replica; the same may work later"),
            DENIED,
            (78, "configuration or key refused"),
            (130, "cut short by a second SIGINT"),
            (143, "cut short by a second SIGTERM"),
        ],
        examples: &["oneseal serve --config oneseal.toml --ready-file ready.json"],
    },
    Page {
        verb: "check",
        exits: &[
            (0, "serve would start; there may be warnings"),
            SILENT,
            (71, "an address cannot be bound"),
            (75, "in conflict with another replica; the same may work later"),
            DENIED,
            (78, "configuration or key refused; with --strict also for a warning"),
        ],
        examples: &[
            "oneseal check --config oneseal.toml --no-bind",
            "oneseal check --config oneseal.toml --offline --no-bind --strict --json",
        ],
    },
    Page {
        verb: "quickstart",
        exits: &[
            (0, "the replicas are one issuer"),
            (1, "they differ"),
            (69, "a replica's provider does not answer"),
            (71, "a port is taken"),
            (75, "another quickstart uses the directory"),
            (77, "the directory may not be written"),
            (78, "the directory or its ring is refused"),
            (130, "ended by SIGINT before the proof was complete"),
            (143, "ended by SIGTERM before the proof was complete"),
        ],
        examples: &["oneseal quickstart --once --dir ./demo"],
    },
    Page {
        verb: "keys init",
        exits: &[
            (0, "made, or there already"),
            (69, "the provider does not answer, or it is not known whether it has written"),
            DENIED,
            (78, "configuration or place refused, or what is there is no ring"),
        ],
        examples: &[
            "oneseal keys init --config oneseal.toml",
            "oneseal keys init --provider file:./second.json --issuer https://second.example --alg RS256,ES256",
        ],
    },
    Page {
        verb: "keys list",
        exits: &[DONE, SILENT, DENIED, NO_KEY],
        examples: &["oneseal keys list --config oneseal.toml"],
    },
    Page {
        verb: "keys show",
        exits: &[DONE, (1, "there is no such key"), SILENT, DENIED, NO_KEY],
        examples: &["oneseal keys show --config oneseal.toml --state active --alg RS256"],
    },
    Page {
        verb: "keys rotate",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &[
            "oneseal keys rotate --config oneseal.toml --dry-run",
            "oneseal keys rotate --config oneseal.toml --reason monthly",
        ],
    },
    Page {
        verb: "keys activate",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &[
            "oneseal keys activate --config oneseal.toml --unproven-replicas",
            "oneseal keys activate --admin ./admin.sock --unproven-replicas",
        ],
    },
    Page {
        verb: "keys retire",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &["oneseal keys retire --config oneseal.toml"],
    },
    Page {
        verb: "keys rollback",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &["oneseal keys rollback --config oneseal.toml --reason 'a relying party fails'"],
    },
    Page {
        verb: "keys revoke",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &["oneseal keys revoke --config oneseal.toml --dry-run"],
    },
    Page {
        verb: "keys adopt",
        exits: &[DONE, NOT_WRITTEN, EARLY, NOT_ALLOWED, NOT_KEPT],
        examples: &[
            "oneseal keys adopt former.pem --config oneseal.toml --kid 2024-key",
            "oneseal keys adopt former.enc.pem --config oneseal.toml --passphrase file:./passphrase",
            "oneseal keys adopt --config oneseal.toml --from-jwks former.json --public-only --until 2099-01-01T00:00:00Z --yes",
        ],
    },
    Page {
        verb: "keys export",
        exits: &[
            DONE,
            (1, "there is no such key"),
            (69, "the provider does not answer, or there is no room for the file"),
            (77, "the provider or the file system says no"),
            (78, "configuration, key, recipient, directory or file refused, or nothing there"),
        ],
        examples: &[
            "oneseal keys export --config oneseal.toml --out jwks.json",
            "oneseal keys export --config oneseal.toml --format pem",
            "oneseal keys export --config oneseal.toml --site ./site",
            "oneseal keys export --config oneseal.toml --private --to-jwk recipient.jwk --out key.jwe --yes",
        ],
    },
    Page {
        verb: "keys rewrap",
        exits: &[
            (0, "sealed anew, or so already"),
            (69, "the provider does not answer, or it is not known whether it has written"),
            (75, "somebody else wrote at the same time, or a replica could not open the new one"),
            DENIED,
            (78, "configuration, KEK or ring refused"),
        ],
        examples: &[
            "oneseal keys rewrap --config oneseal.toml --kek file:./kek --from-unsealed --yes",
            "oneseal keys rewrap --config oneseal.toml --kek file:./kek --to-kek file:./new-kek --dry-run",
            "oneseal keys rewrap --config oneseal.toml --kek file:./kek --to-kek file:./new-kek --yes",
            "oneseal keys rewrap --config oneseal.toml --kek file:./new-kek --new-ring-key --yes",
        ],
    },
    Page {
        verb: "keys recover",
        exits: &[
            DONE,
            (69, "the replica, its store or the registry does not answer"),
            (75, "others write there all the time"),
            (77, "the replica, or its store, does not allow it"),
            (
                78,
                "nothing is lost, the replica keeps nothing or is another one, or a later ring is served elsewhere",
            ),
        ],
        examples: &["oneseal keys recover --from-replica ./admin.sock --yes"],
    },
    Page {
        verb: "keys new-kek",
        exits: &[DONE, (78, "there is a file already, or it cannot be written")],
        examples: &["oneseal keys new-kek --out ./kek", "oneseal keys new-kek --out ./new-kek"],
    },
    Page {
        verb: "keys keks",
        exits: &[DONE, (69, "a provider does not answer"), DENIED, (78, "configuration or a KEK refused")],
        examples: &["oneseal keys keks --config oneseal.toml --kek file:./new-kek"],
    },
    Page {
        verb: "migrate",
        exits: &[
            (0, "copied, or there already"),
            (69, "a provider does not answer, or it is not known whether it has written"),
            (75, "another ring is there, or replicas run"),
            DENIED,
            (78, "a place is refused, or there is no ring to move"),
        ],
        examples: &[
            "oneseal migrate --from file:./keyring.json --to file:./copy.json --fleet-is-stopped --dry-run",
            "oneseal migrate --from file:./keyring.json --to file:./copy.json --fleet-is-stopped --yes",
        ],
    },
    Page {
        verb: "mint",
        exits: &[
            (0, "minted"),
            (69, "no replica there, or it cannot mint just now"),
            (77, "not permitted: the socket, the token, or the replica does not mint this"),
            (78, "configuration refused"),
        ],
        examples: &[
            "oneseal mint --config oneseal.toml --sub pod --aud rp",
            "TOKEN=$(oneseal mint --admin ./admin.sock --sub pod --aud rp --ttl 10m --claim team=a)",
            "oneseal mint --config oneseal.toml --sub pod --aud rp --dry-run",
        ],
    },
    Page {
        verb: "token",
        exits: &[
            (0, "there is a token"),
            (69, "no answer before --timeout was over, or no room for the file"),
            (77, "the proof is not taken, the audience is not allowed, or a file is not"),
            (
                78,
                "no proof, no token endpoint, another token than asked for, no place for --out, or configuration refused",
            ),
        ],
        examples: &[
            "oneseal token --issuer https://oidc.example.com --audience sts.amazonaws.com --out token",
            "TOKEN=$(oneseal token --issuer https://oidc.example.com --audience sts.amazonaws.com)",
        ],
    },
    Page {
        verb: "rules preview",
        exits: &[
            (0, "a rule lets it have the token that is shown"),
            (1, "it would get none; why is said of each rule"),
            (78, "configuration refused"),
        ],
        examples: &[
            "oneseal rules preview --config oneseal.toml --audience sts.amazonaws.com --cluster prod --namespace ci \
             --service-account builder --pod job-1 --pod-uid 5c1e",
            "oneseal rules preview --config oneseal.toml --audience sts.amazonaws.com --workload workload.json --json",
        ],
    },
    Page {
        verb: "rules test",
        exits: &[(0, "all is as expected"), (1, "an expectation fails"), (78, "configuration refused")],
        examples: &["oneseal rules test --config oneseal.toml expectations.toml"],
    },
    Page {
        verb: "replicas list",
        exits: &[
            DONE,
            (1, "replicas contradict each other"),
            (69, "no replica there"),
            (77, "not permitted: the socket or the token"),
            (78, "configuration refused"),
        ],
        examples: &[
            "oneseal replicas list --config oneseal.toml",
            "oneseal replicas list --admin ./admin.sock --json",
        ],
    },
    Page {
        verb: "replicas forget",
        exits: &[
            (0, "forgotten, or gone already"),
            (69, "no replica there, or its database does not answer"),
            (75, "it beats: stop it first; or the replica asked has no database"),
            (77, "not permitted: the socket or the token"),
            (78, "configuration refused"),
        ],
        examples: &["oneseal replicas forget oneseal-2 --yes --config oneseal.toml"],
    },
    Page {
        verb: "admin token new",
        exits: &[DONE],
        examples: &[
            "(umask 077; oneseal admin token new --name ci --scopes mint > admin.token)",
            "oneseal admin token new --name on-call --scopes read,mint --expires 90d --json",
        ],
    },
    Page {
        verb: "verify",
        exits: &[
            (0, "the token is valid"),
            (1, "it is refused; docs/verify.md lists the reasons"),
            (69, "not judged: the issuer's keys cannot be had"),
            (78, "configuration, issuer or key set refused"),
        ],
        examples: &[
            "oneseal mint --config oneseal.toml --sub pod --aud rp > token",
            "oneseal verify --issuer https://oidc.example --aud rp --jwks jwks.json < token",
            "oneseal verify --issuer https://oidc.example --aud rp --jwks jwks.json --json \"$(cat token)\"",
        ],
    },
    Page {
        verb: "db migrate",
        exits: &[
            (0, "applied, or nothing to apply"),
            (69, "the database does not answer"),
            (75, "somebody else was in the way, or replicas run"),
            (77, "the database does not accept the user, or does not let it create tables"),
            (78, "configuration or database refused, or this oneseal is too old for the tables"),
        ],
        examples: &[
            "oneseal db migrate --config oneseal.toml",
            "oneseal db migrate --config oneseal.toml --dry-run --json",
        ],
    },
    Page {
        verb: "db status",
        exits: &[
            (0, "this oneseal can use the tables"),
            (1, "it cannot: `oneseal db migrate`, or another version"),
            (69, "the database does not answer"),
            (77, "the database does not accept the user"),
            (78, "configuration or database refused"),
        ],
        examples: &["oneseal db status --config oneseal.toml"],
    },
    Page {
        verb: "events export",
        exits: &[
            (0, "written"),
            (1, "written, and the log is broken"),
            (69, "the database does not answer"),
            (77, "the database does not accept the user, or the file system says no"),
            (78, "configuration or database refused, or what was asked for is not kept any more"),
        ],
        examples: &[
            "oneseal events export --config oneseal.toml --output events.ndjson",
            "oneseal events export --config oneseal.toml --after 41 | gzip > events.ndjson.gz",
        ],
    },
    Page {
        verb: "events verify",
        exits: &[
            (0, "it holds together"),
            (1, "it does not: the first event at which, and why"),
            (69, "the database does not answer"),
            (75, "its beginning was cut off meanwhile"),
            (77, "the database does not accept the user"),
            (78, "configuration or database refused, or the file cannot be read"),
        ],
        examples: &[
            "oneseal events verify --config oneseal.toml",
            "oneseal events export --config oneseal.toml | oneseal events verify -",
        ],
    },
    Page {
        verb: "events follow",
        exits: &[
            (0, "ended by a signal, or its reader went"),
            (1, "the log is broken"),
            (78, "configuration or database refused"),
        ],
        examples: &[
            "timeout --preserve-status -s INT 2 oneseal events follow --config oneseal.toml --after 0",
        ],
    },
    Page {
        verb: "events prune",
        exits: &[
            (0, "cut off, or nothing to cut off"),
            (1, "the log is broken, and was left as it is"),
            (69, "the database does not answer"),
            (75, "somebody else cuts it too"),
            (77, "the database does not accept the user"),
            (78, "configuration or database refused"),
        ],
        examples: &["oneseal events prune --config oneseal.toml --before 90d --yes"],
    },
    Page {
        verb: "config init",
        exits: &[
            DONE,
            (69, "there is no room for the file"),
            (77, "the file may not be written"),
            (78, "the file is there already, or its directory is not"),
        ],
        examples: &["oneseal config init --output example.toml"],
    },
    Page {
        verb: "config schema",
        exits: &[DONE],
        examples: &["oneseal config schema > oneseal.schema.json"],
    },
    Page {
        verb: "healthcheck",
        exits: &[
            (0, "ready"),
            (1, "not ready, or no answer within two seconds"),
            (78, "configuration refused"),
        ],
        examples: &["oneseal healthcheck --ops 127.0.0.1:8081"],
    },
    Page { verb: "version", exits: &[DONE], examples: &["oneseal version --json"] },
    Page { verb: "completions", exits: &[DONE], examples: &["oneseal completions bash > oneseal.bash"] },
    Page {
        verb: "man",
        exits: &[
            DONE,
            (69, "there is no room for the pages"),
            (77, "the directory may not be written"),
            (78, "the directory cannot be made: the one above it is not there"),
        ],
        examples: &["oneseal man keys export > oneseal-keys-export.1", "oneseal man --out ."],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    /// The words of every verb that does something.
    fn leaves(command: &Command, verb: &str, found: &mut Vec<String>) {
        let verb = format!("{verb} {}", command.get_name());
        match command.get_subcommands().count() {
            0 => found.push(verb.trim_start_matches(" oneseal").trim().to_owned()),
            _ => command.get_subcommands().for_each(|command| leaves(command, &verb, found)),
        }
    }

    #[test]
    fn every_verb_has_a_row_and_every_row_a_verb() {
        let mut verbs = Vec::new();
        leaves(&crate::cli::command(), "", &mut verbs);
        let rows: Vec<_> = PAGES.iter().map(|page| page.verb).collect();
        assert_eq!(verbs, rows, "in the order of --help");
    }

    #[test]
    fn every_code_of_a_row_is_one_of_the_program_and_stands_there_once() {
        let known = [
            Exit::Done,
            Exit::No,
            Exit::Usage,
            Exit::Unavailable,
            Exit::Internal,
            Exit::CannotBind,
            Exit::TryLater,
            Exit::Denied,
            Exit::Refused,
            Exit::Signal(2),
            Exit::Signal(15),
        ]
        .map(Exit::code);
        for page in PAGES {
            let codes: Vec<_> = page.exits().iter().map(|(code, _)| *code).collect();
            assert!(codes.iter().all(|code| known.contains(code)), "{}: {codes:?}", page.verb);
            assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{}: {codes:?}", page.verb);
            assert!(codes.contains(&0), "{}", page.verb);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        crate::cli::command().debug_assert();
    }
}
