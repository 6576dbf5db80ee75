//! `oneseal replicas forget`.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::cli::replica::{Answer, Call, Purpose, Replica, Target};
use crate::cli::{Globals, db};
use crate::config::PartialConfig;
use crate::exit::{Exit, Failure};
use crate::fleet::{self, Forgotten as Refusal, StoreError};
use crate::gate::of_database_error;
use crate::output;
use crate::refusals::{Noun, REPLICAS_BEATS, REPLICAS_UNKNOWN};

/// Whom to forget, and whom to tell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The instance's name, as `oneseal replicas list` shows it
    #[arg(value_name = "INSTANCE")]
    instance: String,
    #[command(flatten)]
    target: Target,
    /// Forget it in the configured database itself, where no replica runs that could be asked
    #[arg(long, conflicts_with = "admin")]
    direct: bool,
    /// Yes: it serves no more, and nothing need wait for it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct Forgotten {
    forgotten: String,
}

impl Answer for Forgotten {
    fn is_sound(&self) -> bool {
        !self.forgotten.is_empty()
    }
}

/// Forgets it.
///
/// # Errors
/// Without `--yes` (64); there is no such replica (64), it beats (75), or nobody answers (69).
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { instance, target, direct, yes, json } = args;
    if !yes {
        return Err(Failure::wants_yes(
            Noun::Replicas,
            format!(
                "this says that {instance} serves no more: a key may then be activated or removed without it, and if it \
             does serve, tokens break. If you know that its process has ended, repeat with --yes"
            ),
        ));
    }
    let forgotten = if direct {
        in_database(instance, globals).await?
    } else {
        let replica = Replica::of(target, globals).await?;
        let path = format!("/admin/v1/replicas/{}", utf8_percent_encode(&instance, NON_ALPHANUMERIC));
        let call = Call { method: Method::DELETE, path, body: None, purpose: PURPOSE };
        replica.ask(&call).await?
    };
    if json {
        let members =
            serde_json::to_value(&forgotten).map_err(|error| Failure::internal("no JSON").because(error))?;
        return output::answer(members, Exit::Done);
    }
    output::print_line(&format!("forgotten: {}", output::fit_for_terminal(&forgotten.forgotten)))?;
    Ok(Exit::Done)
}

/// By this process, without a replica. One that beats is not forgotten here either.
async fn in_database(instance: String, globals: &Globals) -> Result<Forgotten, Failure> {
    let PartialConfig { issuer, settings } = globals.partial_config()?;
    let issuer = issuer.ok_or_else(|| {
        Failure::refused("issuer.url is not set, so there is no fleet to look in").with_code("config.missing")
    })?;
    let database = db::open(globals, "oneseal-replicas")?;
    let fleet = settings.fleet_of(&issuer);
    let actor = format!("oneseal replicas forget (uid {})", rustix::process::getuid().as_raw());
    match fleet::forget(&database, &fleet, &instance, &actor, issuer.as_str()).await {
        Ok(()) => Ok(Forgotten { forgotten: instance }),
        Err(why @ Refusal::Unknown) => Err(Failure::usage(format!(
            "{why}; it was looked for in the fleet {fleet} of {}",
            database.location()
        ))
        .with_code(REPLICAS_UNKNOWN)),
        Err(why @ Refusal::Beats { .. }) => {
            Err(Failure::new(Exit::TryLater, format!("{instance} is not forgotten: {why}"))
                .with_code(REPLICAS_BEATS)
                .with_hint("Stop it first, and it leaves by itself."))
        }
        Err(Refusal::Store(StoreError::Database(error))) => Err(Failure::found(of_database_error(&error))),
        Err(Refusal::Store(error)) => {
            Err(Failure::new(Exit::TryLater, format!("{instance} is not forgotten")).because(error))
        }
    }
}

const PURPOSE: Purpose = Purpose {
    answer: "the name of a replica",
    does: "forgets replicas",
    if_absent: "it runs an older version of oneseal",
};
