//! The cluster resources airgate reads, under every name people and files give them.

/// One resource airgate has a use for.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    pub kind: &'static str,
    pub plural: &'static str,
    pub group: &'static str,
    /// Versions whose fields airgate knows, the preferred one first.
    pub versions: &'static [&'static str],
    short: &'static [&'static str],
    /// The name of the only object that counts.
    pub singleton: Option<&'static str>,
    /// Whether only metadata is of use: a MachineConfig carries the files of a node, up to megabytes.
    pub metadata_only: bool,
    /// The one namespace that counts; `None` for what is cluster-scoped.
    pub namespace: Option<&'static str>,
    /// The label that objects of use have, in a live cluster.
    pub label: Option<&'static str>,
}

pub static CLUSTER_VERSIONS: Resource = Resource {
    kind: "ClusterVersion",
    plural: "clusterversions",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &[],
    singleton: Some(crate::objects::cluster_version::NAME),
    metadata_only: false,
    namespace: None,
    label: None,
};

pub static INTERNAL_RELEASE_IMAGES: Resource = Resource {
    kind: "InternalReleaseImage",
    plural: "internalreleaseimages",
    group: "machineconfiguration.openshift.io",
    versions: &["v1", "v1alpha1"],
    short: &[],
    singleton: Some(crate::objects::internal_release_image::NAME),
    metadata_only: false,
    namespace: None,
    label: None,
};

