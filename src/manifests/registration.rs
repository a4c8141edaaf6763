//! What `airgate serve --register` may do: keep the one webhook configuration, agree by one Lease, and read the
//! namespace that owns it.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};

use super::rights::{FILE, cluster_role_binding, role_ref, rule, subjects};
use super::{Document, NAME as OBJECT, Options, named};

const NAME: &str = "airgate-registration";

/// In the whole cluster: one object by its name. Creation too, since server-side apply names what it creates.
/// Deletion is for a namespace that is leaving or says `airgate.io/unregistered`, and what the API server asks of
/// who changes an owner reference.
pub(super) fn cluster_rules() -> Vec<PolicyRule> {
    let verbs = ["create", "delete", "get", "patch"];
    vec![by_name(rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", &verbs))]
}

/// In its own namespace. A Lease has no name yet when it is created.
pub(super) fn namespaced_rules() -> Vec<PolicyRule> {
    vec![
        rule("coordination.k8s.io", "leases", &["create"]),
        by_name(rule("coordination.k8s.io", "leases", &["get", "update"])),
        // Of a Role it opens that one namespace alone.
        rule("", "namespaces", &["get"]),
    ]
}

fn by_name(rule: PolicyRule) -> PolicyRule {
    PolicyRule { resource_names: Some(vec![OBJECT.into()]), ..rule }
}

pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let metadata = || named(NAME, Some(&options.namespace));
    let cluster = ClusterRole { metadata: named(NAME, None), rules: Some(cluster_rules()), ..ClusterRole::default() };
    let binding =
        RoleBinding { metadata: metadata(), role_ref: role_ref("Role", NAME), subjects: Some(subjects(options)) };
    Ok(vec![
        Document::new(FILE, cluster)?,
        Document::new(FILE, cluster_role_binding(NAME, options))?,
        Document::new(FILE, Role { metadata: metadata(), rules: Some(namespaced_rules()) })?,
        Document::new(FILE, binding)?,
    ])
}
