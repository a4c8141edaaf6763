use std::fs;
use std::path::Path;

use super::*;
use crate::breakglass;
use crate::cluster::Snapshot;
use crate::engine::Facts;
use crate::release::Catalog;
use crate::release::tests::{digest, release};
use crate::settings::ServerMode;
use crate::state::State;

const NOW: &str = "2026-12-01T12:00:00Z";

fn image(letter: char) -> String {
    format!("registry.example/ocp/release@{}", digest(letter))
}

fn history(version: &str, letter: char, state: &str) -> Value {
    json!({"version": version, "image": image(letter), "state": state, "startedTime": "2026-11-01T00:00:00Z"})
}

/// A cluster on 4.18.12 that came from 4.17.30.
fn version() -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {},
        "status": {"desired": {"version": "4.18.12", "image": image('1')},
            "history": [history("4.18.12", '1', "Completed"), history("4.17.30", '7', "Completed")]}})
}

fn iri(releases: &[(&str, char)]) -> Value {
    let name = |version: &str| format!("ocp-release-bundle-{version}-x86_64");
    let spec: Vec<Value> = releases.iter().map(|(version, _)| json!({"name": name(version)})).collect();
    let status: Vec<Value> =
        releases.iter().map(|(v, letter)| json!({"name": name(v), "image": image(*letter)})).collect();
    json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "InternalReleaseImage",
        "metadata": {"name": "cluster"}, "spec": {"releases": spec}, "status": {"releases": status}})
}

fn cluster(objects: Vec<Value>) -> Snapshot {
    let others = crate::resource::ALL.into_iter().filter(|of| **of != crate::resource::CLUSTER_VERSIONS);
    let has = |kind: &str| objects.iter().any(|object| object["kind"] == kind);
    let absent: Vec<String> = others.filter(|of| !has(of.kind)).map(crate::resource::Resource::full_name).collect();
    let state = State::from_documents("cluster.yaml", objects, &absent, NOW.parse().unwrap());
    assert!(state.problems().is_empty(), "{:?}", state.problems());
    state.snapshot()
}

fn catalog() -> Catalog {
    Catalog::new([
        release("4.18.12", '1', &["4.17.30"]),
        release("4.18.20", '2', &["4.18.12"]),
        release("4.19.9", '3', &["4.18.20"]),
    ])
}

/// Policy, outcome and a part of the message of everything found, and the facts that were missing.
fn check(cluster: &Snapshot, catalog: &Catalog, expected: &[(&str, &str, &str)], missing: &[&str]) {
    let settings = Settings { mode: ServerMode::Audit, ..Settings::default() };
    let report = audit(Audit(Facts::of(cluster, catalog, &settings, NOW.parse().unwrap())));
    let found: Vec<_> = report.findings.iter().map(|f| (f.policy, f.outcome.as_str())).collect();
    let wanted: Vec<_> = expected.iter().map(|(policy, outcome, _)| (*policy, *outcome)).collect();
    assert_eq!(found, wanted, "{report:#?}");
    for (found, (.., part)) in report.findings.iter().zip(expected) {
        assert!(found.message.contains(part), "{found:#?} lacks {part}");
    }
    assert_eq!(report.missing.iter().map(|unread| unread.fact).collect::<Vec<_>>(), missing);
}

#[test]
fn a_stored_step_is_judged_as_if_it_were_asked_for_now() {
    let with = |target: Value| {
        let mut version = version();
        version["spec"]["desiredUpdate"] = target;
        cluster(vec![version])
    };
    check(&cluster(vec![version()]), &catalog(), &[], &[]);
    check(&with(json!({"image": image('2')})), &catalog(), &[], &[]);
    check(&with(json!({"image": image('1')})), &catalog(), &[], &[]);
    check(
        &with(json!({"image": image('3')})),
        &catalog(),
        &[("upgrade-path", "deny", "4.18.12 cannot go straight to 4.19.9")],
        &[],
    );
    check(&with(json!({"image": image('9')})), &catalog(), &[("upgrade-path", "unknown", "no release source")], &[]);
    check(
        &with(json!({"image": "registry.example/ocp/release:4.18.20"})),
        &catalog(),
        &[("digest-only", "deny", "4.18.20")],
        &[],
    );
    check(
        &with(json!({"version": "4.18.20", "image": image('3')})),
        &catalog(),
        &[("upgrade-path", "deny", ""), ("release-identity", "deny", "")],
        &[],
    );
    check(&Snapshot::nothing("nothing was read"), &catalog(), &[], &["ClusterVersion", "InternalReleaseImage"]);
}

