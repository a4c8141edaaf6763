//! The webhook configuration: one entry that can deny per resource, and the conditions that keep everything else away.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use super::guarded::{GUARDED, GuardedResource};
use super::{Endpoint, NAME, Options, PATH, cel};
use crate::settings::ServerMode;

/// What the API server asks airgate about.
pub fn webhook_configuration(options: &Options) -> ValidatingWebhookConfiguration {
    let mut webhooks: Vec<ValidatingWebhook> = GUARDED.iter().map(|resource| guarding(resource, options)).collect();
    webhooks.push(override_writes(options));
    let injected = options.endpoint == Endpoint::Service && options.ca_bundle.is_none();
    let annotations = options.certificates.ca_annotation(&options.namespace).filter(|_| injected);
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
                namespace: options.namespace.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::POLICIES;
    use crate::policy::Guard;

    #[test]
    fn every_guard_of_every_policy_is_registered_once() {
        let registered: Vec<Guard> = GUARDED.iter().flat_map(GuardedResource::guards).collect();
        for guard in POLICIES.iter().flat_map(|policy| policy.guards) {
            assert_eq!(registered.iter().filter(|known| *known == guard).count(), 1, "{guard:?}");
        }
    }
}
