//! A server on files of its own.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use airgate::config::ConfigFile;
use airgate::serve::Server;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

pub const R: &str = "registry.example:5000/ocp/release";
pub const V4_22_3: &str = "sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81";
pub const V4_23_1: &str = "sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";

pub struct Running {
    pub dir: TempDir,
    url: String,
    /// `http://HOST:PORT`
    pub health: String,
    admin: String,
    client: reqwest::Client,
    _signals: mpsc::Sender<&'static str>,
}

impl Running {
    /// On a copy of the sample site.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/sample");
        for folder in ["state", "releases"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            for entry in fs::read_dir(sample.join(folder)).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), dir.path().join(folder).join(entry.file_name())).unwrap();
            }
        }
        let loopback = Some("127.0.0.1:0".to_owned());
        let config = ConfigFile {
            state: Some(dir.path().join("state")),
            releases: vec![dir.path().join("releases")],
            self_signed: Some(dir.path().join("certs")),
            listen: loopback.clone(),
            health_listen: loopback.clone(),
            admin_listen: loopback,
            ..ConfigFile::default()
        };
        let server = Server::bind(&config).await.unwrap();
        let addresses = server.addresses();
        let (signals, receiver) = mpsc::channel(1);
        tokio::spawn(server.run(receiver));
        let ca = reqwest::Certificate::from_pem(&fs::read(dir.path().join("certs/ca.crt")).unwrap()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([ca]).timeout(Duration::from_secs(20)).build().unwrap();
        Self {
            dir,
            url: format!("https://{}/validate?timeout=10s", addresses.webhook),
            health: format!("http://{}", addresses.health),
            admin: format!("http://{}", addresses.admin),
            client,
            _signals: signals,
        }
    }

    /// Status and body of a POST of these bytes.
    pub async fn post(&self, body: impl Into<reqwest::Body>) -> (u16, String) {
        self.post_as("application/json", body).await
    }

    pub async fn post_as(&self, content_type: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let request = self.client.post(&self.url).header("content-type", content_type).body(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The `response` of a review that must be answered.
    pub async fn review(&self, review: &Value) -> Value {
        let (status, body) = self.post(review.to_string()).await;
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["response"]["uid"], review["request"]["uid"], "the uid is echoed: {body}");
        answer["response"].clone()
    }

    pub async fn health(&self, path: &str) -> (u16, String) {
        self.get(format!("{}{path}", self.health)).await
    }

    pub async fn status(&self) -> Value {
        serde_json::from_str(&self.get(format!("{}/statusz", self.admin)).await.1).unwrap()
    }

    async fn get(&self, url: String) -> (u16, String) {
        let response = self.client.get(url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Still there, still right.
    pub async fn still_judges(&self) {
        assert_eq!(self.review(&upgrade_to(V4_22_3)).await["allowed"], true);
        assert_eq!(self.review(&upgrade_to(V4_23_1)).await["status"]["code"], 403);
    }

    /// Asks until the answer is as expected.
    pub async fn eventually(&self, what: &str, mut expected: impl FnMut(&Value) -> bool, review: &Value) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let response = self.review(review).await;
            if expected(&response) {
                return;
            }
            assert!(Instant::now() < end, "never {what}: {response}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The sample's ClusterVersion asked to go to a digest.
pub fn upgrade_to(digest: &str) -> Value {
    let old = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"channel": "stable-4.21"},
        "status": {"desired": {"version": "4.21.9", "image": format!("{R}@sha256:{}", "1".repeat(64))}, "history": []}
    });
    let mut new = old.clone();
    new["spec"]["desiredUpdate"] =
        json!({"image": format!("{R}@{digest}"), "version": "", "architecture": "", "force": false});
    review("config.openshift.io", "clusterversions", "UPDATE", &old, &new)
}

pub fn review(group: &str, resource: &str, operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "a-uid", "operation": operation, "name": "version",
            "resource": {"group": group, "version": "v1", "resource": resource},
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "oldObject": old, "object": new, "dryRun": false
        }
    })
}
