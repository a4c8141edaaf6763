//! Alerts, dashboard and the runbook, against a running airgate and Prometheus' own tools.

mod dashboard;
mod exported;
mod prometheus;
mod promtool;
mod runbook;
#[expect(dead_code, reason = "the tests of the server use the rest")]
#[path = "../serve/running.rs"]
mod running;

use serde_json::Value;

use super::run::airgate;

const FLAVORS: [[&str; 3]; 2] =
    [["--flavor", "openshift", "--mode=enforce"], ["--flavor", "kubernetes", "--monitoring"]];

/// The objects of a kind that `airgate manifests` prints.
fn printed(flavor: [&str; 3], kind: &str) -> Vec<Value> {
    let printed = airgate(&[&["manifests"], &flavor[..]].concat());
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let objects = airgate::files::document::from_yaml(&printed.stdout).unwrap();
    objects.into_iter().filter(|object| object["kind"] == kind).collect()
}

/// What stands in a PrometheusRule, which is what Prometheus itself reads from a file.
fn rules(flavor: [&str; 3]) -> Value {
    let [rule] = &printed(flavor, "PrometheusRule")[..] else { panic!("one PrometheusRule") };
    rule["spec"].clone()
}

fn alerts(rules: &Value) -> Vec<&Value> {
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()).collect()
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("{path} in {object:#}"))
}

#[test]
fn only_openshift_has_it_unasked() {
    let plain = ["--flavor", "kubernetes", "--mode=enforce"];
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert!(printed(plain, kind).is_empty(), "a cluster without the Prometheus operator refuses a {kind}");
        for flavor in FLAVORS {
            assert_eq!(printed(flavor, kind).len(), 1, "{flavor:?} {kind}");
        }
    }
    let refused = airgate(&["manifests", "--monitoring", "--url", "https://h", "--ca-file", "x"]);
    assert!(refused.code == 2 && refused.stderr.contains("--monitoring"), "{}", refused.stderr);
}

#[test]
fn alerts_say_what_a_person_needs() {
    for flavor in FLAVORS {
        let rules = rules(flavor);
        let namespace = if flavor[1] == "openshift" { "openshift-airgate" } else { "airgate" };
        let mut seen = vec![];
        for alert in alerts(&rules) {
            let name = text(alert, "/alert");
            let severity = text(alert, "/labels/severity");
            assert!(["critical", "warning", "info"].contains(&severity), "{alert:#}");
            assert!(!seen.contains(&(name, severity)), "{name} is there twice");
            seen.push((name, severity));
            assert_eq!(text(alert, "/labels/namespace"), namespace);
            assert!(text(alert, "/annotations/summary").ends_with('.'), "{alert:#}");
            let description = text(alert, "/annotations/description");
            let more = format!("\nMore: airgate runbook {name}");
            assert!(description.contains("\nFirst: ") && description.ends_with(&more), "{description}");
            assert!(!alert.to_string().contains("$own") && !alert.to_string().contains("$namespace"), "{alert:#}");
        }
        let critical = seen.iter().filter(|(_, severity)| *severity == "critical").count();
        assert!((1..=3).contains(&critical), "critical wakes people: {critical}");
    }
}
