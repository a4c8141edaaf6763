//! The digests of the last inputs: hashing a cluster is for once a snapshot, not once a review.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::Known;
use crate::cluster::Snapshot;
use crate::release::Catalog;
use crate::settings::Settings;

/// Holds what it has hashed, so that the same address is the same content. Readers never wait for one another.
#[derive(Debug, Default)]
pub struct Cache(ArcSwapOption<(Arc<Snapshot>, Arc<Catalog>, Known)>);

impl Cache {
    /// `settings` are the same in every call.
    pub fn of(&self, cluster: &Arc<Snapshot>, catalog: &Arc<Catalog>, settings: &Settings) -> Known {
        let held = self.0.load();
        if let Some((of_cluster, of_catalog, known)) = held.as_deref()
            && Arc::ptr_eq(of_cluster, cluster)
            && Arc::ptr_eq(of_catalog, catalog)
        {
            return *known;
        }
        // A catalog is the larger part and changes more seldom.
        let known = match held.as_deref() {
            Some((_, of_catalog, known)) if Arc::ptr_eq(of_catalog, catalog) => {
                Known { facts: super::Short::of(&**cluster), ..*known }
            }
            _ => Known::of(cluster, catalog, settings),
        };
        self.0.store(Some(Arc::new((Arc::clone(cluster), Arc::clone(catalog), known))));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_snapshot_or_catalog_is_hashed_again() {
        let settings = Settings::default();
        let (cache, catalog) = (Cache::default(), Arc::new(Catalog::default()));
        let nothing = Arc::new(Snapshot::nothing("test"));
        let mut other = Snapshot::nothing("test");
        other.infrastructure = crate::cluster::Fact::Absent(crate::cluster::Provenance {
            source: "test".into(),
            as_of: jiff::Timestamp::UNIX_EPOCH,
            watched: false,
        });
        let other = Arc::new(other);
        let releases = Arc::new(Catalog::new([crate::release::tests::release("4.19.9", 'a', &[])]));
        for (cluster, catalog) in
            [(&nothing, &catalog), (&nothing, &catalog), (&other, &catalog), (&other, &releases), (&nothing, &catalog)]
        {
            assert_eq!(cache.of(cluster, catalog, &settings), Known::of(cluster, catalog, &settings));
        }
    }
}
