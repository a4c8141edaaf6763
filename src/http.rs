//! What lies between a socket and the engine: `POST /validate`, the layers round it in their order, and the
//! small ports beside it.
//!
//! Invariants: every answer of the edge itself is a short plain text that says what to do; no request waits
//! without a limit; the engine is asked only with a whole JSON body and a deadline.

pub mod activity;
pub mod admin;
pub mod body;
pub mod connection;
pub mod health;
pub mod layers;
pub mod limits;
pub mod server;
pub mod shares;
pub mod tasks;
pub mod timeout;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
pub use axum::http::StatusCode;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use tokio::time::Instant;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use crate::metrics::Metrics;
use crate::readiness::Readiness;
use body::WholeBody;
use layers::{Deadline, Edge};
use limits::Limits;

/// What the HTTP edge asks of the engine. `deadline` is when the answer must have been given; it lies a
/// little before the moment at which the edge answers in the engine's place.
pub trait Admit: Send + Sync + 'static {
    fn admit(&self, body: Bytes, deadline: Instant) -> impl Future<Output = Answer> + Send;
}

impl<T: Admit> Admit for Arc<T> {
    fn admit(&self, body: Bytes, deadline: Instant) -> impl Future<Output = Answer> + Send {
        T::admit(self, body, deadline)
    }
}

/// The engine's answer; `body` is JSON.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

/// The webhook port: all layers, from the outermost to the innermost.
pub fn router<A: Admit>(admit: Arc<A>, limits: &Limits, metrics: &Metrics, readiness: &Readiness) -> Router {
    let edge = Edge::new(limits, metrics, readiness);
    let validate = post(validate::<A>)
        .route_layer(from_fn_with_state(edge.clone(), layers::in_flight)) // complete, then counted: 429 and Retry-After
        // Only what reaches the handler has its body read: 415, 408, 413, 429.
        .route_layer(from_fn_with_state(edge.clone(), layers::whole_body))
        .fallback(layers::method_not_allowed);
    Router::new().route("/validate", validate).fallback(layers::not_found).with_state(admit).layer(
        ServiceBuilder::new()
            .layer(from_fn_with_state(edge.clone(), layers::farewell)) // draining: Connection: close
            .layer(CatchPanicLayer::custom(layers::Panicked(metrics.clone()))) // 500, and the next one is served
            .layer(from_fn_with_state(edge.clone(), layers::count_refusals)) // every answer below that is the edge's own
            .layer(from_fn_with_state(edge, layers::deadline)), // 400, 504
    )
}

async fn validate<A: Admit>(
    State(admit): State<Arc<A>>,
    Extension(deadline): Extension<Deadline>,
    Extension(body): Extension<WholeBody>,
) -> Response {
    // `body` stays here until the answer: with it goes its share of the memory.
    let answer = admit.admit(body.bytes.clone(), deadline.work).await;
    (answer.status, [(header::CONTENT_TYPE, "application/json")], answer.body).into_response()
}

/// The plain-text answers of all ports.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut text = text.into();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// The panic layer alone, for ports on which nothing can be shed.
pub(crate) fn with_panic_layer(router: Router, metrics: &Metrics) -> Router {
    router.layer(CatchPanicLayer::custom(layers::Panicked(metrics.clone())))
}

/// `GET` with a fresh answer each time.
pub(crate) fn uncached(router: Router) -> Router {
    router.layer(from_fn(layers::no_store))
}
