//! Waiting for a state instead of for a time.

use std::time::Duration;

/// Ten times what the slowest state here has taken on a busy machine of two cores.
const DEADLINE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);

/// Looks until `look` finds something.
///
/// # Panics
/// After the deadline, naming `what` was waited for.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let search = async {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    match tokio::time::timeout(DEADLINE, search).await {
        Ok(found) => found,
        Err(_) => panic!("waited {} s for: {what}", DEADLINE.as_secs()),
    }
}
