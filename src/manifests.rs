//! What a cluster needs to call airgate, generated from the policy records.
//!
//! Invariants: one entry that can deny per resource; no rule matches a status subresource or `*`; what the
//! conditions leave out, the engine allows without any fact (tested on a real API server).

mod cel;
mod guarded;
mod registries;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use crate::events::NAMESPACE as EVENTS_NAMESPACE;
use crate::policies::POLICIES;
use crate::policy::FactKind;
use crate::settings::ServerMode;
use guarded::{GUARDED, GuardedResource};

/// Where the manifests will be applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flavor {
    /// The service CA signs the certificate and injects the CA bundle.
    #[default]
    Openshift,
    /// cert-manager does.
    Kubernetes,
}

/// How the API server reaches airgate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The Service `airgate` in the flavour's namespace.
    Service,
    /// A server outside the cluster.
    Url(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub flavor: Flavor,
    pub mode: ServerMode,
    pub endpoint: Endpoint,
    /// PEM; the API server trusts nothing else for the call.
    pub ca_bundle: Option<Vec<u8>>,
}

/// A URL the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--url {0} {1}; it must look like https://HOST:PORT or https://HOST:PORT/validate")]
pub struct BadUrl(String, &'static str);

const NAME: &str = "airgate";
/// The one path the server answers reviews on.
const PATH: &str = "/validate";

impl Flavor {
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Openshift => "openshift-airgate",
            Self::Kubernetes => "airgate",
        }
    }

    fn annotations(self) -> BTreeMap<String, String> {
        let (key, value) = match self {
            Self::Openshift => ("service.beta.openshift.io/inject-cabundle", "true".to_owned()),
            Self::Kubernetes => ("cert-manager.io/inject-ca-from", format!("{}/{NAME}", self.namespace())),
        };
        BTreeMap::from([(key.to_owned(), value)])
    }
}

impl Endpoint {
    /// `/validate` is appended where the URL has no path.
    ///
    /// # Errors
    /// What the API server would refuse in it.
    pub fn url(text: &str) -> Result<Self, BadUrl> {
        let bad = |why| BadUrl(text.to_owned(), why);
        let rest = text.strip_prefix("https://").ok_or_else(|| bad("does not begin with https://"))?;
        if rest.contains(['?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(bad("has a user, query, fragment or blank in it"));
        }
        match rest.split_once('/') {
            Some(("", _)) => Err(bad("has no host")),
            None if rest.is_empty() => Err(bad("has no host")),
            None | Some((_, "")) => Ok(Self::Url(format!("https://{}{PATH}", rest.trim_end_matches('/')))),
            Some(_) => Ok(Self::Url(text.to_owned())),
        }
    }
}

/// All manifests as YAML documents.
///
/// # Errors
/// Where a manifest cannot be written as YAML.
pub fn render(options: &Options) -> anyhow::Result<String> {
    let mut documents = vec![yaml(&webhook_configuration(options))?];
    if options.endpoint == Endpoint::Service {
        documents.push(yaml(&cluster_role())?);
        documents.push(yaml(&cluster_role_binding(NAME, options.flavor))?);
        documents.push(yaml(&events_role())?);
        documents.push(yaml(&events_role_binding(options.flavor))?);
        if options.flavor == Flavor::Openshift {
            documents.extend(namespaced_facts(options.flavor)?);
            documents.extend(registries::documents(options.flavor)?);
        }
    }
    if options.mode == ServerMode::Audit {
        match options.endpoint {
            Endpoint::Service => documents.push(yaml(&config_map(options.flavor))?),
            Endpoint::Url(_) => documents.push(
                "# The server needs the key `mode: audit` in its config file (airgate serve --config FILE).\n".into(),
            ),
        }
    }
    Ok(documents.join("---\n"))
}

fn yaml<T: serde::Serialize>(object: &T) -> anyhow::Result<String> {
    // By way of a JSON tree, whose keys are sorted: apiVersion and kind first, the same text every time.
    Ok(serde_saphyr::to_string(&serde_json::to_value(object)?)?)
}

fn webhook_configuration(options: &Options) -> ValidatingWebhookConfiguration {
    let mut webhooks: Vec<ValidatingWebhook> = GUARDED.iter().map(|resource| guarding(resource, options)).collect();
    webhooks.push(override_writes(options));
    let annotations =
        (options.endpoint == Endpoint::Service && options.ca_bundle.is_none()).then(|| options.flavor.annotations());
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta { name: Some(NAME.into()), annotations, ..ObjectMeta::default() },
        webhooks: Some(webhooks),
    }
}

