//! A target that the InternalReleaseImage holds: what the nodes, their MachineConfigNodes and their registries say of it.

use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::api::VERSION;
use crate::guard::{CORE_NODES, Guard, NODES, Site};
use crate::node_registry::{Ca, HOST, Manifest, NodeRegistry};
use crate::objects::{Release, control_plane_node, machine_config_node};
use crate::server::{eventually, poll};
use crate::step::Step;

const MCO: &str = "openshift-machine-config-operator";

/// A second and a third control-plane node, which say what the first does.
fn three_nodes(guard: &Guard) {
    let site = Site::new();
    for node in ["master-1", "master-2"] {
        guard.set(NODES, node, &machine_config_node(node, "master", &[&site.current, &site.listed]));
        guard.set(CORE_NODES, node, &control_plane_node(node, "127.0.0.1"));
    }
    guard.synced();
}

fn upgrade(guard: &Guard, image: &str) -> Step {
    let patch = json!({"spec": {"desiredUpdate": {"image": image}}}).to_string();
    guard.step(VERSION, guard.testbed.command(["patch", "clusterversion/version", "--type=merge", "-p", &patch]))
}

/// Of the bundle of a release, with this condition beside Available=True.
fn condition(node: &mut Value, kind: &str, status: &str, reason: &str) {
    let conditions = node.pointer_mut("/status/internalReleaseImage/releases/1/conditions").unwrap();
    let conditions = conditions.as_array_mut().unwrap();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({"type": kind, "status": status, "reason": reason, "message": "as a test has it",
        "lastTransitionTime": "2026-11-30T12:00:00Z"}));
}

#[test]
fn a_release_that_every_node_has_is_no_matter() {
    let (guard, site) = (Guard::shared(), Site::new());
    three_nodes(&guard);
    let step = upgrade(&guard, &site.listed.image);
    assert_eq!((step.code, step.changed), (Some(200), true), "{}", step.transcript());
    assert!(step.policies().contains(&"release-ready: pass".to_owned()), "{}", step.transcript());
    assert_eq!(step.output.stderr, "", "{}", step.transcript());
}

#[test]
fn nodes_that_say_no_are_named_with_what_they_say() {
    let (guard, site) = (Guard::shared(), Site::new());
    three_nodes(&guard);
    let mut lacking = machine_config_node("master-1", "master", &[&site.current, &site.listed]);
    condition(&mut lacking, "Available", "False", "ReleaseImageNotFound");
    guard.set(NODES, "master-1", &lacking);
    let mut gone = control_plane_node("master-2", "127.0.0.1");
    gone["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status."}]);
    guard.set(CORE_NODES, "master-2", &gone);
    guard.synced();
    assert_snapshot!(upgrade(&guard, &site.listed.image).transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: ocp-release-bundle-4.18.20-x86_64 is not ready on master-1, master-2.
      why:   master-1: its MachineConfigNode says Available=False (ReleaseImageNotFound: as a test has it); master-2: the node is not Ready (NodeStatusUnknown: Kubelet stopped posting node status).
      works: mend that and ask again; what the nodes say in full:
             oc describe nodes master-1 master-2; oc describe machineconfignodes master-1 master-2
      rule:  release-ready (airgate policies explain release-ready); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: deny: ocp-release-bundle-4.18.20-x86_64 is not ready on master-1, master-2: master-1: its MachineConfigNode says Available=False (ReleaseImageNotFound: as a test has it); master-2: the node is not Ready (NodeStatusUnknown: Kubelet stopped posting node status) (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    "#);
    // What it does not hold comes from elsewhere.
    let elsewhere = upgrade(&guard, &site.unlisted.image);
    assert!(elsewhere.policies().contains(&"release-ready: pass".to_owned()), "{}", elsewhere.transcript());
    assert!(elsewhere.policies().contains(&"upgrade-path: deny".to_owned()), "{}", elsewhere.transcript());
}

#[test]
fn a_node_that_is_taken_out_of_the_cluster_counts_no_more() {
    let (guard, site) = (Guard::shared(), Site::new());
    three_nodes(&guard);
    let mut bad = machine_config_node("master-1", "master", &[&site.current]);
    bad["status"]["conditions"] = json!([{"type": "InternalReleaseImageDegraded", "status": "True",
        "reason": "RegistryUnreachable", "message": "", "lastTransitionTime": "2026-11-30T12:00:00Z"}]);
    guard.set(NODES, "master-1", &bad);
    guard.synced();
    let refused = upgrade(&guard, &site.listed.image);
    assert_eq!((refused.code, refused.changed), (Some(403), false), "{}", refused.transcript());
    assert!(
        refused.output.stderr.contains("InternalReleaseImageDegraded (RegistryUnreachable)"),
        "{refused:?}",
        refused = refused.output
    );
    guard.api.delete(&format!("{CORE_NODES}/master-1")).success();
    eventually("airgate has seen that the node is gone", || {
        (upgrade(&guard, &site.listed.image).code == Some(200)).then_some(())
    });
}

/// What lets airgate reach the nodes' registries: their name, their CA, their password.
fn way_to_registries(guard: &Guard, ca: &Ca) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "controllerconfigs.machineconfiguration.openshift.io"},
        "spec": {"group": "machineconfiguration.openshift.io", "scope": "Cluster",
            "names": {"kind": "ControllerConfig", "plural": "controllerconfigs"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    guard.testbed.put(&crd);
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"}, "spec": {"rootCAData": STANDARD.encode(&ca.pem)}});
    let configs = "/apis/machineconfiguration.openshift.io/v1/controllerconfigs";
    eventually("ControllerConfigs are served", || {
        (guard.testbed.kubectl(["get", "controllerconfigs"]).code == 0).then_some(())
    });
    guard.set(configs, "machine-config-controller", &config);
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "internal-release-image-registry-auth", "namespace": MCO},
        "data": {"password": STANDARD.encode("s3cret"), "htpasswd": STANDARD.encode("openshift:$2y$05$hash")}});
    guard.testbed.put(&secret);
    let infrastructure = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
        "metadata": {"name": "cluster"}, "spec": {"cloudConfig": {"name": ""}},
        "status": {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable",
            "apiServerURL": "https://api.c.example.test:6443", "infrastructureName": "c-x",
            "cpuPartitioning": "None", "etcdDiscoveryDomain": "",
            "apiServerInternalURI": format!("https://{HOST}:6443")}});
    guard.set("/apis/config.openshift.io/v1/infrastructures", "cluster", &infrastructure);
}

