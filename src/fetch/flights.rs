//! Single flight: whatever many reviews ask for is read once, goes on when nobody waits any more, and what came
//! of it is remembered: a release for ever (in the catalog), a failure for seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::limit::Limit;
use super::status::Counts;
use crate::catalog::{Finding, Standing};
use crate::policy::Want;
use crate::pullspec::Digest;
use crate::release::{Attempt, AttemptEnd, Release};

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// One reading, from the first request for it.
    pub flight: Duration,
    /// How long a failure is an answer: an administrator who mended it does not wait long.
    pub failed_for: Duration,
    /// For a review that is not the first to ask: the client asks again by itself.
    pub repeat: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { flight: Duration::from_secs(30), failed_for: Duration::from_secs(10), repeat: Duration::from_secs(1) }
    }
}

/// Readings at the same time, each of which may hold a layer of 64 MiB: from registries that the cluster knows, others.
const AT_ONCE: [usize; 2] = [4, 2];
/// Readings under way or waiting, and ends remembered.
const ENTRIES: usize = 256;

/// Which places may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// As the node runtime would: the mirrors, and the source where that is allowed.
    All,
    /// What is read ahead of any request never leaves the site.
    MirrorsOnly,
}

/// Where releases are read.
pub trait Source: Send + Sync + 'static {
    /// The place asked first, for a person.
    fn names(&self, want: &Want, scope: Scope) -> Arc<str>;

    /// # Errors
    /// Why it cannot be read, for a person, with each place that was asked.
    fn read(
        &self,
        want: &Want,
        scope: Scope,
        deadline: Instant,
    ) -> impl Future<Output = Result<Finding, String>> + Send;

    /// Whether the cluster's own objects know the registry: such look-ups have places of their own, so that a flood of
    /// others does not keep them waiting.
    fn familiar(&self, want: &Want) -> bool;

    /// Makes a release that was read known to everybody.
    fn publish(&self, release: Release);
}

/// Readings under way and those that failed a moment ago, by digest and repository: what one place has not says nothing
/// of another. Of the pairs the first is for registries that the cluster knows.
#[derive(Debug)]
pub struct Flights<S> {
    pub source: S,
    entries: Mutex<HashMap<Want, Entry>>,
    running: [Semaphore; 2],
    limits: [Limit; 2],
    timing: Timing,
    pub counts: Counts,
}

#[derive(Debug)]
enum Entry {
    Flying {
        scope: Scope,
        from: Arc<str>,
        /// A review has waited for it already.
        awaited: bool,
        end: watch::Receiver<Option<End>>,
    },
    Ended(Attempt, Instant),
}

/// `None`: a release that is in the catalog now.
type End = Option<Attempt>;

impl<S: Source> Flights<S> {
    #[must_use]
    pub fn new(source: S, limits: [Limit; 2], timing: Timing, counts: Counts) -> Self {
        Self { source, entries: Mutex::default(), running: AT_ONCE.map(Semaphore::new), limits, timing, counts }
    }

    /// Waits for a release that a review wants, until the deadline; a second where somebody waited before.
    /// `None` where the catalog has it now.
    pub async fn want(self: &Arc<Self>, want: &Want, deadline: Instant) -> Option<Attempt> {
        loop {
            let (mut end, patience, scope, from) = match self.join(want, Scope::All) {
                Ok(joined) => joined,
                Err(attempt) => return attempt,
            };
            let ended = tokio::time::timeout_at(deadline.min(patience), end.wait_for(Option::is_some)).await;
            match ended.map(|end| end.ok().and_then(|end| end.clone())) {
                // What only mirrors were asked for says nothing of the other places: ask those too.
                Ok(Some(Some(Attempt { end: AttemptEnd::Failed(_), .. }))) if scope == Scope::MirrorsOnly => {}
                Ok(Some(end)) => return end,
                // Its task died.
                Ok(None) => return Some(failed(want.digest, "the reader failed over it, the log says where")),
                Err(_) => return Some(Attempt { digest: want.digest, end: AttemptEnd::Reading(from) }),
            }
        }
    }

    /// Starts to read ahead of any request, and waits for it; yields whether it is known now.
    pub async fn ahead(self: &Arc<Self>, want: &Want) -> bool {
        match self.join(want, Scope::MirrorsOnly) {
            Ok((mut end, ..)) => matches!(end.wait_for(Option::is_some).await.as_deref(), Ok(Some(None))),
            Err(_) => false,
        }
    }

    /// Starts without waiting, for a verdict that stands but would be better founded.
    pub fn start(self: &Arc<Self>, want: &Want) {
        let _ = self.join(want, Scope::All);
    }

