//! The kinds of change that policies judge.

use crate::objects::cluster_version::NAME;
use crate::objects::mirrors::{IMAGE_CONFIG, MirrorKind};
use crate::objects::secret::Secret;
use crate::objects::{crd, machine_config::MachineConfig};
use crate::review::{Change, Subject};

/// A kind of change worth judging. Each has a Rust form here and a CEL form in `manifests::cel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// UPDATE of a ClusterVersion whose effective target changed and is named, or whose `force` was switched on.
    ClusterVersionStep,
    /// CREATE of a ClusterVersion that names a target.
    ClusterVersionCreateWithTarget,
    ClusterVersionDelete,
    /// UPDATE of an InternalReleaseImage that drops an entry of `spec.releases`.
    InternalReleaseImageDrop,
    InternalReleaseImageDelete,
    /// UPDATE of an InternalReleaseImage that adds an entry of `spec.releases` and drops none.
    InternalReleaseImageAdd,
    InternalReleaseImageCreate,
    /// DELETE of a Secret that an InternalReleaseImage depends on.
    BundleSecretDelete,
    /// UPDATE of such a Secret that takes a key's value away.
    BundleSecretEmptied,
    /// DELETE of the CustomResourceDefinition of InternalReleaseImages or MachineConfigNodes.
    BundleCrdDelete,
    /// CREATE of a MachineConfig, but for rendered ones, that names an OS image.
    MachineConfigCreateWithOsImage,
    /// UPDATE of such a MachineConfig that names another OS image.
    MachineConfigOsImageChange,
    /// CREATE of a mirror set that has rules.
    MirrorsCreate(MirrorKind),
    /// UPDATE of a mirror set that changes its rules.
    MirrorsChange(MirrorKind),
    MirrorsDelete(MirrorKind),
    /// CREATE of the image configuration that has rules for registries.
    ImageConfigCreate,
    /// UPDATE of the image configuration that changes which registries are blocked, allowed or trusted.
    ImageConfigChange,
    ImageConfigDelete,
}

impl Guard {
    /// Whether the request makes this change. What is already terminating may go: nothing changes any more.
    /// The CVO watches no ClusterVersion but `version`.
    #[must_use]
    pub fn touched_by(self, subject: &Subject<'_>) -> bool {
        match (self, subject) {
            (Self::ClusterVersionStep, Subject::ClusterVersion(Change::Update { old, new })) => {
                &*new.metadata.name == NAME && new.spec.desired_update.steps_from(&old.spec.desired_update)
            }
            (Self::ClusterVersionCreateWithTarget, Subject::ClusterVersion(Change::Create(new))) => {
                &*new.metadata.name == NAME && new.spec.desired_update.named()
            }
            (Self::ClusterVersionDelete, Subject::ClusterVersion(Change::Delete(old))) => {
                &*old.metadata.name == NAME && !old.metadata.terminating()
            }
            (Self::InternalReleaseImageDrop, Subject::InternalReleaseImage(Change::Update { old, new })) => {
                !old.metadata.terminating() && old.spec.lacks(&new.spec).next().is_some()
            }
            (Self::InternalReleaseImageAdd, Subject::InternalReleaseImage(Change::Update { old, new })) => {
                let (added, dropped) = (new.spec.lacks(&old.spec).next(), old.spec.lacks(&new.spec).next());
                !old.metadata.terminating() && added.is_some() && dropped.is_none()
            }
            (Self::InternalReleaseImageCreate, Subject::InternalReleaseImage(Change::Create(_))) => true,
            (Self::BundleSecretDelete, Subject::Secret(Change::Delete(old))) => {
                Secret::supports(&old.metadata) && !old.metadata.terminating()
            }
            (Self::BundleSecretEmptied, Subject::Secret(Change::Update { old, new })) => {
                Secret::supports(&old.metadata) && !old.metadata.terminating() && old.emptied_in(new).next().is_some()
            }
            (Self::BundleCrdDelete, Subject::CustomResourceDefinition(Change::Delete(old))) => {
                crd::NAMES.contains(&&*old.metadata.name) && !old.metadata.terminating()
            }
            (Self::InternalReleaseImageDelete, Subject::InternalReleaseImage(Change::Delete(old))) => {
                !old.metadata.terminating()
            }
            (Self::MachineConfigCreateWithOsImage, Subject::MachineConfig(Change::Create(new))) => {
                !MachineConfig::is_rendered(&new.metadata) && !new.spec.os_image_url.is_empty()
            }
            (Self::MachineConfigOsImageChange, Subject::MachineConfig(Change::Update { old, new })) => {
                let image = &new.spec.os_image_url;
                !MachineConfig::is_rendered(&new.metadata) && !image.is_empty() && *image != old.spec.os_image_url
            }
            (Self::MirrorsCreate(kind), Subject::MirrorSet(of, Change::Create(new))) => {
                kind == *of && !new.of(kind).is_empty()
            }
            (Self::MirrorsChange(kind), Subject::MirrorSet(of, Change::Update { old, new })) => {
                kind == *of && !old.metadata.terminating() && new.of(kind) != old.of(kind)
            }
            (Self::MirrorsDelete(kind), Subject::MirrorSet(of, Change::Delete(old))) => {
                kind == *of && !old.metadata.terminating()
            }
            (Self::ImageConfigCreate, Subject::ImageConfig(Change::Create(new))) => {
                let rules = &new.spec.registry_sources;
                let lists = [&rules.blocked_registries, &rules.allowed_registries, &rules.insecure_registries];
                &*new.metadata.name == IMAGE_CONFIG && lists.iter().any(|list| !list.is_empty())
            }
            (Self::ImageConfigChange, Subject::ImageConfig(Change::Update { old, new })) => {
                &*old.metadata.name == IMAGE_CONFIG && !old.metadata.terminating() && new.spec != old.spec
            }
            (Self::ImageConfigDelete, Subject::ImageConfig(Change::Delete(old))) => {
                &*old.metadata.name == IMAGE_CONFIG && !old.metadata.terminating()
            }
            _ => false,
        }
    }

