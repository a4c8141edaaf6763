//! The admin port, by default on the loopback only: what the process knows about itself, as JSON for tools and
//! as a page for a person. Read-only.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::{text, uncached, with_panic_layer};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::tls::reload::LiveTls;

/// What the rest of the process adds to `/statusz`: an object whose keys stand beside ours. Called for each
/// request, so it must be quick and must not wait.
pub type Statusz = Arc<dyn Fn() -> Value + Send + Sync>;

/// Everything that the status is made of.
#[derive(Clone)]
struct Sources {
    readiness: Readiness,
    metrics: Metrics,
    tls: LiveTls,
    rest: Statusz,
}

pub fn router(readiness: &Readiness, metrics: &Metrics, tls: LiveTls, rest: Statusz) -> Router {
    let sources = Sources { readiness: readiness.clone(), metrics: metrics.clone(), tls, rest };
    let for_page = sources.clone();
    let router = Router::new()
        .route("/statusz", get(async move || sources.json()))
        .route("/", get(async move || for_page.page()))
        .fallback(async || text(StatusCode::NOT_FOUND, "there is nothing here: this port has / and /statusz"));
    uncached(with_panic_layer(router, metrics))
}

impl Sources {
    fn status(&self) -> Value {
        let mut status = Map::new();
        status.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        status.insert("readiness".to_owned(), json!(self.readiness.report()));
        status.insert("requestsInFlight".to_owned(), json!(self.metrics.in_flight.get()));
        status.insert("certificate".to_owned(), json!(*self.tls.status()));
        match (self.rest)() {
            Value::Object(rest) => status.extend(rest),
            Value::Null => {}
            other => drop(status.insert("other".to_owned(), other)),
        }
        Value::Object(status)
    }

    fn json(&self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], format!("{:#}\n", self.status())).into_response()
    }

    fn page(&self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            // The page shows names from the cluster: even if one got past the escaping, nothing would run.
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        ];
        let report = self.readiness.report();
        let status = format!("{:#}", self.status());
        (headers, page(&report.text(), &status)).into_response()
    }
}

fn page(readiness: &str, status: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>airgate</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}}pre{{overflow-x:auto}}</style>
</head><body><h1>airgate</h1><pre>{}</pre>
<h2>Status</h2><p>The same for tools: <a href="/statusz">/statusz</a></p><pre>{}</pre>
</body></html>
"#,
        escape(readiness),
        escape(status)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_names_is_text_on_the_page() {
        let page = page("ready", r#"{"name": "</pre><script>alert(1)</script>&"}"#);
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;"), "{page}");
    }
}
