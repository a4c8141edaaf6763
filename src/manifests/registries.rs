//! What airgate may read of a cluster to reach its registries: single objects by name, and nothing else of Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};

use super::rights::{FILE, cluster_role_binding, role_ref, rule, subjects};
use super::{Document, Options, named};
use crate::fetch::access::{CLUSTER_OBJECTS, OBJECTS};

const NAME: &str = "airgate-registries";

/// Only where these namespaces are: on OpenShift.
pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents =
        vec![Document::new(FILE, cluster_role())?, Document::new(FILE, cluster_role_binding(NAME, options))?];
    let mut by_namespace: BTreeMap<&str, Vec<PolicyRule>> = BTreeMap::new();
    for (namespace, resource, name) in OBJECTS {
        by_namespace.entry(namespace).or_default().push(by_name("", resource, name));
    }
    for (namespace, rules) in by_namespace {
        let metadata = || named(NAME, Some(namespace));
        documents.push(Document::new(FILE, Role { metadata: metadata(), rules: Some(rules) })?);
        documents.push(Document::new(
            FILE,
            RoleBinding { metadata: metadata(), role_ref: role_ref("Role", NAME), subjects: Some(subjects(options)) },
        )?);
    }
    Ok(documents)
}

fn cluster_role() -> ClusterRole {
    let rules = CLUSTER_OBJECTS.iter().map(|(group, _, resource, name)| by_name(group, resource, name));
    ClusterRole { metadata: named(NAME, None), rules: Some(rules.collect()), ..ClusterRole::default() }
}

/// RBAC cannot limit to a name that another object holds: there it is the namespace.
fn by_name(group: &str, resource: &str, name: &str) -> PolicyRule {
    let names = (!name.is_empty()).then(|| vec![name.to_owned()]);
    PolicyRule { resource_names: names, ..rule(group, resource, &["get"]) }
}
