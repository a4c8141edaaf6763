use std::fs;

use super::*;
use crate::cluster::Fact;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const MCO: &str = "machineconfiguration.openshift.io/v1";
const INSPECTED: &str = "must-gather/quay-io-x/cluster-scoped-resources";

fn state(files: &[(&str, &str)]) -> State {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    State::load(root.path(), NOW)
}

fn cluster_version(version: &str) -> String {
    format!(
        "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {{name: version}}\nstatus: {{desired: {{version: {version}}}}}\n"
    )
}

fn object(kind: &str, name: &str) -> String {
    format!("apiVersion: {MCO}\nkind: {kind}\nmetadata: {{name: {name}}}\n")
}

fn list(kind: &str, items: &[String]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("- {}", item.trim_end().replace('\n', "\n  "))).collect();
    format!("apiVersion: v1\nkind: {kind}\nitems:\n{}\n", items.join("\n"))
}

/// `known SOURCE`, `absent SOURCE`, or why not.
fn told<T>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(_, provenance) => format!("known {}", provenance.source),
        Fact::Absent(provenance) => format!("absent {}", provenance.source),
        Fact::Unknown(missing) => missing.why.clone(),
    }
}

#[test]
fn single_objects_lists_and_documents_are_understood() {
    let pools = list("List", &[object("MachineConfigPool", "master"), object("MachineConfigPool", "worker")]);
    let typed = format!(
        r#"{{"apiVersion":"{MCO}","kind":"MachineConfigNodeList","items":[{{"metadata":{{"name":"n0"}}}}],"metadata":{{"resourceVersion":"1"}}}}"#
    );
    let two = format!("{}---\nkind: Pod\n---\n{}", cluster_version("4.19.9"), object("MachineConfig", "rendered-a"));
    let state = state(&[
        ("a.yaml", &two),
        ("deep/er/pools.yml", &pools),
        ("nodes.json", &typed),
        ("internalreleaseimages.yaml", "apiVersion: v1\nkind: List\nitems: []\nmetadata: {resourceVersion: ''}\n"),
        ("airgate.yaml", "absent: [infrastructures]"),
        (
            "b.yaml",
            "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: rendered-b\n  annotations: {machineconfiguration.openshift.io/release-image-version: 4.19.9}\n",
        ),
    ]);
    assert_eq!(state.problems(), []);
    let snapshot = state.snapshot();
    assert_eq!(told(&snapshot.cluster_version), "known a.yaml");
    assert_eq!(&*snapshot.cluster_version.known().unwrap().status.desired.version, "4.19.9");
    assert_eq!(told(&snapshot.machine_config_pools), "known deep/er/pools.yml");
    assert_eq!(snapshot.machine_config_pools.known().unwrap().len(), 2);
    assert_eq!(told(&snapshot.machine_config_nodes), "known nodes.json");
    assert_eq!(told(&snapshot.internal_release_image), "absent internalreleaseimages.yaml");
    assert_eq!(told(&snapshot.infrastructure), "absent airgate.yaml");
    assert_eq!(told(&snapshot.rendered_releases), "known a.yaml and 1 more");
    let releases = snapshot.rendered_releases.known().unwrap();
    assert_eq!((&releases["rendered-a"], &releases["rendered-b"]), (&None, &Some("4.19.9".into())));
    assert!(!snapshot.cluster_version.provenance().unwrap().watched);
}

#[test]
fn a_must_gather_is_understood() {
    let mco = format!("{INSPECTED}/machineconfiguration.openshift.io");
    let state = state(&[
        (&format!("{INSPECTED}/config.openshift.io/clusterversions/version.yaml"), &cluster_version("4.19.9")),
        (&format!("{mco}/machineconfigpools/master.yaml"), &object("MachineConfigPool", "master")),
        (&format!("{mco}/machineconfigpools/worker.yaml"), &object("MachineConfigPool", "worker")),
        (&format!("{mco}/machineconfignodes/n0.yaml"), "{"),
        (&format!("{INSPECTED}/apiextensions.k8s.io/customresourcedefinitions/x.yaml"), "{"),
        ("must-gather/quay-io-x/namespaces/a/core/pods.yaml", "{"),
        (
            &format!("{INSPECTED}/config.openshift.io/infrastructures.yaml"),
            "apiVersion: config.openshift.io/v1\nkind: InfrastructureList\nitems:\n- metadata: {name: cluster}\n  status: {controlPlaneTopology: External}\n",
        ),
    ]);
    let snapshot = state.snapshot();
    assert_eq!(
        told(&snapshot.cluster_version),
        format!("known {INSPECTED}/config.openshift.io/clusterversions/version.yaml")
    );
    assert_eq!(told(&snapshot.machine_config_pools), format!("known {mco}/machineconfigpools"));
    assert_eq!(told(&snapshot.machine_config_nodes), format!("{mco}/machineconfignodes/n0.yaml could not be read"));
    assert!(snapshot.hosted());
    assert_eq!(state.problems().len(), 1, "{:?}", state.problems());
}

