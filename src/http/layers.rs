//! The layers round `POST /validate`, each one function; their order stands in [`super::router`].

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tower_http::catch_panic::ResponseForPanic;

use super::body::{self, BodyError, Memory, Terms};
use super::limits::Limits;
use super::shares::Shares;
use super::text;
use super::timeout::Budget;
use crate::metrics::{Counted, Metrics, Refusal};
use crate::readiness::Readiness;

const READ_AWAY_BYTES: usize = 64 << 10;
const READ_AWAY_TIME: Duration = Duration::from_millis(200);

/// What the layers share.
#[derive(Debug, Clone)]
pub struct Edge(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    slots: Semaphore,
    arriving: Shares,
    memory: Memory,
    metrics: Metrics,
    readiness: Readiness,
}

impl Edge {
    pub fn new(limits: &Limits, metrics: &Metrics, readiness: &Readiness) -> Self {
        Self(Arc::new(Shared {
            limits: *limits,
            slots: Semaphore::new(limits.in_flight.min(Semaphore::MAX_PERMITS)),
            arriving: Shares::new(limits.arriving),
            memory: Memory::new(limits.all_bodies_bytes),
            metrics: metrics.clone(),
            readiness: readiness.clone(),
        }))
    }
}

/// When a request must have been answered; travels in its extensions.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// The engine's.
    pub work: Instant,
    /// Ours.
    pub answer: Instant,
}

/// While draining, asks the client of an HTTP/1 connection to open another one next time, which the Service
/// then leads to another pod. HTTP/2 is told by GOAWAY, see `connection`.
pub async fn farewell(State(Edge(edge)): State<Edge>, request: Request, next: Next) -> Response {
    let http1 = request.version() <= Version::HTTP_11;
    let mut response = next.run(request).await;
    if http1 && edge.readiness.is_draining() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Makes an answer of a panic. Its text stays in the log: it may quote what the caller must not see.
#[derive(Debug, Clone)]
pub struct Panicked(pub Metrics);

impl ResponseForPanic for Panicked {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, panic: Box<dyn Any + Send + 'static>) -> Response {
        let reason = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("of unknown kind");
        tracing::error!(panic = reason, "a request made the server panic, this is a bug in airgate");
        self.0.refused(Refusal::Panic);
        text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "airgate failed on this request, which is a bug in airgate: its log says where",
        )
    }
}

/// The reason of a refusal, in the extensions of the response.
#[derive(Debug, Clone, Copy)]
struct Refused(Refusal);

/// Counts what the layers below refused, in one place.
pub async fn count_refusals(State(Edge(edge)): State<Edge>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if let Some(Refused(reason)) = response.extensions().get() {
        edge.metrics.refused(*reason);
        // Not louder, and nothing of the request: whoever reaches the port can cause any number of these.
        tracing::debug!(reason = reason.as_str(), status = response.status().as_u16(), "request refused");
    }
    response
}

/// Beyond the cap a request is not queued but sent away at once: it would only grow old here, and API servers
/// ask again after the time that the header names. Below `whole_body`: a request that does not arrive must
/// not take the place of one that has.
pub async fn in_flight(State(Edge(edge)): State<Edge>, request: Request, next: Next) -> Response {
    let Ok(_slot) = edge.slots.try_acquire() else {
        let cap = edge.limits.in_flight;
        return try_again(
            Refusal::Shed,
            format!("airgate is answering {cap} requests already, its limit: ask again in a second"),
        );
    };
    next.run(request).await
}

/// Gives the request its deadline, and answers when nobody below has by then.
pub async fn deadline(State(Edge(edge)): State<Edge>, mut request: Request, next: Next) -> Response {
    let arrived = Instant::now();
    let _counted = Counted::by(&edge.metrics.in_flight);
    let budget = match Budget::of(request.uri().query(), edge.limits.deadline) {
        Ok(budget) => budget,
        Err(bad) => {
            read_away(request).await;
            return refuse(Refusal::BadTimeout, StatusCode::BAD_REQUEST, bad.to_string());
        }
    };
    let deadline = Deadline { work: arrived + budget.work, answer: arrived + budget.answer };
    request.extensions_mut().insert(deadline);
    match timeout_at(deadline.answer, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = format!(
                "airgate found no answer within {} ms, the time that the caller gave less a margin: try again, and see /statusz for what is slow",
                budget.answer.as_millis()
            );
            refuse(Refusal::Deadline, StatusCode::GATEWAY_TIMEOUT, text)
        }
    }
}

