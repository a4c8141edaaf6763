//! What the server and the commands hold of the world: the cluster's facts and the release catalog.
//!
//! Invariants: reading never locks and never waits; what is published is never changed, only
//! replaced; files that are gone or broken are gone from here too, at the latest at the next poll.

mod files;
mod signatures;
mod status;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use crate::action::Stored;
use crate::cluster::{Missing, Snapshot};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::pullspec::Digest;
use crate::release::{Catalog, Release};
use crate::resource::{Resource, ResourceId};
use crate::saved::Objects;
use crate::signature::Signatures;
use crate::signatures::FromFiles;
use crate::watch::{self, Timing, WatchTasks, Watches};
use files::Files;
pub use files::OnSite;

/// Releases kept that were read from registries; the one read first goes.
const RELEASES_READ: usize = 512;

/// A release that was read from a registry.
#[derive(Clone, Debug)]
struct Read {
    release: Release,
    /// It is on a mirror of the site, the cluster's own objects name it, or a release signature proves it.
    vouched: bool,
}

/// Cheap to clone; all clones see the same.
#[derive(Clone, Debug)]
pub struct Facts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cluster: Cluster,
    files: ArcSwap<Files>,
    /// Read from registries; only whoever adds one takes turns at it.
    read: Mutex<Vec<Read>>,
    /// The files' and those.
    catalog: ArcSwap<Catalog>,
    signatures: signatures::Current,
}

enum Cluster {
    /// From the state directory among the files.
    State,
    Watched(Client, Watches),
    /// Read once from an API server.
    Once(Client, Arc<Snapshot>),
    Given(Arc<Snapshot>),
}

/// Whether to be called ready, and what for not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    pub ready: bool,
    /// Resources that were not listed yet and are neither absent nor denied.
    pub waiting_for: Vec<String>,
}

impl Facts {
    /// From `--state DIR`, read before this returns.
    #[must_use]
    pub fn from_state(state: PathBuf, on_site: impl Into<OnSite>) -> Self {
        Self::new(Cluster::State, Files::read(Some(state), on_site.into()))
    }

    /// From the API server's watches; the releases are read before this returns, the watches come later.
    #[must_use]
    pub fn live(client: Client, on_site: impl Into<OnSite>, timing: Timing) -> (Self, WatchTasks) {
        let (watches, tasks) = Watches::start(&client, timing);
        (Self::new(Cluster::Watched(client, watches), Files::read(None, on_site.into())), tasks)
    }

    /// From one reading of the API server, for a command.
    pub async fn once(client: Client, on_site: impl Into<OnSite>, deadline: Instant) -> Self {
        let snapshot = watch::read_once(&client, deadline).await;
        Self::new(Cluster::Once(client, Arc::new(snapshot)), Files::read(None, on_site.into()))
    }

    /// From what is on site, without a cluster.
    #[must_use]
    pub fn without_cluster(why: &str, on_site: OnSite) -> Self {
        Self::new(Cluster::Given(Arc::new(Snapshot::nothing(why))), Files::read(None, on_site))
    }

    /// From what somebody else made, such as a policy's case.
    #[must_use]
    pub fn given(snapshot: Snapshot, catalog: Catalog) -> Self {
        Self::new(Cluster::Given(Arc::new(snapshot)), Files::given(catalog))
    }

