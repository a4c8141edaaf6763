//! The health port and the admin port.

use std::time::Duration;

use super::client::{Client, H1, get};
use super::harness::Setup;

#[tokio::test]
async fn probes_and_metrics() {
    let server = Setup::new().start().await;
    let health = server.addresses.health;
    assert_eq!(get(health, "/livez").await.status, 200);
    let got = get(health, "/readyz").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (503, "not ready, waiting for\n  stub: the test\n"));
    server.waits.fulfil();
    let got = get(health, "/readyz").await;
    assert_eq!(
        (got.status.as_u16(), got.text.as_str(), &got.headers["cache-control"]),
        (200, "ready\n", &"no-store".parse().unwrap())
    );

    Client::new(&server.ca(), H1).review(server.v4(), "/nowhere", "x").await;
    let got = get(health, "/metrics").await;
    assert!(got.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    assert!(got.text.contains(r#"airgate_refusals_total{reason="not_found"} 1"#), "{}", got.text);
    assert!(got.text.ends_with("# EOF\n"));
    assert!(!get(health, "/metrics").await.text.contains("certificate_not_after_seconds 0"));
    assert_eq!(get(health, "/validate").await.status, 404);
}

/// The workers of the test are those of the server, one here: while it is busy only another thread can answer.
#[tokio::test]
async fn probes_are_answered_while_every_worker_is_busy() {
    let server = Setup::new().start().await;
    let health = server.addresses.health;
    assert_eq!(get(health, "/livez").await.status, 200);
    // Blocks the only worker.
    let mut stream = std::net::TcpStream::connect(health).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn the_status_for_tools_and_for_people() {
    let server = Setup::new().start().await;
    let admin = server.addresses.admin;
    let status: serde_json::Value = serde_json::from_str(&get(admin, "/statusz").await.text).unwrap();
    assert_eq!(status["engine"], "a stub");
    assert_eq!(status["readiness"]["waiting"][0], "stub: the test");
    assert_eq!(status["certificate"]["generation"], 1);
    assert_eq!(status["certificate"]["names"][0], "localhost");
    assert!(status["certificate"]["notAfter"].is_string());
    let got = get(admin, "/").await;
    assert!(got.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(got.headers.contains_key("content-security-policy"));
    assert!(got.text.contains("a stub") && got.text.contains("waiting for"), "{}", got.text);
    assert_eq!(get(admin, "/nowhere").await.status, 404);
}
