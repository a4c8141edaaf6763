//! What airgate may do, from the policy records: it reads the facts that they name, and writes Events.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::{Document, NAME, Options, named};
use crate::events::NAMESPACE as EVENTS_NAMESPACE;
use crate::policies::POLICIES;
use crate::policy::FactKind;
use crate::resource::{self, Resource};

/// Where the rights stand.
pub(super) const FILE: &str = "rights";

/// All of it for the server's service account, but for the registries.
pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![
        Document::new(FILE, cluster_role())?,
        Document::new(FILE, cluster_role_binding(NAME, options))?,
        Document::new(FILE, events_role())?,
        Document::new(FILE, events_role_binding(options))?,
    ];
    if options.flavor.on_openshift() {
        documents.extend(namespaced_facts(options)?);
    }
    Ok(documents)
}

/// Facts that the server reads whatever the policies name. Whether the control plane is hosted decides how far
/// every ClusterVersion policy may go; the IRI is shown on /statusz and read by `airgate check`; the mirrors say
/// where releases are read from.
const ALWAYS: [FactKind; 6] = [
    FactKind::Infrastructure,
    FactKind::InternalReleaseImage,
    FactKind::ImageDigestMirrorSets,
    FactKind::ImageTagMirrorSets,
    FactKind::ImageContentSourcePolicies,
    FactKind::ImageConfig,
];

/// What the server reads for itself: the TLS profile that it follows.
const OWN: [&Resource; 1] = [&resource::API_SERVERS];

/// Read access to exactly the facts that policies name, and those above.
fn cluster_role() -> ClusterRole {
    let mut facts: Vec<FactKind> = POLICIES.iter().flat_map(|policy| policy.facts).copied().collect();
    facts.extend(ALWAYS);
    facts.sort();
    facts.dedup();
    let resources = facts.into_iter().map(FactKind::resource).filter(|resource| resource.namespace.is_none());
    // One object is read by a list too.
    let rules = resources.chain(OWN).map(|resource| rule(resource.group, resource.plural, &["list", "watch"]));
    ClusterRole { metadata: named(NAME, None), rules: Some(rules.collect()), ..ClusterRole::default() }
}

pub(super) fn cluster_role_binding(name: &str, options: &Options) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(name, None),
        role_ref: role_ref("ClusterRole", name),
        subjects: Some(subjects(options)),
    }
}

/// Events for what an auditor should see; those of cluster-scoped objects live in one namespace.
fn events_role() -> Role {
    Role { metadata: named(NAME, Some(EVENTS_NAMESPACE)), rules: Some(vec![rule("", "events", &["create"])]) }
}

fn events_role_binding(options: &Options) -> RoleBinding {
    RoleBinding {
        metadata: named(NAME, Some(EVENTS_NAMESPACE)),
        role_ref: role_ref("Role", NAME),
        subjects: Some(subjects(options)),
    }
}

/// Facts that live in one namespace of OpenShift. A list by label cannot be limited to names.
fn namespaced_facts(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut rules: BTreeMap<&str, Vec<PolicyRule>> = BTreeMap::new();
    for resource in POLICIES.iter().flat_map(|policy| policy.facts).map(|fact| fact.resource()) {
        let Some(namespace) = resource.namespace else { continue };
        let rule = rule(resource.group, resource.plural, &["list", "watch"]);
        let of_namespace = rules.entry(namespace).or_default();
        if !of_namespace.contains(&rule) {
            of_namespace.push(rule);
        }
    }
    let mut documents = vec![];
    for (namespace, rules) in rules {
        let metadata = || named(NAME, Some(namespace));
        documents.push(Document::new(FILE, Role { metadata: metadata(), rules: Some(rules) })?);
        let (role_ref, subjects) = (role_ref("Role", NAME), Some(subjects(options)));
        documents.push(Document::new(FILE, RoleBinding { metadata: metadata(), role_ref, subjects })?);
    }
    Ok(documents)
}

pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(&[resource])),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

pub(super) fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: kind.into(), name: name.into() }
}

pub(super) fn subjects(options: &Options) -> Vec<Subject> {
    if let Some(user) = &options.user {
        let api_group = Some("rbac.authorization.k8s.io".into());
        return vec![Subject { api_group, kind: "User".into(), name: user.clone(), namespace: None }];
    }
    vec![Subject {
        kind: "ServiceAccount".into(),
        name: NAME.into(),
        namespace: Some(options.namespace.clone()),
        ..Subject::default()
    }]
}
