//! The cluster as airgate knows it: a handful of facts, each with its source and age.
//!
//! A fact that could not be read is [`Fact::Unknown`] and says what would supply it; it is never
//! taken for "there is none".

mod node_registries;
pub mod origin;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::objects::catalog::{CatalogSource, ClusterCatalog};
use crate::objects::cluster_version::ClusterVersion;
use crate::objects::internal_release_image::{InternalReleaseImage, MachineConfigNode};
use crate::objects::machine_config::{Infrastructure, MachineConfigPool};
use crate::objects::mirrors::{ImageConfig, MirrorKind, MirrorSet};
use crate::objects::node::Node;
use crate::objects::release_config_map::ReleaseConfigMap;
use crate::resource::{CATALOG_SOURCES, RELEASE_SIGNATURES, RELEASE_VERIFICATION};

pub use node_registries::{NodeRegistries, RegistryAnswer, RegistryQuestion};

/// A watch that heard nothing (event, bookmark or relist) for this long proves nothing any more.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// One thing known, known to be absent, or not known.
#[derive(Clone, Debug)]
pub enum Fact<T> {
    Known(T, Provenance),
    /// The object, or its whole kind, is not there.
    Absent(Provenance),
    Unknown(Missing),
}

/// Where a fact comes from and as of when it is true.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// For a person: `watch`, `live read`, or a path.
    pub source: Arc<str>,
    pub as_of: Timestamp,
    /// Whether it comes from a watch, which can go silent; a file is as old as its last reading.
    pub watched: bool,
}

/// Why a fact is not known and what would supply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub why: String,
    /// A command or an RBAC rule.
    pub remedy: String,
}

impl Provenance {
    #[must_use]
    pub fn stale(&self, now: Timestamp) -> bool {
        self.watched && now.duration_since(self.as_of) > STALE_AFTER
    }
}

impl<T> Fact<T> {
    #[must_use]
    pub fn unknown(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unknown(Missing { why: why.into(), remedy: remedy.into() })
    }

    #[must_use]
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value, _) => Some(value),
            Self::Absent(_) | Self::Unknown(_) => None,
        }
    }

    #[must_use]
    pub fn provenance(&self) -> Option<&Provenance> {
        match self {
            Self::Known(_, provenance) | Self::Absent(provenance) => Some(provenance),
            Self::Unknown(_) => None,
        }
    }

    /// The clock was set: what a watch heard is as old as before.
    pub fn clock_moved(&mut self, by: SignedDuration) {
        if let Self::Known(_, provenance) | Self::Absent(provenance) = self
            && provenance.watched
            && let Ok(moved) = provenance.as_of.checked_add(by)
        {
            provenance.as_of = moved;
        }
    }

    /// The value, `None` where absent.
    ///
    /// # Errors
    /// [`Missing`] where the fact is unknown.
    pub fn present(&self) -> Result<Option<&T>, Missing> {
        match self {
            Self::Known(value, _) => Ok(Some(value)),
            Self::Absent(_) => Ok(None),
            Self::Unknown(missing) => Err(missing.clone()),
        }
    }

    /// For an allow that cannot be undone: the value (`None` where absent), or why it cannot be relied on.
    ///
    /// # Errors
    /// [`Missing`] where the fact is unknown, or watched and silent for too long.
    pub fn reliable(&self, what: &str, now: Timestamp) -> Result<Option<&T>, Missing> {
        match self {
            Self::Unknown(missing) => Err(missing.clone()),
            Self::Known(_, provenance) | Self::Absent(provenance) if provenance.stale(now) => Err(Missing {
                why: format!("{what}: nothing heard from the watch since {}", provenance.as_of),
                remedy: "look at the watches on airgate's /statusz and at its connection to the API server".into(),
            }),
            Self::Known(value, _) => Ok(Some(value)),
            Self::Absent(_) => Ok(None),
        }
    }
}

/// By what is known, not by where from and since when; and not by why something is unknown.
impl<T: Hash> Hash for Fact<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Known(value, _) => (0_u8, value).hash(state),
            Self::Absent(_) => 1_u8.hash(state),
            Self::Unknown(_) => 2_u8.hash(state),
        }
    }
}

