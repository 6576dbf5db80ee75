//! A few threads of its own for RSA signatures, with a bounded queue.
//!
//! An RSA signature takes from 0.25 ms to several: signed on the async workers, a burst of tokens would hold up the
//! key set that relying parties fetch (measured: a thousandfold at p50). Tokio's blocking pool is no better place,
//! since its 512 threads fight the workers for the cores and its limit belongs to the embedder. So these threads
//! are few, they belong to one issuer, and who comes when the queue is full is told so at once.
//!
//! The threads end with the last handle of their issuer: dropping the pool closes it and waits for the signatures
//! under way, a few milliseconds at most, so that no key outlives its issuer on a forgotten thread. Work still
//! queued then has nobody waiting for it and is dropped.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

/// The threads and their queue.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Why a job did not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolError {
    /// The queue is full; nothing was queued.
    Busy,
    /// The job panicked. The pool goes on.
    Lost,
}

impl Pool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// What the operating system says when it starts no more; those already started end.
    pub(crate) fn start(threads: NonZeroUsize) -> std::io::Result<Self> {
        let limit = threads.get().saturating_mul(QUEUE_PER_THREAD);
        let mut pool = Self { shared: Arc::new(Shared::new(limit)), threads: Vec::new() };
        for i in 0..threads.get() {
            let shared = Arc::clone(&pool.shared);
            let thread =
                thread::Builder::new().name(format!("oneseal-sign-{i}")).spawn(move || shared.work())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Runs `job` on one of the threads and returns what it returns.
    ///
    /// # Cancel safety
    /// A job whose caller has gone before it begins is not run.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (reply, answer) = oneshot::channel();
        self.shared.push(Box::new(move || {
            if !reply.is_closed() {
                // A caller that has gone in the meantime misses nothing.
                drop(reply.send(job()));
            }
        }))?;
        answer.await.map_err(|_| PoolError::Lost)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.drain(..) {
            // A thread cannot have panicked: each job is caught.
            drop(thread.join());
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    limit: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Box<dyn FnOnce() + Send>>,
    is_closed: bool,
}

impl Shared {
    fn new(limit: usize) -> Self {
        Self { queue: Mutex::default(), wake: Condvar::new(), limit }
    }

    fn push(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), PoolError> {
        let mut queue = self.lock();
        if queue.jobs.len() >= self.limit {
            return Err(PoolError::Busy);
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let abandoned = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.wake.notify_all();
        drop(abandoned);
    }

    /// A thread's life.
    fn work(&self) {
        while let Some(job) = self.next() {
            // The panic has been reported by the process's own hook; the caller sees its reply dropped.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }

    fn next(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No code that could panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} of {} queued)", self.lock().jobs.len(), self.limit)
    }
}

/// Takes a controller's burst of a few hundred pods, and bounds the wait of the last one: 60 ms with RSA-2048, 0.4 s
/// with RSA-4096, below any client's patience.
pub(crate) const QUEUE_PER_THREAD: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn one_thread() -> Pool {
        Pool::start(NonZeroUsize::MIN).expect("a thread")
    }

    /// Occupies the only thread; dropping the sender lets it go on.
    async fn block(pool: &Pool) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        pool.shared
            .push(Box::new(move || {
                started.send(()).expect("the test waits");
                let _ = released.recv();
            }))
            .expect("there is room");
        has_started.await.expect("it starts");
        release
    }

    #[tokio::test]
    async fn a_job_runs_elsewhere_and_answers() {
        let pool = one_thread();
        let name = pool.run(|| thread::current().name().map(str::to_owned)).await;
        assert_eq!(name, Ok(Some("oneseal-sign-0".to_owned())));
    }

    #[tokio::test]
    async fn a_full_queue_is_said_at_once() {
        let pool = one_thread();
        let release = block(&pool).await;
        let queued: Vec<_> = (0..QUEUE_PER_THREAD).map(|_| pool.shared.push(Box::new(|| ()))).collect();
        assert!(queued.iter().all(Result::is_ok));
        assert_eq!(pool.run(|| ()).await, Err(PoolError::Busy));
        drop(release);
    }

    #[tokio::test]
    async fn a_panicking_job_is_lost_and_the_pool_goes_on() {
        let pool = one_thread();
        let lost = pool.run(|| panic!("on purpose")).await;
        assert_eq!(lost, Err::<(), _>(PoolError::Lost));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_job_whose_caller_has_gone_is_not_run() {
        let pool = one_thread();
        let release = block(&pool).await;
        let ran = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ran);
        let mut abandoned = Box::pin(pool.run(move || seen.store(true, Ordering::SeqCst)));
        assert!(futures_util::poll!(&mut abandoned).is_pending());
        drop(abandoned);
        drop(release);
        assert_eq!(pool.run(|| ()).await, Ok(()));
        assert!(!ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn dropping_the_pool_ends_its_threads() {
        let pool = one_thread();
        let shared = Arc::downgrade(&pool.shared);
        drop(pool);
        assert!(shared.upgrade().is_none());
    }
}
