//! What becomes of calls while something fails: at least 2,000 through a real API server in each scenario, every
//! answer counted. The table in docs/availability.md is made here:
//! `AIRGATE_WRITE=1 cargo test --test apiserver availability` writes it anew.

mod calls;
mod clock;
mod cut;
mod depot;
mod ground;
mod replica;
mod report;
mod restarts;
mod rollout;
mod service;

use std::ops::RangeInclusive;

use calls::{Call, Fate, Stream};
use ground::Ground;

/// One fault, and what it may cost.
pub struct Scenario {
    /// Its row in docs/availability.md.
    pub name: &'static str,
    /// Calls that fail: HTTP 500, or unseen by airgate.
    pub failed: RangeInclusive<u64>,
    /// Allows that cannot be undone, refused for want of a fact.
    pub cautious: RangeInclusive<u64>,
    /// Answers that the API server itself did not give, or not as one that is ready.
    pub away: RangeInclusive<u64>,
}

const NONE: RangeInclusive<u64> = 0..=0;
/// However many there are: their number says how long the fault lasted, and nothing of airgate.
const SOME: RangeInclusive<u64> = 1..=u64::MAX;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

impl Scenario {
    /// In which nothing is lost.
    const fn harmless(name: &'static str) -> Self {
        Self { name, failed: NONE, cautious: NONE, away: NONE }
    }

    /// Sends calls while `fault` happens and judges what became of them. A wrong verdict is never right.
    pub fn run(&self, ground: &mut Ground, fault: impl FnOnce(&mut Ground, &Stream)) {
        self.run_with(ground, calls::mix(), fault);
    }

    /// The same with other calls.
    pub fn run_with(&self, ground: &mut Ground, calls: Vec<Call>, fault: impl FnOnce(&mut Ground, &Stream)) {
        let (apis, began) = (ground.connections(), std::time::Instant::now());
        let stream = calls::stream(&apis, &calls, |stream| fault(ground, stream));
        let row = report::Row::of(self.name, &stream);
        println!("{row} {:?}", began.elapsed());
        for (fate, may) in [
            (Fate::Failed, &self.failed),
            (Fate::Cautious, &self.cautious),
            (Fate::Away, &self.away),
            (Fate::Wrong, &NONE),
        ] {
            let count = stream.of(fate);
            assert!(may.contains(&count), "{}: {count} {fate:?}, may be {may:?}; {row}\n{}", self.name, stream.odd());
        }
        report::keep(self, &row);
    }
}