    fn new(cluster: Cluster, files: Files) -> Self {
        for problem in files.problems.iter() {
            tracing::warn!(file = %problem.file, "{}", problem.message);
        }
        let catalog = ArcSwap::new(files.catalog.clone());
        let facts = Self(Arc::new(Inner {
            cluster,
            files: ArcSwap::from_pointee(files),
            read: Mutex::default(),
            catalog,
            signatures: signatures::Current::new(),
        }));
        let _ = facts.signatures();
        facts
    }

    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        match &self.0.cluster {
            Cluster::State => self.0.files.load().snapshot.clone(),
            Cluster::Watched(_, watches) => watches.snapshot(),
            Cluster::Once(_, snapshot) | Cluster::Given(snapshot) => snapshot.clone(),
        }
    }

    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load_full()
    }

    /// What is known of release signatures. Verifies what is new, which nobody waits for who asks meanwhile.
    #[must_use]
    pub fn signatures(&self) -> Arc<Signatures> {
        self.0.signatures.of(&self.snapshot(), &self.0.files.load().signatures)
    }

    /// Adds a release that was read from a registry. What nobody vouches for answers for its own digest only, and is
    /// the first to go.
    pub fn add_release(&self, release: Release, vouched: bool) {
        let mut read = self.reading();
        if read.iter().all(|known| known.release.digest != release.digest) {
            if read.len() >= RELEASES_READ {
                let first = read.iter().position(|known| !known.vouched).unwrap_or_default();
                read.remove(first);
            }
            read.push(Read { release, vouched });
        }
        self.publish_catalog(&read);
    }

    /// The cluster's objects name these by now.
    pub fn vouch(&self, named: &dyn Fn(Digest) -> bool) {
        let mut read = self.reading();
        let mut changed = false;
        for known in read.iter_mut().filter(|known| !known.vouched && named(known.release.digest)) {
            known.vouched = true;
            changed = true;
        }
        if changed {
            self.publish_catalog(&read);
        }
    }

    fn reading(&self) -> MutexGuard<'_, Vec<Read>> {
        self.0.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read from registries.
    #[must_use]
    pub fn read_releases(&self) -> Vec<Release> {
        self.reading().iter().map(|known| known.release.clone()).collect()
    }

    /// Whoever publishes holds the lock: what was published last is made of everything.
    fn publish_catalog(&self, read: &[Read]) {
        let files = self.0.files.load().catalog.clone();
        let of = |vouched: bool| {
            read.iter().filter(move |known| known.vouched == vouched).map(|known| known.release.clone())
        };
        let catalog = match read {
            [] => files,
            _ => Arc::new(Catalog::clone(&files).with(of(true)).with_hearsay(of(false))),
        };
        self.0.catalog.store(catalog);
    }

    /// What could not be read of the state and release directories.
    #[must_use]
    pub fn problems(&self) -> Arc<Vec<Problem>> {
        self.0.files.load().problems.clone()
    }

    /// The watches, where there are any.
    #[must_use]
    pub fn watches(&self) -> Option<&Watches> {
        match &self.0.cluster {
            Cluster::Watched(_, watches) => Some(watches),
            _ => None,
        }
    }

    /// The snapshot for an allow that cannot be undone: ClusterVersion, pools and rendered configs read
    /// live where there is an API server. What could not be read by the deadline is unknown, even where a
    /// watch has a value: it may be the one that matters that the watch has not seen.
    pub async fn refresh_for_irreversible(&self, deadline: Instant) -> Snapshot {
        let snapshot = Snapshot::clone(&self.snapshot());
        let Cluster::Watched(client, _) = &self.0.cluster else { return snapshot };
        let live = watch::live_read(client, deadline).await;
        Snapshot {
            cluster_version: live.cluster_version,
            machine_config_pools: live.machine_config_pools,
            rendered_releases: live.rendered_releases,
            ..snapshot
        }
    }

    /// The stored object of a request that does not bring it along.
    pub async fn object(
        &self,
        resource: &ResourceId,
        namespace: Option<&str>,
        name: &str,
        deadline: Instant,
    ) -> Stored {
        match &self.0.cluster {
            Cluster::Watched(client, _) | Cluster::Once(client, _) => {
                watch::get(client, resource, name, deadline).await
            }
            Cluster::State | Cluster::Given(_) => match &self.0.files.load().state {
                Some(state) => state.object(resource, namespace, name),
                None => Stored::Unknown(Missing {
                    why: format!("no cluster was given to look {resource} {name} up in"),
                    remedy: "name one with --state DIR or --kubeconfig FILE".into(),
                }),
            },
        }
    }

    /// What the files beside the cluster say of signatures, to be saved.
    #[must_use]
    pub fn signature_files(&self) -> FromFiles {
        self.0.files.load().signatures.clone()
    }

    /// Every object that airgate reads, whole, to be saved.
    ///
    /// # Errors
    /// Where there is no cluster to save.
    pub async fn save(&self, deadline: Instant) -> Result<Objects, &'static str> {
        match &self.0.cluster {
            Cluster::Watched(client, _) | Cluster::Once(client, _) => Ok(watch::save(client, deadline).await),
            Cluster::State | Cluster::Given(_) => match &self.0.files.load().state {
                Some(state) => Ok(state.save()),
                None => Err("no cluster was given: name one with --state DIR or --kubeconfig FILE"),
            },
        }
    }

    /// Sets or removes an annotation of a stored object, as it was read; yields the API server's warnings. `None`
    /// where there is no API server.
    pub async fn annotate(
        &self,
        resource: &Resource,
        object: &serde_json::Value,
        annotation: (&str, Option<&str>),
        patience: Duration,
    ) -> Option<Result<Vec<String>, watch::WriteError>> {
        let (key, text) = annotation;
        match &self.0.cluster {
            Cluster::Watched(client, _) | Cluster::Once(client, _) => {
                Some(watch::annotate(client, resource, object, key, text, patience).await)
            }
            Cluster::State | Cluster::Given(_) => None,
        }
    }

    #[must_use]
    pub fn ready(&self) -> Readiness {
        let waiting_for = self.watches().map(Watches::waiting_for).unwrap_or_default();
        if waiting_for.is_empty() {
            // The first review finds verified what was there at the start.
            let _ = self.signatures();
        }
        Readiness { ready: waiting_for.is_empty(), waiting_for }
    }

    /// For `/statusz`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> serde_json::Value {
        status::describe(self, &self.0.files.load(), now)
    }

    /// What of them an alert can rest on.
    pub fn observe(&self, metrics: &Metrics) {
        status::observe(self, metrics);
    }

    /// Reads the directories again if anything in them changed; yields whether it did.
    #[must_use]
    pub fn reload_if_changed(&self) -> bool {
        let old = self.0.files.load_full();
        let Some(new) = old.changed() else { return false };
        tracing::info!(
            releases = new.catalog.len(),
            problems = new.problems.len(),
            "files changed and were read again"
        );
        for problem in new.problems.iter().filter(|problem| !old.problems.contains(problem)) {
            tracing::warn!(file = %problem.file, "{}", problem.message);
        }
        self.0.files.store(Arc::new(new));
        self.publish_catalog(&self.reading());
        true
    }

    /// Verifies new signatures before a review meets them.
    fn reload_and_verify(&self) {
        let _ = self.reload_if_changed();
        let _ = self.signatures();
    }

    /// Follows the directories for ever, never using more than a small part of a CPU for it. Polling and
    /// not inotify: it is the same on every file system and for kubelet's exchange of links.
    ///
    /// Ends only with what killed it; whoever wires the process ends it then.
    pub async fn poll_files(&self, every: Duration) -> String {
        loop {
            let facts = self.clone();
            let start = Instant::now();
            if let Err(error) = tokio::task::spawn_blocking(move || facts.reload_and_verify()).await {
                return format!("reading the state and release directories ended: {error}");
            }
            tokio::time::sleep(every.max(start.elapsed() * 20)).await;
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::State => "State",
            Self::Watched(..) => "Watched",
            Self::Once(..) => "Once",
            Self::Given(_) => "Given",
        })
    }
}

#[cfg(test)]
mod tests;