    /// The flight for a digest, begun where there is none; `Err` with what is known already.
    #[expect(clippy::type_complexity, reason = "one caller, one line")]
    fn join(
        self: &Arc<Self>,
        want: &Want,
        scope: Scope,
    ) -> Result<(watch::Receiver<Option<End>>, Instant, Scope, Arc<str>), End> {
        let now = Instant::now();
        let mut entries = self.lock();
        match entries.get_mut(want) {
            Some(Entry::Flying { scope: flying, from, awaited, end })
                if end.borrow().is_none() && end.has_changed().is_ok() =>
            {
                let first = !std::mem::replace(awaited, *awaited || scope == Scope::All);
                let patience = if first { now + 2 * self.timing.flight } else { now + self.timing.repeat };
                return Ok((end.clone(), patience, *flying, Arc::clone(from)));
            }
            Some(Entry::Ended(attempt, until)) if *until > now => return Err(Some(attempt.clone())),
            _ => {}
        }
        let from = self.source.names(want, scope);
        let lane = self.lane(want, scope);
        let busy =
            || Err(Some(Attempt { digest: want.digest, end: AttemptEnd::Reading("a queue of other look-ups".into()) }));
        if entries.len() >= ENTRIES {
            entries.retain(|_, entry| match entry {
                Entry::Flying { end, .. } => end.borrow().is_none(),
                Entry::Ended(_, until) => *until > now,
            });
        }
        if entries.len() >= ENTRIES || (scope == Scope::All && !self.limits[lane].take(now)) {
            self.counts.limited.inc();
            return busy();
        }
        let (send, end) = watch::channel(None);
        let flight = Entry::Flying { scope, from: Arc::clone(&from), awaited: scope == Scope::All, end: end.clone() };
        entries.insert(want.clone(), flight);
        drop(entries);
        let (flights, want) = (Arc::clone(self), want.clone());
        tokio::spawn(async move {
            let end = flights.fly(&want, scope, lane).await;
            // Nobody may wait any more.
            let _ = send.send(Some(end));
        });
        // Longer than it can take: the end says more than that there is none.
        Ok((end, now + 2 * self.timing.flight, scope, from))
    }

    /// Which of the pairs a look-up belongs to.
    fn lane(&self, want: &Want, scope: Scope) -> usize {
        usize::from(scope == Scope::All && !self.source.familiar(want))
    }

    async fn fly(&self, want: &Want, scope: Scope, lane: usize) -> End {
        // The time of a look-up begins when it has its place.
        let _place = self.running[lane].acquire().await;
        let began = Instant::now();
        let deadline = began + self.timing.flight;
        let result = tokio::time::timeout_at(deadline, self.source.read(want, scope, deadline)).await;
        let result =
            result.unwrap_or_else(|_| Err(format!("it was not read within {} seconds", self.timing.flight.as_secs())));
        self.counts.ended(scope, result.is_ok(), began.elapsed());
        let attempt = match result {
            Ok(finding) => match (finding.release(), finding.standing) {
                (Some(release), _) => {
                    tracing::info!(digest = %want.digest, version = %release.version, from = %release.source.name, "release read");
                    self.source.publish(release);
                    self.lock().remove(want);
                    return None;
                }
                (None, Standing::Shard(_)) => {
                    let end = AttemptEnd::Shard { version: finding.version, source: finding.source };
                    Attempt { digest: want.digest, end }
                }
                (None, _) => failed(want.digest, "what was read is a converted copy"),
            },
            Err(why) => {
                tracing::warn!(digest = %want.digest, scope = ?scope, why, "release not read");
                failed(want.digest, &why)
            }
        };
        let mut entries = self.lock();
        if scope == Scope::All || matches!(attempt.end, AttemptEnd::Shard { .. }) {
            entries.insert(want.clone(), Entry::Ended(attempt.clone(), Instant::now() + self.timing.failed_for));
        } else {
            entries.remove(want);
        }
        Some(attempt)
    }

    /// What is under way and what failed a moment ago, for a person.
    #[must_use]
    pub fn describe(&self) -> Value {
        let (mut reading, mut failed) = (vec![], vec![]);
        for (want, entry) in self.lock().iter() {
            match entry {
                Entry::Flying { from, .. } => reading.push(json!({"digest": want.digest.to_string(), "from": **from})),
                Entry::Ended(Attempt { end: AttemptEnd::Failed(why), .. }, _) => {
                    failed.push(json!({"digest": want.digest.to_string(), "why": **why}));
                }
                Entry::Ended(..) => {}
            }
        }
        json!({"reading": reading, "failed": failed})
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Want, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(digest: Digest, why: &str) -> Attempt {
    Attempt { digest, end: AttemptEnd::Failed(why.into()) }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
