//! How many look-ups may be begun: any pod may send reviews, and each could name another digest.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A bucket of look-ups that fills up again evenly.
#[derive(Debug)]
pub struct Limit {
    every: Duration,
    most: u32,
    /// When the bucket would have been empty; the more of `every` since then, the fuller it is.
    empty_at: Mutex<Option<Instant>>,
}

impl Limit {
    /// `most` at once, and one more each `every`.
    #[must_use]
    pub fn new(most: u32, every: Duration) -> Self {
        Self { every, most, empty_at: Mutex::new(None) }
    }

    /// Takes one; `false` where there is none left.
    pub fn take(&self, now: Instant) -> bool {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        let full = now.checked_sub(self.every * self.most).unwrap_or(now);
        let level = empty_at.map_or(full, |at| at.max(full)) + self.every;
        let ok = level <= now;
        if ok {
            *empty_at = Some(level);
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_one_more_each_interval() {
        let second = Duration::from_secs(1);
        let limit = Limit::new(3, second);
        let start = Instant::now() + 10 * second;
        let taken = |at: Instant| (0..10).filter(|_| limit.take(at)).count();
        assert_eq!(taken(start), 3);
        assert_eq!(taken(start + second / 2), 0);
        assert_eq!(taken(start + second), 1);
        assert_eq!(taken(start + 3 * second), 2);
        assert_eq!(taken(start + 100 * second), 3);
    }
}
