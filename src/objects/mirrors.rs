//! Mirror rules (ImageDigestMirrorSet, ImageTagMirrorSet, ImageContentSourcePolicy) and the image configuration
//! of the cluster (`images.config.openshift.io`): where nodes may pull images from.

use serde::Deserialize;

use super::{Metadata, Str, into_owned, object, objects, strings};
use crate::resource::{self, Resource};

/// The name of the image configuration that counts.
pub const IMAGE_CONFIG: &str = "cluster";

/// The three kinds that say where nodes find images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MirrorKind {
    /// ImageDigestMirrorSet
    Digest,
    /// ImageTagMirrorSet
    Tag,
    /// ImageContentSourcePolicy, deprecated: by digest, and the source may always be contacted.
    ContentSource,
}

impl MirrorKind {
    pub const ALL: [Self; 3] = [Self::Digest, Self::Tag, Self::ContentSource];

    #[must_use]
    pub fn resource(self) -> &'static Resource {
        match self {
            Self::Digest => &resource::IMAGE_DIGEST_MIRROR_SETS,
            Self::Tag => &resource::IMAGE_TAG_MIRROR_SETS,
            Self::ContentSource => &resource::IMAGE_CONTENT_SOURCE_POLICIES,
        }
    }

    /// The list of `spec` that this kind has.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Digest => "spec.imageDigestMirrors",
            Self::Tag => "spec.imageTagMirrors",
            Self::ContentSource => "spec.repositoryDigestMirrors",
        }
    }
}

/// An object of any of the three kinds; which list counts is for [`MirrorSet::of`] to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MirrorSet<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: MirrorSetSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct MirrorSetSpec<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    pub image_digest_mirrors: Vec<Mirrors<'a>>,
    #[serde(deserialize_with = "objects")]
    pub image_tag_mirrors: Vec<Mirrors<'a>>,
    #[serde(deserialize_with = "objects")]
    pub repository_digest_mirrors: Vec<Mirrors<'a>>,
}

/// Where to find what is named below `source`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Mirrors<'a> {
    /// `HOST[:PORT][/PATH]` or `*.HOST`; it covers everything below it.
    #[serde(borrow)]
    pub source: Str<'a>,
    /// `HOST[:PORT][/PATH]`, in the order in which they are tried.
    #[serde(deserialize_with = "strings")]
    pub mirrors: Vec<Str<'a>>,
    /// `AllowContactingSource`, which "" means too, or `NeverContactSource`.
    pub mirror_source_policy: Str<'a>,
}

impl<'a> MirrorSet<'a> {
    /// The rules that an object of this kind makes.
    #[must_use]
    pub fn of(&self, kind: MirrorKind) -> &[Mirrors<'a>] {
        match kind {
            MirrorKind::Digest => &self.spec.image_digest_mirrors,
            MirrorKind::Tag => &self.spec.image_tag_mirrors,
            MirrorKind::ContentSource => &self.spec.repository_digest_mirrors,
        }
    }
}

/// `images.config.openshift.io`
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ImageConfig<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: ImageConfigSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ImageConfigSpec<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub registry_sources: RegistrySources<'a>,
    /// A ConfigMap of openshift-config with a CA bundle a registry host.
    #[serde(rename = "additionalTrustedCA", deserialize_with = "object")]
    pub additional_trusted_ca: ConfigMapName<'a>,
}

/// Each entry is a scope: `HOST[:PORT][/PATH]` or `*.HOST`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct RegistrySources<'a> {
    #[serde(borrow, deserialize_with = "strings")]
    pub blocked_registries: Vec<Str<'a>>,
    #[serde(deserialize_with = "strings")]
    pub allowed_registries: Vec<Str<'a>>,
    #[serde(deserialize_with = "strings")]
    pub insecure_registries: Vec<Str<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ConfigMapName<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
}

into_owned! {
    MirrorSet { metadata, spec }
    MirrorSetSpec { image_digest_mirrors, image_tag_mirrors, repository_digest_mirrors }
    Mirrors { source, mirrors, mirror_source_policy }
    ImageConfig { metadata, spec }
    ImageConfigSpec { registry_sources, additional_trusted_ca }
    RegistrySources { blocked_registries, allowed_registries, insecure_registries }
    ConfigMapName { name }
}
