//! CustomResourceDefinitions: which one it is, nothing of the schemas that they mostly consist of.

use super::Metadata;

/// With the first goes the InternalReleaseImage itself, with the second what every node says of its bundles.
pub const INTERNAL_RELEASE_IMAGES: &str = "internalreleaseimages.machineconfiguration.openshift.io";
pub const MACHINE_CONFIG_NODES: &str = "machineconfignodes.machineconfiguration.openshift.io";
pub const NAMES: [&str; 2] = [INTERNAL_RELEASE_IMAGES, MACHINE_CONFIG_NODES];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CustomResourceDefinition<'a> {
    pub metadata: Metadata<'a>,
}
