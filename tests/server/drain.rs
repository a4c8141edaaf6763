//! The way out.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;

use super::client::{Client, H1, H2, get, review};
use super::harness::{LIMIT, Setup, until, within};
use airgate::http::server::ServerError;
use airgate::shutdown::Drain;

#[tokio::test]
async fn the_last_calls_are_answered_and_nothing_is_lost() {
    // Long enough for the calls below on any machine.
    let drain = Drain { keep_serving: Duration::from_secs(4), finish: LIMIT };
    let server = Setup::new().drain(drain).start().await;
    server.waits.fulfil();
    let (address, health) = (server.v4(), server.addresses.health);
    assert_eq!(get(health, "/readyz").await.status, 200);

    let client = Client::new(&server.ca(), H1);
    let in_flight = {
        let client = client.clone();
        tokio::spawn(async move { client.review(address, "/validate", "gate").await })
    };
    within("the request to be in flight", server.stub.entered.acquire()).await.unwrap().forget();
    let mut kept = client.connect(address).await.unwrap();
    let got = kept.send(review(address, "/validate", "x")).await.unwrap();
    assert!(!got.headers.contains_key("connection"), "{got:?}");
    let mut kept2 = Client::new(&server.ca(), H2).connect(address).await.unwrap();
    kept2.send(review(address, "/validate", "x")).await.unwrap();

    server.signals.send("SIGTERM").await.unwrap();
    until("unready", async || get(health, "/readyz").await.status == 503).await;
    assert!(get(health, "/readyz").await.text.contains("draining"));
    assert_eq!(get(health, "/livez").await.status, 200);
    // The kept connection is answered once more, a new one is still let in; both are asked to go.
    let got = within("an answer", kept.send(review(address, "/validate", "x"))).await.unwrap();
    assert_eq!((got.status.as_u16(), &got.headers["connection"]), (200, &"close".parse().unwrap()));
    let got = client.review(address, "/validate", "x").await;
    assert_eq!((got.status.as_u16(), &got.headers["connection"]), (200, &"close".parse().unwrap()));
    until("the end of the kept connections", async || kept.is_closed() && kept2.is_closed()).await;
    let got = Client::new(&server.ca(), H2).review(address, "/validate", "x").await;
    assert_eq!((got.status.as_u16(), got.headers.get("connection")), (200, None), "illegal in HTTP/2");

    until("refusal", async || TcpStream::connect(address).await.is_err()).await;
    assert!(!server.running.is_finished(), "one request is still being answered");
    assert!(get(health, "/readyz").await.text.contains("draining"), "probes are answered to the end");
    server.stub.gate.add_permits(1);
    assert_eq!(in_flight.await.unwrap().status, 200);
    within("the end", server.running).await.unwrap().unwrap();
    assert!(TcpStream::connect(health).await.is_err());
}

#[tokio::test]
async fn a_storm_of_new_connections_sees_answers_and_then_refusals_and_nothing_else() {
    let drain = Drain { keep_serving: Duration::from_millis(300), finish: LIMIT };
    let server = Setup::new().drain(drain).start().await;
    let address = server.v4();
    let storm: Vec<_> = [H1, H2]
        .into_iter()
        .cycle()
        .take(12)
        .map(|alpn| {
            let client = Client::new(&server.ca(), alpn);
            tokio::spawn(async move {
                loop {
                    match within("a connection", client.connect(address)).await {
                        Ok(mut connection) => {
                            let got = within("an answer", connection.send(review(address, "/validate", "x"))).await;
                            assert_eq!(got.unwrap().status, 200);
                        }
                        Err(error) => return assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}"),
                    }
                }
            })
        })
        .collect();
    until("the storm to be on", async || server.metrics.encode().unwrap().contains(r#"end="closed"} 1"#)).await;
    server.signals.send("SIGTERM").await.unwrap();
    for one in storm {
        one.await.unwrap();
    }
    within("the end", server.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_finish_is_dropped_in_the_end() {
    let drain = Drain { keep_serving: Duration::ZERO, finish: Duration::from_millis(100) };
    let server = Setup::new().drain(drain).start().await;
    let (client, address) = (Client::new(&server.ca(), H1), server.v4());
    let mut connection = client.connect(address).await.unwrap();
    let stuck = tokio::spawn(async move { connection.send(review(address, "/validate", "gate")).await });
    within("the request to be in flight", server.stub.entered.acquire()).await.unwrap().forget();
    server.signals.send("SIGTERM").await.unwrap();
    within("the end", server.running).await.unwrap().unwrap();
    assert!(within("the end", stuck).await.unwrap().is_err());
}

#[tokio::test]
async fn silent_and_resting_connections_do_not_hold_up_the_end() {
    let server = Setup::new().start().await;
    let client = Client::new(&server.ca(), H1);
    let _no_handshake = TcpStream::connect(server.v4()).await.unwrap();
    let _no_request = client.tls(server.v4()).await.unwrap();
    let mut rests = client.connect(server.v4()).await.unwrap();
    rests.send(review(server.v4(), "/validate", "x")).await.unwrap();
    server.metric(r#"airgate_connections{port="webhook"} 3"#).await;
    let told = tokio::time::Instant::now();
    server.signals.send("SIGINT").await.unwrap();
    within("the end", server.running).await.unwrap().unwrap();
    assert!(told.elapsed() < LIMIT, "no limit had to run out");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let drain = Drain { keep_serving: LIMIT * 10, finish: LIMIT * 10 };
    let server = Setup::new().drain(drain).start().await;
    server.signals.send("SIGTERM").await.unwrap();
    server.signals.send("SIGTERM").await.unwrap();
    let end = within("the end", server.running).await.unwrap();
    assert!(matches!(end, Err(ServerError::Aborted)), "{end:?}");
}

#[tokio::test]
async fn a_dead_task_ends_the_process_and_is_named() {
    let mut setup = Setup::new();
    setup.tasks.spawn("the watch of clusterversions", async { "the stream ended" });
    let server = setup.start().await;
    let text = within("the end", server.running).await.unwrap().unwrap_err().to_string();
    assert!(
        text.starts_with("the watch of clusterversions ended: the stream ended, and airgate does not go on"),
        "{text}"
    );
}
