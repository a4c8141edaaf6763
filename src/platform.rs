//! Who the platform is: the service accounts whose own writes some rule could meet, by their exact names.
//!
//! Never a group: `system:masters` is also the administrator and the tools of this field.

/// Renders MachineConfigs and rotates the InternalReleaseImage's certificate.
pub const MACHINE_CONFIG_CONTROLLER: &str =
    "system:serviceaccount:openshift-machine-config-operator:machine-config-controller";
pub const MACHINE_CONFIG_OPERATOR: &str =
    "system:serviceaccount:openshift-machine-config-operator:machine-config-operator";
/// Builds the OS images of pools that layer their own, and writes the MachineConfigs that name them.
pub const MACHINE_OS_BUILDER: &str = "system:serviceaccount:openshift-machine-config-operator:machine-os-builder";
/// Applies and, by annotation of a manifest, deletes what a release ships.
pub const CLUSTER_VERSION_OPERATOR: &str = "system:serviceaccount:openshift-cluster-version:cluster-version-operator";
/// The same up to 4.21.
pub const CLUSTER_VERSION_OPERATOR_BEFORE: &str = "system:serviceaccount:openshift-cluster-version:default";
/// Empties a namespace that is deleted, and tries for ever.
pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// Deletes what a deleted object owned, and tries for ever.
pub const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
