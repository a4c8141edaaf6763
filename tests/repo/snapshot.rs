//! `airgate snapshot`, and the same verdict again from what it wrote.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::run::{airgate, airgate_with_stdin};

const SAMPLE: [&str; 4] = ["--state", "policies/sample/state", "--releases", "policies/sample/releases"];
/// Before every clock: whatever is read is of no age, however long a command takes.
const NOW: [&str; 2] = ["--now", "2020-01-01T00:00:00Z"];
const R: &str = "registry.example:5000/ocp/release";
const OLD: &str = "sha256:bb88f6236b1b6dabafe87c6868013212108dc6c04e940782e44c6fa62fd7f36e";

/// The request that `form` makes gets the same answer from the sources in `from` and from the directory saved of them.
fn check(from: &[&str], form: &[&str]) {
    let root = tempfile::tempdir().unwrap();
    let saved = root.path().join("saved");
    let saved = saved.to_str().unwrap();
    let args: Vec<&str> = ["snapshot", saved].iter().chain(from).chain(&NOW).chain(form).copied().collect();
    let output = airgate(&args);
    assert!([0, 3].contains(&output.code), "{args:?}: {} {}", output.stdout, output.stderr);
    let verdict = |args: Vec<&str>| {
        let output = airgate(&args);
        let line: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {}", output.stderr));
        (output.code, output.stdout.clone(), line)
    };
    let before =
        verdict(["check"].iter().chain(form).chain(from).chain(&NOW).chain(&["-o", "json"]).copied().collect());
    let after = verdict(vec!["check", "--replay", saved, "-o", "json"]);
    let bytes = |(code, text, _): &(i32, String, Value)| {
        let end = text.find(",\"problems\":").unwrap();
        (*code, text[text.find("\"allowed\"").unwrap()..end].to_owned())
    };
    assert_eq!(bytes(&before), bytes(&after), "{form:?}");
    assert_eq!(after.2["problems"], json!([]), "{form:?}");
    // As a plain state directory it is the same case too: the digests say so.
    let request = format!("{saved}/request.json");
    let (releases, config) = (format!("{saved}/releases"), format!("{saved}/config.yaml"));
    let plain = ["check", &request, "--state", saved, "--releases", &releases, "--config", &config, "-o", "json"];
    let plain = verdict(plain.iter().chain(&NOW).copied().collect());
    let inputs = |line: &Value| line["response"]["auditAnnotations"]["inputs"].as_str().map(str::to_owned);
    assert_eq!((plain.0, inputs(&plain.2)), (before.0, inputs(&before.2)), "{form:?}");
}

