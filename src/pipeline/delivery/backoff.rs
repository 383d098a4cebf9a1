//! Pure: how long to wait before the next attempt. Chance is an argument.

use std::time::Duration;

use super::settings::RetryOnFailure;

/// Exponential backoff with jitter, as the Collector's.
#[derive(Debug, Clone)]
pub struct Backoff {
    settings: RetryOnFailure,
    interval: Duration,
}

impl Backoff {
    /// Before the first failure.
    pub fn new(settings: &RetryOnFailure) -> Self {
        Self { interval: settings.initial_interval.0, settings: settings.clone() }
    }

    /// The next wait; `chance` is uniform in 0..1. At least `after` where the endpoint asked for that.
    /// `None` where the wait would end after `max_elapsed_time`, of which `elapsed` is over.
    pub fn next(&mut self, chance: f64, after: Option<Duration>, elapsed: Duration) -> Option<Duration> {
        let spread = self.settings.randomization_factor * (2.0 * chance - 1.0);
        let own = scale(self.interval, 1.0 + spread);
        self.interval = scale(self.interval, self.settings.multiplier).min(self.settings.max_interval.0);
        let wait = own.max(after.unwrap_or_default());
        let limit = self.settings.max_elapsed_time.0;
        let in_time = limit.is_zero() || elapsed.saturating_add(wait) <= limit;
        in_time.then_some(wait)
    }
}

/// `duration` x `factor`, saturating and never negative.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Period;

    fn seconds(wait: Option<Duration>) -> Option<f64> {
        wait.map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn grows_to_the_limit_within_the_jitter() {
        let mut backoff = Backoff::new(&RetryOnFailure::default());
        let middle: Vec<_> = (0..8).map(|_| backoff.next(0.5, None, Duration::ZERO).unwrap().as_secs_f64()).collect();
        assert_eq!(middle[..3], [5.0, 7.5, 11.25]);
        assert_eq!(middle[7], 30.0);
        let mut backoff = Backoff::new(&RetryOnFailure::default());
        assert_eq!(seconds(backoff.next(0.0, None, Duration::ZERO)), Some(2.5));
        assert_eq!(seconds(backoff.next(1.0, None, Duration::ZERO)), Some(11.25));
    }

    #[test]
    fn what_the_endpoint_asks_is_a_minimum() {
        let mut backoff = Backoff::new(&RetryOnFailure::default());
        assert_eq!(seconds(backoff.next(0.5, Some(Duration::from_secs(7)), Duration::ZERO)), Some(7.0));
        assert_eq!(seconds(backoff.next(0.5, Some(Duration::ZERO), Duration::ZERO)), Some(7.5));
    }

    #[test]
    fn ends_with_max_elapsed_time() {
        let settings = RetryOnFailure { max_elapsed_time: Period::secs(20), ..RetryOnFailure::default() };
        let mut backoff = Backoff::new(&settings);
        assert_eq!(backoff.next(0.5, Some(Duration::from_secs(3600)), Duration::ZERO), None);
        assert!(backoff.next(0.5, None, Duration::from_secs(5)).is_some());
        assert_eq!(backoff.next(0.5, None, Duration::from_secs(19)), None);
        let forever = RetryOnFailure { max_elapsed_time: Period::secs(0), ..settings };
        assert!(Backoff::new(&forever).next(0.5, None, Duration::from_secs(1 << 40)).is_some());
    }
}
