//! `oneseal keys rotate|activate|retire|rollback|revoke`: one verb each, carried out by a replica (`--admin`) or here, on the
//! place where the ring rests.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use oneseal::UnixTime;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::Algorithm;
use oneseal_keystore::executor::{ExecuteError, Executor, Observer, Order};
use oneseal_keystore::steps::{Adoption, Request};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Globals, Place, tell};
use crate::cli::alive;
use crate::cli::replica::{Answer, Call, Purpose, Replica, Target};
use crate::config::{ProviderChoice, Sources};
use crate::exit::{Cost, Exit, Failure};
use crate::refusals::{Noun, REPLICA_NOT_NAMED};
use crate::{app, key_answers, output, times};

/// What every verb takes.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    target: Target,
    /// Why, for the ring's log: at most 200 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// The change's id, a UUID: the same again tells what was done, and does nothing [default: a new one]
    #[arg(long, value_name = "UUID")]
    change_id: Option<Uuid>,
    /// Change the ring in the database by this process, past the replicas: only while none of them runs
    #[arg(long, conflicts_with = "admin")]
    direct: bool,
    /// Trust time alone where no registry tells which replicas there are and what they serve
    #[arg(long)]
    unproven_replicas: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do what cannot be undone
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Whether a replica is to carry it out.
    pub(super) fn names_a_replica(&self) -> bool {
        self.target.is_named()
    }

    /// What the configuration is read from.
    pub(super) fn sources(&self, globals: &Globals) -> Sources {
        self.place.clone().sources(globals).yes(self.yes)
    }
}

/// `keys rotate`.
#[derive(Debug, clap::Args)]
pub(super) struct Rotate {
    /// New keys for these, such as RS256,ES256 [default: each for which a key signs]
    #[arg(long, value_name = "ALGS", value_delimiter = ',')]
    alg: Vec<Algorithm>,
    /// Bits of new RSA keys: 2048, 3072 or 4096 [default: as many as the key that signs has]
    #[arg(long, value_name = "BITS")]
    rsa_bits: Option<usize>,
    #[command(flatten)]
    common: Common,
}

