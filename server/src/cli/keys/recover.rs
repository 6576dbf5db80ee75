//! `oneseal keys recover --from-replica NAME`: a replica puts back what the store has lost.
//!
//! The replica does it itself, by its own rights on the store and from its own memory: here is only asked. So a NAME is
//! looked for behind this host's admin socket or `--admin`, and the replica there refuses if it is another one.

use http::Method;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::change::{PURPOSE, Told};
use super::tell;
use crate::cli::Globals;
use crate::cli::replica::{Call, Replica, Target};
use crate::exit::{Exit, Failure};
use crate::refusals::Noun;

/// `keys recover`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Who has it: the replica's name, and then it is asked through --admin or this host's socket; or its admin socket or
    /// URL
    #[arg(long, value_name = "NAME|SOCKET|URL")]
    from_replica: String,
    #[command(flatten)]
    target: Target,
    /// Why, for the log: at most 200 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// The change's id, a UUID: the same again does nothing where it was done [default: a new one]
    #[arg(long, value_name = "UUID")]
    change_id: Option<Uuid>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { from_replica, target, reason, change_id, dry_run, yes, json } = args;
    let is_place = from_replica.contains('/');
    let (target, name) = if is_place {
        let target = target.at(from_replica).ok_or_else(|| Failure::usage(TWICE))?;
        (target, None)
    } else {
        (target, Some(from_replica))
    };
    let replica = Replica::of(target, globals).await?;
    let mut members = Map::new();
    let change_id = change_id.unwrap_or_else(Uuid::new_v4);
    members.insert("change_id".to_owned(), change_id.to_string().into());
    members.insert("reason".to_owned(), reason.into());
    members.extend(name.map(|name| ("replica".to_owned(), name.into())));
    let plan = dry_run || !yes;
    members.insert("dry_run".to_owned(), plan.into());
    let answer = ask(&replica, members).await?;
    let has_work = answer["changes"].as_array().is_some_and(|changes| !changes.is_empty());
    if !yes && !dry_run && has_work {
        let found = answer["notes"][0].as_str().unwrap_or_default();
        let message = format!(
            "nothing was done: {found}. The replica would write its own record there. Say --yes to do it"
        );
        return Err(Failure::wants_yes(Noun::Keys, message).with_hint(tell::changes(&answer)));
    }
    tell::answer(answer, json)
}

async fn ask(replica: &Replica, members: Map<String, Value>) -> Result<Value, Failure> {
    let call = Call {
        method: Method::POST,
        path: "/admin/v1/keys/recover".to_owned(),
        body: Some(Value::Object(members).to_string().into()),
        purpose: PURPOSE,
    };
    replica.ask::<Told>(&call).await.map(|told| told.0)
}

const TWICE: &str = "--from-replica names a socket or a URL, and --admin another one: leave one out";
