//! The operator bundle and the catalog: what is checked in is what is printed, and operator-framework's own tools
//! find nothing to say.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::run::airgate;

const IMAGE: &str =
    "registry.example:5000/airgate@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where `tests/testbed/build` puts what it builds.
fn tool(name: &str) -> PathBuf {
    let output = Command::new(repository().join("tests/testbed/build")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Path::new(String::from_utf8(output.stdout).unwrap().trim()).join(name)
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in next.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                waiting.push(entry);
            } else {
                let path = entry.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.push((path, std::fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn written(more: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let args = [&["manifests", "--flavor", "olm", "--dir", directory.path().to_str().unwrap()], more].concat();
    let printed = airgate(&args);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    directory
}

#[test]
fn what_is_checked_in_is_what_is_written() {
    let (kept, new) = (files(&repository().join("deploy/olm")), files(written(&[]).path()));
    let names = |files: &[(String, String)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&kept), names(&new), "deploy/olm differs: run make generate");
    for ((name, kept), (_, new)) in kept.iter().zip(&new) {
        assert!(kept == new, "deploy/olm/{name} differs: run make generate");
    }
}

#[test]
fn operator_verify_and_opm_have_nothing_to_say() {
    let directory = written(&["--image", IMAGE]);
    let bundle = directory.path().join("bundle");
    let verify = |bundle: &Path| {
        let output = Command::new(tool("operator-verify")).arg("manifests").arg(bundle).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert_eq!(verify(&bundle), (true, String::new()), "no error and no warning");
    let validate = |catalog: &Path| Command::new(tool("opm")).arg("validate").arg(catalog).output().unwrap();
    let catalog = directory.path().join("catalog");
    let output = validate(&catalog);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // That they would say something: each is given a fault.
    let csv = bundle.join("manifests/airgate.clusterserviceversion.yaml");
    let text = std::fs::read_to_string(&csv).unwrap();
    std::fs::write(&csv, text.replace("minKubeVersion: \"1.30.0\"", "minKubeVersion: soon")).unwrap();
    assert!(verify(&bundle).1.contains("MinKubeVersion has an invalid value: soon"), "{:?}", verify(&bundle));
    let file = catalog.join("airgate/catalog.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("defaultChannel: stable", "defaultChannel: none")).unwrap();
    assert!(!validate(&catalog).status.success());
}

#[test]
fn what_registers_itself_has_each_object_once_and_no_configuration() {
    let objects = airgate::files::document::from_yaml(&airgate(&["manifests", "--register"]).stdout).unwrap();
    let mut names: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]))
        .collect();
    assert!(!names.iter().any(|name| name.contains("ValidatingWebhookConfiguration")), "{names:?}");
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    assert!(deployment.to_string().contains("\"--register\""), "{deployment:#}");
}

/// What a site mirrors and grants, and what a person reads before uninstalling.
#[test]
fn the_bundle_names_its_images_its_rights_and_its_way_out() {
    let directory = written(&["--image", IMAGE, "--bundle-image", "registry.example:5000/airgate-bundle:1"]);
    let read = |path: &str| {
        let text = std::fs::read_to_string(directory.path().join(path)).unwrap();
        airgate::files::document::from_yaml(&text).unwrap()
    };
    let csv = read("bundle/manifests/airgate.clusterserviceversion.yaml").remove(0);
    let deployment = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"];
    let container = &deployment["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], IMAGE);
    assert_eq!(csv["spec"]["relatedImages"][0]["image"], IMAGE);
    let args = container["args"].as_array().unwrap();
    assert!(args.contains(&"--register".into()) && args.contains(&"--tls-dir=/etc/airgate/tls".into()), "{args:?}");
    assert!(!csv.to_string().contains("\"config\""), "the config file is the site's");
    assert!(csv["spec"]["webhookdefinitions"].is_null());
    let description = csv["spec"]["description"].as_str().unwrap();
    assert!(description.contains("oc delete validatingwebhookconfiguration airgate"));

    let rules = |path: &str| csv["spec"]["install"]["spec"][path][0]["rules"].as_array().unwrap().clone();
    let of = |rules: &[Value], resource: &str| -> Vec<Value> {
        rules.iter().filter(|rule| rule["resources"][0] == resource).cloned().collect()
    };
    let cluster = rules("clusterPermissions");
    for rule in of(&cluster, "secrets").iter().chain(&of(&cluster, "validatingwebhookconfigurations")) {
        assert!(!rule["resourceNames"].as_array().unwrap().is_empty(), "{rule}");
    }
    assert_eq!(of(&rules("permissions"), "leases").len(), 2);
    assert!(of(&cluster, "leases").is_empty() && !cluster.iter().any(|rule| rule["verbs"].to_string().contains('*')));

    let catalog = read("catalog/airgate/catalog.yaml");
    let images: Vec<&Value> = catalog[2]["relatedImages"].as_array().unwrap().iter().map(|one| &one["image"]).collect();
    assert_eq!(images, ["registry.example:5000/airgate-bundle:1", IMAGE]);
    for (args, part) in [
        (vec!["manifests", "--flavor", "olm"], "give --dir DIR"),
        (vec!["manifests", "--flavor", "olm", "--dir", "/nowhere", "--certificates", "keeper"], "service-ca"),
        (vec!["manifests", "--flavor", "olm", "--dir", "/nowhere", "--only", "rights"], "a whole operator"),
    ] {
        let refused = airgate(&args);
        assert!(refused.code == 2 && refused.stderr.contains(part), "{args:?}: {}", refused.stderr);
    }
}
