//! The registries as a source of releases: the disk first, then the places that the cluster's mirrors say.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::ClusterAccess;
use super::cache::Cache;
use super::components::Components;
use super::flights::{Flights, Scope, Source};
use super::node_registries::Asker;
use super::status::Counts;
use crate::catalog::{Finding, Keeps};
use crate::facts::Facts;
use crate::mirrors::MirrorRules;
use crate::policy::Want;
use crate::pullspec::{Digest, Repository};
use crate::registry::Unread;
use crate::release::Release;
use crate::signature::{Evidence, RELEASE_REPOSITORY};

#[derive(Debug)]
pub struct Registries {
    pub facts: Facts,
    pub access: ClusterAccess,
    pub cache: Option<Cache>,
    pub counts: Counts,
    pub components: Components,
    pub nodes: Asker,
}

impl Registries {
    /// Where to ask, in order.
    pub(super) fn places(&self, want: &Want, scope: Scope) -> Result<Vec<Repository>, String> {
        let Some(repository) = &want.repository else {
            return Err("nothing says which repository it is in; name it by image".into());
        };
        let snapshot = self.facts.snapshot();
        let rules = MirrorRules::of(&snapshot)
            .map_err(|missing| format!("where its mirrors are is not known: {}; {}", missing.why, missing.remedy))?;
        let places = rules.places(repository);
        match scope {
            Scope::All if places.refused => {
                Err(format!("allowedRegistries of image.config.openshift.io/cluster leaves {repository} out"))
            }
            Scope::All => Ok(places.places),
            Scope::MirrorsOnly => Ok(places.mirrors().cloned().collect()),
        }
    }

    /// From the disk, off the threads that answer reviews.
    async fn cached(&self, digest: Digest) -> Option<Finding> {
        let cache = self.cache.clone()?;
        let found = tokio::task::spawn_blocking(move || cache.load(digest)).await.ok().flatten();
        if found.is_some() {
            self.counts.cached.inc();
        }
        found
    }

    /// Whoever sends a review learns of a registry that the cluster does not know no more than that it did not work.
    fn told(&self, want: &Want, unread: &Unread) -> String {
        match &want.repository {
            Some(repository) if !self.familiar(want) => {
                tracing::warn!(digest = %want.digest, %unread, "a registry that no object of the cluster names");
                format!(
                    "{repository} did not yield it; airgate's log says why (no mirror rule and no status names that registry)"
                )
            }
            _ => unread.to_string(),
        }
    }

    /// Whether more speaks for a release than that somebody asked for it.
    fn vouched(&self, release: &Release) -> bool {
        let snapshot = self.facts.snapshot();
        let place = Repository::parse(&release.source.name).ok();
        // Only whoever fills these places can put anything there.
        let named = super::ahead::named(&snapshot)
            .iter()
            .any(|want| want.digest == release.digest || (place.is_some() && want.repository == place));
        let mirrored = || {
            let rules = MirrorRules::of(&snapshot).ok();
            place.as_ref().zip(rules).is_some_and(|(place, rules)| rules.is_mirror(place))
        };
        let signed = || {
            let signatures = self.facts.signatures();
            let evidence = signatures.evidence(release.digest, &[RELEASE_REPOSITORY], Timestamp::now());
            matches!(evidence, Evidence::Proved(_))
        };
        named || mirrored() || signed()
    }

    async fn keep(&self, digest: Digest, blobs: Vec<(Digest, Vec<u8>)>, place: String, now: Timestamp) {
        let Some(cache) = self.cache.clone() else { return };
        let stored = tokio::task::spawn_blocking(move || cache.store(digest, &blobs, &place, now)).await;
        if let Ok(Err(why)) = stored {
            self.counts.cache_faults.inc();
            tracing::warn!(%digest, why, "a release could not be kept on disk; it is known until the next start");
        }
    }

    /// Makes everything on the disk known, so that a restart with every registry dead loses nothing.
    pub async fn load_cache(&self) {
        let digests = self.cache.as_ref().map(Cache::digests).unwrap_or_default();
        for digest in digests {
            if let Some(release) = self.cached(digest).await.and_then(|finding| finding.release()) {
                self.publish(release);
            }
        }
    }
}

impl Flights<Registries> {
    /// For `/statusz`.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = self.describe();
        status["cacheDirectory"] = json!(self.source.cache.as_ref().map(Cache::directory));
        status["notes"] = json!(self.source.access.notes());
        status
    }
}

impl Source for Registries {
    fn names(&self, want: &Want, scope: Scope) -> Arc<str> {
        let places = self.places(want, scope).unwrap_or_default();
        places.first().map_or_else(|| "this site's mirrors".into(), |place| place.to_string().into())
    }

    async fn read(&self, want: &Want, scope: Scope, deadline: Instant) -> Result<Finding, String> {
        if let Some(found) = self.cached(want.digest).await {
            return Ok(found);
        }
        let places = self.places(want, scope)?;
        if places.is_empty() && scope == Scope::MirrorsOnly {
            return Err("it has no mirror".into());
        }
        let registry = self.access.registry(&self.facts.snapshot()).await?;
        let read = match registry.release(&places, want.digest, deadline).await {
            Ok(read) => read,
            Err(unread) => {
                self.access.doubt().await;
                return Err(self.told(want, &unread));
            }
        };
        let (now, place) = (Timestamp::now(), read.place.to_string());
        let finding = Finding::of_payload(read.payload, Keeps::Bytes, &place, now);
        // What anybody had read by naming it must not push out what a restart will need.
        if finding.release().is_some_and(|release| self.vouched(&release)) {
            self.keep(want.digest, read.bytes, place, now).await;
        }
        Ok(finding)
    }

    /// By its host: as a source or mirror of rules, or in the images that the cluster's objects name.
    fn familiar(&self, want: &Want) -> bool {
        let Some(repository) = &want.repository else { return false };
        let snapshot = self.facts.snapshot();
        let named = super::ahead::named(&snapshot);
        let by_objects = named.iter().filter_map(|want| want.repository.as_ref()).any(|it| it.host == repository.host);
        by_objects || MirrorRules::of(&snapshot).is_ok_and(|rules| rules.names_host(&repository.host))
    }

    fn publish(&self, release: Release) {
        let vouched = self.vouched(&release);
        self.facts.add_release(release, vouched);
    }
}