/// `keys activate`, `keys retire`, `keys rollback`.
#[derive(Debug, clap::Args)]
pub(super) struct OfKey {
    /// The key: its kid, or a beginning of it that no other has
    #[arg(value_name = "KID", allow_hyphen_values = true)]
    kid: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// `keys revoke`.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// This key alone; may be repeated [default: every key whose private half was in the store]
    #[arg(long, value_name = "KID", allow_hyphen_values = true, conflicts_with = "since")]
    kid: Vec<String>,
    /// Only keys whose private half was in the store at this time or later: Unix seconds, or UTC as
    /// 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    since: Option<UnixTime>,
    /// Leave the new keys pending: nothing is minted until `keys activate`
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn rotate(args: Rotate, globals: &Globals) -> Result<Exit, Failure> {
    let Rotate { alg, rsa_bits, common } = args;
    let mut members = Map::new();
    if !alg.is_empty() {
        let names: Vec<_> = alg.iter().map(|algorithm| algorithm.as_str()).collect();
        members.insert("algs".to_owned(), json!(names));
    }
    members.extend(rsa_bits.map(|bits| ("rsa_bits".to_owned(), bits.into())));
    let request = Request::Rotate { algorithms: alg, rsa_bits };
    plain(Asked { request, members, loses: None }, common, globals).await
}

pub(super) async fn activate(args: OfKey, globals: &Globals) -> Result<Exit, Failure> {
    let OfKey { kid, common } = args;
    let members = of_kid(&kid);
    plain(Asked { request: Request::Activate { kid }, members, loses: None }, common, globals).await
}

pub(super) async fn retire(args: OfKey, globals: &Globals) -> Result<Exit, Failure> {
    let OfKey { kid, common } = args;
    let members = of_kid(&kid);
    let loses = kid
        .is_some()
        .then_some("a key that is retired by name has no successor, and one that was pending never signs");
    plain(Asked { request: Request::Retire { kid }, members, loses }, common, globals).await
}

pub(super) async fn roll_back(args: OfKey, globals: &Globals) -> Result<Exit, Failure> {
    let OfKey { kid, common } = args;
    let members = of_kid(&kid);
    plain(Asked { request: Request::RollBack { kid }, members, loses: None }, common, globals).await
}

pub(super) async fn revoke(args: Revoke, globals: &Globals) -> Result<Exit, Failure> {
    let Revoke { kid, since, no_wait, common } = args;
    let mut members = Map::new();
    if !kid.is_empty() {
        members.insert("kids".to_owned(), json!(kid));
    }
    members.extend(since.map(|since| ("since".to_owned(), since.as_secs().into())));
    let loses = Some(
        "every token that these keys have signed fails from now on, and nothing is minted until their successors sign",
    );
    let json = common.json;
    let asked = Asked { request: Request::Revoke { kids: kid, since }, members, loses };
    let (whom, mut answer) = carry_out(asked, common, globals).await?;
    let is_done = !answer["dry_run"].as_bool().unwrap_or_default();
    let waits = |answer: &Value| {
        let keys = answer["keys"].as_array();
        keys.is_some_and(|keys| keys.iter().any(is_successor))
    };
    if is_done && !no_wait && waits(&answer) {
        if !json {
            // One that was begun before has burned nothing now.
            if answer["changes"].as_array().is_some_and(|changes| !changes.is_empty()) {
                output::complain(&tell::changes(&answer));
            }
            output::complain("the keys are gone; waiting until their successors may sign");
        }
        let second = second_commit(&whom).await?;
        let first = answer["changes"].take();
        let changes =
            [first, second["changes"].clone()].into_iter().filter_map(|list| list.as_array().cloned());
        let changes: Vec<Value> = changes.flatten().collect();
        let (change_id, at) = (answer["change_id"].take(), answer["at"].take());
        answer = second;
        answer["verb"] = "revoke".into();
        // One that only ends what another began is known by what it wrote itself.
        if !change_id.is_null() {
            (answer["change_id"], answer["at"]) = (change_id, at);
        }
        answer["changes"] = changes.into();
    }
    tell::answer(answer, json)
}

/// What is asked, in both forms.
pub(super) struct Asked {
    pub(super) request: Request,
    /// The request's own members, for a replica.
    pub(super) members: Map<String, Value>,
    /// What cannot be undone, if anything.
    pub(super) loses: Option<&'static str>,
}

/// Carries it out and prints what it came to.
pub(super) async fn plain(asked: Asked, common: Common, globals: &Globals) -> Result<Exit, Failure> {
    let json = common.json;
    let (_, answer) = carry_out(asked, common, globals).await?;
    tell::answer(answer, json)
}

async fn carry_out(asked: Asked, common: Common, globals: &Globals) -> Result<(Whom, Value), Failure> {
    let Common { place, target, reason, change_id, direct, unproven_replicas, dry_run, yes, json: _ } =
        common;
    let Asked { request, members, loses } = asked;
    let way = match &request {
        Request::Adopt(Adoption::Key { .. }) => Way::Here,
        _ if direct => Way::Direct,
        _ => Way::Replica,
    };
    let whom = Whom::of(place, target, way, yes, globals).await?;
    let verb = request.verb();
    let mut order = Order {
        change_id: change_id.unwrap_or_else(Uuid::new_v4),
        actor: format!("oneseal keys {verb} (uid {})", rustix::process::getuid().as_raw()),
        reason,
        request,
        unproven_replicas,
        dry_run,
    };
    let needs_yes = loses.filter(|_| !yes && !dry_run);
    if let Some(loses) = needs_yes {
        order.dry_run = true;
        let plan = whom.ask(&order, &members).await?;
        let message = format!("nothing was done: {loses}. Say --yes to do it");
        return Err(Failure::wants_yes(Noun::Keys, message).with_hint(tell::changes(&plan)));
    }
    let answer = whom.ask(&order, &members).await?;
    Ok((whom, answer))
}

/// As soon as it may be: every replica serves the new keys, or the wait for those that do not answer is over.
async fn second_commit(whom: &Whom) -> Result<Value, Failure> {
    let order = Order {
        change_id: Uuid::new_v4(),
        actor: format!("oneseal keys revoke (uid {})", rustix::process::getuid().as_raw()),
        reason: "emergency".to_owned(),
        request: Request::Activate { kid: None },
        unproven_replicas: false,
        dry_run: false,
    };
    let mut last: Option<UnixTime> = None;
    loop {
        match whom.ask(&order, &Map::new()).await {
            Err(failure) if failure.exit() == Exit::TryLater || failure.exit() == Exit::Unavailable => {
                let deadline = *last.get_or_insert_with(|| {
                    failure.not_before().unwrap_or_else(|| SystemClock.wall()) + PATIENCE
                });
                if SystemClock.wall() > deadline {
                    return Err(failure.with_hint(STILL_PENDING));
                }
            }
            // Another one may have waited for the same: what is true now is told by the ring.
            Err(failure) => return over(whom).await.ok_or_else(|| failure.with_hint(STILL_PENDING)),
            done => return done,
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The ring, if no emergency is open in it any more and keys sign: then somebody else has let the successors sign.
async fn over(whom: &Whom) -> Option<Value> {
    let mut keys = whom.look().await.ok()?;
    let any = |is: fn(&Value) -> bool| keys["keys"].as_array().is_some_and(|keys| keys.iter().any(is));
    if any(is_successor) || !any(|key| key["state"] == "active") {
        return None;
    }
    for (name, value) in [
        ("changes", json!([])),
        ("notes", json!([OVER])),
        ("repeated", true.into()),
        ("dry_run", false.into()),
    ] {
        keys[name] = value;
    }
    Some(keys)
}

/// Whether a key takes the place of a burned one, and does not sign yet.
fn is_successor(key: &Value) -> bool {
    !key["emergency_at"].is_null()
}

/// Who carries it out.
enum Whom {
    Replica(Replica),
    /// This process.
    Here(Box<Executor>),
}

/// Who may carry it out where the ring is in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Replica,
    /// This process, while no replica runs.
    Direct,
    /// This process: a private half crosses no wire but that to the ring's place.
    Here,
}

impl Whom {
    /// A replica if one is named, or if the ring is in a database and one of this host answers; else this process, on
    /// the ring's own place.
    async fn of(
        place: Place,
        target: Target,
        way: Way,
        yes: bool,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        if target.is_named() {
            if !place.is_empty() {
                return Err(Failure::usage(
                    "--admin names a replica, which knows its own ring: leave out --provider, --issuer, --passphrase \
                     and --member",
                ));
            }
            return Ok(Self::Replica(Replica::of(target, globals).await?));
        }
        let is_configured = place.provider.is_none();
        let config = super::load(place.sources(globals).yes(yes))?;
        match (&config.provider, way) {
            (ProviderChoice::Postgres { .. }, Way::Direct) => alive::refuse_beside_replicas(&config).await?,
            (ProviderChoice::Postgres { .. }, Way::Replica) => {
                let found = if is_configured { Replica::of_this_host(&config).await? } else { None };
                return found
                    .map(Self::Replica)
                    .ok_or_else(|| Failure::usage(NO_REPLICA).with_code(REPLICA_NOT_NAMED));
            }
            _ => {}
        }
        let fleet = app::membership(&config)?.map(|fleet| fleet as Arc<dyn Observer>);
        Ok(Self::Here(Box::new(app::executor(&config, fleet))))
    }

    /// The ring as the store holds it, as [`key_answers::of_keys`] has it.
    async fn look(&self) -> Result<Value, Failure> {
        match self {
            Self::Here(executor) => {
                executor.look().await.map(|keys| key_answers::of_keys(&keys)).map_err(failure)
            }
            Self::Replica(replica) => {
                let call = Call {
                    method: Method::GET,
                    path: "/admin/v1/keys".to_owned(),
                    body: None,
                    purpose: PURPOSE,
                };
                replica.ask::<Seen>(&call).await.map(|seen| seen.0)
            }
        }
    }

    async fn ask(&self, order: &Order, members: &Map<String, Value>) -> Result<Value, Failure> {
        match self {
            Self::Here(executor) => {
                executor.execute(order).await.map(|done| key_answers::of_done(&done)).map_err(failure)
            }
            Self::Replica(replica) => {
                let mut members = members.clone();
                members.insert("change_id".to_owned(), order.change_id.to_string().into());
                members.insert("reason".to_owned(), order.reason.as_str().into());
                members.insert("dry_run".to_owned(), order.dry_run.into());
                members.insert("unproven_replicas".to_owned(), order.unproven_replicas.into());
                let call = Call {
                    method: Method::POST,
                    path: format!("/admin/v1/keys/{}", order.request.verb()),
                    body: Some(Value::Object(members).to_string().into()),
                    purpose: PURPOSE,
                };
                replica.ask::<Told>(&call).await.map(|told| told.0)
            }
        }
    }
}

/// The ring as the store holds it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Seen(Value);

impl Answer for Seen {
    fn is_sound(&self) -> bool {
        self.0["keys"].is_array() && self.0["revision"].is_u64()
    }
}

fn failure(error: ExecuteError) -> Failure {
    let (not_before, because) = match &error {
        ExecuteError::Refused(refusal) => (refusal.not_before(), refusal.because()),
        _ => (None, None),
    };
    let because = because.map(|cost| Cost { setting: cost.knob.to_owned(), seconds: cost.seconds });
    let code = error.code();
    let exit = error.exit().map_or(Exit::Internal, Exit::from);
    match error {
        ExecuteError::Unreadable(found) => Failure::found(found),
        error => Failure::new(exit, key_answers::words(&error))
            .with_code(code)
            .with_time(not_before)
            .with_cost(because),
    }
}

/// A replica's answer.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Told(pub(super) Value);

impl Answer for Told {
    fn is_sound(&self) -> bool {
        let Self(answer) = self;
        answer["verb"].is_string() && answer["revision"].is_u64() && answer["changes"].is_array()
    }
}

fn of_kid(kid: &Option<String>) -> Map<String, Value> {
    kid.iter().map(|kid| ("kid".to_owned(), kid.as_str().into())).collect()
}

pub(super) const PURPOSE: Purpose = Purpose {
    answer: "what became of the keys",
    does: "changes keys",
    if_absent: "update it: its version has no key verbs",
};
const NO_REPLICA: &str = "the ring is in a database, where replicas serve it, and none answers at this host's listen.admin: \
                          name one by --admin SOCKET|URL; where none runs, --direct";
const STILL_PENDING: &str =
    "The burned keys are gone, and nothing is minted: run `oneseal keys activate` until it is done.";
const OVER: &str = "another order has let the successors sign";
const AGAIN: Duration = Duration::from_millis(300);
/// Beyond the emergency wait: clocks differ, and a replica may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
