//! The health port: plain HTTP for kubelet's probes and for Prometheus, nothing that needs protecting.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{text, uncached, with_panic_layer};
use crate::metrics::{self, Metrics};
use crate::readiness::Readiness;

pub fn router(readiness: &Readiness, metrics: &Metrics) -> Router {
    let (readiness, shown) = (readiness.clone(), metrics.clone());
    let router = Router::new()
        // Alive as long as it answers: what it waits for, a restart would not bring.
        .route("/livez", get(async || text(StatusCode::OK, "alive")))
        .route("/readyz", get(async move || ready(&readiness)))
        .route("/metrics", get(async move || scrape(&shown)))
        .fallback(async || {
            text(StatusCode::NOT_FOUND, "there is nothing here: this port has /livez, /readyz and /metrics")
        });
    uncached(with_panic_layer(router, metrics))
}

fn ready(readiness: &Readiness) -> Response {
    let report = readiness.report();
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text(status, report.text())
}

fn scrape(metrics: &Metrics) -> Response {
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, "a metric cannot be written as text, which is a bug in airgate")
        }
    }
}