    /// As admission spells it.
    #[must_use]
    pub fn operation(self) -> &'static str {
        match self {
            Self::ClusterVersionCreateWithTarget
            | Self::InternalReleaseImageCreate
            | Self::MachineConfigCreateWithOsImage
            | Self::MirrorsCreate(_)
            | Self::ImageConfigCreate => "CREATE",
            Self::ClusterVersionStep
            | Self::InternalReleaseImageDrop
            | Self::InternalReleaseImageAdd
            | Self::BundleSecretEmptied
            | Self::MachineConfigOsImageChange
            | Self::MirrorsChange(_)
            | Self::ImageConfigChange => "UPDATE",
            Self::ClusterVersionDelete
            | Self::InternalReleaseImageDelete
            | Self::BundleSecretDelete
            | Self::BundleCrdDelete
            | Self::MirrorsDelete(_)
            | Self::ImageConfigDelete => "DELETE",
        }
    }

    /// Whose writes it does not touch: names of users, exact.
    #[must_use]
    pub fn exempt(self) -> &'static [&'static str] {
        use crate::platform::{
            CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR, MACHINE_CONFIG_CONTROLLER,
            MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER, NAMESPACE_CONTROLLER,
        };
        match self {
            Self::BundleSecretDelete | Self::BundleSecretEmptied => {
                &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, NAMESPACE_CONTROLLER, GARBAGE_COLLECTOR]
            }
            Self::BundleCrdDelete => &[CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR],
            Self::MachineConfigCreateWithOsImage | Self::MachineConfigOsImageChange => {
                &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER]
            }
            _ => &[],
        }
    }

    /// For a person.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::ClusterVersionStep => {
                "UPDATE of ClusterVersion: spec.desiredUpdate version, image, architecture or mode, or force switched on"
            }
            Self::ClusterVersionCreateWithTarget => "CREATE of ClusterVersion with a spec.desiredUpdate",
            Self::ClusterVersionDelete => "DELETE of ClusterVersion",
            Self::InternalReleaseImageDrop => "UPDATE of InternalReleaseImage that drops an entry of spec.releases",
            Self::InternalReleaseImageDelete => "DELETE of InternalReleaseImage",
            Self::InternalReleaseImageAdd => "UPDATE of InternalReleaseImage that adds an entry of spec.releases",
            Self::InternalReleaseImageCreate => "CREATE of InternalReleaseImage",
            Self::BundleSecretDelete => {
                "DELETE of Secret internal-release-image-tls or internal-release-image-registry-auth in openshift-machine-config-operator"
            }
            Self::BundleSecretEmptied => "UPDATE of one of these Secrets that empties or drops a key",
            Self::BundleCrdDelete => {
                "DELETE of CustomResourceDefinition internalreleaseimages or machineconfignodes (machineconfiguration.openshift.io)"
            }
            Self::MachineConfigCreateWithOsImage => {
                "CREATE of a MachineConfig with spec.osImageURL, rendered ones left out"
            }
            Self::MachineConfigOsImageChange => {
                "UPDATE of a MachineConfig that changes spec.osImageURL, rendered ones left out"
            }
            Self::MirrorsCreate(MirrorKind::Digest) => "CREATE of ImageDigestMirrorSet",
            Self::MirrorsCreate(MirrorKind::Tag) => "CREATE of ImageTagMirrorSet",
            Self::MirrorsCreate(MirrorKind::ContentSource) => "CREATE of ImageContentSourcePolicy",
            Self::MirrorsChange(MirrorKind::Digest) => "UPDATE of ImageDigestMirrorSet: spec.imageDigestMirrors",
            Self::MirrorsChange(MirrorKind::Tag) => "UPDATE of ImageTagMirrorSet: spec.imageTagMirrors",
            Self::MirrorsChange(MirrorKind::ContentSource) => {
                "UPDATE of ImageContentSourcePolicy: spec.repositoryDigestMirrors"
            }
            Self::MirrorsDelete(MirrorKind::Digest) => "DELETE of ImageDigestMirrorSet",
            Self::MirrorsDelete(MirrorKind::Tag) => "DELETE of ImageTagMirrorSet",
            Self::MirrorsDelete(MirrorKind::ContentSource) => "DELETE of ImageContentSourcePolicy",
            Self::ImageConfigCreate => {
                "CREATE of Image (config.openshift.io) with spec.registrySources (blocked, allowed, insecure)"
            }
            Self::ImageConfigChange => {
                "UPDATE of Image (config.openshift.io): spec.registrySources (blocked, allowed, insecure) and spec.additionalTrustedCA"
            }
            Self::ImageConfigDelete => "DELETE of Image (config.openshift.io)",
        }
    }

    /// Whether an allow of it cannot be undone, so that it must rest on live facts.
    #[must_use]
    pub fn irreversible(self) -> bool {
        matches!(self, Self::InternalReleaseImageDrop | Self::InternalReleaseImageDelete)
    }
}
