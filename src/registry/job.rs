//! What one read may spend: time, requests, memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, Reason};

/// A release of four architectures takes ten to twenty, tokens, redirects and retries included.
const REQUESTS: u32 = 512;
/// Beside one layer of the largest size: manifests, configurations, layers of other images of an index.
const BESIDE_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Job {
    /// When the caller wants an answer, whatever it is.
    pub until: Instant,
    requests: AtomicU32,
    bytes: AtomicU64,
}

impl Job {
    pub fn new(until: Instant, layer_bytes: u64) -> Self {
        Self { until, requests: REQUESTS.into(), bytes: (layer_bytes + BESIDE_BYTES).into() }
    }

    /// Counts a request that is about to be made.
    pub fn request(&self) -> Result<(), Failure> {
        let left = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| {
            let why = format!("reading it takes more than {REQUESTS} requests, which no release does; do not use it");
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
