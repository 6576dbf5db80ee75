//! From what went wrong with a request to the provider's failures: what was seen, and what would mend it.

use std::error::Error as StdError;
use std::io;

use super::ask::{Reply, Verb};
use super::connect::{Unusable, credentials};
use super::place::Place;
use super::status::Status;
use crate::{ErrorKind, ProviderError};

/// Why there is no good answer.
pub(super) enum Trouble {
    /// Nothing was sent.
    Unsent(Unusable),
    /// The connection broke, or what came was no HTTP, after the request may have arrived.
    Cut(Box<dyn StdError + Send + Sync>),
    /// No whole answer within the time-out.
    Silent,
    /// An answer that is no success.
    Refused(Reply),
    /// A success that is no Secret.
    Strange(&'static str, Reply),
}

impl Trouble {
    pub(super) fn cut(server: &str, error: impl StdError + Send + Sync + 'static) -> Self {
        tracing::debug!(server, %error, "the exchange with the API server broke off");
        Self::Cut(Box::new(error))
    }
}

/// Why the client could not ask `server`, or got no answer.
pub(super) fn failed(server: &str, error: kube::Error) -> Trouble {
    let cause: Box<dyn StdError + Send + Sync> = match error {
        kube::Error::Service(cause) => cause,
        error => Box::new(error),
    };
    if let Some(error) = cause.downcast_ref::<kube::client::AuthError>() {
        return Trouble::Unsent(Unusable::new(ErrorKind::Unauthenticated, credentials(error)));
    }
    let is_unsent =
        cause.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect());
    if !is_unsent {
        return Trouble::Cut(cause);
    }
    let detail = match root_of(&*cause) {
        Root::Certificate(why) => format!(
            "the certificate of {server} is not believed ({why}): the authority in the kubeconfig, or in the pod's \
             ca.crt, is not that of this API server"
        ),
        Root::Other(why) => format!("{server} cannot be reached: {why}"),
    };
    Trouble::Unsent(Unusable::new(ErrorKind::Unavailable, detail).because(cause))
}

impl Place {
    /// The provider's failure.
    pub(super) fn told(&self, verb: Verb, trouble: Trouble) -> ProviderError {
        // What was asked may have been done.
        let kind = if verb.is_write() { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable };
        let hint =
            if verb.is_write() { "; whether it was written is not known: load again to see" } else { "" };
        match trouble {
            Trouble::Unsent(Unusable { kind, detail, source }) => {
                let error = self.fault(kind, detail);
                match source {
                    Some(source) => error.with_source(source),
                    None => error,
                }
            }
            Trouble::Cut(cause) => {
                let detail = format!("the API server did not finish its answer{hint}");
                self.fault(kind, detail).with_source(cause)
            }
            Trouble::Silent => {
                let after = self.way.access.timeout.as_secs_f32();
                self.fault(kind, format!("the API server did not answer within {after} s{hint}"))
            }
            Trouble::Strange(why, reply) => {
                let detail = format!(
                    "what answered ({}) is not the API server, or is another version's: {why}{hint}",
                    seen(&reply)
                );
                self.fault(kind, detail)
            }
            Trouble::Refused(reply) => match Status::read(&reply) {
                Some(status) => self.refused(verb, &reply, &status, kind, hint),
                None => {
                    let detail = format!("what answered ({}) is not the API server{hint}", seen(&reply));
                    self.fault(kind, detail)
                }
            },
        }
    }

