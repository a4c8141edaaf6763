//! The life of one watch: discover, list, watch, and again, for ever.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::io::AsyncBufReadExt;
use jiff::Timestamp;
use kube::Client;
use kube::core::Status;
use tokio::time::Instant;

use super::Timing;
use super::api::{Endpoint, Failure, Head, Line, cause};
use super::kind::{Kind, Objects};
use super::published::{Dated, Moment, Published};
use super::status::{State, WatchStatus};
use crate::cluster::{Fact, Missing, Provenance};

/// How a watch ended that did not fail.
enum End {
    Closed,
    Silent,
}

pub(super) struct Task<T, S> {
    kind: Kind<T, S>,
    client: Client,
    timing: Timing,
    snapshot: Published<S>,
    shared: Arc<ArcSwap<WatchStatus>>,
    status: WatchStatus,
    objects: Objects<T>,
    /// When the objects were last known to be true; `None` before the first complete list.
    as_of: Option<Moment>,
    /// Since when the API server does nothing but deny.
    denied_since: Option<Instant>,
    /// Why the fact is unknown although there may be objects from before.
    unknown: Option<Missing>,
    pause: Duration,
}

impl<T: Clone + Send + Sync + 'static, S: Dated + Send + Sync + 'static> Task<T, S> {
    pub fn new(
        kind: Kind<T, S>,
        client: Client,
        timing: Timing,
        snapshot: Published<S>,
        shared: Arc<ArcSwap<WatchStatus>>,
    ) -> Self {
        let status = WatchStatus::clone(&shared.load());
        let pause = timing.retry_first;
        Self {
            kind,
            client,
            timing,
            snapshot,
            shared,
            status,
            objects: Objects::new(),
            as_of: None,
            denied_since: None,
            unknown: None,
            pause,
        }
    }

    pub async fn run(mut self) {
        loop {
            match Endpoint::discover(&self.client, self.kind.resource, self.timing.request).await {
                Ok(Some(version)) => {
                    let endpoint = Endpoint::new(&self.client, self.kind.resource, version, self.timing.request);
                    self.follow(&endpoint).await;
                    // No longer there, or not served yet although it was discovered.
                    self.failed(&Failure::NotFound);
                    self.pause().await;
                }
                Ok(None) => {
                    self.absent();
                    tokio::time::sleep(self.timing.rediscover).await;
                }
                Err(failure) => {
                    self.failed(&failure);
                    self.pause().await;
                }
            }
        }
    }