#[test]
fn an_update_under_way_is_judged_from_where_it_began() {
    let under_way = |version_: &str, letter: char| {
        let mut version = version();
        version["status"]["desired"] = json!({"version": version_, "image": image(letter)});
        version["status"]["history"] =
            json!([history(version_, letter, "Partial"), history("4.18.12", '1', "Completed")]);
        version
    };
    check(&cluster(vec![under_way("4.18.20", '2')]), &catalog(), &[], &[]);
    check(&cluster(vec![under_way("4.19.9", '3')]), &catalog(), &[("upgrade-path", "deny", "4.18.12 cannot go")], &[]);
    check(&cluster(vec![under_way("4.20.1", '9')]), &catalog(), &[], &[]);
    let mut by_tag = under_way("4.19.9", '3');
    by_tag["status"]["desired"]["image"] = json!("registry.example/ocp/release:4.19.9");
    by_tag["status"]["history"][0] = history("4.19.9", '3', "Completed");
    check(&cluster(vec![by_tag]), &catalog(), &[("digest-only", "deny", "4.19.9")], &[]);
}

#[test]
fn a_release_that_nothing_holds_is_found() {
    let none = Catalog::default();
    check(&cluster(vec![version(), iri(&[("4.18.12", '1'), ("4.17.30", '7')])]), &none, &[], &[]);
    let lost = ("release-in-use", "warn", "4.17.30 is in no bundle");
    check(&cluster(vec![version(), iri(&[("4.18.12", '1')])]), &none, &[lost], &[]);
    let running = ("release-in-use", "deny", "4.18.12 is in no bundle");
    check(&cluster(vec![version(), iri(&[("4.18.20", '2')])]), &none, &[running, lost], &[]);
    check(&cluster(vec![version(), iri(&[("4.18.20", '2')])]), &catalog(), &[lost], &[]);
    check(&cluster(vec![version()]), &none, &[], &[]);
}

#[test]
fn an_override_that_opens_nothing_is_found_and_one_in_force_settles_its_step() {
    let with = |target: Value, annotation: &str| {
        let mut version = version();
        version["spec"]["desiredUpdate"] = target;
        version["metadata"]["annotations"] = json!({breakglass::ANNOTATION: annotation});
        cluster(vec![version])
    };
    let entry = |expires: &str| {
        json!({"policy": "upgrade-path", "from": "4.18.12", "target": digest('3').to_string(), "reason": "r", "expires": expires})
            .to_string()
    };
    check(&with(json!({"image": image('3')}), &entry("2026-12-01T13:00:00Z")), &catalog(), &[], &[]);
    let denied = ("upgrade-path", "deny", "cannot go straight");
    let expired = ("upgrade-path", "warn", "it expired at 2026-12-01T12:00:00Z");
    check(&with(json!({"image": image('3')}), &entry("2026-12-01T12:00:00Z")), &catalog(), &[denied, expired], &[]);
    let far = ("upgrade-path", "warn", "more than 24 hours");
    check(&with(Value::Null, &entry("2026-12-03T12:00:00Z")), &catalog(), &[far], &[]);
    check(&with(Value::Null, "yes"), &catalog(), &[("override", "warn", "cannot be read")], &[]);
}

/// One snapshot after another, and what is in conflict at each.
fn watch(steps: &[(Snapshot, &[&str])]) {
    let (settings, mut detector, catalog) = (Settings::default(), Detector::default(), catalog());
    for (step, (cluster, expected)) in steps.iter().enumerate() {
        let now = NOW.parse().unwrap();
        let found = detector.observe(&Audit(Facts::of(cluster, &catalog, &settings, now)));
        assert_eq!(found.iter().map(|c| &*c.release).collect::<Vec<_>>(), *expected, "step {step}: {found:#?}");
    }
}

