//! The binary at work, from the unpacked image.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::root::{Root, USER, as_root};
use crate::server::{eventually, free_port};

#[test]
fn it_says_its_version_and_judges_every_case() {
    as_root("runs::it_says_its_version_and_judges_every_case", || {
        let root = Root::unpacked();
        let before = root.tree(&[]);
        assert_eq!(root.success(&["--version"]), concat!("airgate ", env!("CARGO_PKG_VERSION"), "\n"));
        let cases = root.success(&["test"]);
        assert!(cases.contains(" passed"), "{cases}");
        assert!(root.success(&["manifests"]).contains("clusterversion.airgate.io"));
        assert_eq!(root.tree(&[]), before, "nothing was written");
    });
}

/// It makes keys and certificates, serves and asks itself over TLS.
#[test]
fn the_demo_needs_a_directory_for_its_files_and_no_more() {
    as_root("runs::the_demo_needs_a_directory_for_its_files_and_no_more", || {
        let root = Root::unpacked();
        let without = root.run(&["demo"]);
        let why = String::from_utf8_lossy(&without.stderr);
        assert!(!without.status.success() && why.contains("/tmp"), "{without:?}");
        root.writable("tmp");
        let demo = root.success(&["demo"]);
        assert_eq!(demo.matches("denied the request").count(), 5, "{demo}");
    });
}

#[test]
fn it_serves_over_tls_from_a_root_it_cannot_write_to() {
    as_root("runs::it_serves_over_tls_from_a_root_it_cannot_write_to", || {
        let root = Root::unpacked();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/sample");
        for folder in ["state", "releases"] {
            for entry in fs::read_dir(sample.join(folder)).unwrap() {
                let entry = entry.unwrap();
                let text = fs::read_to_string(entry.path()).unwrap();
                root.mounted(&format!("{folder}/{}", entry.file_name().display()), &text);
            }
        }
        root.writable("certs");
        let before = root.tree(&["certs"]);
        let refused = root.run(&["certs", "--dir", "/usr/certs"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");

        let [webhook, health] = [free_port(), free_port()];
        let listen = |flag: &str, port: u16| format!("--{flag}=127.0.0.1:{port}");
        let mut command = root.command(&["serve", "--state=/state", "--releases=/releases", "--self-signed=/certs"]);
        command.args([listen("listen", webhook), listen("health-listen", health), listen("admin-listen", free_port())]);
        let mut server = root.watchdog.spawn(&mut command, &root.log());
        let ready = format!("http://127.0.0.1:{health}/readyz");
        eventually("it is ready", || {
            let ended = server.try_wait().unwrap();
            assert_eq!(ended, None, "{}", fs::read_to_string(root.log()).unwrap());
            (get(&ready)? == 200).then_some(())
        });
        let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let ids = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
        let user = USER.to_string();
        assert!(ids("Uid:").split('\t').all(|id| id == user), "{status}");
        assert_eq!((ids("Groups:"), ids("CapEff:")), (String::new(), "0".repeat(16)), "{status}");

        let ca = fs::read(root.path("certs/ca.crt")).unwrap();
        let answer = review(&ca, webhook);
        assert_eq!(
            (&answer["response"]["allowed"], &answer["response"]["status"]["code"]),
            (&json!(false), &json!(403))
        );
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("4.21.9 cannot go straight to 4.23.1"), "{message}");
        assert_eq!(root.tree(&["certs"]), before, "nothing was written outside of what is mounted for it");

        let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &server.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let ended = eventually("it ended", || server.try_wait().unwrap());
        assert!(ended.success(), "{ended}: {}", fs::read_to_string(root.log()).unwrap());
    });
}

/// The status of a GET, or `None` where nobody answers.
fn get(url: &str) -> Option<u16> {
    runtime().block_on(async { Some(reqwest::get(url).await.ok()?.status().as_u16()) })
}

/// The answer to an upgrade that the sample's releases do not list.
fn review(ca: &[u8], port: u16) -> Value {
    let r = "registry.example:5000/ocp/release@sha256";
    let old = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"channel": "stable-4.21"},
        "status": {"desired": {"version": "4.21.9", "image": format!("{r}:{}", "1".repeat(64))}, "history": []}});
    let mut new = old.clone();
    let target = "290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";
    new["spec"]["desiredUpdate"] = json!({"image": format!("{r}:{target}"), "version": "", "force": false});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "a-uid", "operation": "UPDATE", "name": "version", "dryRun": false,
        "resource": {"group": "config.openshift.io", "version": "v1", "resource": "clusterversions"},
        "userInfo": {"username": "admin", "groups": ["system:masters"]}, "oldObject": old, "object": new}});
    let ca = reqwest::Certificate::from_pem(ca).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().timeout(Duration::from_secs(20));
    let client = client.build().unwrap();
    runtime().block_on(async {
        let url = format!("https://127.0.0.1:{port}/validate?timeout=10s");
        let request = client.post(url).header("content-type", "application/json").body(review.to_string());
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
    })
}

fn runtime() -> tokio::runtime::Runtime {
    airgate::tls::install_provider();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
