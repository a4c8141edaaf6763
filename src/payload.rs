//! A release image, from the bytes of its manifests and blobs to what it says about itself.
//!
//! Where the bytes come from (a layout, an archive, later a registry) is behind [`Blobs`]. Invariants:
//! nothing is believed before the whole object it stands in was hashed against the digest that names it;
//! everything is bounded, in bytes, in entries and in depth; addresses in descriptors are never followed.

pub mod layer;
pub mod manifest;
pub mod metadata;
pub mod tarball;
pub mod unpack;

mod hash;
mod json;

use std::collections::HashMap;
use std::sync::Arc;

pub use hash::digest_of;

use crate::pullspec::Digest;
use crate::release::Component;
use crate::version::Version;
use manifest::{Descriptor, Image, Manifest};
use metadata::Contents;

/// What the distribution specification asks registries to take.
pub const MANIFEST_BYTES: u64 = 4 << 20;
pub const CONFIG_BYTES: u64 = 4 << 20;
/// The layer that `oc adm release new` adds is 1 to 4 MB; it is held in memory whole while it is read.
pub const LAYER_BYTES: u64 = 64 << 20;
/// About 10 MB in real releases.
pub const UNPACKED_BYTES: u64 = 256 << 20;
/// An index in an index in an index is as deep as anybody goes.
const INDEX_DEPTH: usize = 3;
/// Images below one index; a release has four.
const CHILDREN: usize = 64;
/// oc writes it for every release, so its absence tells a component image without reading its layers.
pub const RELEASE_LABEL: &str = "io.openshift.release";

/// What works instead of an image that is not as oc makes them.
const AGAIN: &str = "; do not use this copy, mirror the release again from its source";

/// Where the bytes of an image are read. Nothing that it yields is trusted.
pub trait Blobs {
    /// A whole blob, `None` where there is none.
    ///
    /// # Errors
    /// Why it cannot be read, for a person; also when it has more than `limit` bytes.
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String>;
}

/// Why there is no release to speak of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An image of another kind: a component, an operator, anything.
    #[error("{0}")]
    NotRelease(String),
    /// A part that is not here; what works depends on the kind of copy, so the text ends without it.
    #[error("{what} {digest} is not in this copy")]
    Missing { what: &'static str, digest: Digest },
    /// Broken or hostile.
    #[error("{0}")]
    Bad(String),
}

/// What a release image says about itself, every byte of it hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Of the object that was asked for, as it stands in its source.
    pub digest: Digest,
    pub version: Version,
    pub previous: Vec<Version>,
    /// In Go's names, or `multi`.
    pub architecture: String,
    /// The images below an index, in its order.
    pub shards: Vec<Digest>,
    /// Empty where the images of an index name different ones.
    pub components: Arc<[Component]>,
    /// An OCI image manifest was read, which `oc adm release new` never writes: somebody converted the image,
    /// unless the bytes come from where a registry keeps what it was sent.
    pub rewritten: bool,
    /// One image of a multi release, without the index it belongs to.
    pub lone_shard: bool,
    /// Images of the index that are not here, so that they could not be compared with those that were read.
    pub unread: Vec<Digest>,
}

/// One image of a release.
struct Part {
    digest: Digest,
    architecture: String,
    contents: Arc<Contents>,
    rewritten: bool,
}

/// Reads the release that `top`, a manifest or an index, stands for.
///
/// # Errors
/// See [`Fault`].
pub fn read(blobs: &dyn Blobs, top: Digest) -> Result<Payload, Fault> {
    let mut reader = Reader { blobs, contents: HashMap::new(), parts: vec![], shards: vec![], unread: vec![] };
    match reader.manifest(top)? {
        Manifest::Image(image) => {
            let part = reader.image(top, &image)?;
            let multi = part.contents.multi;
            reader.parts.push(part);
            reader.finish(top, multi)
        }
        Manifest::Index(children) => {
            reader.index(&children, 1)?;
            reader.finish(top, false)
        }
    }
}

struct Reader<'a> {
    blobs: &'a dyn Blobs,
    /// By layer: the images of a multi release share theirs.
    contents: HashMap<Digest, Arc<Contents>>,
    parts: Vec<Part>,
    shards: Vec<Digest>,
    unread: Vec<Digest>,
}

