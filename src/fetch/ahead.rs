//! Which releases are read before anybody asks: those that the cluster's own objects name as somewhere to go.
//! Mirrors only: what leaves the site, leaves it because a person asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::flights::{Flights, Source};
use crate::cluster::Snapshot;
use crate::facts::Facts;
use crate::policy::Want;
use crate::pullspec::{self, Digest, Repository};
use crate::release::Lookup;

/// Between two looks at the cluster's objects.
pub(super) const EVERY: Duration = Duration::from_secs(15);
/// After a failure; the second time twice as long, and so on up to the last.
const AGAIN: Duration = Duration::from_mins(1);
const AGAIN_AT_MOST: Duration = Duration::from_hours(1);
/// The newest conditional updates; there may be hundreds, most of them never looked at.
const CONDITIONAL: usize = 20;
/// An update service with more than this is not asked about a disconnected site.
const AVAILABLE: usize = 100;

/// What is worth knowing, once each: the pending target, what the InternalReleaseImage holds, what is offered.
#[must_use]
pub fn named(cluster: &Snapshot) -> Vec<Want> {
    let mut images: Vec<&str> = vec![];
    if let Some(version) = cluster.cluster_version.known() {
        let status = &version.status;
        images.extend([&*version.spec.desired_update.image, &*status.desired.image]);
        images.extend(status.available_updates.iter().take(AVAILABLE).map(|update| &*update.image));
        images.extend(status.conditional_updates.iter().take(CONDITIONAL).map(|update| &*update.release.image));
    }
    if let Some(image) = cluster.internal_release_image.known() {
        images.extend(image.status.releases.iter().map(|release| &*release.image));
    }
    for node in cluster.machine_config_nodes.known().into_iter().flatten() {
        images.extend(node.status.internal_release_image.releases.iter().map(|release| &*release.image));
    }
    let mut wants: Vec<Want> = vec![];
    for image in images {
        let Some(digest) = Digest::of_image(image) else { continue };
        let repository = pullspec::repository(image).and_then(|repository| Repository::parse(repository).ok());
        if repository.is_some() && wants.iter().all(|want| want.digest != digest) {
            wants.push(Want { digest, repository });
        }
    }
    wants
}

/// Reads ahead for ever, one release at a time.
pub async fn run<S: Source>(facts: Facts, flights: Arc<Flights<S>>) -> String {
    let mut failed: HashMap<Digest, (Instant, Duration)> = HashMap::new();
    loop {
        let catalog = facts.catalog();
        let mut wants = named(&facts.snapshot());
        facts.vouch(&|digest| wants.iter().any(|want| want.digest == digest));
        wants.retain(|want| matches!(catalog.lookup(want.digest), Lookup::Missing));
        failed.retain(|digest, _| wants.iter().any(|want| want.digest == *digest));
        for want in wants {
            let pause = match failed.get(&want.digest) {
                Some((until, _)) if Instant::now() < *until => continue,
                Some((_, pause)) => (*pause * 2).min(AGAIN_AT_MOST),
                None => AGAIN,
            };
            if !flights.ahead(&want).await {
                failed.insert(want.digest, (Instant::now() + pause, pause));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
