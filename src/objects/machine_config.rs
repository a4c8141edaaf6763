//! MachineConfigPools, the rendered MachineConfigs they run, and the cluster's topology.

use serde::Deserialize;

use super::{Metadata, Str, into_owned, object};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct PoolSide<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub configuration: Configuration<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Configuration<'a> {
    /// Name of a rendered MachineConfig; empty before the first rendering.
    #[serde(borrow)]
    pub name: Str<'a>,
}

/// Of a MachineConfig only its name and the annotation that says which release it was rendered for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct MachineConfig<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Infrastructure<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub status: InfrastructureStatus<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct InfrastructureStatus<'a> {
    #[serde(borrow)]
    pub control_plane_topology: Str<'a>,
    /// `https://api-int.DOMAIN:6443`
    #[serde(rename = "apiServerInternalURI")]
    pub api_server_internal_url: Str<'a>,
}

into_owned! {
    MachineConfigPool { metadata, spec, status }
    PoolSide { configuration }
    Configuration { name }
    MachineConfig { metadata }
    Infrastructure { status }
    InfrastructureStatus { control_plane_topology, api_server_internal_url }
}
