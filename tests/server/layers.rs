//! What each layer answers, and that the server goes on after it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};

use super::client::{Client, Got, H1, H2, request, review};
use super::harness::{Server, Setup, within};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn send(server: &Server, alpn: &'static [u8], request: axum::http::Request<Body>) -> Got {
    let client = Client::new(&server.ca(), alpn);
    let mut connection = within("a connection", client.connect(server.v4())).await.unwrap();
    within("an answer", connection.send(request)).await.unwrap()
}

/// Without a Content-Length.
fn chunked(chunks: usize, of: usize) -> Body {
    Body::from_stream(stream::iter((0..chunks).map(move |_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; of])))))
}

#[tokio::test]
async fn a_panic_is_one_500_and_the_server_goes_on() {
    let server = Setup::new().start().await;
    for alpn in [H1, H2] {
        let client = Client::new(&server.ca(), alpn);
        let mut connection = client.connect(server.v4()).await.unwrap();
        let got = within("an answer", connection.send(review(server.v4(), "/validate", "panic"))).await.unwrap();
        assert_eq!(got.status, 500);
        assert!(got.text.contains("a bug in airgate") && !got.text.contains("asked to"), "{}", got.text);
        let got = within("an answer", connection.send(review(server.v4(), "/validate", "x"))).await.unwrap();
        assert_eq!(got.status, 200, "on the same connection");
    }
    server.metric(r#"airgate_refusals_total{reason="panic"} 2"#).await;
    server.metric("airgate_requests_in_flight 0").await;
}

#[tokio::test]
async fn what_is_no_review_is_told_what_to_do() {
    let server = Setup::new().start().await;
    let at = |method, path| request(method, server.v4(), path);
    for alpn in [H1, H2] {
        for (request, status, text) in [
            (at("GET", "/validate").body(Body::empty()), 405, "send the AdmissionReview with POST"),
            (at("PUT", "/validate").body(Body::empty()), 405, "send the AdmissionReview with POST"),
            (at("POST", "/").body(Body::empty()), 404, "reviews go to POST /validate"),
            (at("GET", "/metrics").body(Body::empty()), 404, "reviews go to POST /validate"),
            (at("POST", "/validate").body(Body::from("{}")), 415, "Content-Type: application/json"),
            (
                at("POST", "/validate").header(JSON.0, "text/plain").body(Body::from("{}")),
                415,
                "Content-Type: application/json",
            ),
            (
                at("POST", "/validate")
                    .header(JSON.0, JSON.1)
                    .header("content-encoding", "gzip")
                    .body(Body::from("{}")),
                415,
                "without Content-Encoding",
            ),
            (at("POST", "/validate?timeout=5").header(JSON.0, JSON.1).body(Body::from("{}")), 400, "such as 10s"),
            (
                at("POST", "/validate?timeout=2s")
                    .header(JSON.0, "application/json; charset=utf-8")
                    .body(Body::from("{}")),
                200,
                "",
            ),
        ] {
            let got = send(&server, alpn, request.unwrap()).await;
            assert_eq!(got.status, status, "{got:?}");
            assert!(got.text.contains(text) && got.text.ends_with(if status == 200 { '}' } else { '\n' }), "{got:?}");
            assert_eq!(got.headers.get("allow").is_some(), status == 405, "{got:?}");
        }
    }
}

#[tokio::test]
async fn an_early_answer_waits_for_a_small_body_and_not_for_a_slow_one() {
    let server = Setup::new().start().await;
    let cases = [("/", "x/y", 404), ("/validate", "text/plain", 415), ("/validate?timeout=5", JSON.1, 400)];
    for (path, content_type, status) in cases {
        let read = Arc::new(AtomicBool::new(false));
        let end = read.clone();
        let body =
            stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"{")) }).chain(stream::once(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                end.store(true, Ordering::SeqCst);
                Ok(Bytes::from_static(b"}"))
            }));
        let body = Body::from_stream(body);
        let request = request("POST", server.v4(), path).header(JSON.0, content_type).body(body).unwrap();
        assert_eq!(send(&server, H2, request).await.status, status);
        assert!(read.load(Ordering::SeqCst), "{path}: a stream whose body is not read would be reset");
    }
    for alpn in [H1, H2] {
        let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let request = request("POST", server.v4(), "/").body(never).unwrap();
        assert_eq!(send(&server, alpn, request).await.status, 404);
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413_however_it_comes() {
    let server = Setup::new().start().await;
    const MIB: usize = 1 << 20;
    for alpn in [H1, H2] {
        let json = || request("POST", server.v4(), "/validate").header(JSON.0, JSON.1);
        let announced = |size| json().body(Body::from(vec![b'x'; size])).unwrap();
        for (request, status) in [
            (announced(8 * MIB), 200),
            (announced(8 * MIB + 1), 413),
            (json().body(chunked(8, MIB)).unwrap(), 200),
            (json().body(chunked(9, MIB)).unwrap(), 413),
        ] {
            let got = send(&server, alpn, request).await;
            assert_eq!(got.status, status, "{got:?}");
            assert!(status == 200 || got.text.contains("larger than 8388608 bytes"), "{got:?}");
        }
    }
    server.metric(r#"airgate_refusals_total{reason="too_large"} 4"#).await;
}

#[tokio::test]
async fn beyond_the_cap_429_at_once() {
    let server = Setup::new().limits(|limits| limits.in_flight = 1).start().await;
    let client = Client::new(&server.ca(), H1);
    let (holds, address) = (client.clone(), server.v4());
    let held = tokio::spawn(async move { holds.review(address, "/validate", "gate").await });
    within("the first to be in flight", server.stub.entered.acquire()).await.unwrap().forget();

    let got = client.review(address, "/validate", "x").await;
    assert_eq!((got.status.as_u16(), &got.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert!(got.text.contains("ask again in a second"), "{got:?}");
    server.metric(r#"airgate_refusals_total{reason="shed"} 1"#).await;

    server.stub.gate.add_permits(1);
    assert_eq!(held.await.unwrap().status, 200);
    assert_eq!(client.review(address, "/validate", "x").await.status, 200);
}

#[tokio::test]
async fn the_engine_is_told_the_deadline_less_a_margin() {
    let server = Setup::new().start().await;
    let client = Client::new(&server.ca(), H1);
    for (path, at_most) in [
        ("/validate", 9_500),
        ("/validate?timeout=30s", 9_500),
        ("/validate?timeout=1m30s", 9_500),
        ("/validate?timeout=5s", 4_500),
    ] {
        let got = client.review(server.v4(), path, "x").await;
        let answer: serde_json::Value = serde_json::from_str(&got.text).unwrap();
        let left = answer["left_ms"].as_u64().unwrap();
        // Some of it is gone by the time the engine looks; how much is the machine's business.
        assert!(left <= at_most && left > 0, "{path}: {left}");
    }
}

#[tokio::test]
async fn an_engine_that_misses_the_deadline_is_answered_for() {
    let server = Setup::new().start().await;
    let asked = tokio::time::Instant::now();
    let got = Client::new(&server.ca(), H1).review(server.v4(), "/validate?timeout=200ms", "hang").await;
    assert_eq!(got.status, 504);
    assert!(got.text.contains("no answer within 190 ms"), "{got:?}");
    assert!(asked.elapsed() >= Duration::from_millis(190));
    server.metric("airgate_requests_in_flight 0").await;

    // The server's own limit holds without a ?timeout= as well.
    let server = Setup::new().limits(|limits| limits.deadline = Duration::from_millis(100)).start().await;
    assert_eq!(Client::new(&server.ca(), H2).review(server.v4(), "/validate?timeout=30s", "hang").await.status, 504);
}
