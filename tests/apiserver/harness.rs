//! The testbed itself, before anything is built on it.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::crds::CrdSet;
use crate::objects::{
    Release, cluster_version, internal_release_image, machine_config_node, machine_config_pool, rendered_machine_config,
};
use crate::server::{accepts, eventually, free_port};
use crate::testbed::Testbed;

#[test]
fn the_server_is_the_pinned_one() {
    let version: Value = serde_json::from_str(&Testbed::shared().kubectl(["version", "-o", "json"]).success()).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.34.1");
    assert_eq!(version["serverVersion"]["minor"], "34");
    assert_eq!(version["clientVersion"]["gitVersion"], "v1.34.1");
}

#[test]
fn objects_live_under_the_preferred_crds() {
    objects_live(Testbed::shared());
}

#[test]
fn objects_live_under_the_minimal_crds_and_survive_their_servers() {
    let mut testbed = Testbed::start();
    testbed.install_crds(&CrdSet::Minimal);
    objects_live(&testbed);

    testbed.install_iri_v1alpha1(&CrdSet::Minimal);
    let mut image = internal_release_image(&[&Release::new("4.21.3", 'a')]);
    image["apiVersion"] = json!("machineconfiguration.openshift.io/v1alpha1");
    testbed.put(&image);
    let stored = testbed.get("internalreleaseimages/cluster");
    assert_eq!(stored["apiVersion"], image["apiVersion"]);
    assert_eq!(stored["status"], image["status"]);

    testbed.apiserver.stop();
    let refused = testbed.kubectl(["get", "clusterversion"]).failure();
    assert!(refused.contains("was refused"), "{refused}");
    testbed.start_apiserver().unwrap();
    assert_eq!(testbed.get("internalreleaseimages/cluster"), stored);

    testbed.etcd.stop();
    eventually("the API server is not ready without etcd", || {
        (testbed.kubectl(["get", "--raw", "/readyz", "--request-timeout=1s"]).code != 0).then_some(())
    });
    testbed.start_etcd().unwrap();
    eventually("the API server is ready again", || {
        (testbed.kubectl(["get", "--raw", "/readyz"]).code == 0).then_some(())
    });
    assert_eq!(testbed.get("internalreleaseimages/cluster"), stored);
}

/// What the verdict tests rest on, on either set of CRDs.
fn objects_live(testbed: &Testbed) {
    let (old, new) = (Release::new("4.18.12", 'a'), Release::new("4.19.9", 'b'));

    let mut version = cluster_version(&[old.history("Completed")]);
    version["status"]["availableUpdates"] = json!([new.update()]);
    testbed.put(&version);
    let stored = testbed.get("clusterversion/version");
    assert_eq!(stored["status"], version["status"]);

    // As `oc adm upgrade --to-image` sends it; the status in it must not count.
    let target = json!({"architecture": "", "version": "4.19.9", "image": new.image, "force": false});
    let patch = json!({"spec": {"desiredUpdate": target}, "status": {"desired": new.update()}}).to_string();
    testbed.kubectl(["patch", "clusterversion/version", "--type=merge", "-p", &patch]).success();
    let patched = testbed.get("clusterversion/version");
    assert_eq!(patched["spec"]["desiredUpdate"], target);
    assert_eq!(patched["status"], stored["status"]);
    assert_eq!(patched["metadata"]["generation"], 2);

    let patch =
        |resource: &str, patch: Value| testbed.kubectl(["patch", resource, "--type=merge", "-p", &patch.to_string()]);
    let both = patch("clusterversion/version", json!({"spec": {"desiredUpdate": {"architecture": "Multi"}}})).failure();
    assert!(both.contains("cannot set both Architecture and Image"), "{both}");
    let unknown =
        patch("clusterversion/version", json!({"spec": {"desiredUpdate": {"url": "https://release.example"}}}));
    assert!(unknown.stderr.contains(r#"unknown field "spec.desiredUpdate.url""#), "{unknown:?}");

    let image = internal_release_image(&[&old, &new]);
    testbed.put(&image);
    assert_eq!(testbed.get("internalreleaseimage/cluster")["status"], image["status"]);
    let bad = patch("internalreleaseimage/cluster", json!({"spec": {"releases": [{"name": "4.19.9"}]}})).failure();
    assert!(bad.contains("must be ocp-release-bundle-<version>-<arch|stream>"), "{bad}");
    let empty = patch("internalreleaseimage/cluster", json!({"spec": {"releases": []}})).failure();
    assert!(empty.contains("should have at least 1 items"), "{empty}");

    let rendered =
        [rendered_machine_config("rendered-worker-1", &old), rendered_machine_config("rendered-worker-2", &new)];
    for config in &rendered {
        testbed.put(config);
    }
    let pool = machine_config_pool("worker", "rendered-worker-1", "rendered-worker-2");
    testbed.put(&pool);
    assert_eq!(testbed.get("mcp/worker")["status"], pool["status"]);
    let running = testbed.get("mc/rendered-worker-1");
    assert_eq!(
        running.pointer("/metadata/annotations/machineconfiguration.openshift.io~1release-image-version").unwrap(),
        "4.18.12"
    );
    let node = machine_config_node("master-0", "master", &[&old]);
    testbed.put(&node);
    assert_eq!(testbed.get("machineconfignode/master-0")["status"], node["status"]);
}

/// As airgate will connect with `--kubeconfig`.
#[test]
fn the_kubeconfig_is_good_for_the_client_library() {
    let kubeconfig = Kubeconfig::read_from(Testbed::shared().kubeconfig()).unwrap();
    let version = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap().apiserver_version().await.unwrap()
    });
    assert_eq!(version.git_version, "v1.34.1");
}

