//! Digests of bytes.

use aws_lc_rs::digest::{SHA256, digest};

use crate::pullspec::Digest;

/// `None` for the one result in 2^256 that stands for "no image".
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Option<Digest> {
    let hashed = digest(&SHA256, bytes);
    Digest::from_bytes(hashed.as_ref().try_into().ok()?)
}