fn guarding(resource: &GuardedResource, options: &Options) -> ValidatingWebhook {
    let guards = resource.guards();
    let operations = guards.iter().map(|guard| guard.operation());
    let condition = guards.iter().map(|guard| cel::guard(*guard)).collect::<Vec<_>>().join(" || ");
    let fail = options.mode == ServerMode::Enforce && resource.fails_closed;
    let answer = (if fail { "Fail" } else { "Ignore" }, if resource.fails_closed { 10 } else { 5 });
    let webhook =
        webhook(options, resource.webhook, vec![resource.rule(operations)], "guarded-step", condition, answer);
    ValidatingWebhook { namespace_selector: only_in([resource.namespace]), ..webhook }
}

/// Lets everything else in a cluster's namespaces pass without a look at it; does not touch what has no namespace.
fn only_in(namespaces: impl IntoIterator<Item = Option<&'static str>>) -> Option<LabelSelector> {
    let names: BTreeSet<String> = namespaces.into_iter().flatten().map(str::to_owned).collect();
    let requirement = |values| LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: "In".into(),
        values: Some(values),
    };
    (!names.is_empty()).then(|| LabelSelector {
        match_expressions: Some(vec![requirement(names.into_iter().collect())]),
        match_labels: None,
    })
}

/// Writes that change the override annotation and are no guarded step themselves: always allowed, so that who
/// set it is on record. Never beside another entry: the conditions exclude each other.
fn override_writes(options: &Options) -> ValidatingWebhook {
    let mut rules: Vec<RuleWithOperations> = vec![];
    let guarded = || GUARDED.iter().filter(|resource| resource.overridable());
    for rule in guarded().map(|resource| resource.rule(["CREATE", "UPDATE"])) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let guards = guarded().flat_map(|resource| resource.guards().into_iter().map(move |guard| (resource, guard)));
    let steps = guards
        .filter(|(_, guard)| guard.operation() != "DELETE")
        .map(|(resource, guard)| {
            format!("(request.resource.resource == '{}' && {})", resource.resource, cel::guard(guard))
        })
        .collect::<Vec<_>>()
        .join(" || ");
    let condition = format!("{} && !({steps})", cel::override_changed());
    let webhook = webhook(options, "override.airgate.io", rules, "override-changed", condition, ("Ignore", 5));
    ValidatingWebhook { namespace_selector: only_in(guarded().map(|resource| resource.namespace)), ..webhook }
}

