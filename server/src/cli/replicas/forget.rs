//! `oneseal replicas forget`.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::cli::Globals;
use crate::cli::replica::{Answer, Call, Purpose, Replica, Target};
use crate::exit::{Exit, Failure};
use crate::output;

/// Whom to forget, and whom to tell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The instance's name, as `oneseal replicas list` shows it
    #[arg(value_name = "INSTANCE")]
    instance: String,
    #[command(flatten)]
    target: Target,
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
    let Args { instance, target, yes, json } = args;
    if !yes {
        return Err(Failure::usage(format!(
            "this says that {instance} serves no more: a key may then be activated or removed without it, and if it \
             does serve, tokens break. If you know that its process has ended, repeat with --yes"
        )));
    }
    let replica = Replica::of(target, globals).await?;
    let path = format!("/admin/v1/replicas/{}", utf8_percent_encode(&instance, NON_ALPHANUMERIC));
    let call = Call { method: Method::DELETE, path, body: None, purpose: PURPOSE };
    let forgotten: Forgotten = replica.ask(&call).await?;
    if json {
        let members =
            serde_json::to_value(&forgotten).map_err(|error| Failure::internal("no JSON").because(error))?;
        return output::answer(members, Exit::Done);
    }
    output::print_line(&format!("forgotten: {}", output::fit_for_terminal(&forgotten.forgotten)))?;
    Ok(Exit::Done)
}

const PURPOSE: Purpose = Purpose {
    answer: "the name of a replica",
    does: "forgets replicas",
    if_absent: "it runs an older version of oneseal",
};
