//! Waits that differ a little, so that replicas do not ask in step.

use std::time::Duration;

use uuid::Uuid;

/// `interval` give or take a tenth.
pub(crate) fn with_jitter(interval: Duration) -> Duration {
    let (random, ..) = Uuid::new_v4().as_fields();
    let part = f64::from(random) / f64::from(u32::MAX);
    interval.mul_f64(0.9 + 0.2 * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth() {
        for _ in 0..100 {
            let wait = with_jitter(Duration::from_secs(10));
            assert!((9.0..=11.0).contains(&wait.as_secs_f64()), "{wait:?}");
        }
    }
}