#[test]
fn a_directory_of_any_name_is_read_outside_a_must_gather() {
    let state = state(&[("namespaces/a/b/cv.yaml", &cluster_version("4.19.9"))]);
    assert_eq!(told(&state.snapshot().cluster_version), "known namespaces/a/b/cv.yaml");
}

#[test]
fn an_empty_inspected_directory_is_an_empty_list() {
    let root = tempfile::tempdir().unwrap();
    let directory = format!("{INSPECTED}/machineconfiguration.openshift.io/internalreleaseimages");
    fs::create_dir_all(root.path().join(&directory)).unwrap();
    assert_eq!(told(&State::load(root.path(), NOW).snapshot().internal_release_image), format!("absent {directory}"));
}

#[test]
fn what_is_neither_present_nor_complete_is_unknown_with_the_command_that_saves_it() {
    let state = state(&[
        ("pool.yaml", &object("MachineConfigPool", "master")),
        ("machineconfignodes.yaml", ""),
        ("other.yaml", "apiVersion: v1\nkind: List\nitems: []"),
    ]);
    let snapshot = state.snapshot();
    for (why, part) in [
        (told(&snapshot.cluster_version), "has no clusterversions"),
        (told(&snapshot.internal_release_image), "has no internalreleaseimages"),
        (told(&snapshot.machine_config_pools), "has 1 of the machineconfigpools, but no List"),
        (told(&snapshot.machine_config_nodes), "machineconfignodes.yaml could not be read"),
        (told(&snapshot.rendered_releases), "has no machineconfigs"),
    ] {
        assert!(why.contains(part), "{why}");
    }
    let Fact::Unknown(missing) = &snapshot.internal_release_image else { panic!() };
    let remedy = format!("oc get internalreleaseimages -o yaml > {}/internalreleaseimages.yaml", state.directory);
    assert!(missing.remedy.starts_with(&remedy) && missing.remedy.contains("absent: ["), "{missing:?}");
    assert_eq!(state.problems().len(), 1, "{:?}", state.problems());
}

#[test]
fn two_different_copies_make_that_fact_unknown_and_name_both() {
    let old = cluster_version("4.19.8");
    let newer_heartbeat = format!("{}spec: {{clusterID: x}}\n", cluster_version("4.19.9"));
    let same = state(&[("a.yaml", &cluster_version("4.19.9")), ("b.yaml", &newer_heartbeat)]);
    assert_eq!(told(&same.snapshot().cluster_version), "known a.yaml", "no difference that a verdict rests on");
    assert_eq!(same.problems(), []);
    let differ = state(&[("a.yaml", &cluster_version("4.19.9")), ("b.yaml", &old)]);
    assert_eq!(told(&differ.snapshot().cluster_version), "ClusterVersion version is not the same in a.yaml and b.yaml");
    assert!(differ.problems()[0].file.ends_with("a.yaml") && differ.problems()[0].message.contains("b.yaml"));
    let stored = differ.object(&ResourceId::parse("clusterversion"), None, "version");
    assert!(matches!(stored, Stored::Unknown(ref missing) if missing.why.contains("b.yaml")), "{stored:?}");
}

#[test]
fn faults_touch_only_the_fact_they_are_in() {
    let wrong = "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {history: [{version: 4.19}]}\n";
    let page = format!("apiVersion: {MCO}\nkind: MachineConfigNodeList\nmetadata: {{continue: abc}}\nitems: []\n");
    let state = state(&[
        ("cv.yaml", wrong),
        ("nodes.yaml", &page),
        ("nameless.yaml", &format!("apiVersion: {MCO}\nkind: MachineConfig\nmetadata: {{}}\n")),
        (
            "iri.yaml",
            "apiVersion: machineconfiguration.openshift.io/v2\nkind: InternalReleaseImage\nmetadata: {name: cluster}\n",
        ),
        ("pools.yaml", &list("List", &[object("MachineConfigPool", "master")])),
        ("broken.yaml", "a: [1"),
        ("airgate.yaml", "absent: [infra, pods]\nAbsent: 1\n"),
        ("infra.yaml", "apiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\n"),
    ]);
    let snapshot = state.snapshot();
    assert!(
        told(&snapshot.cluster_version).starts_with("cv.yaml: ClusterVersion version: status.history[0].version: ")
    );
    assert!(told(&snapshot.machine_config_nodes).contains("one page of a longer List"));
    assert!(told(&snapshot.rendered_releases).contains("without metadata.name"));
    assert!(told(&snapshot.internal_release_image).contains("v2 of InternalReleaseImage is not known"));
    assert_eq!(told(&snapshot.machine_config_pools), "known pools.yaml");
    assert!(told(&snapshot.infrastructure).contains("airgate.yaml says that there are no infrastructures"));
    let files: Vec<_> = state.problems().iter().map(|p| p.file.rsplit('/').next().unwrap()).collect();
    let expected = [
        "airgate.yaml",
        "airgate.yaml",
        "broken.yaml",
        "iri.yaml",
        "nameless.yaml",
        "nodes.yaml",
        "cv.yaml",
        "airgate.yaml",
    ];
    assert_eq!(files, expected, "{:?}", state.problems());
}

