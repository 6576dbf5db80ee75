//! An issuer in this process, on a key that the raw limit has too.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal::{Algorithm, Audience, InlineProvider, Issuer, MintRequest, Subject, VerifiedWorkload};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::raw::{AUDIENCE, ISSUER, Raw, SUBJECT};

/// The issuer with its tasks, which end when this is dropped.
#[derive(Debug)]
pub struct Embedded {
    /// The issuer.
    pub issuer: Issuer,
    /// For whom its tokens are.
    pub audience: Audience,
    workload: VerifiedWorkload,
    algorithm: Algorithm,
    runtime: Runtime,
    cancel: CancellationToken,
    tasks: Option<JoinHandle<()>>,
}

/// The key of `raw`, as oneseal reads it.
pub fn provider(raw: &Raw) -> InlineProvider {
    InlineProvider::new(STANDARD.encode(raw.pkcs8()))
}

impl Embedded {
    /// An issuer that signs with `algorithm`, by the key of `raw`.
    ///
    /// # Panics
    /// If it cannot be built.
    pub fn new(raw: &Raw, algorithm: Algorithm) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let builder = Issuer::builder(ISSUER, provider(raw)).algorithms([algorithm]);
        let built = runtime.block_on(builder.allow(AUDIENCE, Duration::from_secs(3600)).build());
        let (issuer, tasks) = built.expect("a good key");
        let cancel = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "joined when this is dropped")]
        let tasks = runtime.spawn(tasks.run(cancel.clone()));
        let subject = Subject::parse(SUBJECT).expect("a good subject");
        Self {
            issuer,
            audience: Audience::parse(AUDIENCE).expect("a good audience"),
            workload: VerifiedWorkload::vouched_by_embedder(subject),
            algorithm,
            runtime,
            cancel,
            tasks: Some(tasks),
        }
    }

    /// A token, waited for from outside the runtime: where RSA is signed by another thread.
    ///
    /// # Panics
    /// If it is refused.
    pub fn mint(&self) -> String {
        self.runtime.block_on(self.issuer.mint_with(&self.workload, self.request())).expect("it mints").token
    }

    /// A token of an algorithm that is signed in place, as an `.await` in a task gets it: to enter a runtime for each
    /// would cost more than the rest may.
    ///
    /// # Panics
    /// If it is refused, or has to wait.
    pub fn mint_in_place(&self) -> String {
        ready(self.issuer.mint_with(&self.workload, self.request())).expect("it mints").token
    }

    fn request(&self) -> MintRequest {
        MintRequest::new(self.audience.clone()).algorithm(self.algorithm)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(tasks) = self.tasks.take() {
            // It ends because it was told to.
            drop(self.runtime.block_on(tasks));
        }
    }
}

/// The result of a future that does not wait.
///
/// # Panics
/// If it does.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it was to be done in place"),
    }
}
