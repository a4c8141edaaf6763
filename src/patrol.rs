//! The rounds of the server: after every change of the facts, and now and then, it audits what is stored and looks
//! for steps that undo each other.
//!
//! Invariants: a review never waits for a round; an Event is written when a finding appears, not while it stands; and
//! nothing is judged before the facts were read once.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::audit::conflict::{Conflict, Detector};
use crate::audit::{Audit, Report, audit};
use crate::engine;
use crate::events::{Events, Notice};
use crate::facts::Facts;
use crate::fetch::Lookups;
use crate::inputs::{Cache, Known};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Between looks whether anything changed: what undoes a step is noticed within this.
const LOOK: Duration = Duration::from_secs(1);
/// Between rounds without a change: overrides expire, and watches fall silent.
const ROUND: Duration = Duration::from_mins(10);
/// At most added to it, so that replicas do not go at the same time.
const JITTER_MILLIS: u64 = 120_000;
/// Events of one round; what is wrong with more is on `/statusz`.
const EVENTS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    policy: &'static str,
    outcome: &'static str,
}

/// Cheap to clone; all clones see the same.
#[derive(Clone, Debug)]
pub struct Patrol(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    facts: Facts,
    settings: Settings,
    events: Events,
    lookups: Option<Lookups>,
    findings: Family<FindingLabels, Gauge>,
    missing: Gauge,
    last_run: Gauge,
    conflicts: Gauge,
    conflicts_seen: Counter,
    result: ArcSwap<Value>,
}

/// What is remembered from one round to the next.
#[derive(Debug, Default)]
struct Memory {
    detector: Detector,
    /// Contents of what was announced and still stands.
    standing: BTreeSet<String>,
    labels: Vec<FindingLabels>,
}

impl Patrol {
    #[must_use]
    pub fn new(facts: Facts, settings: Settings, metrics: &Metrics, events: Events, lookups: Option<Lookups>) -> Self {
        let inner = Inner {
            facts,
            settings,
            events,
            lookups,
            findings: Family::default(),
            missing: Gauge::default(),
            last_run: Gauge::default(),
            conflicts: Gauge::default(),
            conflicts_seen: Counter::default(),
            result: ArcSwap::from_pointee(Value::Null),
        };
        metrics.register(|registry| {
            let help = "What is stored and would not be let pass today, by policy and outcome";
            registry.register("audit_findings", help, inner.findings.clone());
            registry.register("audit_missing_facts", "Facts that an audit could not do without", inner.missing.clone());
            registry.register(
                "audit_last_run_seconds",
                "When the last audit ended, in Unix time",
                inner.last_run.clone(),
            );
            let help = "Releases in use that have left the InternalReleaseImage and are not back";
            registry.register("invalidated_steps_standing", help, inner.conflicts.clone());
            let help = "Steps that another step undid, each once";
            registry.register("invalidated_steps", help, inner.conflicts_seen.clone());
        });
        Self(Arc::new(inner))
    }

    /// For `/statusz`; null before the first round.
    #[must_use]
    pub fn status(&self) -> Value {
        Value::clone(&self.0.result.load())
    }

    /// Goes its rounds for ever.
    pub async fn run(self) -> &'static str {
        let (mut memory, cache) = (Memory::default(), Cache::default());
        let mut seen: Option<Known> = None;
        let mut next = Instant::now();
        loop {
            let inner = &self.0;
            if inner.facts.ready().ready {
                let known = cache.of(&inner.facts.snapshot(), &inner.facts.catalog(), &inner.settings);
                if seen != Some(known) || Instant::now() >= next {
                    seen = Some(known);
                    next = Instant::now() + ROUND + jitter();
                    inner.round(&mut memory, Timestamp::now());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn jitter() -> Duration {
    Duration::from_millis(RandomState::new().hash_one(0_u8) % JITTER_MILLIS)
}

impl Inner {
    fn round(&self, memory: &mut Memory, now: Timestamp) {
        let (cluster, catalog) = (self.facts.snapshot(), self.facts.catalog());
        let checks = self.lookups.as_ref().map(|lookups| lookups.source.components.checks()).unwrap_or_default();
        let signatures = self.facts.signatures();
        let known = engine::Facts::of(&cluster, &catalog, &self.settings, now);
        let all = Audit(engine::Facts { checks: &checks, signatures: &signatures, ..known });
        let conflicts = memory.detector.observe(&all);
        let report = audit(all);
        let mut standing = BTreeSet::new();
        for conflict in &conflicts {
            let content = format!("conflict {} {}", conflict.release, conflict.bundle);
            if !memory.standing.contains(&content) {
                self.conflict(conflict);
            }
            standing.insert(content);
        }
        let mut announced = 0;
        for found in &report.findings {
            let content = format!("{:?}", found.content());
            if !memory.standing.contains(&content) && announced < EVENTS {
                announced += 1;
                let (policy, outcome) = (found.policy, found.outcome.as_str());
                tracing::warn!(policy, kind = found.kind, name = %found.name, outcome, "audit: {}", found.what());
                let message = format!("{policy} ({outcome}): {}", found.message);
                let notice =
                    Notice { what: "audit", reason: "AuditFinding", kind: found.kind, name: &found.name, message };
                self.events.announce(&notice, found.content());
                standing.insert(content);
            } else if memory.standing.contains(&content) {
                standing.insert(content);
            }
        }
        memory.standing = standing;
        self.count(memory, &report, conflicts.len());
        let result =
            json!({"at": now, "findings": report.findings, "missing": report.missing, "invalidated": conflicts});
        self.result.store(Arc::new(result));
    }

    fn conflict(&self, conflict: &Conflict) {
        self.conflicts_seen.inc();
        let undo = conflict.text.works.join(" ");
        tracing::error!(release = %conflict.release, bundle = %conflict.bundle, why = %conflict.text.why, %undo, "a step was undone by another: {}", conflict.text.what);
        let message = conflict.message.clone();
        let notice =
            Notice { what: "invalidated", reason: "StepInvalidated", kind: "ClusterVersion", name: "version", message };
        self.events.announce(&notice, (&conflict.release, &conflict.bundle));
    }

    fn count(&self, memory: &mut Memory, report: &Report, conflicts: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut labels: Vec<FindingLabels> = vec![];
        for found in &report.findings {
            let label = FindingLabels { policy: found.policy, outcome: found.outcome.as_str() };
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        // A series that was there falls to nothing and does not vanish: an alert on it would never end.
        for label in labels.iter().chain(&memory.labels) {
            let of_label =
                |found: &&crate::audit::Found| found.policy == label.policy && found.outcome.as_str() == label.outcome;
            self.findings.get_or_create(label).set(number(report.findings.iter().filter(of_label).count()));
        }
        for label in labels {
            if !memory.labels.contains(&label) {
                memory.labels.push(label);
            }
        }
        self.missing.set(number(report.missing.len()));
        self.conflicts.set(number(conflicts));
        self.last_run.set(Timestamp::now().as_second());
    }
}

#[cfg(test)]
mod tests;
