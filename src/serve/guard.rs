//! The engine behind the edge: one judgement, and what must be read before it may stand.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::answer::Response;
use crate::cluster::Snapshot;
use crate::engine::{self, Judged};
use crate::events::Events;
use crate::facts::Facts;
use crate::fetch::Lookups;
use crate::http::{Admit, Answer, StatusCode};
use crate::inputs;
use crate::metrics::{Metrics, Outcome};
use crate::release::{Attempt, AttemptEnd};
use crate::review::BadInput;
use crate::settings::Settings;
use crate::verdict;

/// Kept of a deadline for judging and answering after a wait.
const FOR_THE_ANSWER: Duration = Duration::from_millis(50);

/// The engine behind the edge.
pub(super) struct Guard {
    pub facts: Facts,
    pub settings: Settings,
    pub metrics: Metrics,
    pub events: Events,
    pub live: LiveReads,
    /// Where there is a cluster that says how to reach registries.
    pub lookups: Option<Lookups>,
    pub inputs: inputs::Cache,
}

/// Live reads, one at a time: whoever waits for one shares the next with all who wait. However many reviews come,
/// the API server is asked no more often than it answers.
#[derive(Default)]
pub(super) struct LiveReads(tokio::sync::Mutex<Option<(Instant, Arc<Snapshot>)>>);

impl LiveReads {
    /// Facts read after this was called.
    async fn read(&self, facts: &Facts, deadline: Instant) -> Arc<Snapshot> {
        let asked = Instant::now();
        let Ok(mut last) = tokio::time::timeout_at(deadline, self.0.lock()).await else {
            return Arc::new(Snapshot::nothing("the live read before this irreversible step was not done in time"));
        };
        match &*last {
            Some((started, snapshot)) if *started >= asked => Arc::clone(snapshot),
            _ => {
                let started = Instant::now();
                let snapshot = Arc::new(facts.refresh_for_irreversible(deadline).await);
                *last = Some((started, Arc::clone(&snapshot)));
                snapshot
            }
        }
    }
}

impl Admit for Guard {
    async fn admit(&self, body: Bytes, deadline: Instant) -> Answer {
        let started = std::time::Instant::now();
        let now = Timestamp::now();
        let result = match self.judge(&body, &self.facts.snapshot(), None, now) {
            // What cannot be undone is allowed on live facts only.
            Ok(judged) if judged.verdict.irreversible && judged.verdict.allowed() => {
                let live = self.live.read(&self.facts, deadline).await;
                self.judge(&body, &live, None, now)
            }
            Ok(judged) if !judged.verdict.wants.is_empty() => self.look_up(judged, &body, deadline).await,
            result => result,
        };
        let result = match result {
            Ok(judged) => self.ask_nodes(judged, &body, deadline).await,
            bad => bad,
        };
        match result {
            Ok(judged) => {
                if let (Some(lookups), Some(digest)) = (&self.lookups, judged.verdict.look_for_components) {
                    lookups.source.components.look_for(digest);
                }
                self.metrics.review(judged.kind, outcome(&judged), started.elapsed());
                self.record(&judged);
                answer(judged.response)
            }
            Err(bad) => {
                self.metrics.review("other", Outcome::BadInput, started.elapsed());
                tracing::warn!(reason = %bad.message, "a request that cannot be judged");
                bad_input(&bad)
            }
        }
    }
}

impl Guard {
    /// A release that was not known: read it now if that could change the verdict.
    async fn look_up(&self, judged: Judged, body: &[u8], deadline: Instant) -> Result<Judged, BadInput> {
        let (Some(lookups), Some(want)) = (&self.lookups, judged.verdict.wants.first()) else { return Ok(judged) };
        match judged.verdict.result {
            verdict::Result::Deny => return Ok(judged),
            verdict::Result::Allow | verdict::Result::Warn => {
                lookups.start(want);
                return Ok(judged);
            }
            verdict::Result::Unknown => {}
        }
        let attempt = lookups.want(want, deadline - FOR_THE_ANSWER).await;
        let mut judged = self.judge(body, &self.facts.snapshot(), attempt.as_ref(), Timestamp::now())?;
        // A dry run waits once and is then told what is missing.
        if let Some(Attempt { digest, end: AttemptEnd::Reading(from) }) = &attempt
            && judged.verdict.result == verdict::Result::Unknown
            && !judged.dry_run
        {
            judged.response = judged.response.ask_again(*digest, from);
            judged.asked_again = true;
        }
        Ok(judged)
    }

