//! What is known of the cluster, from where, how old.

use jiff::Timestamp;
use serde::Serialize;

use super::{Presence, clean};
use crate::cluster::Fact;
use crate::engine::Facts;
use crate::text::age;

/// One fact: known and where from, or missing and what would supply it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FactStatus {
    pub name: &'static str,
    pub state: Presence,
    /// Where it was read; null where it was not.
    pub source: Option<String>,
    pub as_of: Option<Timestamp>,
    pub age: Option<String>,
    /// A watch that went silent: it proves nothing any more.
    pub old: bool,
    /// Why it is not known; null where it is.
    pub why: Option<String>,
    /// What would supply it.
    pub remedy: Option<String>,
}

pub(super) fn all(facts: Facts<'_>) -> Vec<FactStatus> {
    let (cluster, now) = (facts.cluster, facts.now);
    vec![
        of("ClusterVersion", &cluster.cluster_version, now),
        of("InternalReleaseImage", &cluster.internal_release_image, now),
        of("MachineConfigNodes", &cluster.machine_config_nodes, now),
        of("MachineConfigPools", &cluster.machine_config_pools, now),
        of("rendered MachineConfigs", &cluster.rendered_releases, now),
        of("Infrastructure", &cluster.infrastructure, now),
        of("ImageDigestMirrorSets", &cluster.image_digest_mirror_sets, now),
        of("ImageTagMirrorSets", &cluster.image_tag_mirror_sets, now),
        of("ImageContentSourcePolicies", &cluster.image_content_source_policies, now),
        of("image configuration", &cluster.image_config, now),
        of("release signatures", &cluster.release_signatures, now),
        of("keys of release signatures", &cluster.release_verification, now),
        of("control-plane Nodes", &cluster.control_plane_nodes, now),
        of("CatalogSources", &cluster.catalog_sources, now),
        of("ClusterCatalogs", &cluster.cluster_catalogs, now),
    ]
}

fn of<T>(name: &'static str, fact: &Fact<T>, now: Timestamp) -> FactStatus {
    let provenance = fact.provenance();
    let missing = match fact {
        Fact::Unknown(missing) => Some(missing),
        Fact::Known(..) | Fact::Absent(_) => None,
    };
    FactStatus {
        name,
        state: Presence::of(fact),
        source: provenance.map(|provenance| clean(&provenance.source)),
        as_of: provenance.map(|provenance| provenance.as_of),
        age: provenance.map(|provenance| age(now.duration_since(provenance.as_of).as_secs())),
        old: provenance.is_some_and(|provenance| provenance.stale(now)),
        why: missing.map(|missing| missing.why.clone()),
        remedy: missing.map(|missing| missing.remedy.clone()),
    }
}
