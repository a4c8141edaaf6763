//! The releases that the cluster still needs, and what holds each.

use serde::Serialize;

use super::clean;
use crate::bundle::{self, Bundle, Match};
use crate::cluster::{Fact, RenderedReleases};
use crate::engine::Facts;
use crate::retain::{self, Kept};
use crate::settings::Retain;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Needed {
    pub releases: Vec<NeededRelease>,
    /// Why there may be more.
    pub unknown: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeededRelease {
    pub version: String,
    pub digest: Option<String>,
    /// What holds it, a word or two each: running, pending, half-way, completed, pool NAME, rollback, history.
    pub holders: Vec<String>,
    /// The smallest `retain` under which it stays.
    pub level: Retain,
    /// Whether the configured `retain` keeps it.
    pub kept: bool,
    /// Bundles of the InternalReleaseImage that hold it.
    pub bundles: Vec<String>,
    /// Whether a release source on this site knows it.
    pub on_site: bool,
}

/// What the section is made from, which other sections need too.
pub(super) struct Window {
    pub kept: Vec<Kept>,
    pub unknown: Vec<String>,
}

impl Window {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let mut window = Self { kept: vec![], unknown: vec![] };
        let cluster = facts.cluster;
        match &cluster.cluster_version {
            Fact::Known(cv, _) => {
                window.kept = retain::held_by_cluster_version(cv, facts.catalog);
                if cv.status.history.is_empty() {
                    window.unknown.push("status.history is empty, so what the cluster ran is not known".into());
                }
            }
            Fact::Absent(_) => window.unknown.push("there is no ClusterVersion named version".into()),
            Fact::Unknown(missing) => window.unknown.push(missing.why.clone()),
        }
        window.kept.retain(|kept| !(kept.version.is_empty() && kept.digest.is_none()));
        match &cluster.machine_config_pools {
            Fact::Known(pools, _) => {
                let none = RenderedReleases::new();
                let rendered = cluster.rendered_releases.known().unwrap_or(&none);
                let added = retain::add_pools(&mut window.kept, pools, rendered, facts.catalog);
                match &cluster.rendered_releases {
                    Fact::Unknown(missing) if !pools.is_empty() => window.unknown.push(missing.why.clone()),
                    _ => window.unknown.extend(added.err().map(|missing| missing.why)),
                }
            }
            Fact::Absent(_) => {}
            Fact::Unknown(missing) => window.unknown.push(missing.why.clone()),
        }
        window.kept.sort_by_key(Kept::level);
        window
    }

    pub(super) fn status(&self, facts: Facts<'_>) -> Needed {
        let bundles = bundles(facts);
        let release = |kept: &Kept| {
            let holding = bundle::holding(&bundles, kept, facts.catalog).into_iter();
            NeededRelease {
                version: clean(&kept.version),
                digest: kept.digest.map(|digest| digest.to_string()),
                holders: kept.holders.iter().map(|holder| clean(&holder.word())).collect(),
                level: kept.level(),
                kept: kept.level() <= facts.settings.retain,
                bundles: holding.filter(|(_, m)| *m == Match::Same).map(|(bundle, _)| clean(&bundle.name)).collect(),
                on_site: match kept.digest {
                    Some(digest) => facts.catalog.get(digest).is_some() || facts.catalog.list_of(digest).is_some(),
                    None => crate::version::Version::parse(&kept.version)
                        .is_some_and(|version| !facts.catalog.of_version(&version).is_empty()),
                },
            }
        };
        Needed { releases: self.kept.iter().map(release).collect(), unknown: self.unknown.clone() }
    }
}

/// Every bundle that the InternalReleaseImage or a node names.
pub(super) fn bundles(facts: Facts<'_>) -> Vec<Bundle> {
    let nodes = facts.cluster.machine_config_nodes.known().map_or(&[][..], Vec::as_slice);
    facts.cluster.internal_release_image.known().map(|iri| bundle::all(iri, nodes)).unwrap_or_default()
}
