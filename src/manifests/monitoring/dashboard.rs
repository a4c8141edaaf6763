//! What a person looks at, as data: for Grafana, and in the older form that OpenShift's console reads.

use serde_json::{Value, json};

use super::of_namespace;
use crate::manifests::Flavor;

/// Of the grid that panels stand in.
const COLUMNS: u64 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One number.
    Number,
    Graph,
}

struct Panel {
    title: &'static str,
    /// For whoever wonders what it shows.
    about: &'static str,
    kind: Kind,
    /// A unit of Grafana's.
    unit: &'static str,
    /// `PromQL`, and the legend of its series.
    queries: &'static [(&'static str, &'static str)],
}

/// A heading and what stands below it.
struct Row(&'static str, &'static [Panel]);

const fn number(
    title: &'static str,
    about: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, kind: Kind::Number, unit, queries }
}

const fn graph(
    title: &'static str,
    about: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, kind: Kind::Graph, unit, queries }
}

static ROWS: [Row; 5] = [
    Row(
        "Now",
        &[
            number("Ready replicas", "Sent reviews", "none", &[("sum(airgate_ready{$own})", "")]),
            number("Audit mode", "1: nothing is denied", "none", &[("max(airgate_mode{$own,mode=\"audit\"})", "")]),
            number(
                "Certificate, days left",
                "Of the one that ends first",
                "none",
                &[("floor((min(airgate_certificate_not_after_seconds{$own}) - time()) / 86400)", "")],
            ),
            number(
                "Unknown facts",
                "Each makes steps Unknown",
                "none",
                &[("max(sum by (pod) (airgate_fact_unknown{$own}))", "")],
            ),
            number(
                "Invalidated steps",
                "Releases in use that left the InternalReleaseImage",
                "none",
                &[("max(airgate_invalidated_steps_standing{$own})", "")],
            ),
            number(
                "Stored, and would be denied",
                "airgate audit lists them",
                "none",
                &[("max(sum by (pod) (airgate_audit_findings{$own,outcome=\"deny\"})) or vector(0)", "")],
            ),
        ],
    ),
    Row(
        "Reviews",
        &[
            graph(
                "Reviews by outcome",
                "Per hour; reading: told to ask again while a release is read",
                "none",
                &[("sum by (outcome) (increase(airgate_reviews_total{$own}[1h]))", "{{outcome}}")],
            ),
            graph(
                "Time of a review",
                "From decoded request to encoded answer, waiting for registries included",
                "s",
                &[
                    ("histogram_quantile(0.5, sum by (le) (rate(airgate_review_seconds_bucket{$own}[15m])))", "half"),
                    (
                        "histogram_quantile(0.9, sum by (le) (rate(airgate_review_seconds_bucket{$own}[15m])))",
                        "9 of 10",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(airgate_review_seconds_bucket{$own}[15m])))",
                        "99 of 100",
                    ),
                ],
            ),
            graph(
                "Findings by policy",
                "Per hour; enforced: what was refused for it",
                "none",
                &[(
                    "sum by (policy, enforced) (increase(airgate_findings_total{$own}[1h])) > 0",
                    "{{policy}} enforced={{enforced}}",
                )],
            ),
            graph(
                "Overrides used",
                "Per day",
                "none",
                &[("sum by (policy) (increase(airgate_overrides_used_total{$own}[1d])) > 0", "{{policy}}")],
            ),
            graph(
                "As the API server sees it",
                "Calls a second by webhook, and how many failed",
                "none",
                &[
                    (
                        "sum by (name) (rate(apiserver_admission_webhook_request_total{name=~\".+[.]airgate[.]io\"}[15m]))",
                        "{{name}}",
                    ),
                    (
                        "sum by (name) (rate(apiserver_admission_webhook_rejection_count{name=~\".+[.]airgate[.]io\",error_type=\"calling_webhook_error\"}[15m]))",
                        "{{name}} failed",
                    ),
                    (
                        "sum by (name) (rate(apiserver_admission_webhook_fail_open_count{name=~\".+[.]airgate[.]io\"}[15m]))",
                        "{{name}} failed, let pass",
                    ),
                ],
            ),
            graph(
                "Refusals by reason",
                "A second; requests answered without a verdict",
                "none",
                &[("sum by (reason) (rate(airgate_refusals_total{$own}[15m])) > 0", "{{reason}}")],
            ),
        ],
    ),
    Row(
        "What verdicts rest on",
        &[
            graph(
                "Age of facts",
                "Since the last list, event or bookmark; above 300 s a watch proves nothing",
                "s",
                &[("time() - min by (fact) (airgate_fact_as_of_seconds{$own})", "{{fact}}")],
            ),
            graph(
                "Unknown and stale facts",
                "1 while it lasts",
                "none",
                &[
                    ("max by (fact) (airgate_fact_unknown{$own}) > 0", "{{fact}} unknown"),
                    ("max by (fact) (airgate_fact_stale{$own}) > 0", "{{fact}} stale"),
                ],
            ),
            graph(
                "Stored, and not let pass today",
                "What the audit finds",
                "none",
                &[("max by (policy, outcome) (airgate_audit_findings{$own})", "{{policy}} {{outcome}}")],
            ),
            graph(
                "Known releases",
                "From files and registries; and files that cannot be used",
                "none",
                &[
                    ("max(airgate_catalog_releases{$own})", "releases"),
                    ("max(airgate_file_problems{$own})", "unusable files"),
                ],
            ),
        ],
    ),
    Row(
        "Registries",
        &[
            graph(
                "Look-ups of releases",
                "Per hour; request: a review asked, ahead: before any did",
                "none",
                &[(
                    "sum by (reason, outcome) (increase(airgate_release_lookups_total{$own}[1h]))",
                    "{{reason}} {{outcome}}",
                )],
            ),
            graph(
                "The last look-up",
                "How long it took",
                "ms",
                &[("airgate_release_lookup_last_milliseconds{$own}", "{{pod}}")],
            ),
        ],
    ),
    Row(
        "The process",
        &[
            graph("Requests in flight", "256 at most", "none", &[("airgate_requests_in_flight{$own}", "{{pod}}")]),
            graph("Connections", "By port", "none", &[("sum by (port) (airgate_connections{$own})", "{{port}}")]),
            graph(
                "Connections by their end",
                "A second",
                "none",
                &[("sum by (end) (rate(airgate_connections_ended_total{$own}[15m])) > 0", "{{end}}")],
            ),
            graph(
                "TLS handshakes",
                "A second, by protocol version and key exchange group",
                "none",
                &[("sum by (version, group) (rate(airgate_tls_handshakes_total{$own}[15m]))", "{{version}} {{group}}")],
            ),
            graph(
                "Certificates",
                "Days until they expire",
                "none",
                &[
                    ("((airgate_certificate_not_after_seconds{$own} > 0) - time()) / 86400", "{{pod}}"),
                    ("((airgate_ca_not_after_seconds{$own} > 0) - time()) / 86400", "{{pod}} CA"),
                ],
            ),
            graph("Memory", "Resident", "bytes", &[("process_resident_memory_bytes{$own}", "{{pod}}")]),
            graph("Processor", "Cores", "none", &[("rate(process_cpu_seconds_total{$own}[5m])", "{{pod}}")]),
            graph("Open files", "And sockets", "none", &[("process_open_fds{$own}", "{{pod}}")]),
        ],
    ),
];

