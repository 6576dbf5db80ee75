//! What AWS refuses and moto does not, and what AWS leaves out of an answer.
//!
//! Each is from AWS's reference of the API: UpdateSecretVersionStage ("if you don't specify … or the version ID does not
//! match, then the operation fails"), PutSecretValue (65,536 bytes), DescribeSecret (versions with labels alone).

use hyper::body::Bytes;
use hyper::{HeaderMap, Response};
use serde_json::{Value, json};

use super::asked::Asked;
use super::moto::Moto;
use super::refusal::Refusal;

/// Asks moto as AWS would answer. The caller has the turn.
///
/// # Errors
/// Why moto did not answer.
pub(super) async fn answer(moto: &Moto, account: &str, asked: &Asked) -> Result<Response<Bytes>, String> {
    let known = description(moto, account, asked).await?;
    if let Some(answer) = known.as_ref().and_then(|known| judge(asked, known)) {
        return Ok(answer);
    }
    let answer = moto.ask(account, asked).await?;
    Ok(if asked.action == "DescribeSecret" { without_unlabelled(answer) } else { answer })
}

/// The secret that is asked about, if there is one.
async fn description(moto: &Moto, account: &str, asked: &Asked) -> Result<Option<Value>, String> {
    if !JUDGED.contains(&&*asked.action) {
        return Ok(None);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in asked.headers.iter().filter(|(name, _)| *name == hyper::header::AUTHORIZATION) {
        headers.insert(name, value.clone());
    }
    let parameters = json!({"SecretId": asked.parameters()["SecretId"]});
    let answer = moto.ask(account, &Asked::of_json(headers, "DescribeSecret", &parameters)).await?;
    Ok(Some(answer).filter(|answer| answer.status() == 200).map(|answer| parse(answer.body())))
}

const JUDGED: [&str; 3] = ["GetSecretValue", "PutSecretValue", "UpdateSecretVersionStage"];

/// What AWS answers without doing anything, if it does.
fn judge(asked: &Asked, known: &Value) -> Option<Response<Bytes>> {
    let refuse = |refusal: Refusal| Some(refusal.answer(asked.dialect));
    if !known["DeletedDate"].is_null() {
        let message = "You can't perform this operation on the secret because it was marked for deletion.";
        return refuse(Refusal::new(400, "InvalidRequestException", message));
    }
    let parameters = asked.parameters();
    match &*asked.action {
        "PutSecretValue" => refuse(too_large(&parameters)?),
        "UpdateSecretVersionStage" => match move_of_label(&parameters, known) {
            Ok(true) => None,
            Ok(false) => Some(nothing_to_do(known)),
            Err(refusal) => refuse(refusal),
        },
        _ => None,
    }
}

fn too_large(parameters: &Value) -> Option<Refusal> {
    const LARGEST: usize = 65_536;
    let text = parameters["SecretString"].as_str()?;
    let message = "1 validation error detected: Value at 'secretString' failed to satisfy constraint: Member must \
                   have length less than or equal to 65536";
    (text.len() > LARGEST).then(|| Refusal::new(400, "ValidationException", message))
}

/// Whether there is anything to move.
fn move_of_label(parameters: &Value, known: &Value) -> Result<bool, Refusal> {
    let text = |name: &str| parameters[name].as_str().filter(|text| !text.is_empty());
    let (to, from) = (text("MoveToVersionId"), text("RemoveFromVersionId"));
    let Some(label) = text("VersionStage") else { return Ok(true) };
    let wrong = |message: String| Err(Refusal::new(400, "InvalidParameterException", message));
    let holder = holder_of(label, known);
    if let Some(to) = to
        && known["VersionIdsToStages"].get(to).is_none()
    {
        let message = format!("Secrets Manager can't find the specified secret version: {to}");
        return Err(Refusal::new(400, "ResourceNotFoundException", message));
    }
    match (holder, from) {
        _ if to.is_none() && label == "AWSCURRENT" => wrong(
            "You can only move staging label AWSCURRENT to a different secret version. It can't be completely removed."
                .to_owned(),
        ),
        (Some(holder), Some(from)) if holder == from => Ok(to != Some(from)),
        (_, Some(from)) => wrong(format!(
            "Staging label {label} is not currently attached to the version {from} in RemoveFromVersionId."
        )),
        (Some(holder), None) if to == Some(holder) => Ok(false),
        (Some(holder), None) => wrong(format!(
            "The parameter RemoveFromVersionId can't be empty. Staging label {label} is currently attached to \
             version {holder}, so you must explicitly reference that version in RemoveFromVersionId."
        )),
        (None, None) => Ok(true),
    }
}

fn holder_of<'a>(label: &str, known: &'a Value) -> Option<&'a str> {
    let versions = known["VersionIdsToStages"].as_object()?;
    let has = |labels: &Value| labels.as_array().is_some_and(|labels| labels.iter().any(|one| one == label));
    versions.iter().find(|(_, labels)| has(labels)).map(|(version, _)| version.as_str())
}

fn nothing_to_do(known: &Value) -> Response<Bytes> {
    let body = json!({"ARN": known["ARN"], "Name": known["Name"]});
    Response::new(body.to_string().into())
}

/// AWS lists the versions that have labels; others it may have deleted already.
fn without_unlabelled(answer: Response<Bytes>) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    let mut description = parse(&body);
    for member in ["VersionIdsToStages", "SecretVersionsToStages"] {
        if let Some(versions) = description.get_mut(member).and_then(Value::as_object_mut) {
            versions.retain(|_, labels| labels.as_array().is_some_and(|labels| !labels.is_empty()));
        }
    }
    let body = if description.is_null() { body } else { description.to_string().into() };
    Response::from_parts(head, body)
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}
