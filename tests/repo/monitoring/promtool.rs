//! promtool has nothing to say against the rules and the metrics, and each alert fires when it must, and not before.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{FLAVORS, alerts, exported, rules, text};

/// What its linter would have otherwise: a name that stands in documents and dashboards.
const EXCEPTIONS: [&str; 1] =
    ["airgate_release_lookup_last_milliseconds use base unit \"seconds\" instead of \"milliseconds\""];

/// A program of Debian's package `prometheus`.
pub fn tool(name: &str) -> Command {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(
        found.is_ok_and(|status| status.success()),
        "{name} is not there: apt-get install --no-install-recommends prometheus (.ci/run does, and keeps its service off)"
    );
    Command::new(name)
}

fn run(command: &mut Command, stdin: &str) -> (bool, String) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start promtool");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), said)
}

#[test]
fn rules_are_in_order() {
    for flavor in FLAVORS {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules.yaml");
        fs::write(&file, rules(flavor).to_string()).unwrap();
        let (ok, said) = run(tool("promtool").args(["check", "rules", "--lint=all", "--lint-fatal"]).arg(&file), "");
        assert!(ok, "{said}");
        assert!(said.contains(&format!("{} rules found", alerts(&rules(flavor)).len())), "{said}");
    }
}

/// In the older text format, which is what promtool reads: there a counter's family has the name of its samples.
fn older_format(metrics: &str) -> String {
    let mut kinds = vec![];
    for line in metrics.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kinds.push((name, kind));
        }
    }
    let mut text = String::new();
    for line in metrics.lines().filter(|line| *line != "# EOF") {
        let mut line = line.to_owned();
        for (name, kind) in &kinds {
            let (suffix, older) = match *kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                _ => continue,
            };
            if line == format!("# TYPE {name} {kind}") {
                line = format!("# TYPE {name}{suffix} {older}");
            } else if let Some(help) = line.strip_prefix(&format!("# HELP {name} ")) {
                line = format!("# HELP {name}{suffix} {help}");
            }
        }
        text += &(line + "\n");
    }
    text
}

#[tokio::test]
async fn metrics_are_in_order() {
    let metrics = older_format(&exported::metrics().await);
    let (_, said) = run(tool("promtool").args(["check", "metrics"]), &metrics);
    let complaints: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(complaints, EXCEPTIONS, "{metrics}");
}

/// The tests are data; what each expects is labels, the texts are looked at elsewhere.
#[test]
fn each_alert_fires_when_it_must_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut rules = rules(FLAVORS[0]);
    let mut untested: BTreeSet<(String, String, bool)> = BTreeSet::new();
    for rule in rules["groups"][0]["rules"].as_array_mut().unwrap() {
        let (name, severity) = (text(rule, "/alert").to_owned(), text(rule, "/labels/severity").to_owned());
        untested.extend([true, false].map(|fires| (name.clone(), severity.clone(), fires)));
        rule.as_object_mut().unwrap().remove("annotations");
    }
    fs::write(dir.path().join("rules.yaml"), rules.to_string()).unwrap();
    let all = untested.clone();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/monitoring")).unwrap() {
        let path = entry.unwrap().path();
        let file = dir.path().join(path.file_name().unwrap());
        fs::copy(&path, &file).unwrap();
        let (ok, said) = run(tool("promtool").args(["test", "rules"]).arg(&file), "");
        assert!(ok, "{}: {said}", path.display());

        let tests = airgate::files::document::from_yaml(&fs::read_to_string(&path).unwrap()).unwrap();
        for test in tests[0]["tests"].as_array().unwrap() {
            for check in test["alert_rule_test"].as_array().unwrap() {
                let name = text(check, "/alertname");
                let expected = check["exp_alerts"].as_array().unwrap();
                let severities: Vec<_> = expected.iter().map(|alert| text(alert, "/exp_labels/severity")).collect();
                for (of, severity, _) in all.iter().filter(|(of, _, _)| of == name) {
                    untested.remove(&(of.clone(), severity.clone(), severities.contains(&&**severity)));
                }
            }
        }
    }
    assert!(untested.is_empty(), "no test says that these fire (true), or do not (false): {untested:#?}");
}

/// The list of what promtool may say is no place to forget things in.
#[test]
fn exceptions_are_documented_names() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/registries.md")).unwrap();
    for exception in EXCEPTIONS {
        let (name, _) = exception.split_once(' ').unwrap();
        assert!(page.contains(name), "{name}");
    }
}

#[test]
fn alerts_of_both_flavours_differ_in_the_namespace_alone() {
    let [openshift, kubernetes] = FLAVORS.map(|flavor| rules(flavor).to_string());
    assert_eq!(openshift.replace("openshift-airgate", "airgate"), kubernetes);
    let _: Value = serde_json::from_str(&kubernetes).unwrap();
}