/// As today's daemon leaves it for a release build: it reports nothing.
fn silent(name: &str) -> Value {
    let mut node = machine_config_node(name, "master", &[]);
    node["status"].as_object_mut().unwrap().remove("internalReleaseImage");
    node
}

#[test]
fn where_no_node_reports_a_bundle_their_registries_are_asked() {
    let guard = Guard::shared();
    let site = Site::new();
    let manifest = Manifest::new("4.18.21");
    let target =
        Release { version: "4.18.21", image: format!("registry.example:5000/ocp/release@{}", manifest.digest) };
    guard.reset_to(&[&site.current, &target]);
    let (ca, other_ca) = (Ca::new(), Ca::new());
    let registries = [NodeRegistry::start(&ca, HOST), NodeRegistry::start(&ca, HOST)];
    for registry in &registries {
        registry.hold(std::slice::from_ref(&manifest));
    }
    let catalog = json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": [
        {"digest": manifest.digest, "version": "4.18.21", "previous": ["4.18.12"], "architecture": "amd64"}]});
    fs::write(guard.releases().join("ready.json"), catalog.to_string()).unwrap();
    way_to_registries(&guard, &ca);
    for (node, registry) in ["master-0", "master-1"].iter().zip(&registries) {
        guard.set(NODES, node, &silent(node));
        guard.set(CORE_NODES, node, &control_plane_node(node, &registry.address.to_string()));
    }
    guard.synced();
    let dry_run = || guard.dry_run(&json!({"spec": {"desiredUpdate": {"image": target.image}}}));
    // A change is seen when the watches have heard of it and the answers of before are no longer good.
    let becomes = |code: u16, says: &str| {
        let mut last = None;
        let found = poll(Duration::from_secs(30), || {
            let answer = dry_run();
            let text = format!("{}{}", answer.body["message"], answer.warnings.join(" "));
            let as_said =
                answer.code == code && text.contains(says) && (!says.is_empty() || answer.warnings.is_empty());
            last = Some(answer);
            as_said.then_some(())
        });
        assert!(found.is_some(), "not {code} {says:?}: {last:?}");
    };
    becomes(200, "");
    let path = format!("GET /v2/openshift/release-images/manifests/{}", manifest.digest);
    assert!(registries.iter().all(|registry| registry.asked().contains(&path)), "{:?}", registries[1].asked());
    // Many who ask the same within some seconds are one.
    let before = registries[0].asked().len();
    for _ in 0..10 {
        dry_run();
    }
    assert!(registries[0].asked().len() <= before + 2, "{:?}", registries[0].asked());

    registries[1].hold(&[]);
    becomes(403, "master-1: its registry does not have the release image (404)");

    // Somebody else behind the address, by a certificate that nobody here trusts.
    let stranger = NodeRegistry::start(&other_ca, HOST);
    stranger.hold(&[]);
    guard.set(CORE_NODES, "master-1", &control_plane_node("master-1", &stranger.address.to_string()));
    becomes(200, "master-1: its MachineConfigNode lists no release bundle, and its registry could not be asked");
    assert_eq!(stranger.asked(), Vec::<String>::new(), "no password reaches it");

    // The right CA, for another name.
    let misnamed = NodeRegistry::start(&ca, "api-int.elsewhere.test");
    guard.set(CORE_NODES, "master-1", &control_plane_node("master-1", &misnamed.address.to_string()));
    becomes(200, &misnamed.address.to_string());
    assert_eq!(misnamed.asked(), Vec::<String>::new(), "no password reaches it");

    let text = fs::read_to_string(guard.testbed.dir().join("airgate.log")).unwrap();
    assert!(!text.contains("s3cret"), "a password in the log");
    fs::remove_file(guard.releases().join("ready.json")).unwrap();
}
