//! Peers that hold a connection and give nothing for it.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Client, Connection, H1, H2, get_from, review};
use super::harness::{LIMIT, Server, Setup, within};

const SHORT: Duration = Duration::from_millis(300);

async fn answers(server: &Server, connection: &mut Connection) -> bool {
    within("an answer", connection.send(review(server.v4(), "/validate", "x"))).await.is_ok_and(|got| got.status == 200)
}

#[tokio::test]
async fn a_peer_that_never_shakes_hands_is_dropped() {
    let server = Setup::new().limits(|limits| limits.handshake = SHORT).start().await;
    let mut silent = TcpStream::connect(server.v4()).await.unwrap();
    let read = within("the end", silent.read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    server.metric(r#"airgate_connections_ended_total{port="webhook",end="handshake_timeout"} 1"#).await;
    server.metric(r#"airgate_connections{port="webhook"} 0"#).await;
}

#[tokio::test]
async fn a_peer_that_never_asks_is_dropped() {
    let server = Setup::new().limits(|limits| limits.header = SHORT).start().await;
    for alpn in [H1, H2] {
        let mut silent = Client::new(&server.ca(), alpn).tls(server.v4()).await.unwrap();
        within("the end", silent.read_to_end(&mut Vec::new())).await.ok();
    }
    server.metric(r#"airgate_connections_ended_total{port="webhook",end="header_timeout"} 2"#).await;
}

#[tokio::test]
async fn a_header_that_dribbles_is_dropped_first_or_later() {
    let server = Setup::new().limits(|limits| limits.header = SHORT).start().await;
    for first in [true, false] {
        let mut slow = Client::new(&server.ca(), H1).tls(server.v4()).await.unwrap();
        if !first {
            slow.write_all(
                b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\nx",
            )
            .await
            .unwrap();
            let mut answer = [0; 12];
            within("an answer", slow.read_exact(&mut answer)).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        let dribble = async {
            let mut line = "POST /validate HTTP/1.1\r\n";
            // Each step is quick; only the whole takes too long.
            while slow.write_all(line.as_bytes()).await.is_ok() {
                line = "X-More: to come\r\n";
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("the end", dribble).await;
    }
    server.metric(r#"airgate_connections_ended_total{port="webhook",end="header_timeout"} 2"#).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_bounded_by_the_deadline() {
    let server = Setup::new().start().await;
    let mut slow = Client::new(&server.ca(), H1).tls(server.v4()).await.unwrap();
    slow.write_all(b"POST /validate?timeout=200ms HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\nx")
        .await
        .unwrap();
    let mut answer = String::new();
    within("the answer and the end", slow.read_to_string(&mut answer)).await.ok();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive within"), "{answer}");
    server.metric("airgate_requests_in_flight 0").await;
}

/// Begins a request and sends one byte of its body.
async fn begin(client: &Client, server: &Server) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut stream = client.tls(server.v4()).await.unwrap();
    stream
        .write_all(
            b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\nx",
        )
        .await
        .unwrap();
    stream
}

#[tokio::test]
async fn a_body_that_does_not_come_has_a_short_limit_of_its_own() {
    let server = Setup::new().limits(|limits| limits.body_grace = SHORT).start().await;
    let mut slow = begin(&Client::new(&server.ca(), H1), &server).await;
    let mut answer = String::new();
    within("the answer and the end", slow.read_to_string(&mut answer)).await.ok();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive within 300 ms"), "{answer}");
}

#[tokio::test]
async fn bodies_that_do_not_come_keep_nobody_out() {
    let server = Setup::new()
        .limits(|limits| (limits.in_flight, limits.arriving, limits.body_grace) = (1, 8, LIMIT))
        .start()
        .await;
    let greedy = Client::new(&server.ca(), H1);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(begin(&greedy, &server).await);
    }
    server.metric("airgate_requests_in_flight 4").await;
    // The fifth of this peer, beyond half of what there is.
    assert_eq!(greedy.review(server.v4(), "/validate", "x").await.status, 429);
    let other = Client { from: Some(OTHER), ..greedy };
    assert_eq!(other.review(server.v4(), "/validate", "x").await.status, 200);
}

/// Linux answers on, and lets one come from, all of 127.0.0.0/8.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[tokio::test]
async fn silent_connections_keep_no_other_peer_out() {
    let server =
        Setup::new().limits(|limits| (limits.connections, limits.header_when_scarce) = (16, LIMIT)).start().await;
    for (port, address) in [("health", server.addresses.health), ("webhook", server.v4())] {
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        server.metric(&format!(r#"airgate_connections_ended_total{{port="{port}",end="peer_share"}} 32"#)).await;
        if port == "health" {
            assert_eq!(get_from(Some(OTHER), address, "/livez").await.status, 200);
        } else {
            let other = Client { from: Some(OTHER), ..Client::new(&server.ca(), H1) };
            assert_eq!(other.review(address, "/validate", "x").await.status, 200);
        }
    }
}

/// Writes `bytes` as they are and reads to the end.
async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = Client::new(&server.ca(), H1).tls(server.v4()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    within("the answer and the end", stream.read_to_end(&mut answer)).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_asks_before_sending_too_much_is_told_before() {
    let server = Setup::new().start().await;
    let head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    let answer = raw(&server, format!("{head}Content-Length: 9000000\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let answer = raw(&server, format!("{head}Connection: close\r\nContent-Length: 1\r\n\r\nx").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 100") && answer.contains("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn what_is_no_http_or_no_tls_is_dropped() {
    let server = Setup::new().start().await;
    let long = "x".repeat(40_000);
    let long = format!("POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Long: {long}\r\n\r\n");
    assert!(raw(&server, long.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let endless = format!("POST /validate HTTP/1.1\r\nX-Long: {}", "x".repeat(100_000));
    assert!(raw(&server, endless.as_bytes()).await.starts_with("HTTP/1.1 431"));
    assert!(raw(&server, b"\x00\x01\x02\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let mut plain = TcpStream::connect(server.v4()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    within("the end", plain.read_to_end(&mut Vec::new())).await.ok();
    server.metric(r#"airgate_connections_ended_total{port="webhook",end="handshake_failed"} 1"#).await;
    let mut next = Client::new(&server.ca(), H1).connect(server.v4()).await.unwrap();
    assert!(answers(&server, &mut next).await);
}

#[tokio::test]
async fn one_that_breaks_off_in_the_middle_leaves_nothing_behind() {
    let server = Setup::new().start().await;
    let mut rude = Client::new(&server.ca(), H1).tls(server.v4()).await.unwrap();
    rude.write_all(
        b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\nx",
    )
    .await
    .unwrap();
    server.metric("airgate_requests_in_flight 1").await;
    drop(rude);
    server.metric("airgate_requests_in_flight 0").await;
    server.metric(r#"airgate_connections{port="webhook"} 0"#).await;
}

#[tokio::test]
async fn a_kept_connection_outlives_the_header_limit_but_not_the_idle_limit() {
    let server = Setup::new().limits(|limits| limits.header = SHORT).start().await;
    for alpn in [H1, H2] {
        let mut kept = Client::new(&server.ca(), alpn).connect(server.v4()).await.unwrap();
        assert!(answers(&server, &mut kept).await);
        // Nothing is to happen, so there is nothing to poll for.
        tokio::time::sleep(SHORT * 2).await;
        assert!(answers(&server, &mut kept).await, "resting is not dribbling");
    }
    let server = Setup::new().limits(|limits| limits.idle = SHORT).start().await;
    let mut kept = Vec::new();
    for alpn in [H1, H2] {
        kept.push(Client::new(&server.ca(), alpn).connect(server.v4()).await.unwrap());
        assert!(answers(&server, kept.last_mut().unwrap()).await);
    }
    server.metric(r#"airgate_connections_ended_total{port="webhook",end="idle"} 2"#).await;
}

#[tokio::test]
async fn with_all_slots_taken_the_next_one_waits_for_a_slot() {
    let server = Setup::new().limits(|limits| (limits.connections, limits.idle_when_full) = (1, LIMIT)).start().await;
    let client = Client::new(&server.ca(), H1);
    let mut first = client.connect(server.v4()).await.unwrap();
    assert!(answers(&server, &mut first).await);
    let waiting = client.connect(server.v4());
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(SHORT, waiting.as_mut()).await.is_err(), "no slot");
    drop(first);
    let mut second = within("the slot", waiting).await.unwrap();
    assert!(answers(&server, &mut second).await);
}

#[tokio::test]
async fn with_all_slots_taken_a_resting_connection_makes_room() {
    let server = Setup::new().limits(|limits| (limits.connections, limits.idle_when_full) = (1, SHORT)).start().await;
    let client = Client::new(&server.ca(), H1);
    let mut rests = client.connect(server.v4()).await.unwrap();
    assert!(answers(&server, &mut rests).await);
    let mut second = within("the slot", client.connect(server.v4())).await.unwrap();
    assert!(answers(&server, &mut second).await);
    assert!(rests.is_closed());
}
