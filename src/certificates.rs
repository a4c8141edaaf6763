//! The certificate keeper: a CA and a serving certificate in a Secret, renewed there, and the CA bundle in the webhook
//! configuration, so that a cluster needs nobody else for them.
//!
//! Invariants: any number of replicas work at once, none of them leads; every write carries the resourceVersion that
//! was read. Served is only what is stored. A certificate of a CA is issued only once API servers have trusted that CA
//! for a while, and a CA is trusted for as long as a certificate of it can be served. What is decided is decided by one
//! pure function ([`rotation`]), by the API server's clock. Keys are in no log, error, status or debug output.

mod issue;
mod keeper;
mod material;
pub mod rotation;
mod store;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

use crate::tls::Source;
use crate::tls::keypair::Raw;

pub use keeper::CertificateKeeper;

/// The Secret of the namespace in which everything is kept.
pub const SECRET: &str = "airgate-tls";
/// The webhook configuration whose CA bundles are kept.
pub const CONFIGURATION: &str = "airgate";
/// Who the writes of the keeper are by, in managedFields.
pub const FIELD_MANAGER: &str = "airgate-certificates";

/// How long things live and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub ca_life: Duration,
    /// Of a CA's life, after which the next one is made.
    pub ca_renew: Duration,
    pub leaf_life: Duration,
    pub leaf_renew: Duration,
    /// How long every CA bundle has held a CA before certificates are issued by it: each API server has its own copy
    /// of the configuration, and one that was just started may be behind.
    pub settle: Duration,
    /// Between two looks.
    pub poll: Duration,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Timing {
    fn default() -> Self {
        Self {
            ca_life: DAY.saturating_mul(1095),
            ca_renew: DAY.saturating_mul(730),
            leaf_life: DAY.saturating_mul(90),
            leaf_renew: DAY.saturating_mul(60),
            settle: Duration::from_mins(10),
            poll: Duration::from_secs(3),
        }
    }
}

/// Six numbers of seconds, in the order of the fields: for tests, which cannot wait for years.
impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} must be six numbers of seconds: CA life, CA renewal, leaf life, leaf renewal, settle, poll"
            )
        };
        let seconds = |part: &str| part.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let all: Option<Vec<Duration>> = text.split(',').map(seconds).collect();
        match all.as_deref() {
            Some(&[ca_life, ca_renew, leaf_life, leaf_renew, settle, poll])
                if ca_renew < ca_life && leaf_renew < leaf_life && !poll.is_zero() =>
            {
                Ok(Self { ca_life, ca_renew, leaf_life, leaf_renew, settle, poll })
            }
            _ => Err(wrong()),
        }
    }
}

/// What the keeper knows, for those who use it; clones share it.
#[derive(Clone, Debug)]
pub struct Kept {
    name: String,
    pair: watch::Receiver<Option<Arc<Raw>>>,
    status: Arc<ArcSwap<KeeperStatus>>,
}

impl Kept {
    /// Where the listener gets its pair from.
    #[must_use]
    pub fn source(&self) -> Source {
        Source::Kept { name: self.name.clone(), pair: self.pair.clone() }
    }

    #[must_use]
    pub fn status(&self) -> Arc<KeeperStatus> {
        self.status.load_full()
    }
}

/// What `/statusz` shows of the keeper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperStatus {
    /// `NAMESPACE/NAME`
    pub secret: String,
    /// The CA that signs.
    pub ca: Option<AuthorityStatus>,
    /// The CA that will, once API servers have trusted it for a while.
    pub next: Option<AuthorityStatus>,
    /// Since when every CA bundle has held the next CA.
    pub next_trusted_since: Option<Timestamp>,
    /// CAs that are still trusted, until the last certificate of each has expired.
    pub retiring: Vec<AuthorityStatus>,
    /// How the CA bundles of the webhook configuration are.
    pub ca_bundle: String,
    /// What was written last by this process.
    pub last_step: Option<String>,
    pub last_step_at: Option<Timestamp>,
    /// What keeps it from doing its work, with the remedy.
    pub error: Option<String>,
    pub error_since: Option<Timestamp>,
    pub checked_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityStatus {
    /// SHA-256 of the certificate, lower-case hex.
    pub fingerprint: String,
    pub not_after: Timestamp,
    /// The end of the last certificate that it signed.
    pub leaves_until: Option<Timestamp>,
}

/// The names of the serving certificate.
#[must_use]
pub fn names(namespace: &str) -> Vec<String> {
    vec![format!("airgate.{namespace}.svc"), format!("airgate.{namespace}.svc.cluster.local")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_read_or_refused() {
        let timing: Timing = "600,6,20,5,1,0.2".parse().unwrap();
        assert_eq!((timing.ca_life, timing.poll), (Duration::from_mins(10), Duration::from_millis(200)));
        for wrong in ["", "1,2,3", "600,6,20,5,1,0", "6,600,20,5,1,1", "600,6,20,5,1,-1", "a,b,c,d,e,f"] {
            assert!(wrong.parse::<Timing>().unwrap_err().contains("six numbers"), "{wrong}");
        }
        let default = Timing::default();
        assert!(default.ca_renew + default.leaf_life < default.ca_life);
    }
}
