//! The snapshot as readers get it, whatever becomes of the machine's clock.
//!
//! A fact is as old as the time since it was heard of, which a clock that is set does not change; but what is shown
//! and judged is a moment of that clock. So the moments move with the clock: a step forward makes no fact stale, and
//! after a step back none stays fresh for as long as the step was.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::Snapshot;

/// Less than this is a clock that is being disciplined, and no matter for an age in minutes.
const STEP: SignedDuration = SignedDuration::from_secs(2);

/// Shared by all watches and all readers; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Published(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: ArcSwap<State>,
    start: (Timestamp, Instant),
}

#[derive(Clone, Debug)]
struct State {
    snapshot: Arc<Snapshot>,
    /// By how much the clock was ahead of the time since the start when its moments were last right.
    ahead: SignedDuration,
}

/// A moment as the clock has it now: what it showed then, and all steps since.
pub(super) fn moment(at: Instant) -> Timestamp {
    let since = SignedDuration::try_from(at.elapsed()).unwrap_or_default();
    Timestamp::now().checked_sub(since).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Published {
    pub fn new(snapshot: Snapshot) -> Self {
        let state = State { snapshot: Arc::new(snapshot), ahead: SignedDuration::ZERO };
        Self(Arc::new(Inner { state: ArcSwap::from_pointee(state), start: (Timestamp::now(), Instant::now()) }))
    }

    pub fn load(&self) -> Arc<Snapshot> {
        let state = self.0.state.load();
        if self.0.step(&state).is_none() {
            return state.snapshot.clone();
        }
        drop(state);
        self.change(|_| {});
        self.0.state.load().snapshot.clone()
    }

    /// Replaces the snapshot by one that differs in this; may call `change` several times.
    pub fn change(&self, change: impl Fn(&mut Snapshot)) {
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

impl Inner {
    /// By how much the clock was set since.
    fn step(&self, state: &State) -> Option<SignedDuration> {
        let (clock, time) = self.start;
        let elapsed = SignedDuration::try_from(time.elapsed()).unwrap_or_default();
        let step = Timestamp::now().duration_since(clock) - elapsed - state.ahead;
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
        let before = published.load();
        assert!(Arc::ptr_eq(&before, &published.load()), "nothing is made anew while the clock just runs");
        for hours in [24, -24, 24 * 3650] {
            // As seen from here a clock that was another one at the start has been set since.
            let inner = Arc::get_mut(&mut published.0).unwrap();
            inner.start.0 -= SignedDuration::from_hours(hours);
            let as_of = |moment: Option<&Provenance>| moment.unwrap().as_of.duration_since(heard).as_hours();
            let (before, after) = (before.clone(), published.load());
            let moved =
                as_of(after.machine_config_pools.provenance()) - as_of(before.machine_config_pools.provenance());
            assert_eq!(as_of(after.image_config.provenance()), as_of(after.machine_config_pools.provenance()));
            assert!(moved != 0, "{hours}");
            assert_eq!(as_of(after.infrastructure.provenance()), 0, "a file is as old as its last reading");
            assert!(Arc::ptr_eq(&after, &published.load()), "once");
        }
    }

    #[test]
    fn a_moment_is_now_less_what_has_passed() {
        let at = Instant::now();
        let (low, high) =
            (Timestamp::now() - SignedDuration::from_mins(1), Timestamp::now() + SignedDuration::from_mins(1));
        assert!((low..high).contains(&moment(at)));
    }
}
