//! Signatures and keys as ConfigMaps of a real API server, read with the rights that airgate asks for.

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use crate::guard::Guard;
use crate::server::eventually;

const NAMESPACE: &str = "openshift-config-managed";

/// The sample site's, as objects to apply.
fn maps() -> Vec<Value> {
    let list = from_yaml(include_str!("../../policies/sample/state/configmaps.yaml")).unwrap().remove(0);
    let typed = |item: &Value| {
        let mut map = item.clone();
        map["apiVersion"] = json!("v1");
        map["kind"] = json!("ConfigMap");
        map
    };
    list["items"].as_array().unwrap().iter().map(typed).collect()
}

#[test]
fn signatures_and_keys_are_seen_as_they_come_and_go() {
    let mut guard = Guard::shared();
    guard.configure(Some(json!({"policies": {"release-signature": {"mode": "deny"}}})));
    let signatures = |guard: &Guard| guard.statusz()["signatures"].clone();
    let target = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222"}}});
    let warned = |guard: &Guard| guard.dry_run(&target).warnings.join("\n");
    assert!(warned(&guard).contains("there is no key to verify signatures with"), "{}", warned(&guard));

    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps()});
    guard.testbed.command(["apply", "-f", "-"]).stdin(list.to_string()).run().success();
    eventually("the signatures are seen", || (signatures(&guard)["found"] == 6).then_some(()));
    eventually("the keys are seen", || {
        (signatures(&guard)["keysFrom"] == "ConfigMap release-verification").then_some(())
    });
    eventually("none is of this release", || {
        warned(&guard).contains("no release signature proves this image").then_some(())
    });
    let unlabelled =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": NAMESPACE}});
    guard.testbed.command(["apply", "-f", "-"]).stdin(unlabelled.to_string()).run().success();

    guard
        .testbed
        .kubectl([
            "delete",
            "configmap",
            "mirrored-release-signatures",
            "release-verification",
            "other",
            "-n",
            NAMESPACE,
        ])
        .success();
    eventually("they are gone", || {
        (signatures(&guard)["found"] == 0 && signatures(&guard)["keysFrom"].is_null()).then_some(())
    });
    let trouble = guard.statusz()["watches"].to_string();
    assert!(!trouble.contains("\"denied\""), "{trouble}");
}
