//! What airgate leaves behind for people who look later: Events and the metric of used overrides.
//!
//! One admin action can be reviewed several times and by several replicas, so both go by content: the Event's
//! name is made of it, and the counter counts a content once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
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
use crate::policies::POLICIES;
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

/// Counts and queues. Clones share what they have seen.
#[derive(Clone, Debug)]
pub struct Events {
    used: Family<PolicyLabel, Counter>,
    seen: Arc<Mutex<BTreeSet<u64>>>,
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
        // A counter that appears with its first count has not risen, to whoever asks for the rise.
        for policy in POLICIES {
            drop(used.get_or_create(&PolicyLabel { policy: policy.id }));
        }
        let registered = used.clone();
        metrics.register(|registry| {
            registry.register("overrides_used", "Steps that an override opened, each content once", registered);
        });
        Self { used, seen: Arc::default(), queue: recorder.map(|recorder| recorder.sender.clone()) }
    }

    /// Leaves a record of an override's use, unless the same content has one.
    pub fn override_used(&self, judged: &Judged, used: &UsedOverride) {
        let UsedOverride { policy, entry, user: who } = used;
        let mut hasher = DefaultHasher::new();
        (policy, &entry.from, &entry.target, &entry.reason, entry.expires, who, judged.kind, &judged.name)
            .hash(&mut hasher);
        let content = hasher.finish();
        if !self.first_time(content) {
            return;
        }
        self.used.get_or_create(&PolicyLabel { policy }).inc();
        let why = shown(&entry.reason);
        let user = shown(who);
        let (from, step) = (shown(&entry.from), shown(&entry.target));
        tracing::warn!(policy, kind = judged.kind, %from, step_target = %step, reason = %why, %user, "override used");
        let expires = entry.expires;
        let message =
            format!("{user} used the override of {policy} for {from} -> {step} (reason: {why}, expires {expires})");
        self.send(
            &Notice { what: "override", reason: "OverrideUsed", kind: judged.kind, name: &judged.name, message },
            content,
        );
    }

    /// Writes an Event whose name is made of `content`: one that is still there is not written again, whichever
    /// replica wrote it.
    pub fn announce(&self, notice: &Notice<'_>, content: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (notice.what, content).hash(&mut hasher);
        self.send(notice, hasher.finish());
    }

    fn first_time(&self, content: u64) -> bool {
        let Ok(mut seen) = self.seen.lock() else { return false };
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        seen.insert(content)
    }

    fn send(&self, notice: &Notice<'_>, content: u64) {
        if let Some(queue) = &self.queue
            && queue.try_send(event(content, notice)).is_err()
        {
            tracing::warn!(
                reason = notice.reason,
                object = notice.name,
                "too many Events wait to be written: this has none"
            );
        }
    }
}

/// What an Event says.
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    /// Part of the Event's name.
    pub what: &'static str,
    pub reason: &'static str,
    pub kind: &'static str,
    pub name: &'a str,
    /// Cut to what the API server takes.
    pub message: String,
}

/// The longest message of an Event.
const MESSAGE_MAX: usize = 1024;

fn event(content: u64, notice: &Notice<'_>) -> Event {
    let message = notice.message[..notice.message.floor_char_boundary(MESSAGE_MAX)].to_owned();
    let now = Time(Timestamp::now());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("airgate-{}.{content:016x}", notice.what)),
            namespace: Some(NAMESPACE.into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: Some(notice.kind.into()),
            name: Some(notice.name.into()),
            ..ObjectReference::default()
        },
        reason: Some(notice.reason.into()),
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
