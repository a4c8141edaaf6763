//! What is counted, as typed metrics in one registry.
//!
//! Labels are enums or `&'static str`, so nothing that a caller sends can ever become a label and the
//! number of series is known when the program is built. Other modules add theirs with
//! [`Metrics::register`], or [`Metrics::observe`] for what is read when it is asked for; recording never blocks
//! on a scrape for longer than a counter's update. `docs/metrics.md` lists all of them.

mod observed;
mod process;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use observed::Observed;

/// The media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the review histogram in seconds: a warm review takes tens of microseconds, one that
/// fetches a release up to the 10 s that Kubernetes waits.
const REVIEW_SECONDS: [f64; 16] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0];

/// An enum as a label value: the derive of prometheus-client would show the variant's Rust name.
macro_rules! label_value {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                self.as_str().encode(encoder)
            }
        }
    };
}

label_value! {
    /// The verdict of a review.
    pub enum Outcome {
        Allow = "allow",
        Warn = "warn",
        Deny = "deny",
        Unknown = "unknown",
        /// The client was told to ask again: a release is being read.
        Reading = "reading",
        /// Not a review that could be judged.
        BadInput = "bad_input",
    }
}

label_value! {
    /// Why the edge answered instead of the engine.
    pub enum Refusal {
        NotFound = "not_found",
        Method = "method",
        ContentType = "content_type",
        BadTimeout = "bad_timeout",
        BadBody = "bad_body",
        TooLarge = "too_large",
        /// The in-flight cap.
        Shed = "shed",
        /// The cap on the bytes of all bodies together.
        ShedMemory = "shed_memory",
        Deadline = "deadline",
        Panic = "panic",
    }
}

label_value! {
    /// The protocol version that a handshake came to.
    pub enum TlsVersion {
        Tls12 = "1.2",
        Tls13 = "1.3",
        Other = "other",
    }
}

