//! A cluster on its way into files: what `airgate snapshot` writes, complete enough for `--state` and, with a
//! request, for the same verdict again.
//!
//! Invariants: every resource that airgate reads is saved, absent, or named as not known; a Secret is never
//! saved; a directory is there as a whole or not at all.

mod directory;
mod proofs;
mod replay;

use serde_json::Value;

pub use directory::{Refused, write};
pub use replay::{Replay, Request};

use crate::cluster::Missing;
use crate::resource::{self, Resource};

/// What is to be saved of one resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    /// All its objects.
    Whole(Vec<Value>),
    /// Some of them; there may be more.
    Part(Vec<Value>),
    /// The cluster does not have the resource.
    Absent,
    Unknown(Missing),
}

/// Everything that is to be saved, in the order of [`crate::resource::ALL`].
pub type Objects = Vec<(&'static Resource, Saved)>;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Saved {
    /// Two selections of the objects of one kind as one.
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        let both = |mut one: Vec<Value>, other: Vec<Value>| {
            one.extend(other);
            one
        };
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => Self::Whole(both(one, other)),
            (Self::Whole(one) | Self::Part(one), Self::Whole(other) | Self::Part(other)) => {
                Self::Part(both(one, other))
            }
            (Self::Absent, other) | (other, Self::Absent) => other,
            (Self::Whole(one) | Self::Part(one), Self::Unknown(_)) if !one.is_empty() => Self::Part(one),
            (Self::Unknown(_), Self::Whole(other) | Self::Part(other)) if !other.is_empty() => Self::Part(other),
            (unknown @ Self::Unknown(_), _) | (_, unknown) => unknown,
        }
    }

    /// Objects as they may leave the cluster: without managedFields, and of a resource whose content is of no use
    /// without the copy of it that client-side apply leaves in the metadata. Secrets do not leave it.
    #[must_use]
    pub(crate) fn cleaned(self, of: &Resource) -> Self {
        if of.kind == "Secret" {
            return Self::Unknown(Missing {
                why: "airgate saves no Secrets".into(),
                remedy: "judge requests about them on the cluster itself".into(),
            });
        }
        let clean = |objects: Vec<Value>| {
            objects.into_iter().filter(|object| read(object, of)).map(|object| cleaned(object, of)).collect()
        };
        match self {
            Self::Whole(objects) => Self::Whole(clean(objects)),
            Self::Part(objects) => Self::Part(clean(objects)),
            other => other,
        }
    }
}

/// Whether airgate reads this object of a kind of which it does not read all.
fn read(object: &Value, of: &Resource) -> bool {
    let metadata = &object["metadata"];
    resource::read().filter(|selection| selection.same_kind(of)).any(|selection| {
        match (selection.singleton, selection.label) {
            _ if selection.namespace.is_none() => true,
            (Some(name), _) => metadata["name"] == name,
            (None, Some(label)) => metadata["labels"].get(label).is_some(),
            (None, None) => true,
        }
    })
}

fn cleaned(mut object: Value, of: &Resource) -> Value {
    if of.metadata_only
        && let Some(fields) = object.as_object_mut()
    {
        fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if of.metadata_only
            && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{CLUSTER_VERSIONS, MACHINE_CONFIGS};

    fn check(of: &Resource, object: Value, expected: Value) {
        assert_eq!(Saved::Whole(vec![object.clone()]).cleaned(of), Saved::Whole(vec![expected.clone()]));
        assert_eq!(Saved::Part(vec![object]).cleaned(of), Saved::Part(vec![expected]));
    }

    #[test]
    fn what_nobody_needs_stays_in_the_cluster() {
        let applied = json!({LAST_APPLIED: "{\"spec\":\"of a node's files\"}", "a": "b"});
        let metadata = json!({"name": "x", "managedFields": [{"manager": "m"}], "annotations": applied});
        let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "spec": {"s": 1}});
        let kept = json!({"name": "x", "annotations": applied});
        check(
            &CLUSTER_VERSIONS,
            object.clone(),
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": kept, "spec": {"s": 1}}),
        );
        let kept = json!({"name": "x", "annotations": {"a": "b"}});
        check(&MACHINE_CONFIGS, object, json!({"apiVersion": "g/v1", "kind": "K", "metadata": kept}));
        check(&MACHINE_CONFIGS, json!({"metadata": {"annotations": null}}), json!({"metadata": {"annotations": null}}));
    }
}
