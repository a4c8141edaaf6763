//! `nodes` of the core group: who is of the control plane, who is Ready, and where each is reached.

use serde::Deserialize;

use super::{DetailedCondition, Str, into_owned, object, objects};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Node<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: NodeMetadata<'a>,
    #[serde(deserialize_with = "object")]
    pub status: NodeStatus<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeMetadata<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
    #[serde(deserialize_with = "object")]
    pub labels: RoleLabels<'a>,
}

/// The labels of the control plane's role. Their values are empty; that they are there is what counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct RoleLabels<'a> {
    #[serde(borrow, rename = "node-role.kubernetes.io/control-plane")]
    pub control_plane: Option<Str<'a>>,
    #[serde(rename = "node-role.kubernetes.io/master")]
    pub master: Option<Str<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct NodeStatus<'a> {
    #[serde(borrow, deserialize_with = "objects")]
    pub conditions: Vec<DetailedCondition<'a>>,
    #[serde(deserialize_with = "objects")]
    pub addresses: Vec<Address<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Address<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    pub address: Str<'a>,
}

impl<'a> Node<'a> {
    #[must_use]
    pub fn control_plane(&self) -> bool {
        self.metadata.labels.control_plane.is_some() || self.metadata.labels.master.is_some()
    }

    /// What the node controller says of its readiness.
    #[must_use]
    pub fn ready(&self) -> Option<&DetailedCondition<'a>> {
        self.status.conditions.iter().find(|condition| &*condition.kind == "Ready")
    }

    /// Where others of the cluster reach it: its first address of the kind InternalIP.
    #[must_use]
    pub fn internal_address(&self) -> Option<&str> {
        self.status.addresses.iter().find(|address| &*address.kind == "InternalIP").map(|address| &*address.address)
    }
}

into_owned! {
    Node { metadata, status }
    NodeMetadata { name, labels }
    RoleLabels { control_plane, master }
    NodeStatus { conditions, addresses }
    Address { kind, address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_label_without_a_value() {
        let node = |labels: &str| {
            let text = format!(r#"{{"metadata":{{"name":"n","labels":{labels}}}}}"#);
            serde_json::from_str::<Node<'_>>(&text).map(|node| node.control_plane()).unwrap()
        };
        assert!(node(r#"{"node-role.kubernetes.io/master":""}"#));
        assert!(node(r#"{"node-role.kubernetes.io/control-plane":"","node-role.kubernetes.io/worker":""}"#));
        assert!(!node(r#"{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/arbiter":""}"#));
        assert!(!node("{}") && !node("null"));
    }
}