pub(super) fn dashboard(flavor: Flavor, namespace: &str) -> Value {
    let form = |kind| match (flavor, kind) {
        (Flavor::Kubernetes, Kind::Number) => "stat",
        (Flavor::Kubernetes, Kind::Graph) => "timeseries",
        (_, Kind::Number) => "singlestat",
        (_, Kind::Graph) => "graph",
    };
    let (mut panels, mut id, mut y) = (vec![], 0_u64, 0_u64);
    for Row(title, row) in &ROWS {
        id += 1;
        panels.push(json!({"id": id, "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}}));
        y += 1;
        let (mut x, mut bottom) = (0, y);
        for panel in *row {
            id += 1;
            let (width, height) = if panel.kind == Kind::Number { (4, 4) } else { (12, 8) };
            if x + width > COLUMNS {
                (x, y) = (0, bottom);
            }
            let mut shown = panel.shown(namespace);
            shown["id"] = json!(id);
            shown["type"] = json!(form(panel.kind));
            shown["gridPos"] = json!({"x": x, "y": y, "w": width, "h": height});
            // The console divides a row by twelve and knows no grid.
            shown["span"] = json!(width / 2);
            panels.push(shown);
            x += width;
            bottom = bottom.max(y + height);
        }
        y = bottom;
    }
    json!({
        "uid": "airgate", "title": "airgate", "tags": ["airgate"], "schemaVersion": 39, "version": 1,
        "editable": false, "refresh": "1m", "time": {"from": "now-6h", "to": "now"}, "timezone": "browser",
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source",
            "hide": 0, "refresh": 1, "options": [], "regex": "", "current": {"text": "Prometheus", "value": "Prometheus"}}]},
        "annotations": {"list": []}, "links": [],
        "panels": panels,
    })
}

impl Panel {
    fn shown(&self, namespace: &str) -> Value {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let names = ('A'..='Z').map(String::from);
        let targets: Vec<_> = names
            .zip(self.queries)
            .map(|(name, (expr, legend))| {
                json!({"refId": name, "expr": of_namespace(expr, namespace), "legendFormat": legend,
                    "datasource": source, "instant": self.kind == Kind::Number})
            })
            .collect();
        json!({
            "title": self.title, "description": self.about, "datasource": source, "targets": targets,
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            // The same for the console.
            "format": self.unit, "yaxes": [{"format": self.unit, "min": 0}, {"show": false}],
        })
    }
}
