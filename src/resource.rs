//! The cluster resources airgate reads, under every name people and files give them.

/// One resource airgate has a use for. All of them are cluster-scoped so far.
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
}

pub static CLUSTER_VERSIONS: Resource = Resource {
    kind: "ClusterVersion",
    plural: "clusterversions",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &[],
    singleton: Some(crate::objects::cluster_version::NAME),
    metadata_only: false,
};

pub static INTERNAL_RELEASE_IMAGES: Resource = Resource {
    kind: "InternalReleaseImage",
    plural: "internalreleaseimages",
    group: "machineconfiguration.openshift.io",
    versions: &["v1", "v1alpha1"],
    short: &[],
    singleton: Some(crate::objects::internal_release_image::NAME),
    metadata_only: false,
};

pub static MACHINE_CONFIG_NODES: Resource = Resource {
    kind: "MachineConfigNode",
    plural: "machineconfignodes",
    group: "machineconfiguration.openshift.io",
    versions: &["v1", "v1alpha1"],
    short: &[],
    singleton: None,
    metadata_only: false,
};

pub static MACHINE_CONFIG_POOLS: Resource = Resource {
    kind: "MachineConfigPool",
    plural: "machineconfigpools",
    group: "machineconfiguration.openshift.io",
    versions: &["v1"],
    short: &["mcp"],
    singleton: None,
    metadata_only: false,
};

pub static MACHINE_CONFIGS: Resource = Resource {
    kind: "MachineConfig",
    plural: "machineconfigs",
    group: "machineconfiguration.openshift.io",
    versions: &["v1"],
    short: &["mc"],
    singleton: None,
    metadata_only: true,
};

pub static INFRASTRUCTURES: Resource = Resource {
    kind: "Infrastructure",
    plural: "infrastructures",
    group: "config.openshift.io",
    versions: &["v1"],
    short: &["infra"],
    singleton: Some("cluster"),
    metadata_only: false,
};

pub static NODES: Resource = Resource {
    kind: "Node",
    plural: "nodes",
    group: "",
    versions: &["v1"],
    short: &["no"],
    singleton: None,
    metadata_only: false,
};

pub static ALL: [&Resource; 7] = [
    &CLUSTER_VERSIONS,
    &INTERNAL_RELEASE_IMAGES,
    &MACHINE_CONFIG_NODES,
    &MACHINE_CONFIG_POOLS,
    &MACHINE_CONFIGS,
    &INFRASTRUCTURES,
    &NODES,
];

impl Resource {
    /// As RBAC and `oc` write it: `clusterversions.config.openshift.io`, `nodes`.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether a must-gather or inspect tree keeps it below `GROUP/PLURAL`; the core group is called `core` there.
    #[must_use]
    pub fn inspected_as(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && group == if self.group.is_empty() { "core" } else { self.group }
    }

    /// Of this `apiVersion`, whose group is empty for the core: `v1`.
    #[must_use]
    pub fn has_group_of(&self, api_version: &str) -> bool {
        self.group == api_version.rsplit_once('/').map_or("", |(group, _)| group)
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
            named && self.group.as_deref().is_none_or(|group| group == resource.group)
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
            ("node", Some("Node")),
            ("nodes.v1.", Some("Node")),
            ("nodes.config.openshift.io", None),
            ("pods", None),
        ] {
            assert_eq!(ResourceId::parse(text).find().map(|found| found.kind), expected, "{text}");
        }
        assert!(ResourceId::new("MachineConfig", Some("")).find().is_none());
    }
}
