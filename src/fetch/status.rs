//! What became of look-ups, for metrics and `/statusz`.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::flights::Scope;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Default)]
pub struct Counts {
    ended: Family<Labels, Counter>,
    pub limited: Counter,
    pub cached: Counter,
    pub cache_faults: Counter,
    /// Of the last that ended.
    milliseconds: Gauge,
}

impl Counts {
    pub fn register(&self, registry: &mut Registry) {
        // A counter that appears with its first count has not risen, to whoever asks for the rise.
        for (reason, outcome) in [("request", "read"), ("request", "failed"), ("ahead", "read"), ("ahead", "failed")] {
            drop(self.ended.get_or_create(&Labels { reason, outcome }));
        }
        let mut add = |name: &str, help: &str, metric: Counter| registry.register(name, help, metric);
        add("release_lookups_limited", "Look-ups of releases that had to wait for others", self.limited.clone());
        add("release_cache_hits", "Releases found in the cache directory", self.cached.clone());
        add(
            "release_cache_failures",
            "Releases that could not be kept in the cache directory",
            self.cache_faults.clone(),
        );
        registry.register("release_lookups", "Releases looked up in registries", self.ended.clone());
        registry.register(
            "release_lookup_last_milliseconds",
            "How long the last look-up took",
            self.milliseconds.clone(),
        );
    }

    pub fn ended(&self, scope: Scope, ok: bool, took: Duration) {
        let reason = if scope == Scope::All { "request" } else { "ahead" };
        let outcome = if ok { "read" } else { "failed" };
        self.ended.get_or_create(&Labels { reason, outcome }).inc();
        self.milliseconds.set(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    }
}