    /// Lists and watches until the API server no longer knows the resource.
    async fn follow(&mut self, endpoint: &Endpoint) {
        self.status.version = Some(endpoint.version);
        loop {
            let mut version = match self.list(endpoint).await {
                Ok(version) => version,
                Err(Failure::NotFound) => return,
                Err(failure) => {
                    self.failed(&failure);
                    self.pause().await;
                    continue;
                }
            };
            loop {
                let heard = (self.status.events, self.status.bookmarks);
                match self.watch(endpoint, &mut version).await {
                    Ok(End::Closed) if heard != (self.status.events, self.status.bookmarks) => {}
                    // A watch that ends without a sign of life proves nothing: list again.
                    Ok(End::Closed) => {
                        self.pause().await;
                        break;
                    }
                    // Either the connection is dead, or nothing changed and the API server sends no
                    // bookmarks for it (none before the first change since its start): the list tells.
                    Ok(End::Silent) => break,
                    Err(Failure::NotFound) => return,
                    Err(failure) => {
                        self.failed(&failure);
                        self.pause().await;
                        if failure == Failure::Gone {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn list(&mut self, endpoint: &Endpoint) -> Result<String, Failure> {
        // What the list says was true when it was asked for, at the latest.
        let asked = Moment::now();
        let mut objects = Objects::new();
        let mut bad = vec![];
        let version = endpoint
            .list(|text| {
                let name = head(text).metadata.name;
                match (self.kind.project)(text) {
                    Ok(object) => drop(objects.insert(name, object)),
                    Err(fault) => bad.push((name, fault)),
                }
            })
            .await?;
        self.objects = objects;
        self.status.bad_objects.clear();
        for (name, fault) in bad {
            self.bad(name, fault);
        }
        self.status.lists += 1;
        self.status.resource_version = Some(version.clone());
        self.recovered();
        self.heard(asked);
        Ok(version)
    }

    /// One watch until the API server ends it; `version` follows what was seen.
    async fn watch(&mut self, endpoint: &Endpoint, version: &mut String) -> Result<End, Failure> {
        let stream = endpoint.watch(version, self.timing.watch).await?;
        self.recovered();
        self.publish();
        let mut stream = std::pin::pin!(stream);
        let mut line = vec![];
        loop {
            line.clear();
            match tokio::time::timeout(self.timing.silence, stream.read_until(b'\n', &mut line)).await {
                Ok(Ok(0)) => return Ok(End::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(Failure::Other(format!("the watch broke off: {}", cause(&error)))),
                Err(_) => return Ok(End::Silent),
            }
            let text = std::str::from_utf8(&line).map_err(|_| Failure::Other("an event is not UTF-8".into()))?;
            // A line that was cut off is a lost connection: the event comes again.
            let event: Line<'_> =
                serde_json::from_str(text).map_err(|error| Failure::Other(format!("an event is cut off: {error}")))?;
            self.event(&event, version)?;
        }
    }

    fn event(&mut self, event: &Line<'_>, version: &mut String) -> Result<(), Failure> {
        let text = event.object.get();
        if event.kind == "ERROR" {
            let status: Status = serde_json::from_str(text).unwrap_or_default();
            return Err(kube::Error::Api(status.boxed()).into());
        }
        let head = head(text).metadata;
        match &*event.kind {
            "ADDED" | "MODIFIED" => match (self.kind.project)(text) {
                Ok(object) => {
                    self.status.bad_objects.remove(&head.name);
                    self.objects.insert(head.name, object);
                }
                Err(fault) => {
                    self.objects.remove(&head.name);
                    self.bad(head.name, fault);
                }
            },
            "DELETED" => {
                self.status.bad_objects.remove(&head.name);
                self.objects.remove(&head.name);
            }
            // A bookmark, or a sign of life that later versions may add.
            _ => {}
        }
        if event.kind == "BOOKMARK" {
            self.status.bookmarks += 1;
        } else {
            self.status.events += 1;
            self.status.last_event = Some(Timestamp::now());
        }
        if !head.resource_version.is_empty() {
            self.status.resource_version = Some(head.resource_version.clone());
            *version = head.resource_version;
        }
        self.heard(Moment::now());
        Ok(())
    }

    fn bad(&mut self, name: String, fault: String) {
        let resource = &self.status.resource;
        tracing::warn!(%resource, object = %name, %fault, "an object cannot be read; its fact is unknown until it is mended");
        self.status.bad_events += 1;
        self.status.bad_objects.insert(name, fault);
    }

    fn heard(&mut self, as_of: Moment) {
        self.as_of = Some(as_of);
        self.status.last_heard = Some(as_of.as_of());
        self.publish();
    }

    fn recovered(&mut self) {
        if self.status.state != State::Watching {
            tracing::info!(resource = %self.status.resource, version = ?self.status.version, "watching");
        }
        self.status.state = State::Watching;
        self.status.ready = true;
        self.status.trouble = None;
        self.unknown = None;
        self.denied_since = None;
        self.pause = self.timing.retry_first;
    }

    fn absent(&mut self) {
        if self.status.state != State::Absent {
            tracing::info!(resource = %self.status.resource, "the cluster does not have this resource");
        }
        self.objects.clear();
        self.status.bad_objects.clear();
        self.status.state = State::Absent;
        self.status.version = None;
        self.status.ready = true;
        self.status.trouble = None;
        self.unknown = None;
        self.denied_since = None;
        self.pause = self.timing.retry_first;
        self.heard(Moment::now());
    }

    fn failed(&mut self, failure: &Failure) {
        // Part of normal life: the list that follows is the answer.
        if *failure == Failure::Gone {
            let (resource, after) = (&self.status.resource, &self.status.resource_version);
            tracing::info!(%resource, ?after, "the API server no longer has what changed since (410 Gone): listing again");
            return;
        }
        let missing = failure.missing(self.kind.resource);
        let denied = matches!(failure, Failure::Denied(_));
        self.status.state = if denied { State::Denied } else { State::Failing };
        self.status.ready |= denied;
        self.status.errors += 1;
        if self.status.trouble.as_ref() != Some(&missing.why) {
            tracing::warn!(resource = %self.status.resource, remedy = %missing.remedy, "{}", missing.why);
        }
        self.status.trouble = Some(missing.why.clone());
        self.status.last_error = Some(missing.why.clone());
        self.status.last_error_at = Some(Timestamp::now());
        if matches!(failure, Failure::Busy(_)) {
            self.pause = self.timing.retry_first * 2;
        }
        // A lost connection leaves what is known, with its age; a lasting denial does not.
        self.denied_since = denied.then(|| self.denied_since.unwrap_or_else(Instant::now));
        let outlived = self.denied_since.is_some_and(|since| since.elapsed() >= self.timing.denied_grace);
        if outlived || self.as_of.is_none() {
            self.unknown = Some(missing);
        }
        self.publish();
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(self.timing.retry_most);
    }

    fn fact(&self) -> Fact<&Objects<T>> {
        let provenance = |as_of| Provenance { source: "watch".into(), as_of, watched: true };
        let resource = &self.status.resource;
        match (&self.unknown, self.as_of.map(|at| at.as_of()), self.status.bad_objects.first_key_value()) {
            (Some(missing), ..) => Fact::Unknown(missing.clone()),
            (None, None, _) => Fact::unknown(format!("{resource} was not listed yet"), "wait until airgate is ready"),
            (None, Some(as_of), _) if self.status.state == State::Absent => Fact::Absent(provenance(as_of)),
            (None, Some(_), Some((name, fault))) => {
                Fact::unknown(format!("{resource} {name}: {fault}"), format!("mend it: oc edit {resource} {name}"))
            }
            (None, Some(as_of), None) => Fact::Known(&self.objects, provenance(as_of)),
        }
    }

    fn publish(&mut self) {
        self.status.objects = self.objects.len();
        let fact = self.fact();
        self.snapshot.change(|snapshot| (self.kind.put)(snapshot, fact.clone()));
        self.shared.store(Arc::new(self.status.clone()));
    }
}

fn head(text: &str) -> Head {
    serde_json::from_str(text).unwrap_or_default()
}
