//! `internalreleaseimages` and `machineconfignodes` of machineconfiguration.openshift.io (the IRI in
//! v1 and v1alpha1 alike): which release bundles a cluster names, and with which image.

use serde::Deserialize;

use super::{DetailedCondition, Metadata, Str, bundles, conditions, into_owned, nullable, object};

/// The singleton's name, which its CRD demands.
pub const NAME: &str = "cluster";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct InternalReleaseImage<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: Releases<'a>,
    #[serde(deserialize_with = "object")]
    pub status: Releases<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Releases<'a> {
    #[serde(borrow, deserialize_with = "bundles")]
    pub releases: Vec<BundleEntry<'a>>,
}

/// An entry of `spec.releases` (name only) or of `status.releases`.
///
/// Of the InternalReleaseImage's own status no verdict reads whether it is Available: there it means that some node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct BundleEntry<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
    pub image: Str<'a>,
    /// Available, Degraded, Mounted, Installing, Removing.
    #[serde(deserialize_with = "conditions")]
    pub conditions: Vec<DetailedCondition<'a>>,
}

impl<'a> Releases<'a> {
    /// The entries here whose name `other` does not have.
    pub fn lacks<'s>(&'s self, other: &'s Releases<'_>) -> impl Iterator<Item = &'s BundleEntry<'a>> {
        self.releases.iter().filter(|entry| !other.releases.iter().any(|known| *known.name == *entry.name))
    }
}

impl BundleEntry<'_> {
    /// Whether the condition of this type is True.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| &*condition.kind == kind && &*condition.status == "True")
    }

    /// Whether the bundle can be pulled from where this entry stands; `None` where it does not say. One that is only
    /// Mounted cannot.
    #[must_use]
    pub fn available(&self) -> Option<bool> {
        let said = self.conditions.iter().find(|condition| &*condition.kind == "Available");
        match said {
            Some(condition) => Some(&*condition.status == "True"),
            None => self.is("Mounted").then_some(false),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfigNode<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: MachineConfigNodeSpec<'a>,
    #[serde(deserialize_with = "object")]
    pub status: MachineConfigNodeStatus<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfigNodeSpec<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub pool: PoolReference<'a>,
}

/// The MachineConfigPool that a node belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct PoolReference<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct MachineConfigNodeStatus<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub internal_release_image: Releases<'a>,
    /// InternalReleaseImageDegraded among others.
    #[serde(deserialize_with = "conditions")]
    pub conditions: Vec<DetailedCondition<'a>>,
    /// The `metadata.generation` that this status is about; 0 where nobody says.
    #[serde(deserialize_with = "nullable")]
    pub observed_generation: i64,
}

impl MachineConfigNode<'_> {
    /// Whether the status is about an older spec than the one that is stored.
    #[must_use]
    pub fn behind(&self) -> bool {
        (1..self.metadata.generation).contains(&self.status.observed_generation)
    }
}

into_owned! {
    InternalReleaseImage { metadata, spec, status }
    Releases { releases }
    BundleEntry { name, image, conditions }
    MachineConfigNode { metadata, spec, status }
    MachineConfigNodeSpec { pool }
    PoolReference { name }
    MachineConfigNodeStatus { internal_release_image, conditions, observed_generation }
}
