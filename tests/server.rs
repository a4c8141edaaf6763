//! The edge on real sockets with real TLS and a stub in the engine's place.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

#[path = "server/client.rs"]
mod client;
#[path = "server/drain.rs"]
mod drain;
#[path = "server/harness.rs"]
mod harness;
#[path = "server/layers.rs"]
mod layers;
#[path = "server/ports.rs"]
mod ports;
#[path = "server/protocols.rs"]
mod protocols;
#[path = "server/rotation.rs"]
mod rotation;
#[path = "server/slow.rs"]
mod slow;
#[path = "server/volume.rs"]
mod volume;
