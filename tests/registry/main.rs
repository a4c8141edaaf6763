//! The registry reader against registries: one that misbehaves on request.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod faults;
