//! What one read may spend at one place: time, requests, memory. Each place has its own, so that a hostile mirror cannot
//! use up what the source needs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, Reason};

/// Of one read. A release of four architectures takes ten to forty, tokens, redirects and retries included.
const REQUESTS: u32 = 512;
/// A place has at least these.
const FEWEST: u32 = 64;
/// Beside one layer of the largest size: manifests, configurations, layers of other images of an index.
const BESIDE_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Job {
    /// When the caller wants an answer, whatever it is.
    pub until: Instant,
    allowed: u32,
    requests: AtomicU32,
    bytes: AtomicU64,
}

impl Job {
    /// For one of so many places, with so many bytes kept from those before.
    pub fn new(until: Instant, places: usize, layer_bytes: u64, held: usize) -> Self {
        let allowed = (REQUESTS / u32::try_from(places.max(1)).unwrap_or(u32::MAX)).max(FEWEST);
        let bytes = (layer_bytes + BESIDE_BYTES).saturating_sub(held as u64);
        Self { until, allowed, requests: allowed.into(), bytes: bytes.into() }
    }

    /// Counts a request that is about to be made.
    pub fn request(&self) -> Result<(), Failure> {
        let left = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| {
            let why =
                format!("reading it takes more than {} requests, which no release does; do not use it", self.allowed);
            Failure::new(Reason::Exhausted, why)
        })
    }

    /// Counts bytes that have come.
    pub fn bytes(&self, count: usize) -> Result<(), Failure> {
        let left = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count as u64));
        left.map(drop).map_err(|_| {
            let why =
                "its manifests, configurations and layers together are larger than those of any release; do not use it";
            Failure::new(Reason::Exhausted, why)
        })
    }
}

/// 50 to 150 ms, so that many clients that failed together do not come back together.
pub(super) fn jitter() -> Duration {
    let mut byte = [0_u8];
    // Without randomness the pause is just always the same.
    let _unspecified = aws_lc_rs::rand::fill(&mut byte);
    Duration::from_millis(50 + u64::from(byte[0]) * 100 / 255)
}
