//! `airgate override` on the live API server: what it sets opens the step, and both leave their traces.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::api::VERSION;
use crate::guard::{Guard, Site};
use crate::server::eventually;

const ANNOTATION: &str = "/metadata/annotations/airgate.io~1override";

/// Exit code and all that is printed, as the administrator.
fn run(guard: &Guard, args: &[&str]) -> (Option<i32>, String) {
    run_as(guard, &guard.testbed.kubeconfig(), args)
}

fn run_as(guard: &Guard, kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airgate"));
    command.arg("override").args(args).arg("--kubeconfig").arg(kubeconfig);
    let output = command.arg("--releases").arg(guard.releases()).env_remove("AIRGATE_STATE").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

fn entries(guard: &Guard) -> Value {
    let version = guard.api.get(VERSION).unwrap();
    version.pointer(ANNOTATION).map_or(Value::Null, |text| serde_json::from_str(text.as_str().unwrap()).unwrap())
}

/// What airgate had the API server record of the last write of an override.
fn record_of_setter(guard: &Guard) -> String {
    let events = guard.testbed.audit_events();
    let mut records =
        events.iter().rev().filter_map(|event| event["annotations"]["override.airgate.io/override"].as_str());
    records.next().unwrap_or_default().to_owned()
}

#[test]
fn what_it_sets_opens_the_step_and_everybody_hears_of_it() {
    let (guard, site) = (Guard::shared(), Site::new());
    let hour = jiff::SignedDuration::from_hours(1);
    let entry = |target: &str, expires: jiff::Timestamp| json!({"policy": "upgrade-path", "from": "4.18.12", "target": target, "reason": "theirs", "expires": expires});
    let now = jiff::Timestamp::now();
    let there = json!([entry("4.18.30", now - hour), entry("4.18.31", now + hour)]).to_string();
    guard.api.merge(VERSION, &json!({"metadata": {"annotations": {"airgate.io/override": there}}})).success();

    let step = ["upgrade", "--to-image", &site.unlisted.image, "--reason", "support case 1"];
    let (code, shown) = run(&guard, &step);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("upgrade-path: the override opens it"), "{shown}");
    assert_eq!(entries(&guard).as_array().unwrap().len(), 2, "nothing is written unasked");

    let (code, set) = run(&guard, &[&step[..], &["--apply"]].concat());
    assert_eq!(code, Some(0), "{set}");
    assert!(set.contains("set: with what is stored now this step is allowed"), "{set}");
    let stored = entries(&guard);
    let (_, digest) = site.unlisted.image.split_once('@').unwrap();
    assert_eq!((&stored[0]["target"], &stored[1]["target"]), (&json!("4.18.31"), &json!(digest)), "{stored}");
    assert_eq!(stored.as_array().unwrap().len(), 2, "{stored}");
    let record = record_of_setter(&guard);
    assert!(record.starts_with("set by admin: ") && record.contains("(support case 1)"), "{record}");

    // The step itself: warning, audit annotation, metric, Event.
    let used = || guard.counted("airgate_overrides_used_total{policy=\"upgrade-path\"}");
    let before = used();
    let patch = json!({"spec": {"desiredUpdate": {"image": site.unlisted.image, "version": ""}}}).to_string();
    let patched = guard.testbed.command(["patch", "clusterversion/version", "--type=merge", "-p", &patch]);
    let done = guard.step(VERSION, patched);
    assert_eq!((done.code, done.changed), (Some(200), true), "{}", done.transcript());
    let warning = "Warning: override of upgrade-path used by admin (support case 1): 4.18.12 cannot go straight";
    assert!(done.output.stderr.starts_with(warning), "{}", done.transcript());
    let audited = "clusterversion.airgate.io upgrade-path: override: 4.18.12 cannot go straight to 4.19.9";
    assert!(done.audit.iter().any(|line| line.starts_with(audited)), "{}", done.transcript());
    assert_eq!(used(), before + 1);
    eventually("an Event tells of it", || {
        let args =
            ["get", "events", "-n", "default", "--field-selector=involvedObject.kind=ClusterVersion", "-o", "json"];
        let events: Value = serde_json::from_str(&guard.testbed.kubectl(args).success()).unwrap();
        let expected =
            format!("admin used the override of upgrade-path for 4.18.12 -> {digest} (reason: support case 1");
        let told = |event: &Value| event["message"].as_str().is_some_and(|text| text.starts_with(&expected));
        events["items"].as_array()?.iter().any(told).then_some(())
    });

    let (code, cleared) = run(&guard, &["--clear", "clusterversion/version"]);
    assert!(code == Some(0) && cleared.contains("is removed; it was"), "{cleared}");
    assert_eq!(entries(&guard), Value::Null);
    assert_eq!(record_of_setter(&guard), "removed by admin");
}

#[test]
fn what_would_open_nothing_is_not_set() {
    let (guard, site) = (Guard::shared(), Site::new());
    for (args, code, part) in [
        (&["upgrade", "--to-image", &site.listed.image][..], 1, "nothing to override"),
        (&["upgrade", "--to-image", "registry.example:5000/ocp/release:4.19.9"], 1, "digest-only: stays denied"),
        (
            &["upgrade", "--to-image", &site.unlisted.image, "--policy", "release-identity"],
            1,
            "denied by: upgrade-path",
        ),
        (&["delete", "internalreleaseimage/other"], 3, "does not exist"),
    ] {
        let (got, text) = run(&guard, &[args, &["--reason", "a test", "--apply"]].concat());
        assert_eq!(got, Some(code), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?} lacks {part:?}: {text}");
    }
    assert_eq!(entries(&guard), Value::Null);

    // Somebody who may read and not write is told so by the API server.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "airgate"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    guard.testbed.put(&binding);
    let text = std::fs::read_to_string(guard.testbed.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"]["as"] = "reader".into();
    let reader = guard.testbed.dir().join("reader.kubeconfig");
    std::fs::write(&reader, kubeconfig.to_string()).unwrap();
    let step = ["upgrade", "--to-image", &site.unlisted.image, "--reason", "a test", "--apply"];
    let (code, refused) = run_as(&guard, &reader, &step);
    assert!(code == Some(2) && refused.contains("User \"reader\" cannot patch resource"), "{code:?} {refused}");
    assert_eq!(entries(&guard), Value::Null);
}
