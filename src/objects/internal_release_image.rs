//! `internalreleaseimages` and `machineconfignodes` of machineconfiguration.openshift.io (the IRI in
//! v1 and v1alpha1 alike): which release bundles a cluster names, and with which image.

use serde::Deserialize;

use super::{Metadata, Str, bundles, into_owned, object};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct BundleEntry<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
    pub image: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfigNode<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub status: MachineConfigNodeStatus<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct MachineConfigNodeStatus<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub internal_release_image: Releases<'a>,
}

into_owned! {
    InternalReleaseImage { metadata, spec, status }
    Releases { releases }
    BundleEntry { name, image }
    MachineConfigNode { metadata, status }
    MachineConfigNodeStatus { internal_release_image }
}