#[test]
fn objects_are_found_known_absent_or_unknown() {
    let state = state(&[
        ("cv.yaml", &cluster_version("4.19.9")),
        ("pool.yaml", &object("MachineConfigPool", "master")),
        ("nodes.yaml", &list("List", &[object("MachineConfigNode", "n0"), object("MachineConfig", "rendered-a")])),
        ("airgate.yaml", "absent: [internalreleaseimages]"),
    ]);
    for (resource, name, expected) in [
        ("clusterversions.config.openshift.io", "version", "cv.yaml"),
        ("ClusterVersion", "other", "absent"),
        ("mcp", "master", "pool.yaml"),
        ("mcp", "worker", "unknown"),
        ("machineconfignode", "n0", "nodes.yaml"),
        ("machineconfignode", "n1", "absent"),
        ("internalreleaseimage", "cluster", "absent"),
        ("infrastructure", "cluster", "unknown"),
        ("pods", "x", "unknown"),
        ("machineconfig", "rendered-a", "unknown"),
    ] {
        let found = match state.object(&ResourceId::parse(resource), None, name) {
            Stored::Found(value, file) => {
                assert_eq!(value["metadata"]["name"], name);
                file
            }
            Stored::KnownAbsent => "absent".into(),
            Stored::Unknown(_) => "unknown".into(),
        };
        assert_eq!(found, expected, "{resource}/{name}");
    }
}

#[test]
fn a_missing_directory_is_a_problem_and_everything_unknown() {
    let state = State::load(Path::new("/nowhere/at/all"), NOW);
    assert_eq!(state.problems().len(), 1);
    assert!(matches!(state.snapshot().cluster_version, Fact::Unknown(_)));
}

const SIGNATURES: &str = "namespaces/openshift-config-managed/core/configmaps";

fn config_map(name: &str, namespace: &str, more: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n{more}")
}

fn signed(name: &str, namespace: &str) -> String {
    let labels = "  labels: {release.openshift.io/verification-signatures: ''}\n";
    config_map(name, namespace, &format!("{labels}binaryData: {{sha256-{}-1: YQ==}}\n", "a".repeat(64)))
}

#[test]
fn config_maps_of_one_namespace_hold_signatures_and_keys() {
    let keys = config_map("release-verification", "openshift-config-managed", "data: {verifier-public-key-x: key}\n");
    let other = config_map("other", "openshift-config-managed", "data: {a: b}\n");
    let (ours, theirs) = (signed("s", "openshift-config-managed"), signed("t", "default"));
    let names = |state: &State| {
        let snapshot = state.snapshot();
        let maps = snapshot.release_signatures.known().map(|maps| maps.to_vec()).unwrap_or_default();
        let names: Vec<_> = maps.iter().map(|map| map.name.clone()).collect();
        (names.join(" "), snapshot.release_verification.known().map(|map| map.keys.len()))
    };
    let listed = list("ConfigMapList", &[keys.clone(), other.clone(), ours.clone(), theirs.clone()]);
    for files in [
        &[("configmaps.yaml", &*listed)][..],
        &[("a.yaml", &*keys), ("signature-configmap.yaml", &*ours), ("c.yaml", &*theirs)],
        &[
            (&*format!("{INSPECTED}/x/y/z.yaml"), "a: b"),
            (&*format!("must-gather/quay-io-x/{SIGNATURES}.yaml"), &*listed),
            ("must-gather/quay-io-x/namespaces/default/core/configmaps.yaml", "broken: ["),
        ],
        &[
            (&*format!("{INSPECTED}/x/y/z.yaml"), "a: b"),
            (&*format!("must-gather/quay-io-x/{SIGNATURES}/s.yaml"), &*ours),
            (&*format!("must-gather/quay-io-x/{SIGNATURES}/k.yaml"), &*keys),
        ],
    ] {
        let state = state(files);
        assert_eq!(names(&state), ("s".to_owned(), Some(1)), "{files:?} {:?}", state.problems());
        assert!(state.problems().is_empty(), "{:?}", state.problems());
    }
    let elsewhere = state(&[("configmaps.yaml", &list("ConfigMapList", &[theirs]))]);
    let why = told(&elsewhere.snapshot().release_signatures);
    assert!(why.contains("no configmaps"), "a List of another namespace says nothing of ours: {why}");
    let none = state(&[("configmaps.yaml", &list("ConfigMapList", &[other]))]);
    assert_eq!(told(&none.snapshot().release_signatures), "absent configmaps.yaml");
    assert_eq!(told(&none.snapshot().release_verification), "absent configmaps.yaml");
    let Fact::Unknown(missing) = state(&[]).snapshot().release_verification else { panic!("known") };
    assert!(missing.remedy.contains("oc get configmaps -n openshift-config-managed -o yaml > "), "{missing:?}");
}
