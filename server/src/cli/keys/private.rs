//! `oneseal keys export --private`: one private half, as a JWE for a named recipient. It is said which key goes to whom
//! before it goes, and once it has gone there is one line for a log.

use std::path::{Path, PathBuf};

use oneseal_coordination::database::{Database, DatabaseError};
use oneseal_coordination::events::AppendError;
use oneseal_coordination::{Clock, EventDraft, SystemClock};
use oneseal_keystore::Mode;
use oneseal_keystore::export::{self, ExportError, PrivateExport};
use oneseal_keystore::seal::Recipient;
use serde_json::{Value, json};

use super::choose::Wanted;
use super::{Globals, Looking, Place};
use crate::app;
use crate::config::disk;
use crate::exit::{Exit, Failure};
use crate::files::PrivateFile;
use crate::refusals::{
    KEYS_NO_PRIVATE_HALF, KEYS_NO_SUCH_KEY, KEYS_NOT_LOGGED, KEYS_PUBLIC_ONLY, KEYS_RECIPIENT, Noun,
};
use crate::{gate, output, times};

/// Which key, to whom, and where to.
pub(super) struct Asked {
    pub(super) place: Place,
    pub(super) kid: Option<String>,
    pub(super) to_jwk: PathBuf,
    pub(super) out: Option<PathBuf>,
    pub(super) yes: bool,
    pub(super) json: bool,
}

pub(super) async fn run(asked: Asked, globals: &Globals) -> Result<Exit, Failure> {
    let Asked { place, kid, to_jwk, out, yes, json } = asked;
    let recipient = recipient(&to_jwk)?;
    let database = app::database(&super::load(place.clone().sources(globals).yes(true))?.settings)?;
    let Looking { provider, options, .. } = super::looking(place.clone(), globals)?;
    if options.mode == Mode::PublicOnly {
        return Err(failure(ExportError::PublicOnly));
    }
    let opened = super::open(place, globals).await?;
    let kid = Wanted { kid, ..Wanted::default() }.one(opened.snapshot.keys())?.kid.clone();
    let export = export::open(&*provider, &options, kid, recipient).await.map_err(failure)?;
    let plan = plan(&export);
    if !yes {
        let message = format!("nothing was exported: {plan}. Say --yes to export it");
        return Err(Failure::wants_yes(Noun::Keys, message));
    }
    // All that can fail comes before the event, but for the writing: one that tells of an export that never was would
    // have a key revoked for nothing.
    let jwe = export.seal().map_err(|error| Failure::internal("nothing was exported").because(error))?;
    let file = out.as_deref().map(PrivateFile::create).transpose()?;
    output::complain(&plan);
    if let Some(database) = &database {
        log(database, &export, options.issuer.as_str()).await?;
    }
    if let Some(file) = file {
        file.write(&jwe)?;
    }
    output::complain(&log_line(&export, options.issuer.as_str()));
    told(&export, &jwe, out.as_deref(), json)
}

fn recipient(path: &Path) -> Result<Recipient, Failure> {
    let named = || format!("--to-jwk {}", path.display());
    let text = disk::read_bytes(path, Recipient::MAX_LEN).map_err(|error| {
        Failure::refused(format!("{} cannot be read", named())).with_code(KEYS_RECIPIENT).because(error)
    })?;
    Recipient::parse(&text)
        .map_err(|error| Failure::refused(named()).with_code(KEYS_RECIPIENT).because(error))
}

fn plan(export: &PrivateExport) -> String {
    let recipient = export.recipient();
    format!(
        "the private half of {} ({}, {}) goes to the recipient {}, thumbprint {}, as a JWE ({} and A256GCM): compare \
         that thumbprint with the recipient's own; whoever holds that key can then sign in this issuer's name",
        export.kid(),
        export.algorithm(),
        export.state().as_str(),
        recipient.kid(),
        recipient.thumbprint(),
        recipient.algorithm(),
    )
}

/// Into the event log before it goes: one that left and is in no log could not be told from a theft.
///
/// Cancel safety: dropped, the event may or may not be there; nothing has gone.
async fn log(database: &Database, export: &PrivateExport, issuer: &str) -> Result<(), Failure> {
    let recipient = export.recipient();
    let payload = json!({
        "alg": export.algorithm().as_str(),
        "kid": export.kid().as_str(),
        "recipient": {
            "alg": recipient.algorithm(),
            "kid": recipient.kid().as_str(),
            "thumbprint": recipient.thumbprint().as_str(),
        },
        "thumbprint": export.thumbprint().as_str(),
    });
    let actor = format!("oneseal keys export (uid {})", rustix::process::getuid().as_raw());
    let mut tx = database.write().await.map_err(|error| unlogged(of_database(&error), error))?;
    let draft = EventDraft::new("key.private_exported", payload.to_string());
    tx.append(&actor, issuer, &draft).await.map_err(|error| match error {
        AppendError::Database(error) => unlogged(of_database(&error), error),
        error => unlogged(Exit::Refused, error),
    })?;
    tx.commit().await.map_err(|error| unlogged(Exit::Unavailable, error))
}

fn unlogged(exit: Exit, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(exit, "nothing was exported, since the event log in [database] has not taken it")
        .with_code(KEYS_NOT_LOGGED)
        .because(error)
}

fn of_database(error: &DatabaseError) -> Exit {
    gate::of_database_error(error).exit().map_or(Exit::Unavailable, Exit::from)
}

/// For whoever keeps the output of such commands. A kid is whatever somebody made it: quoted, it cannot look like more.
fn log_line(export: &PrivateExport, issuer: &str) -> String {
    format!(
        "key.private_exported at={} uid={} issuer={issuer} kid={} thumbprint={} recipient={}",
        times::rfc3339(SystemClock.wall()),
        rustix::process::getuid().as_raw(),
        Value::from(export.kid().as_str()),
        export.thumbprint(),
        export.recipient().thumbprint(),
    )
}

fn told(export: &PrivateExport, jwe: &str, out: Option<&Path>, json: bool) -> Result<Exit, Failure> {
    if json {
        let recipient = export.recipient();
        let told = json!({
            "format": "jwe",
            "kid": export.kid().as_str(),
            "alg": export.algorithm().as_str(),
            "thumbprint": export.thumbprint().as_str(),
            "recipient": {
                "kid": recipient.kid().as_str(),
                "thumbprint": recipient.thumbprint().as_str(),
                "alg": recipient.algorithm(),
            },
            "file": out.map(Path::to_string_lossy),
            "jwe": out.is_none().then_some(jwe),
        });
        return output::answer(told, Exit::Done);
    }
    match out {
        Some(path) => output::print_line(&format!("wrote {} (mode 0600)", path.display()))?,
        None => output::print_line(jwe)?,
    }
    Ok(Exit::Done)
}

fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::Unreadable(found) => Failure::found(found),
        error @ ExportError::NoKey => Failure::new(Exit::No, error.to_string()).with_code(KEYS_NO_SUCH_KEY),
        error => {
            let code = match &error {
                ExportError::PublicOnly => KEYS_PUBLIC_ONLY,
                ExportError::OwnKey { .. } => KEYS_RECIPIENT,
                _ => KEYS_NO_PRIVATE_HALF,
            };
            Failure::refused(error.to_string()).with_code(code)
        }
    }
}
