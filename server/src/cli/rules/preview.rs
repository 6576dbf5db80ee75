//! `oneseal rules preview`: the claims of a token that nobody has asked for yet, or why there would be none.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use oneseal::{Audience, Considered, MintError, MintRequest, Rehearsed};
use oneseal_keystore::json;
use serde_json::{Map, Value, json};

use super::proof::{self, Named};
use super::workload::{Workload, claims_of};
use super::{Configured, Globals};
use crate::cli::claim::{Claim, collect};
use crate::config::disk;
use crate::exit::{Exit, Failure};
use crate::output;

/// Whose token, and for whom.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true).multiple(true))]
pub(super) struct Args {
    /// The relying party
    #[arg(long, value_name = "AUDIENCE")]
    audience: String,
    /// A JSON object: `cluster` or `assertion_issuer`, facts such as `namespace`, and `claims`; `-` is standard input
    #[arg(long, value_name = "FILE", group = "who", conflicts_with_all = FLAGS)]
    workload: Option<PathBuf>,
    /// A service account's token or an assertion, read without being verified; `-` is standard input
    #[arg(long, value_name = "FILE", group = "who", conflicts_with_all = &FLAGS[3..])]
    token: Option<PathBuf>,
    /// The cluster that vouches for it
    #[arg(long, value_name = "NAME", group = "who")]
    cluster: Option<String>,
    /// The assertion issuer that vouches for it
    #[arg(long, value_name = "NAME", group = "who", conflicts_with = "cluster")]
    assertion_issuer: Option<String>,
    /// The `sub` of its assertion
    #[arg(long, value_name = "SUBJECT", requires = "assertion_issuer")]
    subject: Option<String>,
    /// Its namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Its service account
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// The pod that its token is bound to
    #[arg(long, value_name = "NAME", requires = "pod_uid")]
    pod: Option<String>,
    /// The uid of that pod
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// The node of that pod
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// A claim of its token: `name=text`, or `name:=JSON`; may be repeated
    #[arg(long = "claim", value_name = "NAME=TEXT|NAME:=JSON")]
    claims: Vec<Claim>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What excludes a whole workload, those first that go with a token.
const FLAGS: [&str; 10] = [
    "token",
    "cluster",
    "assertion_issuer",
    "subject",
    "namespace",
    "service_account",
    "pod",
    "pod_uid",
    "node",
    "claims",
];

/// Shows what would be signed, or why nothing would (1).
///
/// # Errors
/// The configuration is refused, or nothing can be made of what is said of the workload.
pub(super) fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let configured = Configured::read(globals)?;
    let (audience, json, is_token) = (args.audience.clone(), args.json, args.token.is_some());
    let audience = Audience::parse(audience).map_err(|error| Failure::usage("--audience").because(error))?;
    let (workload, remarks) = workload(args, &configured)?;
    configured.know(&workload.voucher).map_err(Failure::usage)?;
    let request = MintRequest::new(audience);
    let decided = configured.decide(&workload, &request);
    let considered = configured.rehearsal.consider(&workload.voucher, &workload.facts, &request);
    if is_token {
        output::complain("the token was not verified: whoever made it up can have said anything in it");
    }
    for remark in &remarks {
        output::complain(&format!("/token would not take it, whatever the rules say: {remark}"));
    }
    let exit = if decided.is_ok() { Exit::Done } else { Exit::No };
    if json {
        return output::answer(as_json(&decided, &considered, &remarks)?, exit);
    }
    output::print(&as_text(&decided, &considered, &request)?)?;
    Ok(exit)
}

/// Who it is, and what stands against the token by which that is said.
fn workload(args: Args, configured: &Configured) -> Result<(Workload, Vec<String>), Failure> {
    let read = by_token(&args, configured)?;
    match read {
        Some(read) => Ok(read),
        None => Ok((by_words(args)?, Vec::new())),
    }
}

