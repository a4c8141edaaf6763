//! What is asked of Prometheus is what a running airgate exports, and what it exports is documented.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::running::{Running, V4_22_3, V4_23_1, upgrade_to};
use super::{FLAVORS, alerts, dashboard, rules, text};

/// Of others: Prometheus itself, kube-state-metrics, and the API server, for which `tests/apiserver` holds the names.
const OTHERS: [&str; 4] = [
    "kube_deployment_spec_replicas",
    "apiserver_admission_webhook_request_total",
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_webhook_fail_open_count",
];

/// One family of `/metrics`.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    help: String,
    labels: BTreeSet<String>,
    /// The names that samples have: with `_total`, `_bucket` and so on.
    samples: BTreeSet<String>,
}

/// A server that has been through everything that makes a series appear.
pub async fn eventful() -> Running {
    let server = Running::start().await;
    let version = server.dir.path().join("state/clusterversion.yaml");
    // Stored, and not let pass today: a target by tag.
    let stored = fs::read_to_string(&version).unwrap();
    let (_, rest) = stored.split_once("image: ").unwrap();
    let image = rest.split_whitespace().next().unwrap();
    fs::write(&version, stored.replacen(image, "registry.example:5000/ocp/release:4.22.3", 1)).unwrap();
    // A file that nobody can read.
    fs::write(server.dir.path().join("releases/broken.yaml"), "kind: [").unwrap();
    for target in [V4_22_3, V4_23_1] {
        let mut review = upgrade_to(target);
        review["request"]["dryRun"] = json!(true);
        server.review(&review).await;
    }
    // A connection that comes to nothing.
    drop(std::net::TcpStream::connect(server.health.trim_start_matches("http://")).unwrap());
    let there = ["airgate_audit_findings{", "airgate_file_problems 1\n", "airgate_connections_ended_total{"];
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, metrics) = server.health("/metrics").await;
        if there.iter().all(|part| metrics.contains(part)) {
            return server;
        }
        assert!(Instant::now() < end, "never there:\n{metrics}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub async fn metrics() -> String {
    eventful().await.health("/metrics").await.1
}

fn families(metrics: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in metrics.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.get_mut(name).unwrap().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let family = families.get_mut(&current).unwrap();
            family.samples.insert(name.to_owned());
            let keys = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(key, _)| key.to_owned());
            family.labels.extend(keys.filter(|key| key != "le"));
        }
    }
    families
}

/// The metrics that an expression names: what is left without strings, selectors, groupings and functions.
fn names(expr: &str) -> BTreeSet<String> {
    let (mut plain, mut depth, mut quoted) = (String::new(), 0, false);
    for c in expr.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    for grouping in ["by (", "on ("] {
        while let Some(start) = plain.find(grouping) {
            let end = start + plain[start..].find(')').unwrap();
            plain.replace_range(start..=end, " ");
        }
    }
    let mut found = BTreeSet::new();
    let mut rest = &*plain;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let word = &rest[start..];
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        let called = after.trim_start().starts_with('(');
        let operator = ["and", "or", "unless", "offset"].contains(&word);
        if !word.starts_with(|c: char| c.is_ascii_digit()) && !operator && !called {
            found.insert(word.to_owned());
        }
        rest = after;
    }
    found
}

#[test]
fn names_are_found_in_expressions() {
    let expr =
        r#"sum by (pod, le) (rate(a_total{b="c_d (e"}[5m])) / on (f) count(g_h) > 1 or (i unless i offset 1h) > 0.5"#;
    assert_eq!(names(expr).into_iter().collect::<Vec<_>>(), ["a_total", "g_h", "i"]);
}

#[tokio::test]
async fn expressions_use_what_is_exported() {
    let metrics = metrics().await;
    let families = families(&metrics);
    let exported: BTreeSet<_> = families.values().flat_map(|family| &family.samples).collect();
    let mut used = BTreeSet::new();
    for flavor in FLAVORS {
        let rules = rules(flavor);
        let of_alerts = alerts(&rules).into_iter().map(|alert| text(alert, "/expr").to_owned());
        for expr in of_alerts.chain(dashboard::expressions(flavor)) {
            let names = names(&expr);
            assert!(!names.is_empty(), "{expr}");
            for name in names {
                let known = exported.contains(&name) || OTHERS.contains(&&*name);
                assert!(known, "nobody exports {name}, which is used in {expr}");
                used.insert(name);
            }
        }
    }
    for other in OTHERS {
        assert!(used.contains(other), "nothing uses {other}");
    }
}

/// `docs/metrics.md` is the table of exactly what is exported.
#[tokio::test]
async fn every_metric_is_documented() {
    let metrics = metrics().await;
    let mut rows = String::new();
    for (name, family) in families(&metrics) {
        let name = match &*family.kind {
            "counter" => name + "_total",
            "info" => name + "_info",
            _ => name,
        };
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(rows, "| `{name}` | {} | {} |", labels.join(", "), family.help).unwrap();
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md")).unwrap();
    let (_, table) = page.split_once("|---|---|---|\n").unwrap();
    assert!(table == rows, "docs/metrics.md has another table than\n{rows}");
}