#[test]
fn another_identity_has_no_rights() {
    let get = |user: &str, group: &[&str]| {
        Testbed::shared().command(["get", "clusterversions"]).impersonate(user, group).run()
    };
    let refused = get("jane", &["developers"]).failure();
    assert!(refused.contains(r#"User "jane" cannot list resource "clusterversions""#), "{refused}");
    get("root", &["system:masters"]).success();
}

/// With failurePolicy Fail a guarded write is refused while nobody listens, by
/// the text that the runbook documents; other writes go on.
#[test]
fn a_guarded_write_fails_closed_without_the_webhook() {
    let testbed = Testbed::shared();
    let url = format!("https://127.0.0.1:{}/validate", free_port());
    // An object of its own, for the other tests write ClusterVersions too.
    let mut version = cluster_version(&[Release::new("4.18.12", 'a').history("Completed")]);
    version["metadata"] = json!({"name": "unguarded", "labels": {"test": "closed-port"}});
    testbed.put(&version);
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "closed-port"},
        "webhooks": [{
            "name": "clusterversion.airgate.io", "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun", "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": {"url": url}, "objectSelector": {"matchLabels": {"test": "closed-port"}},
            "rules": [{"apiGroups": ["config.openshift.io"], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["clusterversions"], "scope": "Cluster"}],
            "matchConditions": [{"name": "target-named",
                "expression": "object.spec.?desiredUpdate.?image.orValue('') != ''"}],
        }],
    });
    testbed.put(&webhooks);

    let patch = |spec: Value, dry_run: &str| {
        let patch = json!({"spec": spec}).to_string();
        testbed.kubectl(["patch", "clusterversion/unguarded", "--type=merge", "-p", &patch, dry_run])
    };
    let target = json!({"desiredUpdate": {"image": Release::new("4.19.9", 'b').image}});
    // A new configuration takes effect a moment after it is stored.
    let refused = eventually("the guarded write is refused", || {
        let output = patch(target.clone(), "--dry-run=server");
        (output.code != 0).then_some(output.stderr)
    });
    let why = format!(
        "Error from server (InternalError): Internal error occurred: failed calling webhook \"clusterversion.airgate.io\": \
         failed to call webhook: Post \"{url}?timeout=10s\": dial tcp {}: connect: connection refused\n",
        url.trim_start_matches("https://").trim_end_matches("/validate")
    );
    assert_eq!(refused, why);
    assert_eq!(patch(target, "--dry-run=none").failure(), why);
    assert_eq!(testbed.get("clusterversion/unguarded")["spec"], version["spec"]);
    patch(json!({"channel": "stable-4.19"}), "--dry-run=none").success();
    let patches = testbed.audit_events().into_iter().filter(|event| {
        event["verb"] == "patch"
            && event["objectRef"]["name"] == "unguarded"
            && event["objectRef"]["subresource"].is_null()
    });
    let codes: Vec<Value> = patches.map(|event| event["responseStatus"]["code"].clone()).collect();
    assert_eq!(codes[codes.len() - 2..], [500, 200], "{codes:?}");
    testbed.delete("validatingwebhookconfiguration/closed-port");
}

const ROLE: &str = "AIRGATE_TEST_OWNS_A_TESTBED";

/// Runs itself as the process that owns a testbed, and kills that process: no
/// destructor and no exit handler has a chance to run.
#[test]
fn processes_end_with_a_killed_owner() {
    if env::var_os(ROLE).is_some() {
        let testbed = Testbed::start();
        let mut sleep = testbed.spawn(Command::new("sleep").arg("600"), &testbed.dir().join("sleep.log"));
        println!("\n{ROLE} {} {} {}", testbed.apiserver.port, sleep.id(), testbed.dir().display());
        // Until it is killed; or its parent failed, which closes this.
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        return;
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "harness::processes_end_with_a_killed_owner", "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let report = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix(ROLE)?.trim().to_owned()))
        .expect("the owner says where its testbed is");
    let [port, pid, dir] = report.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{report}") };
    let port = port.parse().unwrap();
    // A process that nobody waits for stays as a zombie, which has no program.
    let runs = || fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let dir = Path::new(dir);
    assert!(accepts(port) && runs() && dir.is_dir(), "{report}: {} {} {}", accepts(port), runs(), dir.is_dir());

    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("no process and no directory is left", || (!accepts(port) && !runs() && !dir.exists()).then_some(()));
}
