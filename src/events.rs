//! What an override leaves behind beside its warning and audit annotation: a metric and an Event.
//!
//! One admin action can be reviewed several times and by several replicas, so both go by content: the Event's
//! name is made of it, and the counter counts a content once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::mpsc;

use crate::engine::Judged;
use crate::metrics::Metrics;
use crate::text::shown;
use crate::verdict::UsedOverride;

/// Events waiting to be written; more are dropped and logged, a review never waits for them.
const QUEUE: usize = 64;
/// Between two Events.
const PACE: Duration = Duration::from_secs(1);
/// Contents remembered so as to be counted once.
const REMEMBERED: usize = 4096;
/// Events of cluster-scoped objects live here, as the API server's own validation demands.
pub const NAMESPACE: &str = "default";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    policy: &'static str,
}

/// Counts and queues.
#[derive(Debug)]
pub struct Events {
    used: Family<PolicyLabel, Counter>,
    seen: Mutex<BTreeSet<u64>>,
    queue: Option<mpsc::Sender<Event>>,
}

/// Writes Events to the API server.
#[derive(Debug)]
pub struct Recorder {
    client: ClientOf,
    sender: mpsc::Sender<Event>,
    receiver: mpsc::Receiver<Event>,
}

/// A client has nothing to show.
struct ClientOf(Client);

impl std::fmt::Debug for ClientOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Events {
    #[must_use]
    pub fn new(metrics: &Metrics, recorder: Option<&Recorder>) -> Self {
        let used = Family::<PolicyLabel, Counter>::default();
        let registered = used.clone();
        metrics.register(|registry| {
            registry.register("overrides_used", "Steps that an override opened, each content once", registered);
        });
        Self { used, seen: Mutex::default(), queue: recorder.map(|recorder| recorder.sender.clone()) }
    }

    /// Leaves a record of an override's use, unless the same content has one.
    pub fn override_used(&self, judged: &Judged, used: &UsedOverride) {
        let UsedOverride { policy, entry, user: who } = used;
        let mut hasher = DefaultHasher::new();
        (policy, &entry.from, &entry.target, &entry.reason, entry.expires, who, judged.kind, &judged.name)
            .hash(&mut hasher);
        let content = hasher.finish();
        let Ok(mut seen) = self.seen.lock() else { return };
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        if !seen.insert(content) {
            return;
        }
        drop(seen);
        self.used.get_or_create(&PolicyLabel { policy }).inc();
        let why = shown(&entry.reason);
        let user = shown(who);
        let (from, step) = (shown(&entry.from), shown(&entry.target));
        tracing::warn!(policy, kind = judged.kind, %from, step_target = %step, reason = %why, %user, "override used");
        let expires = entry.expires;
        let message =
            format!("{user} used the override of {policy} for {from} -> {step} (reason: {why}, expires {expires})");
        if let Some(queue) = &self.queue {
            let event = event(content, judged.kind, &judged.name, message);
            if queue.try_send(event).is_err() {
                tracing::warn!(policy, "too many Events wait to be written: this override has none");
            }
        }
    }
}

fn event(content: u64, kind: &str, name: &str, message: String) -> Event {
    let now = Time(Timestamp::now());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("airgate-override.{content:016x}")),
            namespace: Some(NAMESPACE.into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: Some(kind.into()),
            name: Some(name.into()),
            ..ObjectReference::default()
        },
        reason: Some("OverrideUsed".into()),
        message: Some(message),
        type_: Some("Warning".into()),
        source: Some(EventSource { component: Some("airgate".into()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

impl Recorder {
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { client: ClientOf(client), sender, receiver }
    }

    /// Writes what is queued, for ever. An Event that exists already was written by another replica.
    pub async fn run(mut self) -> &'static str {
        let api: Api<Event> = Api::namespaced(self.client.0, NAMESPACE);
        while let Some(event) = self.receiver.recv().await {
            // Anybody who reaches /validate can have one written: never more than a trickle.
            tokio::time::sleep(PACE).await;
            match api.create(&PostParams::default(), &event).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    tracing::warn!(%error, "an Event could not be written; airgate needs the verb create on events in namespace {NAMESPACE}");
                }
            }
        }
        "nobody is left who could send an Event"
    }
}
