//! Where each fact comes from and when, apart from what it says: to be kept beside a saved cluster and put back, and to
//! follow a clock that is set.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Fact, Missing, Provenance, Snapshot};
use crate::resource;

/// The origin of one fact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Origin {
    #[serde(rename_all = "camelCase")]
    Read {
        source: String,
        as_of: Timestamp,
        watched: bool,
        /// What was read is that there is nothing; files cannot always tell that from an empty list.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        absent: bool,
    },
    /// Why it is not known.
    Missing { why: String, remedy: String },
}

/// The facts by the resource they are read from. A new one is named here; the compiler asks for it.
macro_rules! each_fact {
    ($snapshot:expr, $visit:ident, $with:expr) => {
        let Snapshot {
            cluster_version,
            internal_release_image,
            machine_config_nodes,
            machine_config_pools,
            rendered_releases,
            infrastructure,
            image_digest_mirror_sets,
            image_tag_mirror_sets,
            image_content_source_policies,
            image_config,
            release_signatures,
            release_verification,
            control_plane_nodes,
            catalog_sources,
            cluster_catalogs,
            // Asked for one review, and no object that could be saved.
            node_registries: _,
        } = $snapshot;
        $visit($with, resource::CLUSTER_VERSIONS.plural, cluster_version);
        $visit($with, resource::INTERNAL_RELEASE_IMAGES.plural, internal_release_image);
        $visit($with, resource::MACHINE_CONFIG_NODES.plural, machine_config_nodes);
        $visit($with, resource::MACHINE_CONFIG_POOLS.plural, machine_config_pools);
        $visit($with, resource::MACHINE_CONFIGS.plural, rendered_releases);
        $visit($with, resource::INFRASTRUCTURES.plural, infrastructure);
        $visit($with, resource::IMAGE_DIGEST_MIRROR_SETS.plural, image_digest_mirror_sets);
        $visit($with, resource::IMAGE_TAG_MIRROR_SETS.plural, image_tag_mirror_sets);
        $visit($with, resource::IMAGE_CONTENT_SOURCE_POLICIES.plural, image_content_source_policies);
        $visit($with, resource::IMAGE_CONFIGS.plural, image_config);
        $visit($with, resource::RELEASE_SIGNATURES.plural, release_signatures);
        $visit($with, "release-verification", release_verification);
        $visit($with, resource::NODES.plural, control_plane_nodes);
        $visit($with, resource::CATALOG_SOURCES.plural, catalog_sources);
        $visit($with, resource::CLUSTER_CATALOGS.plural, cluster_catalogs);
    };
}

impl Snapshot {
    /// Where everything in it comes from.
    #[must_use]
    pub fn origins(&self) -> BTreeMap<String, Origin> {
        fn visit<T>(origins: &mut BTreeMap<String, Origin>, name: &str, fact: &Fact<T>) {
            let read = |Provenance { source, as_of, watched }: &Provenance, absent| Origin::Read {
                source: source.to_string(),
                as_of: *as_of,
                watched: *watched,
                absent,
            };
            let origin = match fact {
                Fact::Known(_, provenance) => read(provenance, false),
                Fact::Absent(provenance) => read(provenance, true),
                Fact::Unknown(Missing { why, remedy }) => Origin::Missing { why: why.clone(), remedy: remedy.clone() },
            };
            origins.insert(name.to_owned(), origin);
        }
        let mut origins = BTreeMap::new();
        each_fact!(self, visit, &mut origins);
        origins
    }

    /// Puts origins back. What was not known stays unknown; what is not known now cannot become known.
    pub fn restate(&mut self, origins: &BTreeMap<String, Origin>) {
        fn visit<T: Default>(origins: &BTreeMap<String, Origin>, name: &str, fact: &mut Fact<T>) {
            let (source, as_of, watched, absent) = match origins.get(name) {
                None => return,
                Some(Origin::Missing { why, remedy }) => return *fact = Fact::unknown(why, remedy),
                Some(Origin::Read { source, as_of, watched, absent }) => (source, as_of, watched, absent),
            };
            let origin = Provenance { source: source.as_str().into(), as_of: *as_of, watched: *watched };
            match fact {
                Fact::Absent(_) if !absent => *fact = Fact::Known(T::default(), origin),
                Fact::Known(_, provenance) | Fact::Absent(provenance) => *provenance = origin,
                Fact::Unknown(_) => {}
            }
        }
        each_fact!(self, visit, origins);
    }

    /// The clock was set by so much, and no watched fact is older or newer for it.
    pub fn clock_moved(&mut self, by: SignedDuration) {
        fn visit<T>(by: SignedDuration, _: &str, fact: &mut Fact<T>) {
            fact.clock_moved(by);
        }
        each_fact!(self, visit, by);
    }
}
