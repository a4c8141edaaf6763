//! Generated manifests: what is checked in is what the binary prints.

use super::run::airgate;

#[test]
fn deploy_is_what_the_binary_prints() {
    for flavor in ["openshift", "kubernetes"] {
        for mode in ["enforce", "audit"] {
            let path = format!("{}/deploy/{flavor}/{mode}.yaml", env!("CARGO_MANIFEST_DIR"));
            let printed = airgate(&["manifests", "--flavor", flavor, "--mode", mode]);
            assert_eq!(printed.code, 0, "{}", printed.stderr);
            let kept = std::fs::read_to_string(&path).unwrap();
            assert!(
                kept == printed.stdout,
                "deploy/{flavor}/{mode}.yaml differs from airgate manifests: run make generate"
            );
        }
    }
}

#[test]
fn the_policy_reference_is_what_the_binary_prints() {
    let kept = std::fs::read_to_string(format!("{}/docs/policies.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert!(kept == airgate(&["policies", "reference"]).stdout, "docs/policies.md differs: run make generate");
}

#[test]
fn rules_are_narrow_in_every_manifest() {
    for mode in ["enforce", "audit"] {
        let printed = airgate(&["manifests", "--mode", mode]).stdout;
        assert!(!printed.contains("'*'") && !printed.contains("\"*\"") && !printed.contains("/status"), "{printed}");
        let fail = printed.matches("failurePolicy: Fail").count();
        assert_eq!(fail, if mode == "enforce" { 2 } else { 0 }, "{printed}");
    }
}

/// What becomes of requests while airgate is away, and where the API server looks at all.
#[test]
fn only_guarded_steps_fail_without_airgate() {
    let printed = airgate(&["manifests"]).stdout;
    let objects = airgate::files::document::from_yaml(&printed).unwrap();
    let webhooks = &objects.last().unwrap()["webhooks"];
    let told: Vec<String> = webhooks
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| {
            let namespaces = &webhook["namespaceSelector"]["matchExpressions"][0]["values"];
            let scopes: Vec<_> =
                webhook["rules"].as_array().unwrap().iter().map(|rule| rule["scope"].as_str().unwrap()).collect();
            // A namespaced rule never stands without its one namespace.
            assert_eq!(scopes.contains(&"Namespaced"), namespaces.is_array(), "{webhook:#}");
            let text = |field: &str| webhook[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("name"), text("failurePolicy"), webhook["timeoutSeconds"])
        })
        .collect();
    let fail = ["clusterversion.airgate.io Fail 10", "internalreleaseimage.airgate.io Fail 10"];
    let (steps, others): (Vec<_>, Vec<_>) = told.iter().partition(|line| fail.contains(&&***line));
    assert_eq!(steps.len(), 2, "{told:?}");
    assert!(others.len() >= 4 && others.iter().all(|line| line.ends_with(" Ignore 5")), "{told:?}");
}

#[test]
fn a_server_outside_the_cluster_gets_its_url_and_ca() {
    let dir = tempfile::tempdir().unwrap();
    let dir_name = dir.path().to_str().unwrap();
    assert_eq!(airgate(&["certs", "--dir", dir_name]).code, 0);
    let ca = format!("{dir_name}/ca.crt");
    let printed = airgate(&["manifests", "--url", "https://127.0.0.1:8443", "--ca-file", &ca, "--mode", "audit"]);
    assert!(printed.stdout.contains("url: https://127.0.0.1:8443/validate"), "{}", printed.stdout);
    assert!(printed.stdout.contains("caBundle: ") && printed.stdout.contains("mode: audit"), "{}", printed.stdout);
    assert!(!printed.stdout.contains("inject"), "nothing may inject another CA: {}", printed.stdout);
    for (args, part) in [
        (vec!["manifests", "--url", "https://127.0.0.1:8443"], "--ca-file"),
        (vec!["manifests", "--url", "http://127.0.0.1:8443", "--ca-file", &ca], "https://"),
        (vec!["manifests", "--url", "https://h", "--ca-file", "/does/not/exist"], "/does/not/exist"),
    ] {
        let refused = airgate(&args);
        assert_eq!(refused.code, 2, "{args:?}");
        assert!(refused.stderr.contains(part), "{args:?}: {}", refused.stderr);
    }
}
