//! The release that runs, the one that is asked for, and what the CVO says about both.

use serde::Serialize;

use super::{Notice, Presence, clean};
use crate::engine::Facts;
use crate::objects::cluster_version::{ClusterVersion, DesiredUpdate, Status};
use crate::pullspec::Digest;
use crate::release::Catalog;
use crate::version;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Of the ClusterVersion.
    pub state: Presence,
    /// The control plane is hosted: ClusterVersion policies only warn here.
    pub hosted: bool,
    pub channel: String,
    pub current: Option<Running>,
    pub pending: Option<Pending>,
    /// Conditions that are not as they are in a cluster at rest.
    pub conditions: Vec<Notice>,
}

/// `status.desired` and what `status.history` says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    pub version: String,
    pub image: String,
    pub digest: Option<String>,
    pub architecture: String,
    /// Of the newest history entry: Completed or Partial; null without one.
    pub state: Option<String>,
    /// The day that entry began.
    pub since: Option<String>,
    /// The version that was completed before, where the newest entry is not.
    pub last_completed: Option<String>,
}

/// `spec.desiredUpdate`, where it is not what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub version: String,
    pub image: String,
    pub digest: Option<String>,
    pub architecture: String,
    pub force: bool,
    /// The CVO has seen it; else it was asked for a moment ago, or the CVO is not at work.
    pub seen: bool,
}

/// A condition and the status that is news.
const NEWS: [(&str, &str); 7] = [
    ("ReleaseAccepted", "False"),
    ("Invalid", "True"),
    ("Failing", "True"),
    ("Available", "False"),
    ("Progressing", "True"),
    ("Upgradeable", "False"),
    ("RetrievedUpdates", "False"),
];

impl Cluster {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let fact = &facts.cluster.cluster_version;
        let cv = fact.known();
        Self {
            state: Presence::of(fact),
            hosted: facts.cluster.hosted(),
            channel: cv.map(|cv| clean(&cv.spec.channel)).unwrap_or_default(),
            current: cv.and_then(|cv| Running::of(&cv.status)),
            pending: cv.and_then(|cv| Pending::of(cv, facts.catalog)),
            conditions: cv.map(|cv| notices(&cv.status)).unwrap_or_default(),
        }
    }
}

fn notices(status: &Status<'_>) -> Vec<Notice> {
    let news = NEWS.iter().filter_map(|(kind, news)| status.condition(kind).filter(|found| &*found.status == *news));
    let notice = |found: &crate::objects::DetailedCondition<'_>| Notice {
        kind: clean(&found.kind),
        status: clean(&found.status),
        reason: clean(&found.reason),
        message: clean(&found.message),
    };
    news.map(notice).collect()
}

impl Running {
    fn of(status: &Status<'_>) -> Option<Self> {
        let desired = &status.desired;
        if desired.version.is_empty() && desired.image.is_empty() {
            return None;
        }
        let newest = status.history.first();
        let half_done = newest.is_some_and(|entry| !entry.completed());
        let completed = status.newest_completed().map(|index| clean(&status.history[index].version));
        Some(Self {
            version: clean(&desired.version),
            image: clean(&desired.image),
            digest: desired.digest().map(|digest| digest.to_string()),
            architecture: clean(&desired.architecture),
            state: newest.map(|entry| clean(&entry.state)),
            since: newest.map(|entry| clean(entry.date())),
            last_completed: completed.filter(|_| half_done),
        })
    }
}

impl Pending {
    fn of(cv: &ClusterVersion<'_>, catalog: &Catalog) -> Option<Self> {
        let target = &cv.spec.desired_update;
        if !target.named() || is_desired(target, &cv.status, catalog) {
            return None;
        }
        Some(Self {
            version: clean(&target.version),
            image: clean(&target.image),
            digest: Digest::of_image(&target.image).map(|digest| digest.to_string()),
            architecture: clean(&target.architecture),
            force: target.force,
            seen: !(1..cv.metadata.generation).contains(&cv.status.observed_generation),
        })
    }
}

/// A finished target stays in spec.
fn is_desired(target: &DesiredUpdate<'_>, status: &Status<'_>, catalog: &Catalog) -> bool {
    let desired = &status.desired;
    match (Digest::of_image(&target.image), desired.digest()) {
        (Some(one), Some(other)) => catalog.same_release(one, other),
        (None, _) if target.image.is_empty() => {
            version::same(&target.version, &desired.version)
                && (target.architecture.is_empty() || target.architecture == desired.architecture)
        }
        _ => *target.image == *desired.image,
    }
}