fn webhook(
    options: &Options,
    name: &str,
    rules: Vec<RuleWithOperations>,
    condition_name: &str,
    condition: String,
    (failure_policy, timeout_seconds): (&str, i32),
) -> ValidatingWebhook {
    let (service, url) = match &options.endpoint {
        Endpoint::Url(url) => (None, Some(url.clone())),
        Endpoint::Service => {
            let service = ServiceReference {
                name: NAME.into(),
                namespace: options.flavor.namespace().into(),
                path: Some(PATH.into()),
                port: Some(443),
            };
            (Some(service), None)
        }
    };
    ValidatingWebhook {
        name: name.into(),
        admission_review_versions: vec!["v1".into()],
        client_config: WebhookClientConfig { ca_bundle: options.ca_bundle.clone().map(ByteString), service, url },
        failure_policy: Some(failure_policy.into()),
        match_conditions: Some(vec![MatchCondition { name: condition_name.into(), expression: condition }]),
        match_policy: Some("Equivalent".into()),
        rules: Some(rules),
        side_effects: "NoneOnDryRun".into(),
        timeout_seconds: Some(timeout_seconds),
        ..ValidatingWebhook::default()
    }
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

/// Read access to exactly the facts that policies name, and those above.
fn cluster_role() -> ClusterRole {
    let mut facts: Vec<FactKind> = POLICIES.iter().flat_map(|policy| policy.facts).copied().collect();
    facts.extend(ALWAYS);
    facts.sort();
    facts.dedup();
    let resources = facts.into_iter().map(FactKind::resource).filter(|resource| resource.namespace.is_none());
    let rules = resources.map(|resource| rule(resource.group, resource.plural, &["get", "list", "watch"]));
    ClusterRole { metadata: named(NAME, None), rules: Some(rules.collect()), ..ClusterRole::default() }
}

fn cluster_role_binding(name: &str, flavor: Flavor) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(name, None),
        role_ref: role_ref("ClusterRole", name),
        subjects: Some(subjects(flavor)),
    }
}

/// Events for what an auditor should see; those of cluster-scoped objects live in one namespace.
fn events_role() -> Role {
    Role { metadata: named(NAME, Some(EVENTS_NAMESPACE)), rules: Some(vec![rule("", "events", &["create"])]) }
}

fn events_role_binding(flavor: Flavor) -> RoleBinding {
    RoleBinding {
        metadata: named(NAME, Some(EVENTS_NAMESPACE)),
        role_ref: role_ref("Role", NAME),
        subjects: Some(subjects(flavor)),
    }
}

/// Facts that live in one namespace of OpenShift. A list by label cannot be limited to names.
fn namespaced_facts(flavor: Flavor) -> anyhow::Result<Vec<String>> {
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
        documents.push(yaml(&Role { metadata: metadata(), rules: Some(rules) })?);
        let (role_ref, subjects) = (role_ref("Role", NAME), Some(subjects(flavor)));
        documents.push(yaml(&RoleBinding { metadata: metadata(), role_ref, subjects })?);
    }
    Ok(documents)
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), namespace: namespace.map(Into::into), ..ObjectMeta::default() }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(&[resource])),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: kind.into(), name: name.into() }
}

fn subjects(flavor: Flavor) -> Vec<Subject> {
    vec![Subject {
        kind: "ServiceAccount".into(),
        name: NAME.into(),
        namespace: Some(flavor.namespace().into()),
        ..Subject::default()
    }]
}

fn config_map(flavor: Flavor) -> ConfigMap {
    let config = "apiVersion: airgate.io/v1alpha1\nkind: Config\nmode: audit\n";
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.into()),
            namespace: Some(flavor.namespace().into()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("config.yaml".to_owned(), config.to_owned())])),
        ..ConfigMap::default()
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Openshift => "openshift",
            Self::Kubernetes => "kubernetes",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Guard;

    #[test]
    fn urls_get_the_path_and_nothing_the_api_server_refuses() {
        for (text, expected) in [
            ("https://127.0.0.1:8443", Some("https://127.0.0.1:8443/validate")),
            ("https://[::1]:8443/", Some("https://[::1]:8443/validate")),
            ("https://guard.example/validate", Some("https://guard.example/validate")),
            ("http://127.0.0.1:8443", None),
            ("https://", None),
            ("https:///validate", None),
            ("https://u@h/validate", None),
            ("https://h/validate?x=1", None),
        ] {
            let got = Endpoint::url(text).ok();
            assert_eq!(got, expected.map(|url| Endpoint::Url(url.into())), "{text}");
        }
    }

    #[test]
    fn every_guard_of_every_policy_is_registered_once() {
        let registered: Vec<Guard> = GUARDED.iter().flat_map(GuardedResource::guards).collect();
        for guard in POLICIES.iter().flat_map(|policy| policy.guards) {
            assert_eq!(registered.iter().filter(|known| *known == guard).count(), 1, "{guard:?}");
        }
    }
}