/// Reads the body, all of it, and hands it on beside the request.
pub async fn whole_body(State(Edge(edge)): State<Edge>, request: Request, next: Next) -> Response {
    if !is_plain_json(request.headers()) {
        read_away(request).await;
        return refuse(
            Refusal::ContentType,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send an AdmissionReview as JSON, with the header Content-Type: application/json and without Content-Encoding",
        );
    }
    let peer = request.extensions().get().copied().unwrap_or_default();
    let Some(arriving) = edge.arriving.take(peer, 1) else {
        read_away(request).await;
        return try_again(
            Refusal::Shed,
            "airgate is receiving as many requests as it may: ask again in a second".to_owned(),
        );
    };
    let (mut parts, body) = request.into_parts();
    let limit = edge.limits.body_bytes;
    let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let waits_for_leave = parts.headers.contains_key(header::EXPECT);
    if waits_for_leave && announced.is_some_and(|announced: u64| announced > limit as u64) {
        // It has not begun to send, so there is nothing to be read away.
        return too_large(limit);
    }
    let end = parts.extensions.get::<Deadline>().map_or_else(Instant::now, |deadline| deadline.work);
    let terms = Terms { limit, grace: edge.limits.body_grace, memory: &edge.memory, peer };
    let whole = match timeout_at(end, body::read(body, announced, terms)).await {
        Ok(Ok(whole)) => whole,
        Ok(Err(BodyError::TooLarge { limit })) => return too_large(limit),
        Ok(Err(BodyError::Memory)) => {
            return try_again(
                Refusal::ShedMemory,
                "airgate holds as many request bytes as it may: ask again in a second".to_owned(),
            );
        }
        Ok(Err(BodyError::Broken(_))) => {
            return refuse(Refusal::BadBody, StatusCode::BAD_REQUEST, "the request body ended early: send all of it");
        }
        Ok(Err(BodyError::Slow)) => {
            let text = format!(
                "the request body did not arrive within {} ms and a second for every {} MiB: send it faster",
                edge.limits.body_grace.as_millis(),
                body::BYTES_PER_SECOND >> 20
            );
            return refuse(Refusal::BadBody, StatusCode::REQUEST_TIMEOUT, text);
        }
        Err(_) => {
            return refuse(
                Refusal::BadBody,
                StatusCode::REQUEST_TIMEOUT,
                "the request body did not arrive within the time of the request: send it faster, or give more time with ?timeout=",
            );
        }
    };
    drop(arriving);
    parts.extensions.insert(whole);
    next.run(Request::from_parts(parts, Body::empty())).await
}

/// `application/json` with any parameters, not compressed: what every API server sends.
fn is_plain_json(headers: &HeaderMap) -> bool {
    let media_type = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    };
    let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    headers.get(header::CONTENT_TYPE).is_some_and(media_type)
        && headers.get_all(header::CONTENT_ENCODING).iter().all(identity)
}

/// Before an answer that needs no body: HTTP/2 resets a stream whose body was not read, and some clients
/// (curl 7.88) then report the reset instead of the answer. What is large or slow is not waited for.
async fn read_away(request: Request) {
    if !request.headers().contains_key(header::EXPECT) {
        // Whether it ended in time makes no difference to the answer.
        let _in_time = timeout(READ_AWAY_TIME, body::linger(request.into_body(), READ_AWAY_BYTES)).await;
    }
}

pub async fn not_found(request: Request) -> Response {
    read_away(request).await;
    refuse(Refusal::NotFound, StatusCode::NOT_FOUND, "there is nothing here: reviews go to POST /validate")
}

pub async fn method_not_allowed(request: Request) -> Response {
    read_away(request).await;
    let mut response = refuse(Refusal::Method, StatusCode::METHOD_NOT_ALLOWED, "send the AdmissionReview with POST");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// For pages whose content changes from one moment to the next.
pub async fn no_store(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn too_large(limit: usize) -> Response {
    let text = format!(
        "the request body is larger than {limit} bytes, more than two objects of an API server can have: send a smaller one"
    );
    refuse(Refusal::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn try_again(reason: Refusal, text: String) -> Response {
    let mut response = refuse(reason, StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn refuse(reason: Refusal, status: StatusCode, why: impl Into<String>) -> Response {
    let mut response = text(status, why);
    response.extensions_mut().insert(Refused(reason));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for (content_type, encoding, expected) in [
            (Some("application/json"), None, true),
            (Some("application/json; charset=utf-8"), None, true),
            (Some("Application/JSON"), Some("identity"), true),
            (Some("application/json"), Some("gzip"), false),
            (Some("application/json-patch+json"), None, false),
            (Some("application/yaml"), None, false),
            (Some(""), None, false),
            (None, None, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = content_type {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            }
            if let Some(value) = encoding {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(is_plain_json(&headers), expected, "{content_type:?} {encoding:?}");
        }
    }
}