pub static MACHINE_CONFIG_NODES: Resource = Resource {
    kind: "MachineConfigNode",
    plural: "machineconfignodes",
    group: "machineconfiguration.openshift.io",
    versions: &["v1", "v1alpha1"],
    short: &[],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

pub static MACHINE_CONFIG_POOLS: Resource = Resource {
    kind: "MachineConfigPool",
    plural: "machineconfigpools",
    group: "machineconfiguration.openshift.io",
    versions: &["v1"],
    short: &["mcp"],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

pub static MACHINE_CONFIGS: Resource = Resource {
    kind: "MachineConfig",
    plural: "machineconfigs",
    group: "machineconfiguration.openshift.io",
    versions: &["v1"],
    short: &["mc"],
    singleton: None,
    metadata_only: true,
    namespace: None,
    label: None,
};

pub static INFRASTRUCTURES: Resource = Resource {
    kind: "Infrastructure",
    plural: "infrastructures",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &["infra"],
    singleton: Some("cluster"),
    metadata_only: false,
    namespace: None,
    label: None,
};

/// Where nodes pull images from instead of where they are named: by digest.
pub static IMAGE_DIGEST_MIRROR_SETS: Resource = Resource {
    kind: "ImageDigestMirrorSet",
    plural: "imagedigestmirrorsets",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &["idms"],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

/// The same by tag.
pub static IMAGE_TAG_MIRROR_SETS: Resource = Resource {
    kind: "ImageTagMirrorSet",
    plural: "imagetagmirrorsets",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &["itms"],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

/// The deprecated form of the first, which still counts.
pub static IMAGE_CONTENT_SOURCE_POLICIES: Resource = Resource {
    kind: "ImageContentSourcePolicy",
    plural: "imagecontentsourcepolicies",
    group: "operator.openshift.io",
    versions: &["v1alpha1"],
    short: &["icsp"],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

/// Which registries the cluster blocks, allows and trusts. Its kind is `Image`.
pub static IMAGE_CONFIGS: Resource = Resource {
    kind: "Image",
    plural: "images",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &[],
    singleton: Some(crate::objects::mirrors::IMAGE_CONFIG),
    metadata_only: false,
    namespace: None,
    label: None,
};

/// ConfigMaps of the namespace where the CVO looks for release signatures and their keys.
pub static RELEASE_SIGNATURES: Resource = Resource {
    kind: "ConfigMap",
    plural: "configmaps",
    group: "",
    versions: &["v1"],
    short: &["cm"],
    singleton: None,
    metadata_only: false,
    namespace: Some("openshift-config-managed"),
    label: Some("release.openshift.io/verification-signatures"),
};

/// The one of them with the keys, which has no such label: a watch of its own, the same files.
pub static RELEASE_VERIFICATION: Resource = Resource {
    kind: "ConfigMap",
    plural: "configmaps",
    group: "",
    versions: &["v1"],
    short: &[],
    singleton: Some("release-verification"),
    metadata_only: false,
    namespace: Some("openshift-config-managed"),
    label: None,
};

pub static NODES: Resource = Resource {
    kind: "Node",
    plural: "nodes",
    group: "",
    versions: &["v1"],
    short: &["no"],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

/// Catalogs of operators that every namespace sees.
pub static CATALOG_SOURCES: Resource = Resource {
    kind: "CatalogSource",
    plural: "catalogsources",
    group: "operators.coreos.com",
    versions: &["v1alpha1"],
    short: &["catsrc"],
    singleton: None,
    metadata_only: false,
    namespace: Some(crate::objects::catalog::NAMESPACE),
    label: None,
};

/// The same for OLM's successor.
pub static CLUSTER_CATALOGS: Resource = Resource {
    kind: "ClusterCatalog",
    plural: "clustercatalogs",
    group: "olm.operatorframework.io",
    versions: &["v1"],
    short: &[],
    singleton: None,
    metadata_only: false,
    namespace: None,
    label: None,
};

/// Whose TLS security profile the server follows. No verdict rests on it, so it is in no snapshot.
pub static API_SERVERS: Resource = Resource {
    kind: "APIServer",
    plural: "apiservers",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &[],
    singleton: Some(crate::objects::api_server::NAME),
    metadata_only: false,
    namespace: None,
    label: None,
};

pub static ALL: [&Resource; 14] = [
    &CLUSTER_VERSIONS,
    &INTERNAL_RELEASE_IMAGES,
    &MACHINE_CONFIG_NODES,
    &MACHINE_CONFIG_POOLS,
    &MACHINE_CONFIGS,
    &INFRASTRUCTURES,
    &IMAGE_DIGEST_MIRROR_SETS,
    &IMAGE_TAG_MIRROR_SETS,
    &IMAGE_CONTENT_SOURCE_POLICIES,
    &IMAGE_CONFIGS,
    &RELEASE_SIGNATURES,
    &NODES,
    &CATALOG_SOURCES,
    &CLUSTER_CATALOGS,
];

/// Everything that is read: also what lies among the objects of another resource.
pub fn read() -> impl Iterator<Item = &'static Resource> {
    ALL.into_iter().chain([&RELEASE_VERIFICATION])
}

impl Resource {
    /// Whether `other` is another selection of the same objects, or this one.
    #[must_use]
    pub fn same_kind(&self, other: &Self) -> bool {
        (self.group, self.kind) == (other.group, other.kind)
    }

    /// As RBAC and `oc` write it: `clusterversions.config.openshift.io`.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.into() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// What of it is read, as arguments of `oc get`; of a cluster-scoped resource all.
    #[must_use]
    pub fn selected(&self) -> String {
        let Some(namespace) = self.namespace else { return self.full_name() };
        let only = match (self.singleton, self.label) {
            (Some(name), _) => format!(" {name}"),
            (None, Some(label)) => format!(" -l {label}"),
            (None, None) => String::new(),
        };
        format!("{} -n {namespace}{only}", self.full_name())
    }

    /// As a person asks `oc` for it: with the group where the plural alone means something else.
    #[must_use]
    pub fn oc_name(&self) -> String {
        if self.needs_group() { self.full_name() } else { self.plural.to_owned() }
    }

    /// `oc get images` lists those of image.openshift.io.
    fn needs_group(&self) -> bool {
        self.plural == "images"
    }
}

/// A resource as somebody wrote it: plural, singular, kind or short name, with or without group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceId {
    name: String,
    group: Option<String>,
}

impl ResourceId {
    /// From a resource or kind, and its API group where that is known (an admission request says both).
    #[must_use]
    pub fn new(resource_or_kind: &str, group: Option<&str>) -> Self {
        Self { name: resource_or_kind.to_ascii_lowercase(), group: group.map(str::to_ascii_lowercase) }
    }

    /// As on a command line: `clusterversion`, `mcp`, `clusterversions.config.openshift.io`, `clusterversions.v1.config.openshift.io`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let Some((name, rest)) = text.split_once('.') else { return Self::new(text, None) };
        let version = |part: &str| part.strip_prefix('v').is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
        let group = rest.split_once('.').filter(|(first, _)| version(first)).map_or(rest, |(_, group)| group);
        Self::new(name, Some(group))
    }

    /// `None` for a resource airgate has no use for.
    #[must_use]
    pub fn find(&self) -> Option<&'static Resource> {
        ALL.into_iter().find(|resource| {
            let singular = resource.kind.to_ascii_lowercase();
            let named = self.name == resource.plural || self.name == singular || resource.short.contains(&&*self.name);
            named && self.group.as_deref().map_or(!resource.needs_group(), |group| group == resource.group)
        })
    }
}

impl std::fmt::Display for ResourceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.group.as_ref().filter(|group| !group.is_empty()).map_or(Ok(()), |group| write!(f, ".{group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_resource_under_every_usual_name() {
        for (text, expected) in [
            ("clusterversion", Some("ClusterVersion")),
            ("ClusterVersion", Some("ClusterVersion")),
            ("clusterversions.config.openshift.io", Some("ClusterVersion")),
            ("clusterversions.v1.config.openshift.io", Some("ClusterVersion")),
            ("clusterversions.example.com", None),
            ("mcp", Some("MachineConfigPool")),
            ("infra", Some("Infrastructure")),
            ("idms", Some("ImageDigestMirrorSet")),
            ("imagecontentsourcepolicies.operator.openshift.io", Some("ImageContentSourcePolicy")),
            ("images.config.openshift.io", Some("Image")),
            ("node", Some("Node")),
            ("nodes.v1.", Some("Node")),
            ("nodes.config.openshift.io", None),
            ("images", None),
            ("images.image.openshift.io", None),
            ("pods", None),
        ] {
            assert_eq!(ResourceId::parse(text).find().map(|found| found.kind), expected, "{text}");
        }
        assert!(ResourceId::new("MachineConfig", Some("")).find().is_none());
    }
}
