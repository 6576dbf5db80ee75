//! The background work of an issuer, run by whoever embeds it.

use std::sync::Arc;

use oneseal_coordination::Clock;
use oneseal_keystore::Follower;
use tokio_util::sync::CancellationToken;

use crate::published::Live;

/// Keeps an [`Issuer`](crate::Issuer) up to date with its provider. Comes with the issuer and must be run: until it
/// runs, and once it has stopped, minting is refused with
/// [`MintError::TasksNotRunning`](crate::MintError::TasksNotRunning) and `oneseal_tasks_running` is 0. Documents and
/// verification go on from memory.
#[derive(Debug)]
#[must_use = "an issuer mints only while its tasks run: await or spawn `Tasks::run`"]
pub struct Tasks {
    live: Arc<Live>,
    follower: Follower,
    clock: Arc<dyn Clock>,
    /// Cancelled when the last handle of the issuer is gone.
    orphaned: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(
        live: Arc<Live>,
        follower: Follower,
        clock: Arc<dyn Clock>,
        orphaned: CancellationToken,
    ) -> Self {
        Self { live, follower, clock, orphaned }
    }

    /// Runs until `cancel`, or until the last handle of the issuer is dropped. Spawns nothing.
    ///
    /// They count as running from this call on, so that a program which spawns the future and mints in the next line
    /// need not wait for its first poll. A future that is dropped, polled or not, has stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any point: what is published is always whole, and minting stops by itself.
    pub fn run(self, cancel: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let Self { live, follower, clock, orphaned } = self;
        let running = Running::mark(Arc::clone(&live));
        async move {
            let _running = running;
            let swap = |snapshot: &Arc<_>| live.swap(snapshot, clock.wall());
            tokio::select! {
                () = follower.run(cancel, swap) => {}
                // Nobody is left to serve; a look under way has swapped nothing yet.
                () = orphaned.cancelled() => {}
            }
        }
    }
}

/// Says that the tasks run, until dropped: at the end, at a cancelled future, at a panic.
struct Running(Arc<Live>);

impl Running {
    fn mark(live: Arc<Live>) -> Self {
        live.set_tasks_running(true);
        Self(live)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set_tasks_running(false);
    }
}