#[test]
fn a_saved_verdict_is_the_same_byte_for_byte() {
    let image = format!("{R}@{OLD}");
    check(&SAMPLE, &["upgrade", "--to-image", &image]);
    check(&SAMPLE, &["upgrade", "--to", "4.22.3"]);
    check(&SAMPLE, &["upgrade", "--clear"]);
    check(&SAMPLE, &["delete", "internalreleaseimage/cluster"]);
    check(&SAMPLE, &["patch", "clusterversion/version", "-p", r#"{"spec":{"desiredUpdate":{"image":"a:b"}}}"#]);

    // Facts that are missing are missing in the same words, a contradiction stays one, and settings come along.
    let root = tempfile::tempdir().unwrap();
    let (state, releases, config) = (root.path().join("s"), root.path().join("r"), root.path().join("c.yaml"));
    for dir in [&state, &releases] {
        fs::create_dir(dir).unwrap();
    }
    for file in ["clusterversion.yaml", "internalreleaseimage.yaml"] {
        fs::copy(Path::new(SAMPLE[1]).join(file), state.join(file)).unwrap();
    }
    let entry =
        |version: &str| json!({"digest": OLD, "version": version, "previous": ["4.21.9"], "architecture": "amd64"});
    for (file, version) in [("one.json", "4.22.0"), ("two.json", "4.22.1")] {
        let catalog =
            json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": [entry(version)]});
        fs::write(releases.join(file), catalog.to_string()).unwrap();
    }
    fs::write(
        &config,
        "apiVersion: airgate.io/v1alpha1\nkind: Config\nretain: in-use\npolicies: {digest-only: {mode: warn}}\n",
    )
    .unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (state, releases, config) = (text(&state), text(&releases), text(&config));
    let from = ["--state", &state, "--releases", &releases, "--config", &config];
    check(&from, &["upgrade", "--to-image", &image]);
    check(&from, &["delete", "internalreleaseimage/cluster"]);
    check(&from, &["patch", "clusterversion/version", "-p", r#"{"spec":{"desiredUpdate":{"image":"a:b"}}}"#]);
}

/// The sample site, which says of everything else that the cluster has it not.
fn complete(root: &Path) -> [String; 2] {
    let state = root.join("state");
    fs::create_dir(&state).unwrap();
    let mut held = vec![];
    for file in fs::read_dir(SAMPLE[1]).unwrap() {
        let path = file.unwrap().path();
        held.push(fs::read_to_string(&path).unwrap());
        fs::copy(&path, state.join(path.file_name().unwrap())).unwrap();
    }
    let words: Vec<&str> = held.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric())).collect();
    let lacks =
        |kind: &str| kind == "Image" || !words.iter().any(|word| *word == kind || *word == format!("{kind}List"));
    let absent =
        airgate::resource::ALL.into_iter().filter(|of| lacks(of.kind)).map(airgate::resource::Resource::full_name);
    fs::write(state.join("airgate.yaml"), json!({"absent": absent.collect::<Vec<_>>()}).to_string()).unwrap();
    ["--state".into(), state.to_str().unwrap().into()]
}

#[test]
fn a_snapshot_is_whole_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let sample = complete(root.path());
    let sample = sample.each_ref().map(String::as_str);
    let dir = root.path().join("deep/saved");
    let saved = dir.to_str().unwrap();
    let snapshot = |more: &[&str], code: i32, part: &str| {
        let args: Vec<&str> = ["snapshot", saved].iter().chain(more).copied().collect();
        let output = airgate(&args);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(output.code == code && all.contains(part), "{args:?}: {} {all}", output.code);
    };
    snapshot(&[], 2, "--state DIR or --kubeconfig FILE");
    snapshot(&sample, 0, "machineconfigpools.machineconfiguration.openshift.io: 2 objects");
    let pools = fs::read_to_string(dir.join("machineconfigpools.yaml")).unwrap();
    assert!(pools.contains("kind: MachineConfigPoolList"), "{pools}");
    snapshot(&sample, 2, "--force");
    fs::write(dir.join("request.json"), "old").unwrap();
    snapshot(&[&sample[..], &["--force"]].concat(), 0, "saved to");
    assert!(!dir.join("request.json").exists());
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    snapshot(&[&sample[..], &["--force"]].concat(), 2, "holds notes.txt");
    assert_eq!(fs::read_dir(dir.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "a file").unwrap();
    snapshot(&sample, 2, "no directory");

    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let nothing = airgate(&["snapshot", empty.to_str().unwrap(), "--state", saved]);
    assert!(nothing.code == 3 && nothing.stdout.contains("not saved: "), "{} {}", nothing.stdout, nothing.stderr);
    let again = airgate(&["check", "--replay", empty.to_str().unwrap()]);
    assert!(again.code == 2 && again.stderr.contains("replay.yaml"), "{}", again.stderr);
}

#[test]
fn what_was_edited_is_said_and_secrets_are_not_taken() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("saved");
    let saved = dir.to_str().unwrap();
    let args: Vec<&str> =
        ["snapshot", saved].iter().chain(&SAMPLE).chain(&["upgrade", "--to", "4.22.3"]).copied().collect();
    assert_eq!(airgate(&args).code, 3, "the sample site does not tell everything");
    let version = dir.join("clusterversions.yaml");
    let text = fs::read_to_string(&version).unwrap();
    fs::write(&version, text.replace("4.21.9", "4.21.8")).unwrap();
    let edited = airgate(&["check", "--replay", saved]);
    assert!(edited.stderr.contains("the inputs are not those that were saved"), "{}", edited.stderr);

    let secret = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "DELETE", "kind": {"group": "", "version": "v1", "kind": "Secret"},
        "resource": {"group": "", "version": "v1", "resource": "secrets"},
        "oldObject": {"metadata": {"name": "s"}, "data": {"k": "djE="}}}});
    let other = root.path().join("other");
    let args = ["snapshot", other.to_str().unwrap(), "--request", "-"];
    let refused = airgate_with_stdin(&args.iter().chain(&SAMPLE).copied().collect::<Vec<_>>(), &secret.to_string());
    assert!(refused.code == 2 && refused.stderr.contains("Secret") && !other.exists(), "{}", refused.stderr);
}
