//! Facts of a live cluster: one list-and-watch task a resource, one published [`Snapshot`].
//!
//! Invariants: readers never lock; each task writes only its own fact; a fact is never known before
//! its first complete list; a bad object, a denied watch or a lost connection touches no other fact.
//!
//! The loop is ours and not kube's `watcher`, because that one swallows bookmarks, and a bookmark is the
//! only sign of life of a resource that does not change.

mod api;
mod client;
mod kind;
mod live;
mod published;
mod status;
mod task;
mod write;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use kube::Client;
use tokio::task::JoinSet;

pub(crate) use api::cause;
pub use client::{ConnectError, connect};
pub use live::{LiveFacts, get, live_read, read_once, save};
pub use status::{State, WatchStatus};
pub use write::{WriteError, annotate};

use crate::cluster::{Fact, Snapshot};
use crate::objects::api_server::ApiServer;
use kind::Kind;
use published::{Dated, Published};
use task::Task;

/// How often and how patiently.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between looks for a resource that the cluster does not have.
    pub rediscover: Duration,
    pub retry_first: Duration,
    pub retry_most: Duration,
    /// After which the API server ends a watch; below [`crate::cluster::STALE_AFTER`].
    pub watch: Duration,
    /// A watch without a byte for so long is given up and listed again: bookmarks come every minute, where
    /// they come.
    pub silence: Duration,
    /// How long facts outlive a denial: an API server that has just started denies everything until it has
    /// read its RBAC rules.
    pub denied_grace: Duration,
    /// For everything that is not a watch.
    pub request: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            rediscover: Duration::from_secs(15),
            retry_first: Duration::from_millis(500),
            retry_most: Duration::from_secs(5),
            watch: Duration::from_mins(4),
            silence: Duration::from_secs(100),
            denied_grace: Duration::from_mins(1),
            request: Duration::from_mins(1),
        }
    }
}

/// What the watches know. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watches {
    snapshot: Published<Snapshot>,
    api_server: Published<Fact<ApiServer<'static>>>,
    statuses: Vec<Arc<ArcSwap<WatchStatus>>>,
}

/// The running watches; dropped, they end.
#[derive(Debug)]
pub struct WatchTasks(JoinSet<()>);

impl Watches {
    /// Starts all watches. Needs a tokio runtime.
    #[must_use]
    pub fn start(client: &Client, timing: Timing) -> (Self, WatchTasks) {
        let nothing = Snapshot::nothing("the API server has not been read yet");
        let no_profile = Fact::unknown("the API server has not been read yet", "wait until airgate is ready");
        let mut watches =
            Self { snapshot: Published::new(nothing), api_server: Published::new(no_profile), statuses: vec![] };
        let mut tasks = JoinSet::new();
        watches.spawn(&mut tasks, client, timing, kind::cluster_version());
        watches.spawn(&mut tasks, client, timing, kind::internal_release_image());
        watches.spawn(&mut tasks, client, timing, kind::machine_config_nodes());
        watches.spawn(&mut tasks, client, timing, kind::machine_config_pools());
        watches.spawn(&mut tasks, client, timing, kind::rendered_releases());
        watches.spawn(&mut tasks, client, timing, kind::infrastructure());
        watches.spawn(&mut tasks, client, timing, kind::image_digest_mirror_sets());
        watches.spawn(&mut tasks, client, timing, kind::image_tag_mirror_sets());
        watches.spawn(&mut tasks, client, timing, kind::image_content_source_policies());
        watches.spawn(&mut tasks, client, timing, kind::image_config());
        watches.spawn(&mut tasks, client, timing, kind::release_signatures());
        watches.spawn(&mut tasks, client, timing, kind::release_verification());
        watches.spawn(&mut tasks, client, timing, kind::control_plane_nodes());
        watches.spawn(&mut tasks, client, timing, kind::catalog_sources());
        watches.spawn(&mut tasks, client, timing, kind::cluster_catalogs());
        let of_tls = watches.api_server.clone();
        watches.spawn_into(of_tls, &mut tasks, client, timing, kind::api_server());
        (watches, WatchTasks(tasks))
    }

    fn spawn<T>(&mut self, tasks: &mut JoinSet<()>, client: &Client, timing: Timing, kind: Kind<T>)
    where
        T: Clone + Send + Sync + 'static,
    {
        self.spawn_into(self.snapshot.clone(), tasks, client, timing, kind);
    }

    fn spawn_into<T, S>(
        &mut self,
        place: Published<S>,
        tasks: &mut JoinSet<()>,
        client: &Client,
        timing: Timing,
        kind: Kind<T, S>,
    ) where
        T: Clone + Send + Sync + 'static,
        S: Dated + Send + Sync + 'static,
    {
        let status = Arc::new(ArcSwap::from_pointee(WatchStatus::new(kind.resource)));
        self.statuses.push(status.clone());
        let task = Task::new(kind, client.clone(), timing, place, status);
        tasks.spawn(task.run());
    }

    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load()
    }

    /// The APIServer `cluster`, which says what TLS is to be like.
    #[must_use]
    pub fn api_server(&self) -> Arc<Fact<ApiServer<'static>>> {
        self.api_server.load()
    }

    /// Diagnostics of each watch, for `/statusz` and metrics.
    #[must_use]
    pub fn statuses(&self) -> Vec<Arc<WatchStatus>> {
        self.statuses.iter().map(|status| status.load_full()).collect()
    }

    /// The resources that were not listed yet and are neither absent nor denied to us.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<String> {
        self.statuses().iter().filter(|status| !status.ready).map(|status| status.resource.clone()).collect()
    }
}

impl WatchTasks {
    /// Waits until a watch ends, which it never should: whoever wires the process ends it then, since
    /// a guard whose facts have stopped is worse than one that restarts.
    pub async fn ended(&mut self) -> String {
        match self.0.join_next().await {
            Some(Err(error)) => format!("a watch ended: {error}"),
            Some(Ok(())) | None => "a watch ended".into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
