//! A real Prometheus scrapes a running airgate with the shipped rules, and raises what there is to raise.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::exported::eventful;
use super::promtool::tool;
use super::running::{V4_23_1, upgrade_to};
use super::{FLAVORS, alerts, rules, text};

struct Prometheus {
    process: Child,
    url: String,
    _dir: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Prometheus {
    /// Scrapes this address every second. Nothing has to hold for any time: that is what promtool's tests are for.
    fn start(target: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut rules = rules(FLAVORS[0]);
        for rule in rules["groups"][0]["rules"].as_array_mut().unwrap() {
            rule["for"] = json!("0s");
        }
        fs::write(dir.path().join("rules.yaml"), rules.to_string()).unwrap();
        let labels = json!({"namespace": "openshift-airgate", "pod": "airgate-0"});
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "airgate", "static_configs": [{"targets": [target], "labels": labels}]}],
        });
        fs::write(dir.path().join("prometheus.yaml"), config.to_string()).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = tool("prometheus")
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={free}"))
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { process, url: format!("http://{free}/api/v1"), _dir: dir }
    }

    /// Asks until the answer has something to say.
    async fn eventually<T>(&self, path: &str, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_mins(1);
        let mut last = String::new();
        while Instant::now() < end {
            if let Ok(response) = reqwest::get(format!("{}/{path}", self.url)).await {
                last = response.text().await.unwrap_or_default();
                let answer = serde_json::from_str::<Value>(&last).unwrap_or_default();
                if let Some(found) = wanted(&answer["data"]) {
                    return found;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} never was as expected: {last}")
    }

    /// The description of an alert that fires.
    async fn fires(&self, name: &str) -> String {
        self.eventually("alerts", |data| {
            let firing = |alert: &&Value| alert["labels"]["alertname"] == name && alert["state"] == "firing";
            let alert = data["alerts"].as_array()?.iter().find(firing)?;
            Some(text(alert, "/annotations/description").to_owned())
        })
        .await
    }
}

#[tokio::test]
async fn prometheus_raises_what_there_is_to_raise() {
    let server = eventful().await;
    let prometheus = Prometheus::start(server.health.trim_start_matches("http://"));
    let description = prometheus.fires("AirgateFilesUnusable").await;
    assert!(description.starts_with("1 files of the directories"), "{description}");
    assert!(description.contains("\nFirst: oc -n openshift-airgate logs deployment/airgate\n"), "{description}");
    let description = prometheus.fires("AirgateAuditFindings").await;
    assert!(description.contains("of policy digest-only have stood"), "{description}");
    prometheus.fires("AirgateFactUnknown").await;

    // A counter's first count is a rise: what was never used is there with nothing.
    let mut review = upgrade_to(V4_23_1);
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let entry =
        json!({"policy": "upgrade-path", "from": "4.21.9", "target": V4_23_1, "reason": "a test", "expires": expires});
    review["request"]["object"]["metadata"]["annotations"] = json!({"airgate.io/override": entry.to_string()});
    let response = server.review(&review).await;
    assert_eq!(response["allowed"], true, "{response}");
    let description = prometheus.fires("AirgateOverrideUsed").await;
    assert!(description.contains("against policy upgrade-path within"), "{description}");

    let health = prometheus
        .eventually("rules", |data| {
            let rules = data["groups"][0]["rules"].as_array()?;
            rules.iter().all(|rule| rule["health"] != "unknown").then(|| rules.clone())
        })
        .await;
    assert_eq!(health.len(), alerts(&rules(FLAVORS[0])).len());
    for rule in health {
        assert_eq!(rule["health"], "ok", "{rule:#}");
        let quiet = ["AirgateDown", "AirgateNotReady", "AirgateCertificateExpiring", "AirgateStepInvalidated"];
        let name = text(&rule, "/name");
        assert!(!quiet.contains(&name) || rule["state"] == "inactive", "{rule:#}");
    }
}