label_value! {
    /// How a connection ended.
    pub enum ConnectionEnd {
        /// By the client, or by both in good order.
        Closed = "closed",
        /// A protocol error, or the client went away in the middle.
        Failed = "failed",
        HandshakeFailed = "handshake_failed",
        HandshakeTimeout = "handshake_timeout",
        /// Sent no (complete) request in time.
        HeaderTimeout = "header_timeout",
        /// Kept open without a request for too long.
        Idle = "idle",
        /// Too many of this peer while slots are scarce.
        PeerShare = "peer_share",
        /// Still busy when the time for the shutdown was over.
        Aborted = "aborted",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    kind: &'static str,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    policy: &'static str,
    outcome: Outcome,
    enforced: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: Refusal,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    port: &'static str,
    end: ConnectionEnd,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandshakeLabels {
    version: TlsVersion,
    group: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PortLabels {
    port: &'static str,
}

/// The metrics of one process; clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    reviews: Family<ReviewLabels, Counter>,
    findings: Family<FindingLabels, Counter>,
    review_seconds: Histogram,
    refusals: Family<RefusalLabels, Counter>,
    connections: Family<PortLabels, Gauge>,
    connections_ended: Family<EndLabels, Counter>,
    tls_handshakes: Family<HandshakeLabels, Counter>,
    /// Requests between the in-flight cap and their answer.
    pub in_flight: Gauge,
    pub accept_errors: Counter,
    pub tls_reloads: Counter,
    pub tls_reload_failures: Counter,
    /// Unix seconds.
    pub certificate_not_after: Gauge,
    /// 1 while what is stored cannot be served with.
    pub certificate_refused: Gauge,
    /// Unix seconds.
    pub ca_not_after: Gauge,
    /// 1 while something is in the keeper's way.
    pub certificate_keeper_blocked: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            reviews: Family::default(),
            findings: Family::default(),
            review_seconds: Histogram::new(REVIEW_SECONDS),
            refusals: Family::default(),
            connections: Family::default(),
            connections_ended: Family::default(),
            tls_handshakes: Family::default(),
            in_flight: Gauge::default(),
            accept_errors: Counter::default(),
            tls_reloads: Counter::default(),
            tls_reload_failures: Counter::default(),
            certificate_not_after: Gauge::default(),
            certificate_refused: Gauge::default(),
            ca_not_after: Gauge::default(),
            certificate_keeper_blocked: Gauge::default(),
        };
        metrics.register(|registry| metrics.describe(registry));
        // A counter that appears with its first count has not risen, to whoever asks for the rise.
        for reason in Refusal::ALL {
            drop(metrics.refusals.get_or_create(&RefusalLabels { reason: *reason }));
        }
        metrics.lock().register_collector(Box::new(process::Process));
        metrics
    }

    fn describe(&self, registry: &mut Registry) {
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs", version);
        registry.register("reviews", "Admission reviews by kind and outcome", self.reviews.clone());
        registry.register(
            "findings",
            "What policies found in reviews, and whether it refused them",
            self.findings.clone(),
        );
        registry.register("review_seconds", "Time from decoded request to encoded answer", self.review_seconds.clone());
        registry.register("refusals", "Requests answered without a verdict", self.refusals.clone());
        registry.register("requests_in_flight", "Requests being answered now", self.in_flight.clone());
        registry.register("connections", "Open connections by port", self.connections.clone());
        registry.register("connections_ended", "Connections by how they ended", self.connections_ended.clone());
        registry.register("accept_errors", "Connections that could not be accepted", self.accept_errors.clone());
        registry.register(
            "tls_handshakes",
            "Handshakes of the webhook port by protocol version and key exchange group",
            self.tls_handshakes.clone(),
        );
        registry.register(
            "certificate_refused",
            "1 while the stored certificate, its key or the client CA cannot be served with",
            self.certificate_refused.clone(),
        );
        registry.register(
            "ca_not_after_seconds",
            "End of validity of the CA that the certificate keeper signs with, in Unix time; 0 where there is none",
            self.ca_not_after.clone(),
        );
        registry.register(
            "certificate_keeper_blocked",
            "1 while the certificate keeper cannot do what is to be done; 0 too where there is none",
            self.certificate_keeper_blocked.clone(),
        );
        registry.register(
            "tls_reloads",
            "Serving certificates, client CAs and TLS profiles taken into use after the first",
            self.tls_reloads.clone(),
        );
        registry.register(
            "tls_reload_failures",
            "Changed certificate files that were refused; the certificate before stays in use",
            self.tls_reload_failures.clone(),
        );
        registry.register(
            "certificate_not_after_seconds",
            "End of validity of the serving certificate, in Unix time",
            self.certificate_not_after.clone(),
        );
    }

    /// For the metrics of other modules.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(self.lock().sub_registry_with_prefix("airgate"));
    }

    /// A gauge that is read at each scrape, and so is never older than that.
    pub fn observe(&self, name: &'static str, help: &'static str, read: impl Fn() -> i64 + Send + Sync + 'static) {
        self.register(|registry| registry.register_collector(Box::new(Observed::one(name, help, read))));
    }

    /// A gauge for each value of `label`, read at each scrape.
    pub fn observe_each(
        &self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(&'static str, i64)> + Send + Sync + 'static,
    ) {
        self.register(|registry| registry.register_collector(Box::new(Observed::each(name, help, label, read))));
    }

    /// One judged request. `kind` is a name from our own tables, never from the request.
    pub fn review(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        self.reviews.get_or_create(&ReviewLabels { kind, outcome }).inc();
        self.review_seconds.observe(took.as_secs_f64());
    }

    /// One thing a policy found. `enforced` is whether it refused the request: what a softer mode or an override let
    /// pass counts too.
    pub fn finding(&self, policy: &'static str, outcome: Outcome, enforced: bool) {
        let enforced = if enforced { "true" } else { "false" };
        self.findings.get_or_create(&FindingLabels { policy, outcome, enforced }).inc();
    }

    pub fn refused(&self, reason: Refusal) {
        self.refusals.get_or_create(&RefusalLabels { reason }).inc();
    }

    /// Counts a connection to the named port as open for as long as the result lives.
    pub fn connection(&self, port: &'static str) -> Counted {
        Counted::by(&self.connections.get_or_create(&PortLabels { port }))
    }

    pub fn connection_ended(&self, port: &'static str, end: ConnectionEnd) {
        self.connections_ended.get_or_create(&EndLabels { port, end }).inc();
    }

    /// `group` is a name from our own tables.
    pub fn handshake(&self, version: TlsVersion, group: &'static str) {
        self.tls_handshakes.get_or_create(&HandshakeLabels { version, group }).inc();
    }

    /// Everything in the OpenMetrics text format.
    ///
    /// # Errors
    /// When a metric of another module fails to encode itself.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.lock())?;
        Ok(text)
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Adds one to a gauge for as long as it lives: right on every way out, a panic and a dropped future included.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    pub fn by(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_format() {
        let metrics = Metrics::new();
        metrics.review("ClusterVersion", Outcome::Deny, Duration::from_micros(70));
        metrics.finding("upgrade-path", Outcome::Deny, false);
        metrics.refused(Refusal::Shed);
        metrics.connection_ended("webhook", ConnectionEnd::HeaderTimeout);
        metrics.certificate_not_after.set(1_796_000_000);
        let one = Counted::by(&metrics.in_flight);
        let own: Counter = Counter::default();
        metrics.register(|registry| registry.register("own", "Of another module", own.clone()));
        metrics.observe("answer", "Read when asked for", || 42);
        metrics.observe_each("answers", "Read when asked for", "of", || vec![("life", 42)]);

        let text = metrics.encode().unwrap();
        for line in [
            r#"airgate_reviews_total{kind="ClusterVersion",outcome="deny"} 1"#,
            r#"airgate_findings_total{policy="upgrade-path",outcome="deny",enforced="false"} 1"#,
            r#"airgate_review_seconds_bucket{le="0.0001"} 1"#,
            r#"airgate_review_seconds_bucket{le="10.0"} 1"#,
            r#"airgate_refusals_total{reason="shed"} 1"#,
            r#"airgate_connections_ended_total{port="webhook",end="header_timeout"} 1"#,
            "airgate_requests_in_flight 1",
            "airgate_certificate_not_after_seconds 1796000000",
            "airgate_own_total 0",
            r#"airgate_refusals_total{reason="panic"} 0"#,
            "airgate_answer 42",
            r#"airgate_answers{of="life"} 42"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        drop(one);
        assert_eq!(metrics.in_flight.get(), 0);
    }
}