#[test]
fn steps_that_undo_each_other_are_seen_in_either_order() {
    let (both, one) = (iri(&[("4.18.12", '1'), ("4.18.20", '2')]), iri(&[("4.18.12", '1')]));
    let mut asked = version();
    asked["spec"]["desiredUpdate"] = json!({"image": image('2')});
    let state = |version: &Value, iri: &Value| cluster(vec![version.clone(), iri.clone()]);
    let quiet: &[&str] = &[];
    let unseen = || Snapshot::nothing("the API server is away");
    watch(&[
        (unseen(), quiet),
        (state(&version(), &both), quiet),
        (state(&asked, &both), quiet),
        (state(&asked, &one), &["4.18.20"]),
        (unseen(), quiet),
        (state(&asked, &one), &["4.18.20"]),
        (state(&version(), &one), quiet),
    ]);
    watch(&[
        (state(&version(), &both), quiet),
        (state(&version(), &one), quiet),
        (state(&asked, &one), &["4.18.20"]),
        (state(&asked, &both), quiet),
    ]);
    // Gone as a whole; and what was never there has not left.
    watch(&[(state(&asked, &both), quiet), (cluster(vec![asked.clone()]), &["4.18.12", "4.18.20"])]);
    watch(&[(state(&asked, &one), quiet), (state(&asked, &one), quiet)]);
    // Whoever used an override said so.
    let mut sanctioned = both.clone();
    let entry = json!({"policy": "release-in-use", "from": "cluster", "target": "ocp-release-bundle-4.18.20-x86_64",
        "reason": "r", "expires": "2026-12-01T13:00:00Z"});
    sanctioned["metadata"]["annotations"] = json!({breakglass::ANNOTATION: entry.to_string()});
    watch(&[(state(&asked, &sanctioned), quiet), (state(&asked, &one), quiet)]);
    let mut taken_up = asked.clone();
    taken_up["status"]["desired"] = json!({"version": "4.18.20", "image": image('2')});
    let text = |version: &Value| {
        let mut detector = Detector::default();
        let (settings, catalog, now) = (Settings::default(), catalog(), NOW.parse().unwrap());
        let mut found = vec![];
        for cluster in [state(version, &both), state(version, &one)] {
            found = detector.observe(&Audit(Facts::of(&cluster, &catalog, &settings, now)));
        }
        found.remove(0).message
    };
    assert!(
        text(&asked).contains("oc adm upgrade --clear") && text(&asked).contains("/spec/releases/-"),
        "{}",
        text(&asked)
    );
    assert!(!text(&taken_up).contains("--clear"), "{}", text(&taken_up));
}

fn write(dir: &Path, file: &str, value: &Value) {
    fs::write(dir.join(file), value.to_string()).unwrap();
}

#[test]
fn a_round_counts_and_shows_what_stands() {
    let dir = tempfile::tempdir().unwrap();
    let version_with = |target: Value| {
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"desiredUpdate": target}, "status": {
                "desired": {"version": "4.18.12", "image": image('1')},
                "history": [{"state": "Completed", "version": "4.18.12", "image": image('1')}]}})
    };
    write(dir.path(), "airgate.yaml", &json!({"absent": ["machineconfignodes", "mcp", "mc", "internalreleaseimages"]}));
    write(dir.path(), "version.json", &version_with(json!({"image": "registry.example/ocp/release:4.18.20"})));
    let metrics = Metrics::new();
    let facts = crate::facts::Facts::from_state(dir.path().to_owned(), vec![]);
    let patrol = Patrol::new(facts.clone(), Settings::default(), &metrics, Events::new(&metrics, None), None);
    let mut memory = Memory::default();
    patrol.0.round(&mut memory, Timestamp::now());
    let line = r#"airgate_audit_findings{policy="digest-only",outcome="deny"}"#;
    let count = || {
        let text = metrics.encode().unwrap();
        text.lines().find_map(|l| l.strip_prefix(line)).map(|n| n.trim().to_owned())
    };
    assert_eq!(count().as_deref(), Some("1"), "{}", patrol.status());
    assert_eq!(patrol.status()["findings"][0]["policy"], "digest-only");

    write(dir.path(), "version.json", &version_with(Value::Null));
    assert!(facts.reload_if_changed());
    patrol.0.round(&mut memory, Timestamp::now());
    assert_eq!(count().as_deref(), Some("0"));
    assert_eq!(patrol.status()["findings"], json!([]));
}
