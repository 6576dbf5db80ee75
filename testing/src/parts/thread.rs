//! Work of a runtime's, done from a test that may be in one itself.

/// Runs `future` to its end on a thread and in a runtime of its own, and waits for it.
pub(super) fn on_a_thread<F: Future<Output: Send> + Send>(future: F) -> F::Output {
    let work = || runtime().block_on(future);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("part".to_owned()).spawn_scoped(scope, work);
        thread
            .expect("a thread can be started")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A runtime for the thread that asks for it.
pub(super) fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be started")
}