impl Reader<'_> {
    /// The bytes that `digest` names and no others.
    fn blob(&self, what: &'static str, digest: Digest, size: Option<u64>, limit: u64) -> Result<Vec<u8>, Fault> {
        let bad = |why: String| Fault::Bad(format!("{what} {digest} {why}"));
        if let Some(size) = size.filter(|size| *size > limit) {
            return Err(bad(format!("is said to have {size} bytes, more than the {limit} that are read of one")));
        }
        let bytes = self.blobs.blob(digest, limit).map_err(bad)?.ok_or(Fault::Missing { what, digest })?;
        let found = digest_of(&bytes);
        if found != Some(digest) {
            let found = found.map_or_else(|| "another".to_owned(), |found| found.to_string());
            return Err(bad(format!(
                "is damaged or forged: its {} bytes have the digest {found}; copy the image again",
                bytes.len()
            )));
        }
        if let Some(size) = size.filter(|size| *size != bytes.len() as u64) {
            return Err(bad(format!(
                "has {} bytes where its descriptor says {size}; copy the image again",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    fn manifest(&self, digest: Digest) -> Result<Manifest, Fault> {
        let bytes = self.blob("manifest", digest, None, MANIFEST_BYTES)?;
        Manifest::parse(&bytes).map_err(|why| Fault::Bad(format!("manifest {digest} {why}{AGAIN}")))
    }

    fn index(&mut self, children: &[Descriptor], depth: usize) -> Result<(), Fault> {
        if depth > INDEX_DEPTH {
            return Err(Fault::Bad(format!("the index has others below it more than {INDEX_DEPTH} deep")));
        }
        for child in children.iter().filter(|child| !child.attestation) {
            if self.shards.len() >= CHILDREN {
                return Err(Fault::Bad(format!("the index names more than {CHILDREN} images")));
            }
            let manifest = match self.manifest(child.digest) {
                Err(Fault::Missing { digest, .. }) => {
                    self.shards.push(digest);
                    self.unread.push(digest);
                    continue;
                }
                manifest => manifest?,
            };
            match manifest {
                Manifest::Index(below) => self.index(&below, depth + 1)?,
                Manifest::Image(image) => {
                    self.shards.push(child.digest);
                    match self.image(child.digest, &image) {
                        Ok(part) => self.parts.push(part),
                        Err(Fault::Missing { .. }) => self.unread.push(child.digest),
                        Err(fault) => return Err(fault),
                    }
                }
            }
        }
        Ok(())
    }

    fn image(&mut self, digest: Digest, image: &Image) -> Result<Part, Fault> {
        let config = self.blob("image configuration", image.config.digest, Some(image.config.size), CONFIG_BYTES)?;
        let config = manifest::Config::parse(&config)
            .map_err(|why| Fault::Bad(format!("image configuration {} {why}{AGAIN}", image.config.digest)))?;
        if !config.labels.contains_key(RELEASE_LABEL) {
            return Err(Fault::NotRelease(format!(
                "the image {digest} is no release: it has no label {RELEASE_LABEL}"
            )));
        }
        // As oc does: the last layer or none. What a lower one holds was covered by whoever built on it.
        let top = image.layers.last().ok_or_else(|| Fault::Bad(format!("the image {digest} has no layers")))?;
        let contents = match self.contents.get(&top.digest) {
            Some(known) => known.clone(),
            None => {
                let bytes = self.blob("layer", top.digest, Some(top.size), LAYER_BYTES)?;
                let contents = Contents::of_layer(&bytes)
                    .map_err(|why| Fault::Bad(format!("layer {} {why}{AGAIN}", top.digest)))?;
                let contents = Arc::new(contents);
                self.contents.insert(top.digest, contents.clone());
                contents
            }
        };
        let architecture = config.architecture.ok_or_else(|| {
            Fault::Bad(format!(
                "image configuration {} names no architecture that releases are made for",
                image.config.digest
            ))
        })?;
        Ok(Part { digest, architecture: architecture.to_owned(), contents, rewritten: !image.docker })
    }

    fn finish(self, top: Digest, lone_shard: bool) -> Result<Payload, Fault> {
        let Some(first) = self.parts.first() else {
            return Err(match self.unread.first() {
                Some(digest) => Fault::Missing { what: "every image of the index, the first being", digest: *digest },
                None => Fault::NotRelease("the index names no image".into()),
            });
        };
        for part in &self.parts {
            let said =
                |part: &Part| (part.contents.version.clone(), part.contents.previous.clone(), part.contents.multi);
            if said(part) != said(first) {
                return Err(Fault::Bad(format!(
                    "its images contradict each other: {} says {} and {} says {}, or they differ in previous; nobody can \
                     say which a node would run",
                    first.digest, first.contents.version, part.digest, part.contents.version
                )));
            }
        }
        let several = self.parts.iter().any(|part| part.architecture != first.architecture);
        let same = self.parts.iter().all(|part| part.contents.components == first.contents.components);
        Ok(Payload {
            digest: top,
            version: first.contents.version.clone(),
            previous: first.contents.previous.clone(),
            architecture: if first.contents.multi || several { "multi".into() } else { first.architecture.clone() },
            shards: self.shards,
            components: if same { first.contents.components.clone() } else { Arc::default() },
            rewritten: self.parts.iter().any(|part| part.rewritten),
            lone_shard,
            unread: self.unread,
        })
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
