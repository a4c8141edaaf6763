//! What a verdict rested on, as short digests: two verdicts of the same inputs show the same ones.
//!
//! They go into the audit annotation `inputs`, so that a saved cluster can be shown to be the one that a decision
//! was made on. Only what policies can see is hashed (the projections, not the objects), and neither source nor age
//! of a fact: the same cluster read in another way has the same digest. Compare them within one version of airgate.

mod cache;

use std::fmt;
use std::hash::{Hash, Hasher};

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;

pub use cache::Cache;

use crate::cluster::Snapshot;
use crate::engine::Judged;
use crate::policies::POLICIES;
use crate::release::Catalog;
use crate::review::Review;
use crate::settings::Settings;

/// The key of the audit annotation; the API server puts the webhook's name before it.
pub const ANNOTATION: &str = "inputs";

/// The first 64 bits of a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short(u64);

/// The inputs beside the request. Costs what hashing a cluster costs: once a snapshot, not once a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub facts: Short,
    pub releases: Short,
    pub settings: Short,
}

impl Short {
    #[must_use]
    pub fn of(value: &impl Hash) -> Self {
        let mut bytes = Bytes(Vec::with_capacity(4096));
        value.hash(&mut bytes);
        Self(bytes.finish())
    }

    /// Of what was asked: who asks and the decoded change, without uid and dry run, which decide nothing.
    #[must_use]
    pub fn of_request(review: &Review<'_>) -> Self {
        Self::of(&(&review.user, &review.subject))
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Known {
    #[must_use]
    pub fn of(cluster: &Snapshot, catalog: &Catalog, settings: &Settings) -> Self {
        // As they take effect: a mode that is written out and the same one as a default are no difference.
        let policies: Vec<_> = POLICIES.iter().map(|p| (p.id, p.mode(settings), p.on_unknown(settings))).collect();
        let Settings { mode, retain, override_groups, release_repositories, policies: _ } = settings;
        let settings = (mode, retain, override_groups, release_repositories, policies);
        Self { facts: Short::of(cluster), releases: Short::of(catalog), settings: Short::of(&settings) }
    }

    /// The annotation's text.
    #[must_use]
    pub fn describe(&self, request: Short, now: Timestamp) -> String {
        let Self { facts, releases, settings } = self;
        format!("request {request}, facts {facts}, releases {releases}, settings {settings}, now {now}")
    }
}

/// Puts the digests into the audit annotations of a review that a policy judged.
pub fn annotate(judged: &mut Judged, known: &Known, now: Timestamp) {
    if let Some(request) = judged.request {
        judged.response.audit_annotations.insert(ANNOTATION.to_owned(), known.describe(request, now));
    }
}

/// What is to be hashed, in one piece: many small updates would cost more than the hashing. Numbers have one width
/// and one order of bytes, so that the same inputs have the same digest on every machine.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        let hashed = digest(&SHA256, &self.0);
        hashed.as_ref().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write(&(number as u64).to_le_bytes());
    }

    fn write_isize(&mut self, number: isize) {
        self.write(&(number as i64).to_le_bytes());
    }

    fn write_i64(&mut self, number: i64) {
        self.write(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Fact, Provenance};
    use crate::objects::cluster_version::ClusterVersion;
    use crate::release::tests::release;

    fn cluster(version: &str, source: &str) -> Snapshot {
        let text = format!(r#"{{"metadata":{{"name":"version"}},"status":{{"desired":{{"version":"{version}"}}}}}}"#);
        let found = crate::projection::from_text::<ClusterVersion<'_>>(&text).unwrap();
        let provenance = Provenance { source: source.into(), as_of: Timestamp::now(), watched: source == "watch" };
        Snapshot { cluster_version: Fact::Known(found, provenance), ..Snapshot::nothing(source) }
    }

    #[test]
    fn content_counts_and_nothing_else() {
        let settings = Settings::default();
        let of = |cluster: &Snapshot, catalog: Catalog| Known::of(cluster, &catalog, &settings);
        let all = || Catalog::new([release("4.19.9", 'a', &["4.18.1"]), release("4.19.8", 'b', &[])]);
        let turned = || Catalog::new([release("4.19.8", 'b', &[]), release("4.19.9", 'a', &["4.18.1"])]);
        let known = of(&cluster("4.19.8", "watch"), all());
        assert_eq!(known, of(&cluster("4.19.8", "a.yaml"), turned()));
        assert_ne!(known.facts, of(&cluster("4.19.9", "watch"), all()).facts);
        assert_ne!(known.facts, of(&Snapshot::nothing("x"), all()).facts);
        assert_ne!(known.releases, of(&cluster("4.19.8", "watch"), Catalog::default()).releases);
        let mut verified = release("4.19.9", 'a', &["4.18.1"]);
        verified.source.verified = true;
        let verified = Catalog::new([verified, release("4.19.8", 'b', &[])]);
        assert_ne!(known.releases, of(&cluster("4.19.8", "watch"), verified).releases);
        let retain = Settings { retain: crate::settings::Retain::InUse, ..Settings::default() };
        assert_ne!(known.settings, Known::of(&cluster("4.19.8", "watch"), &all(), &retain).settings);
    }

    /// A digest that differs from build to build or machine to machine would prove nothing.
    #[test]
    fn the_digest_is_the_same_everywhere() {
        // Of what the standard library feeds: texts ended by 0xff, lengths, discriminants, all as 64 bits.
        assert_eq!(Short::of(&("a", 1_u64, [2_usize, 3], Some(-1_i64))).to_string(), "66ea60d6240856c4");
    }
}