    /// What the nodes' registries say, where a verdict hangs on it: not where another policy refuses anyway.
    async fn ask_nodes(&self, judged: Judged, body: &[u8], deadline: Instant) -> Result<Judged, BadInput> {
        let (Some(lookups), Some((policy, question))) = (&self.lookups, &judged.verdict.question) else {
            return Ok(judged);
        };
        if judged.asked_again || judged.verdict.denials.iter().any(|denial| denial.policy != *policy) {
            return Ok(judged);
        }
        let (cluster, registries) = (self.facts.snapshot(), &lookups.source);
        let answers = registries.nodes.ask(&registries.access, &cluster, question, deadline - FOR_THE_ANSWER).await;
        let cluster = Arc::new(Snapshot { node_registries: Some(answers), ..Snapshot::clone(&cluster) });
        self.judge(body, &cluster, None, Timestamp::now())
    }

    fn judge(
        &self,
        body: &[u8],
        cluster: &Arc<Snapshot>,
        attempt: Option<&Attempt>,
        now: Timestamp,
    ) -> Result<Judged, BadInput> {
        let (catalog, signatures) = (self.facts.catalog(), self.facts.signatures());
        let checks = self.lookups.as_ref().map(|lookups| lookups.source.components.checks()).unwrap_or_default();
        let facts = engine::Facts {
            cluster,
            catalog: &catalog,
            attempt,
            checks: &checks,
            signatures: &signatures,
            settings: &self.settings,
            now,
        };
        let mut judged = engine::judge(body, facts)?;
        inputs::annotate(&mut judged, &self.inputs.of(cluster, &catalog, &self.settings), now);
        Ok(judged)
    }

    /// After the answer is decided: one log line for what matters, one record of each override.
    fn record(&self, judged: &Judged) {
        if let Some(resource) = &judged.unguarded {
            tracing::debug!(resource, "allowed: no policy guards this resource");
            return;
        }
        if judged.asked_again {
            return tracing::info!(kind = judged.kind, "the client asks again: a release is being read");
        }
        for finding in &judged.verdict.findings {
            let refused = judged.verdict.denials.iter().any(|denial| denial.policy == finding.policy);
            self.metrics.finding(finding.policy, outcome_of(finding.outcome), refused && !finding.overridden);
        }
        for denial in &judged.verdict.denials {
            let what = &*denial.text.what;
            tracing::info!(policy = denial.policy, kind = judged.kind, dry_run = judged.dry_run, what, "denied");
        }
        // A dry run leaves no trace of an override: nothing was done.
        if !judged.dry_run {
            for used in &judged.verdict.overrides {
                self.events.override_used(judged, used);
            }
        }
    }
}

fn outcome(judged: &Judged) -> Outcome {
    if judged.asked_again { Outcome::Reading } else { outcome_of(judged.verdict.result) }
}

fn outcome_of(result: verdict::Result) -> Outcome {
    match result {
        verdict::Result::Allow => Outcome::Allow,
        verdict::Result::Warn => Outcome::Warn,
        verdict::Result::Deny => Outcome::Deny,
        verdict::Result::Unknown => Outcome::Unknown,
    }
}

fn answer(response: Response) -> Answer {
    match serde_json::to_vec(&response.into_review()) {
        Ok(body) => Answer { status: StatusCode::OK, body: body.into() },
        Err(error) => Answer { status: StatusCode::INTERNAL_SERVER_ERROR, body: error.to_string().into() },
    }
}

/// With a uid it is a review that refuses; without one there is nothing to answer but a transport status.
fn bad_input(bad: &BadInput) -> Answer {
    match &bad.uid {
        Some(uid) => answer(Response::to_bad_input(uid, bad)),
        None => {
            let body = serde_json::json!({"error": crate::text::shown(&bad.message)});
            Answer { status: StatusCode::BAD_REQUEST, body: body.to_string().into() }
        }
    }
}
