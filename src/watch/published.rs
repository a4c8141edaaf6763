//! The snapshot as readers get it, whatever becomes of the machine's clock.
//!
//! A fact is as old as the time since it was heard of, which a clock that is set does not change; but what is shown
//! and judged is a moment of that clock. So the moments move with the clock: a step forward makes no fact stale, and
//! after a step back none stays fresh for as long as the step was.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::{Fact, Snapshot};

/// Less than this is a clock that is being disciplined, and no matter for an age in minutes.
const STEP: SignedDuration = SignedDuration::from_secs(2);

/// What holds moments of the clock.
pub(super) trait Dated: Clone {
    /// The clock was set by so much.
    fn clock_moved(&mut self, by: SignedDuration);
}

impl Dated for Snapshot {
    fn clock_moved(&mut self, by: SignedDuration) {
        Self::clock_moved(self, by);
    }
}

impl<T: Clone> Dated for Fact<T> {
    fn clock_moved(&mut self, by: SignedDuration) {
        Self::clock_moved(self, by);
    }
}

/// Shared by all watches and all readers; clones are the same.
#[derive(Debug)]
pub(super) struct Published<S>(Arc<Inner<S>>);

impl<S> Clone for Published<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<S> {
    state: ArcSwap<State<S>>,
    start: Moment,
}

#[derive(Clone, Debug)]
struct State<S> {
    snapshot: Arc<S>,
    /// By how much the clock was ahead of the time since the start when its moments were last right.
    ahead: SignedDuration,
}

/// When something was heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    clock: Timestamp,
    time: Instant,
}

impl Moment {
    pub fn now() -> Self {
        Self { clock: Timestamp::now(), time: Instant::now() }
    }

    /// As the clock has it by now: what it showed then, and all steps since.
    pub fn as_of(&self) -> Timestamp {
        self.clock.checked_add(self.step()).unwrap_or(self.clock)
    }

    /// By how much the clock was set since; nothing where it just ran.
    fn step(&self) -> SignedDuration {
        let since = SignedDuration::try_from(self.time.elapsed()).unwrap_or_default();
        let step = Timestamp::now().duration_since(self.clock) - since;
        if step.abs() > STEP { step } else { SignedDuration::ZERO }
    }
}

impl<S: Dated> Published<S> {
    pub fn new(snapshot: S) -> Self {
        let state = State { snapshot: Arc::new(snapshot), ahead: SignedDuration::ZERO };
        Self(Arc::new(Inner { state: ArcSwap::from_pointee(state), start: Moment::now() }))
    }

    pub fn load(&self) -> Arc<S> {
        let state = self.0.state.load();
        if self.0.step(&state).is_none() {
            return state.snapshot.clone();
        }
        drop(state);
        self.change(|_| {});
        self.0.state.load().snapshot.clone()
    }

    /// Replaces the snapshot by one that differs in this; may call `change` several times.
    pub fn change(&self, change: impl Fn(&mut S)) {
        self.0.state.rcu(|old| {
            let mut new = State::clone(old);
            let snapshot = Arc::make_mut(&mut new.snapshot);
            if let Some(step) = self.0.step(old) {
                snapshot.clock_moved(step);
                new.ahead += step;
            }
            change(snapshot);
            new
        });
    }
}

impl<S> Inner<S> {
    /// By how much the clock was set since.
    fn step(&self, state: &State<S>) -> Option<SignedDuration> {
        let step = self.start.step() - state.ahead;
        (step.abs() > STEP).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Fact, Provenance};

    #[test]
    fn facts_keep_their_age_when_the_clock_is_set() {
        let mut published = Published::new(Snapshot::nothing("a test"));
        let heard = Timestamp::now();
        let provenance = |watched| Provenance { source: "a test".into(), as_of: heard, watched };
        published.change(|snapshot| {
            snapshot.machine_config_pools = Fact::Known(vec![], provenance(true));
            snapshot.image_config = Fact::Absent(provenance(true));
            snapshot.infrastructure = Fact::Absent(provenance(false));
        });
        assert!(Arc::ptr_eq(&published.load(), &published.load()), "nothing is made anew while the clock just runs");
        for hours in [24, -24, -48, 24 * 3650] {
            let before = published.load();
            // As seen from here a clock that was another one at the start has been set since.
            let inner = Arc::get_mut(&mut published.0).unwrap();
            inner.start.clock -= SignedDuration::from_hours(hours);
            let after = published.load();
            let moved = |of: fn(&Snapshot) -> Option<&Provenance>| {
                let moved = of(&after).unwrap().as_of.duration_since(of(&before).unwrap().as_of);
                moved.round(jiff::Unit::Hour).unwrap().as_hours()
            };
            assert_eq!(moved(|snapshot| snapshot.machine_config_pools.provenance()), hours);
            assert_eq!(moved(|snapshot| snapshot.image_config.provenance()), hours);
            assert_eq!(
                moved(|snapshot| snapshot.infrastructure.provenance()),
                0,
                "a file is as old as its last reading"
            );
            assert!(Arc::ptr_eq(&after, &published.load()), "once");
        }
    }

    #[test]
    fn a_moment_moves_with_the_clock_and_stands_still_without() {
        let moment = Moment::now();
        assert_eq!(moment.as_of(), moment.clock);
        let hour = SignedDuration::from_hours(1);
        let before_it_was_set = Moment { clock: moment.clock - hour, ..moment };
        assert_eq!(
            before_it_was_set.as_of().duration_since(before_it_was_set.clock).round(jiff::Unit::Hour).unwrap(),
            hour
        );
    }
}
