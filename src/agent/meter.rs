//! Counts tokens against the budget of a run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::provider::Usage;

/// The run's token counter, shared by all its agents.
///
/// Consumed is input + output + cache_write; reading from the provider's cache is free of charge here. The budget trips when
/// the consumed tokens meet the limit.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    consumed: AtomicU64,
    tripped: AtomicBool,
}

impl Meter {
    /// A meter for a budget of `limit` tokens.
    pub fn new(limit: u64) -> Meter {
        Meter { limit, consumed: AtomicU64::new(0), tripped: AtomicBool::new(false) }
    }

    /// Counts a call's usage. True the first time that the budget is met, and only then.
    pub fn add(&self, usage: &Usage) -> bool {
        let charge = usage.input.saturating_add(usage.output).saturating_add(usage.cache_write);
        let before = self.consumed.fetch_add(charge, Ordering::Relaxed);
        before.saturating_add(charge) >= self.limit && self.trip()
    }

    /// Ends the budget although something is left, because the rest is too small to be of use. True the first time.
    pub fn trip(&self) -> bool {
        !self.tripped.swap(true, Ordering::Relaxed)
    }

    /// Whether the budget is spent.
    pub fn tripped(&self) -> bool {
        self.tripped.load(Ordering::Relaxed)
    }

    /// The budget.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Tokens consumed so far.
    pub fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// Tokens left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.consumed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage { input, output, cache_read, cache_write }
    }

    #[test]
    fn reading_from_the_cache_is_not_charged() {
        let meter = Meter::new(100);
        assert!(!meter.add(&usage(10, 20, 1_000_000, 30)));
        assert_eq!((meter.consumed(), meter.left()), (60, 40));
    }

    #[test]
    fn the_budget_trips_at_the_limit_and_says_so_once() {
        let meter = Meter::new(100);
        assert!(!meter.add(&usage(99, 0, 0, 0)));
        assert!(meter.add(&usage(1, 0, 0, 0)));
        assert!(!meter.add(&usage(1, 0, 0, 0)));
        assert!(meter.tripped());
    }

    #[test]
    fn exactly_one_of_many_threads_is_told() {
        let meter = Meter::new(5_000);
        let told: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..100).map(|_| scope.spawn(|| (0..100).filter(|_| meter.add(&usage(1, 0, 0, 0))).count())).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!((told, meter.consumed()), (1, 10_000));
    }
}