fn by_token(args: &Args, configured: &Configured) -> Result<Option<(Workload, Vec<String>)>, Failure> {
    let Some(path) = &args.token else { return Ok(None) };
    let claims = claims_of(read(path, "--token")?.trim());
    let claims = claims.map_err(|words| Failure::usage(format!("--token: {words}")))?;
    let named = Named { cluster: args.cluster.clone(), assertion_issuer: args.assertion_issuer.clone() };
    proof::read(claims, named, configured).map(Some)
}

fn by_words(args: Args) -> Result<Workload, Failure> {
    if let Some(path) = &args.workload {
        let text = read(path, "--workload")?;
        let members = json::parse_object(text.as_bytes())
            .map_err(|error| Failure::usage("--workload is no JSON object").because(error))?;
        return Workload::from_json(&members).map_err(|words| Failure::usage(format!("--workload: {words}")));
    }
    let mut members = Map::new();
    for (name, value) in [
        ("cluster", args.cluster),
        ("assertion_issuer", args.assertion_issuer),
        ("subject", args.subject),
        ("namespace", args.namespace),
        ("service_account", args.service_account),
        ("pod", args.pod),
        ("pod_uid", args.pod_uid),
        ("node", args.node),
    ] {
        members.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    }
    members.insert("claims".to_owned(), Value::Object(collect(args.claims)?));
    Workload::from_json(&members).map_err(Failure::usage)
}

/// A file, or standard input.
pub(super) fn read(path: &Path, flag: &str) -> Result<String, Failure> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::usage(format!("{flag} {} cannot be read", path.display())).because(error)
    };
    if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text);
        return read.map(|_| text).map_err(|error| failed(error.into()));
    }
    disk::read(path).map(|content| content.text.to_string()).map_err(|error| failed(error.into()))
}

fn as_text(
    decided: &Result<Rehearsed, MintError>,
    considered: &[Considered],
    request: &MintRequest,
) -> Result<String, Failure> {
    let token = match decided {
        Ok(token) => token,
        Err(error) => return Ok(denied(error, considered)),
    };
    let claims: Value = parsed(&token.claims)?;
    let claims =
        serde_json::to_string_pretty(&claims).map_err(|error| Failure::internal("no JSON").because(error))?;
    let Rehearsed { rule, subject, ttl, algorithm, .. } = token;
    Ok(format!(
        "rule       {rule}\nsub        {subject}\naud        {}\nalgorithm  {algorithm}\nlife       {ttl}\n\n\
         {claims}\n\nnot signed: this is no token\n",
        request.audience
    ))
}

fn denied(error: &MintError, considered: &[Considered]) -> String {
    let mut text = format!("denied: {error}\n");
    let width = considered.iter().map(|one| one.rule.len()).max().unwrap_or_default();
    for Considered { rule, mismatch, .. } in considered {
        let words = mismatch.as_ref().map_or("it matches".to_owned(), ToString::to_string);
        text.push_str(&format!("  {rule:width$}  {words}\n"));
    }
    if considered.is_empty() {
        text.push_str("  there are no rules; write a [[rule]]\n");
    }
    text
}

fn as_json(
    decided: &Result<Rehearsed, MintError>,
    considered: &[Considered],
    remarks: &[String],
) -> Result<Value, Failure> {
    let considered: Vec<_> = considered
        .iter()
        .map(|one| {
            let (reason, message) = one.mismatch.as_ref().map(|why| (why.reason(), why.to_string())).unzip();
            json!({ "rule": &*one.rule, "matches": one.mismatch.is_none(), "reason": reason, "message": message })
        })
        .collect();
    Ok(match decided {
        Ok(token) => json!({
            "allowed": true,
            "rule": &*token.rule,
            "sub": token.subject.as_str(),
            "alg": token.algorithm.as_str(),
            "ttl_s": token.ttl.as_secs(),
            "claims": parsed(&token.claims)?,
            "considered": considered,
            "remarks": remarks,
        }),
        Err(error) => json!({
            "allowed": false,
            "message": error.to_string(),
            "considered": considered,
            "remarks": remarks,
        }),
    })
}

fn parsed(claims: &str) -> Result<Value, Failure> {
    serde_json::from_str(claims).map_err(|error| Failure::internal("no JSON").because(error))
}

/// As much as a file may have.
const MAX_INPUT: u64 = 1024 * 1024;
