//! Generated manifests: what is checked in is what the binary prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::run::airgate;

/// Every file below `directory`, by its path from there.
fn tree(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

/// As `make generate` writes them.
const WRITTEN: [(&str, &str); 4] =
    [("openshift", "--tree"), ("kubernetes", "--tree"), ("payload", "--dir"), ("olm", "--dir")];

#[test]
fn deploy_is_what_the_binary_writes_and_nothing_else() {
    let fresh = tempfile::tempdir().unwrap();
    for (flavor, form) in WRITTEN {
        let directory = fresh.path().join(flavor);
        let written = airgate(&["manifests", "--flavor", flavor, form, directory.to_str().unwrap()]);
        assert_eq!((written.code, &*written.stdout), (0, ""), "{}", written.stderr);
    }
    let (written, kept) = (tree(fresh.path()), tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")));
    let names = |tree: &BTreeMap<String, String>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&kept),
        names(&written),
        "other files in deploy/ than airgate manifests writes: run make generate"
    );
    for (name, text) in &written {
        assert!(kept[name] == *text, "deploy/{name} differs from what airgate manifests writes: run make generate");
    }
}

#[test]
fn the_policy_reference_is_what_the_binary_prints() {
    let kept = fs::read_to_string(format!("{}/docs/policies.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
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
        // What would have no effect.
        (vec!["manifests", "--url", "https://h", "--ca-file", &ca, "--image", "a"], "cannot be used with"),
        (vec!["manifests", "--url", "https://h", "--ca-file", &ca, "--single-node"], "cannot be used with"),
        (vec!["manifests", "--url", "https://h", "--ca-file", &ca, "--certificates", "keeper"], "cannot be used with"),
        (vec!["manifests", "--bundle-image", "a"], "give --flavor olm"),
        (vec!["manifests", "--flavor", "kubernetes", "--ca-file", &ca], "--certificates keeper"),
    ] {
        let refused = airgate(&args);
        assert_eq!(refused.code, 2, "{args:?}");
        assert!(refused.stderr.contains(part), "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn a_directory_is_written_anew_but_never_over_what_somebody_else_wrote() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deploy");
    let name = directory.to_str().unwrap();
    let write = |more: &[&str]| airgate(&[&["manifests", "--flavor", "kubernetes", "--dir", name], more].concat());
    assert_eq!(write(&["--image", "registry.example/airgate:1"]).code, 0);
    let first = tree(&directory);
    assert!(first["deployment.yaml"].contains("image: registry.example/airgate:1"), "{first:#?}");
    assert!(first["kustomization.yaml"].contains("- deployment.yaml"), "{first:#?}");

    // Of another run, which had one more file; and a neighbour that is nobody's business.
    fs::write(directory.join("monitoring-of-before.yaml"), &first["service.yaml"]).unwrap();
    fs::write(directory.join("mine.yaml"), "kind: Mine\n").unwrap();
    assert_eq!(write(&[]).code, 0);
    let second = tree(&directory);
    assert_eq!(second["mine.yaml"], "kind: Mine\n");
    assert!(!second.contains_key("monitoring-of-before.yaml"), "{:?}", second.keys());
    assert!(second["deployment.yaml"].contains("image: airgate:"), "{second:#?}");

    fs::write(directory.join("service.yaml"), "kind: Mine\n").unwrap();
    let refused = write(&["--mode", "audit"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("service.yaml was not written by airgate manifests"), "{}", refused.stderr);
    let untouched = tree(&directory);
    assert_eq!(untouched["config.yaml"], second["config.yaml"], "nothing is written where something is in the way");
}

#[test]
fn rights_alone_are_bound_to_whom_they_are_asked_for() {
    let printed = airgate(&["manifests", "--only", "rights", "--user", "system:serviceaccount:ops:guard"]);
    assert_eq!((printed.code, &*printed.stderr), (0, ""));
    let objects = airgate::files::document::from_yaml(&printed.stdout).unwrap();
    let kinds =
        |wanted: &str| objects.iter().filter(|object| object["kind"].as_str() == Some(wanted)).collect::<Vec<_>>();
    let bindings = [kinds("RoleBinding"), kinds("ClusterRoleBinding")].concat();
    assert_eq!(bindings.len() * 2, objects.len(), "a role and its binding, and nothing else: {}", printed.stdout);
    for binding in bindings {
        let subject = &binding["subjects"][0];
        assert_eq!((&subject["kind"], &subject["name"]), (&"User".into(), &"system:serviceaccount:ops:guard".into()));
    }
}

#[test]
fn options_that_do_not_go_together_are_refused_with_what_does() {
    for (args, part) in [
        (&["--flavor", "kubernetes", "--certificates", "service-ca"][..], "keeper or cert-manager"),
        (&["--flavor", "payload", "--certificates", "keeper"], "service-ca, which every cluster has"),
        (&["--flavor", "payload", "--single-node"], "share a single node"),
        (&["--flavor", "payload", "--tree", "/nowhere"], "give --dir"),
        (&["--image", "a@sha256:0"], "64 hex digits"),
        (&["--image", "two words"], "HOST/PATH@sha256:DIGEST"),
        (&["--user", "somebody"], "--only"),
        (&["--tree", "/nowhere", "--dir", "/nowhere"], "cannot be used with"),
        (&["--dir", "/proc/nowhere"], "cannot write /proc/nowhere/"),
    ] {
        let refused = airgate(&[&["manifests"], args].concat());
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(part), "{args:?}: {}", refused.stderr);
    }
}
