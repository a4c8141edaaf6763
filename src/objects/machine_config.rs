//! MachineConfigPools, the rendered MachineConfigs they run, and the cluster's topology.

use serde::Deserialize;

use super::{Metadata, Str, into_owned, object};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfigPool<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: PoolSide<'a>,
    #[serde(deserialize_with = "object")]
    pub status: PoolSide<'a>,
}

/// `spec` (where the pool is going) or `status` (what its nodes run) of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct PoolSide<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub configuration: Configuration<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Configuration<'a> {
    /// Name of a rendered MachineConfig; empty before the first rendering.
    #[serde(borrow)]
    pub name: Str<'a>,
}

/// Of a MachineConfig only its name, the annotation that says which release it was rendered for, and its OS image: the
/// files of a node make up megabytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfig<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    /// Only of one that a request is about.
    #[serde(deserialize_with = "object")]
    pub spec: MachineConfigSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfigSpec<'a> {
    /// Empty for the OS of the release.
    #[serde(borrow, rename = "osImageURL")]
    pub os_image_url: Str<'a>,
}

impl MachineConfig<'_> {
    /// Whether the machine-config-controller made it out of the others.
    #[must_use]
    pub fn is_rendered(metadata: &Metadata<'_>) -> bool {
        metadata.name.starts_with(RENDERED)
    }
}

/// What the names of rendered MachineConfigs begin with.
pub const RENDERED: &str = "rendered-";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Infrastructure<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub status: InfrastructureStatus<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct InfrastructureStatus<'a> {
    #[serde(borrow)]
    pub control_plane_topology: Str<'a>,
    /// `https://api-int.DOMAIN:6443`, the load balancer that nodes use.
    #[serde(rename = "apiServerInternalURI")]
    pub api_server_internal_uri: Str<'a>,
}

impl InfrastructureStatus<'_> {
    /// The host of `apiServerInternalURI`, which also leads to the registries of an InternalReleaseImage.
    #[must_use]
    pub fn api_int_host(&self) -> Option<&str> {
        let rest = self.api_server_internal_uri.strip_prefix("https://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => authority,
        };
        (!host.is_empty()).then_some(host)
    }
}

into_owned! {
    MachineConfigPool { metadata, spec, status }
    PoolSide { configuration }
    Configuration { name }
    MachineConfig { metadata, spec }
    MachineConfigSpec { os_image_url }
    Infrastructure { status }
    InfrastructureStatus { control_plane_topology, api_server_internal_uri }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_int_host_is_read_without_its_port() {
        for (uri, expected) in [
            ("https://api-int.c.example.test:6443", Some("api-int.c.example.test")),
            ("https://api-int.c.example.test/", Some("api-int.c.example.test")),
            ("https://[fd00::1]:6443", Some("[fd00::1]")),
            ("https://[fd00::1]", Some("[fd00::1]")),
            ("https://:6443", None),
            ("api-int.c.example.test:6443", None),
            ("", None),
        ] {
            let text = format!(r#"{{"status":{{"apiServerInternalURI":"{uri}"}}}}"#);
            let found: Infrastructure<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(found.status.api_int_host(), expected, "{uri}");
        }
    }
}
