//! What of a release is fetched, and in which order: as few round trips as there can be.
//!
//! Exactly what [`payload::read`] will want and nothing else; what it would refuse by its size is left out, so that
//! it is the one to say so.

use std::collections::{HashMap, HashSet};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt as _};
use reqwest::Method;
use tokio::time::Instant;

use super::Inner;
use super::ask::Object;
use super::failure::{Failure, Reason};
use super::job::Job;
use crate::payload::manifest::{Config, Descriptor, Image, Manifest};
use crate::payload::{self, Blobs, CONFIG_BYTES, RELEASE_LABEL};
use crate::pullspec::{Digest, Repository};

/// Requests to one place at a time.
const AT_ONCE: usize = 8;
/// One more than [`payload`] reads of an index, so that it sees that there are too many.
const CHILDREN: usize = 65;
const INDEX_DEPTH: usize = 3;
/// A layer up to here is fetched before its configuration says that this is a release at all.
const EAGER_BYTES: u64 = 16 << 20;

/// Bytes that were hashed, by their digest.
#[derive(Debug, Default)]
pub(super) struct Verified(pub HashMap<Digest, Vec<u8>>);

impl Verified {
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

impl Blobs for Verified {
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
        let found = self.0.get(&digest);
        if found.is_some_and(|bytes| bytes.len() as u64 > limit) {
            return Err(format!("has more than the {limit} bytes that are read of one"));
        }
        Ok(found.cloned())
    }
}

/// A wanted blob and the size that its descriptor gives.
type Wanted = (Digest, u64);

impl Inner {
    /// Fetches from `place` what is not there yet. The manifest is asked for in any case: a place that has it not is
    /// none of the release's.
    pub async fn gather(
        &self,
        job: &Job,
        place: &Repository,
        top: Digest,
        manifest_until: Instant,
        have: &mut Verified,
    ) -> Result<(), Failure> {
        let bytes = self.ask(job, Object::manifest(place, top, manifest_until), &Method::GET).await?;
        let manifest = Manifest::parse(&bytes);
        have.0.insert(top, bytes);
        let images = match manifest {
            // The reader of payloads says what is wrong with it.
            Err(_) => return Ok(()),
            Ok(Manifest::Image(image)) => vec![image],
            Ok(Manifest::Index(children)) => self.children(job, place, children, have).await?,
        };
        let layer = |image: &Image| image.layers.last().map(wanted).filter(|(_, size)| *size <= self.layer_bytes);
        let configs = images.iter().map(|image| wanted(&image.config)).filter(|(_, size)| *size <= CONFIG_BYTES);
        let eager = images.iter().filter_map(layer).filter(|(_, size)| *size <= EAGER_BYTES);
        self.blobs(job, place, configs.chain(eager), have).await?;
        let release = |image: &&Image| {
            let config = have.0.get(&image.config.digest).and_then(|config| Config::parse(config).ok());
            config.is_some_and(|config| config.labels.contains_key(RELEASE_LABEL))
        };
        let large: Vec<Wanted> = images.iter().filter(release).filter_map(layer).collect();
        self.blobs(job, place, large.into_iter(), have).await
    }

    /// The images below an index, level by level. One that is not there is left out: mirrors may be sparse.
    async fn children(
        &self,
        job: &Job,
        place: &Repository,
        children: Vec<Descriptor>,
        have: &mut Verified,
    ) -> Result<Vec<Image>, Failure> {
        let mut images = vec![];
        let mut level = children;
        for _ in 0..INDEX_DEPTH {
            let named: Vec<Digest> =
                level.iter().filter(|child| !child.attestation).map(|child| child.digest).take(CHILDREN).collect();
            let missing: HashSet<Digest> =
                named.iter().copied().filter(|digest| !have.0.contains_key(digest)).collect();
            let objects = missing.into_iter().map(|digest| Object::manifest(place, digest, job.until));
            self.fetch(job, objects, have).await?;
            level = vec![];
            for manifest in named.iter().filter_map(|digest| have.0.get(digest)).map(|bytes| Manifest::parse(bytes)) {
                match manifest {
                    Ok(Manifest::Image(image)) => images.push(image),
                    Ok(Manifest::Index(below)) => level.extend(below),
                    Err(_) => {}
                }
            }
            if level.is_empty() {
                break;
            }
        }
        images.truncate(CHILDREN);
        Ok(images)
    }

    async fn blobs(
        &self,
        job: &Job,
        place: &Repository,
        wanted: impl Iterator<Item = Wanted>,
        have: &mut Verified,
    ) -> Result<(), Failure> {
        let missing: HashMap<Digest, u64> = wanted.filter(|(digest, _)| !have.0.contains_key(digest)).collect();
        let objects = missing.into_iter().map(|(digest, size)| Object::blob(place, digest, size, job.until));
        self.fetch(job, objects, have).await
    }

    /// All of them, some at a time; the first failure that is no absence ends it. What came before that is kept.
    async fn fetch<'a>(
        &'a self,
        job: &'a Job,
        objects: impl Iterator<Item = Object<'a>>,
        have: &mut Verified,
    ) -> Result<(), Failure> {
        // Boxed and gathered: the compiler cannot show futures of a lazy iterator over borrowed items to be `Send`.
        let answers: Vec<BoxFuture<'a, _>> = objects
            .map(|object| async move { (object.digest, self.ask(job, object, &Method::GET).await) }.boxed())
            .collect();
        let mut answers = stream::iter(answers).buffer_unordered(AT_ONCE);
        while let Some((digest, answer)) = answers.next().await {
            match answer {
                Ok(bytes) => drop(have.0.insert(digest, bytes)),
                Err(failure) if failure.reason == Reason::Absent => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

fn wanted(descriptor: &Descriptor) -> Wanted {
    (descriptor.digest, descriptor.size)
}

/// Reads what was gathered, on a thread for such work: it takes milliseconds, and hostile bytes up to a second.
pub(super) async fn parse(
    have: Verified,
    top: Digest,
    until: Instant,
) -> Result<(Result<payload::Payload, payload::Fault>, Verified), Failure> {
    let work = tokio::task::spawn_blocking(move || (payload::read(&have, top), have));
    match tokio::time::timeout_at(until, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(Failure::new(Reason::Wrong, "reading what was fetched came to no end; do not use this copy")),
        Err(_) => Err(Failure::late("reading what was fetched")),
    }
}