/// Release versions of the rendered MachineConfigs by name; `None` where the annotation is missing.
pub type RenderedReleases = BTreeMap<String, Option<String>>;

/// Everything airgate knows of the cluster at one moment. Never changed, only replaced.
#[derive(Clone, Debug, Hash)]
pub struct Snapshot {
    /// The ClusterVersion `version`.
    pub cluster_version: Fact<ClusterVersion<'static>>,
    /// The InternalReleaseImage `cluster`.
    pub internal_release_image: Fact<InternalReleaseImage<'static>>,
    pub machine_config_nodes: Fact<Vec<MachineConfigNode<'static>>>,
    pub machine_config_pools: Fact<Vec<MachineConfigPool<'static>>>,
    /// Of at least those MachineConfigs that pools name.
    pub rendered_releases: Fact<RenderedReleases>,
    pub infrastructure: Fact<Infrastructure<'static>>,
    pub image_digest_mirror_sets: Fact<Vec<MirrorSet<'static>>>,
    pub image_tag_mirror_sets: Fact<Vec<MirrorSet<'static>>>,
    pub image_content_source_policies: Fact<Vec<MirrorSet<'static>>>,
    /// The images.config.openshift.io `cluster`.
    pub image_config: Fact<ImageConfig<'static>>,
    /// ConfigMaps that hold release signatures.
    pub release_signatures: Fact<Arc<[Arc<ReleaseConfigMap>]>>,
    /// The ConfigMap `release-verification` with the keys.
    pub release_verification: Fact<Arc<ReleaseConfigMap>>,
    /// Of all Nodes those that have the control plane's role.
    pub control_plane_nodes: Fact<Vec<Node<'static>>>,
    /// Those of the namespace that every other one sees.
    pub catalog_sources: Fact<Vec<CatalogSource<'static>>>,
    pub cluster_catalogs: Fact<Vec<ClusterCatalog<'static>>>,
    /// What the nodes' registries said when they were asked for this review; `None` where nobody asked.
    pub node_registries: Option<Arc<NodeRegistries>>,
}

impl Snapshot {
    /// A snapshot that knows nothing, each fact with the same reason.
    #[must_use]
    pub fn nothing(why: &str) -> Self {
        fn unknown<T>(why: &str, resource: &str) -> Fact<T> {
            Fact::unknown(why, format!("oc get {resource} -o yaml"))
        }
        Self {
            cluster_version: unknown(why, "clusterversion version"),
            internal_release_image: unknown(why, "internalreleaseimage cluster"),
            machine_config_nodes: unknown(why, "machineconfignodes"),
            machine_config_pools: unknown(why, "machineconfigpools"),
            rendered_releases: unknown(why, "machineconfigs"),
            infrastructure: unknown(why, "infrastructure cluster"),
            control_plane_nodes: unknown(why, "nodes"),
            catalog_sources: unknown(why, &CATALOG_SOURCES.selected()),
            cluster_catalogs: unknown(why, "clustercatalogs"),
            node_registries: None,
            release_signatures: unknown(why, &RELEASE_SIGNATURES.selected()),
            release_verification: unknown(why, &RELEASE_VERIFICATION.selected()),
            image_digest_mirror_sets: unknown(why, "imagedigestmirrorsets"),
            image_tag_mirror_sets: unknown(why, "imagetagmirrorsets"),
            image_content_source_policies: unknown(why, "imagecontentsourcepolicies"),
            image_config: unknown(why, "images.config.openshift.io cluster"),
        }
    }

    /// The mirror rules of one kind.
    #[must_use]
    pub fn mirror_sets(&self, kind: MirrorKind) -> &Fact<Vec<MirrorSet<'static>>> {
        match kind {
            MirrorKind::Digest => &self.image_digest_mirror_sets,
            MirrorKind::Tag => &self.image_tag_mirror_sets,
            MirrorKind::ContentSource => &self.image_content_source_policies,
        }
    }

    /// Whether the control plane is hosted elsewhere. Unreadable counts as not hosted: the stricter reading.
    #[must_use]
    pub fn hosted(&self) -> bool {
        self.infrastructure.known().is_some_and(|i| &*i.status.control_plane_topology == "External")
    }
}
