//! Every bound of the edge in one place. Nothing that a client can hold is without one.

use std::time::Duration;

use super::activity::Room;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Requests being answered at once, counted from when they have arrived completely; further ones get 429.
    pub in_flight: usize,
    /// Requests whose body is arriving; further ones get 429, see `shares`.
    pub arriving: usize,
    /// For the first bytes of a body; each byte that came gives a little more, see `body`.
    pub body_grace: Duration,
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
    /// The same, and for the handshake, while more than half of the connections are taken.
    pub header_when_scarce: Duration,
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
            arriving: 1024,
            body_grace: Duration::from_secs(2),
            body_bytes: 8 << 20,
            all_bodies_bytes: 64 << 20,
            deadline: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(10),
            header_when_scarce: Duration::from_secs(2),
            idle: Duration::from_secs(150),
            idle_when_full: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// The limit for a header or a handshake, as room for connections is left.
    #[must_use]
    pub fn header_in(&self, room: Room) -> Duration {
        if room == Room::Enough { self.header } else { self.header.min(self.header_when_scarce) }
    }

    /// For the ports that only probes, scrapers and a person use: few connections, and none that keeps a
    /// probe waiting for long.
    #[must_use]
    pub fn for_small_port(self) -> Self {
        Self {
            connections: self.connections.min(512),
            header: self.header.min(Duration::from_secs(2)),
            header_when_scarce: self.header_when_scarce.min(Duration::from_millis(500)),
            idle: self.idle.min(Duration::from_secs(30)),
            idle_when_full: self.idle_when_full.min(Duration::from_secs(1)),
            ..self
        }
    }
}
