//! Which replica writes: one of them, for as long as it renews a Lease. Pure: what is stored and the time come in.
//!
//! Whether a Lease has run out is judged by how long this replica has seen it unchanged, never by the time that
//! stands in it: the clocks of two nodes may differ.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// After so long without a renewal another replica takes over.
pub const LEASE: Duration = Duration::from_secs(15);
/// How often the holder renews it.
const RENEW: Duration = Duration::from_secs(5);
/// How long after its last renewal the holder still begins to write: what it began ends within the Lease.
const HOLDS: Duration = Duration::from_secs(10);

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty where its holder has given it up.
    pub holder: String,
    pub duration_seconds: i32,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    pub transitions: i32,
}

/// What to do with the Lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// It is ours and fresh, or another's who lives.
    Nothing,
    Create(Record),
    /// In place of what was read.
    Replace(Record),
}

/// One replica's view of it.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    /// What was stored when it was last seen to change, and when that was.
    seen: Option<(Record, Instant)>,
    /// When the last renewal that went through was sent.
    renewed: Option<Instant>,
}

impl Elector {
    pub fn new(me: String) -> Self {
        Self { me, seen: None, renewed: None }
    }

    pub fn me(&self) -> &str {
        &self.me
    }

    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|(record, _)| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether this replica may begin to write.
    pub fn holds(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now < renewed + HOLDS)
    }

    /// Takes in what is stored, and says what is to be done.
    pub fn look(&mut self, stored: Option<&Record>, now: Instant, clock: Timestamp) -> Move {
        let Some(stored) = stored else {
            (self.seen, self.renewed) = (None, None);
            return Move::Create(self.record(clock, clock, 0));
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != stored) {
            self.seen = Some((stored.clone(), now));
        }
        if stored.holder == self.me {
            let fresh = self.renewed.is_some_and(|renewed| now < renewed + RENEW);
            let acquired = stored.acquired.unwrap_or(clock);
            return if fresh { Move::Nothing } else { Move::Replace(self.record(acquired, clock, stored.transitions)) };
        }
        self.renewed = None;
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        // A Lease that somebody wrote by hand could name a year.
        let seconds = u64::try_from(stored.duration_seconds).unwrap_or_default().min(LEASE.as_secs());
        if stored.holder.is_empty() || now >= since + Duration::from_secs(seconds) {
            return Move::Replace(self.record(clock, clock, stored.transitions.saturating_add(1)));
        }
        Move::Nothing
    }

    /// A move went through that was sent at `sent`.
    pub fn moved(&mut self, record: Record, sent: Instant) {
        self.seen = Some((record, sent));
        self.renewed = Some(sent);
    }

    /// What to store so that another replica need not wait; `None` where it is not ours.
    pub fn release(&mut self, clock: Timestamp) -> Option<Record> {
        self.renewed.take()?;
        let (record, _) = self.seen.take().filter(|(record, _)| record.holder == self.me)?;
        Some(Record { holder: String::new(), duration_seconds: 1, renewed: Some(clock), ..record })
    }

    fn record(&self, acquired: Timestamp, renewed: Timestamp, transitions: i32) -> Record {
        Record {
            holder: self.me.clone(),
            duration_seconds: i32::try_from(LEASE.as_secs()).unwrap_or(i32::MAX),
            acquired: Some(acquired),
            renewed: Some(renewed),
            transitions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Timestamp = Timestamp::UNIX_EPOCH;

    fn stored(action: &Move) -> Record {
        match action {
            Move::Create(record) | Move::Replace(record) => record.clone(),
            Move::Nothing => panic!("nothing is written"),
        }
    }

    #[test]
    fn the_first_holds_and_renews_and_the_second_waits() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut one, mut two) = (Elector::new("one".into()), Elector::new("two".into()));
        assert!(!one.holds(start));
        let made = one.look(None, at(0), CLOCK);
        assert!(matches!(made, Move::Create(_)));
        let record = stored(&made);
        one.moved(record.clone(), at(0));
        assert!(one.holds(at(9)) && !one.holds(at(10)), "a write begun then could end after the Lease");
        assert_eq!(one.look(Some(&record), at(2), CLOCK), Move::Nothing);
        assert_eq!(two.look(Some(&record), at(2), CLOCK), Move::Nothing);
        assert_eq!(two.holder(), Some("one"));
        let renewed = stored(&one.look(Some(&record), at(5), CLOCK + Duration::from_secs(5)));
        assert_eq!((renewed.transitions, renewed.acquired), (0, Some(CLOCK)));
        one.moved(renewed.clone(), at(5));
        // Seen to change at 6, so it runs out at 21 for the other one, whatever the time in it.
        assert_eq!(two.look(Some(&renewed), at(6), CLOCK), Move::Nothing);
        assert_eq!(two.look(Some(&renewed), at(20), CLOCK), Move::Nothing);
        let taken = stored(&two.look(Some(&renewed), at(21), CLOCK));
        assert_eq!((taken.holder.as_str(), taken.transitions), ("two", 1));
        two.moved(taken.clone(), at(21));
        assert_eq!(one.look(Some(&taken), at(22), CLOCK), Move::Nothing);
        assert!(!one.holds(at(22)) && two.holds(at(22)));
    }

    #[test]
    fn what_was_released_lost_or_made_up_is_taken_at_once_or_in_time() {
        let start = Instant::now();
        let (mut one, mut two) = (Elector::new("one".into()), Elector::new("two".into()));
        let record = stored(&one.look(None, start, CLOCK));
        one.moved(record.clone(), start);
        let released = one.release(CLOCK).unwrap();
        assert_eq!((released.holder.as_str(), one.holds(start)), ("", false));
        assert_eq!(one.release(CLOCK), None, "only once");
        assert_eq!(stored(&two.look(Some(&released), start, CLOCK)).holder, "two");
        // Its own, from an answer that did not arrive: renewed.
        let own = Record { holder: "two".into(), ..record.clone() };
        assert_eq!(stored(&two.look(Some(&own), start, CLOCK)).holder, "two");
        // Deleted: made anew, by whoever sees it.
        assert!(matches!(two.look(None, start, CLOCK), Move::Create(_)));
        for (seconds, held_for) in [(i32::MAX, 15), (-1, 0), (0, 0)] {
            let odd = Record { duration_seconds: seconds, ..record.clone() };
            let mut three = Elector::new("three".into());
            let waits = three.look(Some(&odd), start, CLOCK) == Move::Nothing;
            assert_eq!(waits, held_for > 0, "{seconds}");
            let taken = three.look(Some(&odd), start + Duration::from_secs(held_for), CLOCK);
            assert!(matches!(taken, Move::Replace(_)), "{seconds}");
        }
    }
}