    fn refused(
        &self,
        verb: Verb,
        reply: &Reply,
        status: &Status,
        unknown: ErrorKind,
        hint: &str,
    ) -> ProviderError {
        let (code, why) = (reply.status, status.why());
        let (kind, detail) = match code {
            401 => (ErrorKind::Unauthenticated, UNAUTHORIZED.to_owned()),
            403 => (ErrorKind::Denied, self.forbidden(verb, status)),
            404 if status.is_about_namespace() => (ErrorKind::NotFound, self.no_namespace()),
            404 => (ErrorKind::NotFound, "there is no such Secret".to_owned()),
            409 if verb == Verb::Create => (ErrorKind::AlreadyExists, "there is a Secret already".to_owned()),
            409 => (ErrorKind::Conflict, "somebody else has written the Secret meanwhile".to_owned()),
            413 => (ErrorKind::TooLarge, format!("the API server takes no Secret of that size (413): {why}")),
            422 if status.is_about_immutability() => (ErrorKind::ReadOnly, IMMUTABLE.to_owned()),
            422 => (ErrorKind::Malformed, format!("the API server does not take the Secret (422): {why}")),
            429 => {
                (ErrorKind::Unavailable, format!("the API server is asked too much (429{})", after(reply)))
            }
            400..500 => (ErrorKind::Unavailable, format!("the API server answers {code}: {why}")),
            _ => (unknown, format!("the API server answers {code}{}: {why}{hint}", after(reply))),
        };
        self.fault(kind, detail)
    }

    fn no_namespace(&self) -> String {
        let make = self
            .namespace()
            .map(|name| format!(": `kubectl create namespace {name}` makes it"))
            .unwrap_or_default();
        format!("there is no such namespace{make}, unless another one is meant")
    }

    fn forbidden(&self, verb: Verb, status: &Status) -> String {
        let (user, verb, name) = (status.without_right(verb), verb.name(), &self.options.name);
        let Some(user) = user else {
            return format!("the cluster forbids {verb} of the Secret (403): {}", status.why());
        };
        // A name cannot be told of what is not there yet.
        let names = if verb == "create" { String::new() } else { format!(", resourceNames: [{name}]") };
        // Who serves by a Role of one Secret fills it once it is there, and needs no more than that.
        let empty = if verb == "create" {
            let namespace = self.namespace();
            let namespace = namespace.map(|name| format!(" -n {name}")).unwrap_or_default();
            format!(
                "let somebody who may make it empty, `kubectl{namespace} create secret generic {name}`, and do the same \
                 again, which fills it; or "
            )
        } else {
            String::new()
        };
        format!(
            "{user} may not {verb} it; {empty}a Role in that namespace with the rule {{apiGroups: [\"\"], resources: \
             [secrets]{names}, verbs: [{verb}]}}, bound to it, would allow that (deploy/kubernetes/rbac.yaml)"
        )
    }
}

pub(super) const IMMUTABLE: &str = "the Secret is immutable, so nothing in it can be changed: make another one without \
                                    `immutable: true`, with the ring in it, and name that";

pub(super) const CERTIFICATE: &str = "the Secret is of the type kubernetes.io/tls, which another tool keeps; keep the ring \
                                      in an Opaque Secret of its own";

pub(super) const UNAUTHORIZED: &str = "the API server does not know who asks (401): the token has expired or was revoked, or is \
                            another cluster's";

/// What came, for whoever has to find out who sent it.
pub(super) fn seen(reply: &Reply) -> String {
    let media_type = match &*reply.media_type {
        "" => "no content type",
        told => MEDIA_TYPES.iter().find(|known| told.starts_with(**known)).unwrap_or(&"another content type"),
    };
    format!("{}, {media_type}, {} bytes", reply.status, reply.body.len())
}

pub(super) fn after(reply: &Reply) -> String {
    let wait = reply.seconds_to_wait();
    wait.map(|wait| format!(", to be asked again after {} s", wait.as_secs())).unwrap_or_default()
}

/// Those that tell gateways apart; a header may hold anything.
const MEDIA_TYPES: [&str; 5] =
    ["application/json", "text/html", "text/plain", "application/xml", "application/octet-stream"];

enum Root {
    Certificate(String),
    Other(String),
}

/// What is at the bottom of a failed connection.
fn root_of(error: &(dyn StdError + 'static)) -> Root {
    let mut error = error;
    loop {
        if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
            return Root::Certificate(format!("{why:?}"));
        }
        // An I/O error is transparent: what it wraps is not its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source()) {
            Some(inner) => error = inner,
            None => return Root::Other(error.to_string()),
        }
    }
}
