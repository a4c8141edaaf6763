//! Every bound of the edge in one place. Nothing that a client can hold is without one.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Requests being answered at once; further ones get 429.
    pub in_flight: usize,
    /// One request body; a larger one gets 413. Both objects of a review travel, each may have 1.5 MiB (more
    /// as JSON).
    pub body_bytes: usize,
    /// All bodies together; a request that would exceed it gets 429. Without it the two limits above allow
    /// 2 GiB.
    pub all_bodies_bytes: usize,
    /// The longest that a request may take, whatever the caller would wait.
    pub deadline: Duration,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// From the handshake to the first request, and from the first byte of a later one to the end of its
    /// header.
    pub header: Duration,
    /// An open connection without a request. Longer than the 90 s after which Go clients, the API server
    /// among them, close theirs: the side that sends requests should be the one that closes, or a request
    /// may cross our closing and fail.
    pub idle: Duration,
    /// The same while every connection slot is taken: then a slot is worth more than a kept connection.
    pub idle_when_full: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            in_flight: 256,
            body_bytes: 8 << 20,
            all_bodies_bytes: 64 << 20,
            deadline: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(10),
            idle: Duration::from_secs(150),
            idle_when_full: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// For the ports that only probes, scrapers and a person use: few connections, and none that keeps a
    /// probe waiting for long.
    #[must_use]
    pub fn for_small_port(self) -> Self {
        Self {
            connections: 128,
            header: self.header.min(Duration::from_secs(2)),
            idle: self.idle.min(Duration::from_secs(30)),
            idle_when_full: self.idle_when_full.min(Duration::from_secs(1)),
            ..self
        }
    }
}
