//! An account at AWS of one's own: Secrets Manager and STS.
//!
//! moto's server keeps the secrets, one server for all tests of a process. What it does otherwise than AWS, a gate before
//! it sets right: it does one call after the other, refuses what AWS refuses (see `rules`), verifies the tokens of web
//! identities, and knows whose access keys are good. Signatures of requests nobody verifies, and policies there are none:
//! a denial is a [`Fault`].

mod asked;
mod callers;
mod fault;
mod gate;
mod https;
mod moto;
mod refusal;
mod rules;
mod sts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use serde_json::Value;

pub use fault::Fault;
pub use refusal::Refusal;

use super::proxy::Proxy;
use super::thread::on_a_thread;
use asked::Asked;
use callers::{ACCESS_KEY_ID, SECRET_ACCESS_KEY};
use gate::{Gate, Planned};
use moto::Moto;

/// An account, empty at first, and the endpoint where it is served. Dropped, the endpoint is gone.
#[derive(Debug)]
pub struct Aws {
    account: String,
    // Dropped before what it leads to.
    network: Proxy,
    gate: Gate,
}

impl Aws {
    /// The region of its secrets, where a caller names no other one.
    pub const REGION: &str = "eu-central-1";

    /// A new account. `None` where moto is missing, which the test's output then says.
    ///
    /// # Panics
    /// If moto does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn start() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let moto = Moto::of_this_process()?;
        let account = format!("1000{:08}", NEXT.fetch_add(1, Ordering::Relaxed));
        let gate = Gate::start(moto, account.clone());
        Some(Self { account, network: Proxy::start(gate.address()), gate })
    }

    /// The number of the account, of twelve digits.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The endpoint of all its services, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.network.address())
    }

    /// The connections between clients and AWS, to cut, refuse or swallow.
    pub fn network(&self) -> &Proxy {
        &self.network
    }

    /// A Python that has AWS's own SDK, boto3: that of `scripts/moto`, which brings it.
    pub fn python() -> Option<PathBuf> {
        moto::python()
    }

    /// What a child process needs in its environment to reach it, with a key that lasts.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut variables = self.endpoint();
        variables.push(("AWS_ACCESS_KEY_ID".to_owned(), ACCESS_KEY_ID.to_owned()));
        variables.push(("AWS_SECRET_ACCESS_KEY".to_owned(), SECRET_ACCESS_KEY.to_owned()));
        variables
    }

    /// What a child process needs in its environment to reach it as `role`, with the token in `token_file`.
    pub fn web_identity_environment(&self, role: &str, token_file: &Path) -> Vec<(String, String)> {
        let mut variables = self.endpoint();
        variables.push(("AWS_ROLE_ARN".to_owned(), role.to_owned()));
        let token_file = token_file.display().to_string();
        variables.push(("AWS_WEB_IDENTITY_TOKEN_FILE".to_owned(), token_file));
        variables
    }

    /// Carries `action` of Secrets Manager out, past all faults and uncounted, and gives back what came.
    ///
    /// # Panics
    /// If AWS refuses.
    pub fn call(&self, action: &str, parameters: &Value) -> Value {
        self.try_call(action, parameters).unwrap_or_else(|refusal| panic!("{action}: {refusal}"))
    }

    /// As [`Aws::call`].
    ///
    /// # Errors
    /// If AWS refuses.
    pub fn try_call(&self, action: &str, parameters: &Value) -> Result<Value, Refusal> {
        let asked = Asked::of_json(signed(), action, parameters);
        let answer = on_a_thread(self.gate.shared.carry_out(&asked));
        let body = serde_json::from_slice(answer.body()).unwrap_or_default();
        match Refusal::read(answer.status().as_u16(), &body) {
            Some(refusal) => Err(refusal),
            None => Ok(body),
        }
    }

    /// Does `fault` to the next `times` calls of `action` (`*`: of any); `usize::MAX` is until further notice. Of
    /// several that fit a call, the one planned first counts.
    pub fn fault(&self, action: &str, fault: Fault, times: usize) {
        if times > 0 {
            self.gate.shared.state().faults.push(Planned { action: action.to_owned(), fault, times });
        }
    }

    /// Forgets all faults that are still to come. Calls that hang, hang on: see [`Proxy::cut`].
    pub fn clear_faults(&self) {
        self.gate.shared.state().faults.clear();
    }

    /// How often each action was called, refused calls included, since the last [`Aws::reset_counts`].
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.gate.shared.state().counts.clone()
    }

    /// Begins to count anew.
    pub fn reset_counts(&self) {
        self.gate.shared.state().counts.clear();
    }

    /// Makes `issuer` an identity provider of the account: tokens for `audiences` count, and the authorities in
    /// `ca_pem` vouch for its certificate. Said again of the same issuer, the last word counts.
    pub fn trust_issuer(&self, issuer: &str, audiences: &[&str], ca_pem: &str) {
        let audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
        let issuers = &mut self.gate.shared.state().trust.issuers;
        issuers.retain(|known| known.url != issuer);
        issuers.push(sts::Issuer { url: issuer.to_owned(), audiences, ca: ca_pem.to_owned() });
    }

    /// Makes a role that whoever bears a token of `issuer` for `audience` and `subject` may take, and gives back its
    /// ARN.
    pub fn create_role(&self, name: &str, issuer: &str, audience: &str, subject: &str) -> String {
        let [name, issuer, audience, subject] = [name, issuer, audience, subject].map(str::to_owned);
        let arn = format!("arn:aws:iam::{}:role/{name}", self.account);
        let roles = &mut self.gate.shared.state().trust.roles;
        roles.retain(|known| known.name != name);
        roles.push(sts::Role { name, issuer, audience, subject });
        arn
    }

    /// Asks STS for credentials for `role`, with a token of a web identity, past all faults and uncounted.
    ///
    /// # Errors
    /// If AWS refuses.
    pub fn assume_role(&self, role: &str, token: &str) -> Result<(), Refusal> {
        on_a_thread(self.gate.shared.hand_out(&Asked::of_token(role, token))).map(drop)
    }

    /// Lets sessions last `session` from now on, in place of an hour. AWS itself gives none under 15 minutes.
    pub fn shorten_sessions(&self, session: Duration) {
        self.gate.shared.state().trust.session = Some(session);
    }

    /// Ends all sessions that STS has given out.
    pub fn expire_sessions(&self) {
        self.gate.shared.state().callers.expire();
    }

    /// Refuses from now on the access key of [`Aws::environment`], as one that was deleted.
    pub fn delete_access_key(&self) {
        self.gate.shared.state().callers.take_key_away();
    }

    fn endpoint(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            text("AWS_ENDPOINT_URL", &self.url()),
            text("AWS_REGION", Self::REGION),
            // Of the machine's own credentials and settings nothing may count.
            text("AWS_EC2_METADATA_DISABLED", "true"),
            text("AWS_CONFIG_FILE", "/nonexistent"),
            text("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"),
        ]
    }
}

/// moto finds the region of a call in who signed it.
fn signed() -> HeaderMap {
    let region = Aws::REGION;
    let text = format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY_ID}/20261130/{region}/secretsmanager/aws4_request, \
         SignedHeaders=host, Signature=0"
    );
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, text.parse().expect("visible ASCII"));
    headers
}
