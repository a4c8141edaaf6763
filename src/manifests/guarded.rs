//! The resources that airgate is asked about: one webhook entry each, with the guards it carries.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use crate::objects::mirrors::MirrorKind;
use crate::objects::secret;
use crate::policies::POLICIES;
use crate::policy::Guard;

/// The resources guarded, each with its one denying entry; additions to the InternalReleaseImage, which are only ever
/// warned about, have an entry of their own that a cluster without airgate does not miss.
pub const GUARDED: [GuardedResource; 10] = [
    GuardedResource {
        webhook: "clusterversion.airgate.io",
        group: "config.openshift.io",
        versions: &["v1"],
        resource: "clusterversions",
        namespace: None,
        fails_closed: true,
        guards: &[Guard::ClusterVersionStep, Guard::ClusterVersionCreateWithTarget, Guard::ClusterVersionDelete],
    },
    GuardedResource {
        webhook: "internalreleaseimage.airgate.io",
        group: "machineconfiguration.openshift.io",
        // Such objects arrive unconverted when both are listed; airgate reads both.
        versions: &["v1", "v1alpha1"],
        resource: "internalreleaseimages",
        namespace: None,
        fails_closed: true,
        guards: &[Guard::InternalReleaseImageDrop, Guard::InternalReleaseImageDelete],
    },
    GuardedResource {
        webhook: "internalreleaseimage-additions.airgate.io",
        group: "machineconfiguration.openshift.io",
        versions: &["v1", "v1alpha1"],
        resource: "internalreleaseimages",
        namespace: None,
        fails_closed: false,
        guards: &[Guard::InternalReleaseImageCreate, Guard::InternalReleaseImageAdd],
    },
    GuardedResource {
        webhook: "secret.airgate.io",
        group: "",
        versions: &["v1"],
        resource: "secrets",
        namespace: Some(secret::NAMESPACE),
        fails_closed: false,
        guards: &[Guard::BundleSecretDelete, Guard::BundleSecretEmptied],
    },
    GuardedResource {
        webhook: "customresourcedefinition.airgate.io",
        group: "apiextensions.k8s.io",
        versions: &["v1"],
        resource: "customresourcedefinitions",
        namespace: None,
        fails_closed: false,
        guards: &[Guard::BundleCrdDelete],
    },
    GuardedResource {
        webhook: "machineconfig.airgate.io",
        group: "machineconfiguration.openshift.io",
        versions: &["v1"],
        resource: "machineconfigs",
        namespace: None,
        fails_closed: false,
        guards: &[Guard::MachineConfigCreateWithOsImage, Guard::MachineConfigOsImageChange],
    },
    GuardedResource {
        webhook: "imagedigestmirrorset.airgate.io",
        group: "config.openshift.io",
        versions: &["v1"],
        resource: "imagedigestmirrorsets",
        namespace: None,
        fails_closed: false,
        guards: &mirror_guards(MirrorKind::Digest),
    },
    GuardedResource {
        webhook: "imagetagmirrorset.airgate.io",
        group: "config.openshift.io",
        versions: &["v1"],
        resource: "imagetagmirrorsets",
        namespace: None,
        fails_closed: false,
        guards: &mirror_guards(MirrorKind::Tag),
    },
    GuardedResource {
        webhook: "imagecontentsourcepolicy.airgate.io",
        group: "operator.openshift.io",
        versions: &["v1alpha1"],
        resource: "imagecontentsourcepolicies",
        namespace: None,
        fails_closed: false,
        guards: &mirror_guards(MirrorKind::ContentSource),
    },
    GuardedResource {
        webhook: "imageconfig.airgate.io",
        group: "config.openshift.io",
        versions: &["v1"],
        resource: "images",
        namespace: None,
        fails_closed: false,
        guards: &[Guard::ImageConfigCreate, Guard::ImageConfigChange, Guard::ImageConfigDelete],
    },
];

const fn mirror_guards(kind: MirrorKind) -> [Guard; 3] {
    [Guard::MirrorsCreate(kind), Guard::MirrorsChange(kind), Guard::MirrorsDelete(kind)]
}

pub struct GuardedResource {
    pub webhook: &'static str,
    group: &'static str,
    versions: &'static [&'static str],
    pub resource: &'static str,
    /// Where it is namespaced: the one namespace that the API server asks about at all.
    pub namespace: Option<&'static str>,
    /// What it guards does not happen without a verdict; else the audit pass catches what slipped.
    pub fails_closed: bool,
    guards: &'static [Guard],
}

impl GuardedResource {
    /// Those of its guards that some policy has.
    pub fn guards(&self) -> Vec<Guard> {
        let used = |guard: &Guard| POLICIES.iter().any(|policy| policy.guards.contains(guard));
        self.guards.iter().copied().filter(used).collect()
    }

    /// Whether an override can open anything here: not where only the form of a value is judged.
    pub fn overridable(&self) -> bool {
        POLICIES
            .iter()
            .any(|policy| policy.overridable() && self.guards.iter().any(|guard| policy.guards.contains(guard)))
    }

    pub fn rule(&self, operations: impl IntoIterator<Item = &'static str>) -> RuleWithOperations {
        let owned = |list: &[&str]| Some(list.iter().map(ToString::to_string).collect());
        RuleWithOperations {
            api_groups: owned(&[self.group]),
            api_versions: owned(self.versions),
            operations: Some(operations.into_iter().map(ToOwned::to_owned).collect()),
            resources: owned(&[self.resource]),
            scope: Some(if self.namespace.is_some() { "Namespaced" } else { "Cluster" }.into()),
        }
    }
}
