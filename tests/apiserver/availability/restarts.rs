//! The API server and etcd come and go below a running airgate.

use serde_json::{Value, json};

use super::ground::{Ground, Special};
use super::service::Wire;
use super::{ANY, NONE, SOME, Scenario};
use crate::server::{eventually, poll};

const API_SERVER: Scenario = Scenario { name: "restart of the API server", failed: NONE, cautious: ANY, away: SOME };
/// The API server keeps a call waiting, for as long as it may, until etcd is back.
const ETCD: Scenario = Scenario { name: "etcd stopped for 5 s", failed: NONE, cautious: ANY, away: ANY };
/// Cautious: while the connection is cut, nothing can be read live.
const GONE: Scenario =
    Scenario { name: "watches resumed after etcd was compacted: 410 Gone", failed: NONE, cautious: ANY, away: NONE };

#[test]
fn the_api_server_and_etcd_restart_and_no_call_fails_by_airgate() {
    let mut ground = Ground::start();
    ground.two_replicas();
    API_SERVER.run(&mut ground, |ground, _| {
        ground.guard.testbed.apiserver.stop();
        assert!(ground.replicas.iter().all(super::replica::Replica::ready));
        ground.guard.testbed.start_apiserver().unwrap();
    });
    ETCD.run(&mut ground, |ground, _| {
        ground.guard.testbed.etcd.stop();
        poll(std::time::Duration::from_secs(5), || None::<()>);
        assert!(ground.replicas.iter().all(super::replica::Replica::ready));
        ground.guard.testbed.start_etcd().unwrap();
        eventually("the API server is ready again", || {
            (ground.guard.api.send("GET", "/readyz", "", None).code == 200).then_some(())
        });
    });

    // Without its cache the API server takes watches from etcd, which alone forgets.
    ground.guard.testbed.apiserver.stop();
    ground.guard.testbed.apiserver.args.push("--watch-cache=false".to_owned());
    ground.guard.testbed.start_apiserver().unwrap();
    let wire = Wire::before(ground.guard.testbed.apiserver.port);
    let behind_the_wire = || Special { api_port: Some(wire.port), ..Special::default() };
    ground.replicas(vec![behind_the_wire()]);
    GONE.run(&mut ground, |ground, stream| {
        let lists = |ground: &Ground| watch_of_versions(ground)["lists"].as_u64().expect("a count");
        let before = lists(ground);
        wire.cut();
        // What changes now is not heard.
        stream.goes_on_for(20);
        compact(ground.guard.testbed.etcd.port);
        wire.mend();
        eventually("ClusterVersions are listed anew", || (lists(ground) > before).then_some(()));
        assert!(ground.replicas[0].log().contains("410 Gone"), "{}", ground.replicas[0].log());
        let seen = ground.guard.api.get(crate::api::VERSION).expect("a ClusterVersion");
        let newest: u64 = seen["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        eventually("and followed", || {
            let seen = watch_of_versions(ground)["resourceVersion"].as_str()?.parse::<u64>().ok()?;
            (seen >= newest).then_some(())
        });
    });
}

fn watch_of_versions(ground: &Ground) -> Value {
    let status = ground.replicas[0].statusz();
    let watches = status["watches"].as_array().cloned().unwrap_or_default();
    let of_versions =
        |watch: &Value| watch["resource"].as_str().is_some_and(|name| name.starts_with("clusterversions."));
    watches.into_iter().find(of_versions).expect("the watch of ClusterVersions")
}

/// Has etcd forget all that was before now.
fn compact(port: u16) {
    let ask = |path: &str, body: Value| -> Value {
        let url = format!("http://127.0.0.1:{port}{path}");
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let client = reqwest::Client::new();
            let response = client.post(url).body(body.to_string()).send().await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
            serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
        })
    };
    let now = ask("/v3/kv/range", json!({"key": "AA==", "limit": "1"}));
    let revision = now["header"]["revision"].as_str().expect("a revision").to_owned();
    ask("/v3/kv/compaction", json!({"revision": revision, "physical": true}));
}
