//! The cluster's TLS security profile, changed while the API server calls.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::api::{Api, VERSION};
use crate::guard::{Guard, Site};
use crate::server::eventually;

const API_SERVERS: &str = "/apis/config.openshift.io/v1/apiservers";

fn api_server(adherence: &str, profile: Value) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
        "spec": {"tlsAdherence": adherence, "tlsSecurityProfile": profile}})
}

/// What a new connection with this client negotiates, as OpenSSL prints it; "" where it does not come about.
fn negotiated(port: u16, args: &[&str]) -> String {
    let address = format!("127.0.0.1:{port}");
    let mut command = std::process::Command::new("openssl");
    command.args(["s_client", "-brief", "-connect", &address]).args(args).stdin(std::process::Stdio::null());
    let output = command.output().expect("run openssl");
    if output.status.success() { String::from_utf8_lossy(&output.stderr).into_owned() } else { String::new() }
}

#[test]
fn a_change_of_the_profile_is_taken_up_without_one_failed_call() {
    let guard = Guard::shared();
    let strict = |profile: Value| api_server("StrictAllComponents", profile);
    let only_p384 = json!({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS12",
        "ciphers": ["ECDHE-ECDSA-AES256-GCM-SHA384", "DES-CBC3-SHA"], "groups": ["secp384r1", "secp521r1"]}});
    let steps = [
        ("Modern", strict(json!({"type": "Modern", "modern": {}}))),
        ("Custom", strict(only_p384)),
        (
            "airgate's own defaults: spec.tlsAdherence is LegacyAdheringComponentsOnly",
            api_server("LegacyAdheringComponentsOnly", json!({"type": "Modern", "modern": {}})),
        ),
        ("Intermediate", api_server("StricterStill", json!({"type": "Intermediate", "intermediate": {}}))),
        ("Old", strict(json!({"type": "Old", "old": {}}))),
    ];
    let port = guard.webhook_port;
    assert!(negotiated(port, &["-tls1_2"]).contains("TLSv1.2"), "the default speaks TLS 1.2");

    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let api = Api::of(&guard.testbed);
    let patch = json!({"spec": {"desiredUpdate": {"image": Site::new().unlisted.image}}});
    let failed = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut failed = vec![];
            while !stop.load(Ordering::Relaxed) {
                let answer = api.merge(&format!("{VERSION}?dryRun=All"), &patch);
                calls.fetch_add(1, Ordering::Relaxed);
                if answer.code != 403 {
                    failed.push(answer);
                }
            }
            failed
        });
        for (profile, object) in &steps {
            guard.set(API_SERVERS, "cluster", object);
            eventually(profile, || {
                let status = guard.statusz();
                (status["certificate"]["tls"]["profile"] == *profile).then_some(())
            });
            let tls = guard.statusz()["certificate"]["tls"].clone();
            let old = negotiated(port, &["-tls1_2"]);
            let new = negotiated(port, &["-tls1_3"]);
            assert!(new.contains("TLSv1.3"), "{profile}: {new}");
            match *profile {
                "Modern" => assert!(old.is_empty() && tls["minVersion"] == "TLS 1.3", "{old} {tls:#}"),
                "Custom" => {
                    assert!(old.contains("ECDHE-ECDSA-AES256-GCM-SHA384"), "{old}");
                    assert!(new.contains("secp384r1"), "{new}");
                    assert!(negotiated(port, &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"]).is_empty());
                    assert!(negotiated(port, &["-groups", "X25519"]).is_empty());
                    let lacking = tls["notHonoured"].to_string();
                    assert!(lacking.contains("DES-CBC3-SHA") && lacking.contains("secp521r1"), "{lacking}");
                }
                "Old" => assert!(tls["notHonoured"].to_string().contains("VersionTLS10"), "{tls:#}"),
                _ => assert!(old.contains("TLSv1.2"), "{profile}: {old}"),
            }
            let so_far = calls.load(Ordering::Relaxed);
            eventually("calls since then", || (calls.load(Ordering::Relaxed) > so_far + 10).then_some(()));
        }
        stop.store(true, Ordering::Relaxed);
        load.join().expect("calls")
    });
    let calls = calls.load(Ordering::Relaxed);
    assert!(failed.is_empty(), "{} of {calls} calls failed: {failed:?}", failed.len());

    for (version, group) in [("1.2", "secp384r1"), ("1.3", "secp384r1")] {
        let series = format!("airgate_tls_handshakes_total{{version=\"{version}\",group=\"{group}\"}}");
        assert!(guard.count(&series) > 0, "{series}");
    }
    guard.api.delete(&format!("{API_SERVERS}/cluster"));
    eventually("the defaults again", || {
        guard.statusz()["certificate"]["tls"]["profile"].as_str()?.contains("no APIServer cluster").then_some(())
    });
}
