//! Reads releases from registries, by digest only.
//!
//! A thin client of the distribution specification's pull side. Invariants: every byte is hashed against the digest
//! that was asked for before anything is made of it; bodies, requests, redirects and time are bounded; addresses in
//! descriptors are never followed; credentials go to the host they are for, over https; what is shown of a failure
//! is clean, short and holds nothing secret.

mod access;
mod ask;
mod body;
mod challenge;
mod failure;
mod fetch;
mod job;
mod proxy;
mod pull_secret;
mod secret;
mod token;
mod trust;
mod wire;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Method;
use tokio::time::Instant;

pub use access::Access;
pub use failure::{Attempt, Reason, Unread};

use crate::payload::{Fault, Payload};
use crate::pullspec::{Digest, Repository};
use ask::Object;
use failure::Failure;
use fetch::Verified;
use job::Job;
use pull_secret::PullSecret;
use token::Tokens;
use trust::Trust;
use wire::Wire;

/// Holds connections and tokens; clones share them.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    wire: Wire,
    tokens: Tokens,
    pull_secrets: Vec<PullSecret>,
    layer_bytes: u64,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registry")
    }
}

/// A release and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub payload: Payload,
    pub place: Repository,
    /// Everything that was fetched for it, each with the digest it was verified by, for a cache. The order is that
    /// of the digests.
    pub bytes: Vec<(Digest, Vec<u8>)>,
    /// The places before it, which yielded nothing.
    pub attempts: Vec<Attempt>,
}

/// Whether a manifest is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A registry says so; only reading it proves it.
    Found(Repository),
    /// Every place says that it has it not.
    Absent,
    /// Some place could not be asked; why, for a person.
    Unknown(String),
}

impl Registry {
    /// Reads the system's CA certificates; makes no request.
    ///
    /// # Errors
    /// Where TLS cannot be set up at all.
    pub fn new(access: Access) -> Result<Self, String> {
        let Access { pull_secrets, anchors, proxies, layer_bytes } = access;
        let trust = Trust::new(anchors);
        // Fails here and not in the first request.
        trust.config(None)?;
        Ok(Self(Arc::new(Inner {
            wire: Wire::new(trust, proxies),
            tokens: Tokens::default(),
            pull_secrets,
            layer_bytes,
        })))
    }

    /// Reads a release from the first of `places` that has all of it. A place that others follow has half of the time
    /// left to yield the manifest.
    ///
    /// # Errors
    /// See [`Unread`].
    pub async fn release(&self, places: &[Repository], digest: Digest, deadline: Instant) -> Result<Read, Unread> {
        let mut have = Verified::default();
        let mut attempts: Vec<Attempt> = vec![];
        for (place, until) in turns(places, deadline) {
            let job = Job::new(deadline, places.len(), self.0.layer_bytes, have.len());
            let failure = match self.0.gather(&job, place, digest, until(), &mut have).await {
                Ok(()) => match fetch::parse(std::mem::take(&mut have), digest, deadline).await {
                    Ok((Ok(payload), Verified(bytes))) => {
                        let mut bytes: Vec<_> = bytes.into_iter().collect();
                        bytes.sort_unstable_by_key(|(digest, _)| *digest);
                        return Ok(Read { payload, place: place.clone(), bytes, attempts });
                    }
                    Ok((Err(fault @ Fault::Missing { .. }), rest)) => {
                        have = rest;
                        Failure::new(Reason::Wrong, format!("{fault}; mirror the release again"))
                    }
                    // The same bytes would be as bad from anywhere else.
                    Ok((Err(fault), _)) => return Err(Unread::Bad { fault, place: Some(place.clone()), attempts }),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            attempts.push(failure.at(place));
        }
        Err(Unread::of(attempts))
    }

    /// Whether one of `places` has the manifest, by `HEAD`.
    pub async fn present(&self, places: &[Repository], digest: Digest, deadline: Instant) -> Presence {
        let mut attempts = vec![];
        for (place, until) in turns(places, deadline) {
            let job = Job::new(deadline, places.len(), self.0.layer_bytes, 0);
            let object = Object::manifest(place, digest, until());
            match self.0.ask(&job, object, &Method::HEAD).await {
                Ok(_) => return Presence::Found(place.clone()),
                Err(failure) => attempts.push(failure.at(place)),
            }
        }
        match Unread::of(attempts) {
            Unread::Absent(_) => Presence::Absent,
            unread => Presence::Unknown(unread.to_string()),
        }
    }

    /// One manifest of one place, its bytes verified. With `connect` the connection goes to that address (and no
    /// proxy), while the name and port of `place` are what the certificate is checked for and credentials are looked
    /// up by: so the registry of one node is asked behind a name that stands for all of them.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn manifest(
        &self,
        place: &Repository,
        digest: Digest,
        connect: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Vec<u8>, Attempt> {
        let job = Job::new(deadline, 1, self.0.layer_bytes, 0);
        let object = Object { connect, ..Object::manifest(place, digest, deadline) };
        self.0.ask(&job, object, &Method::GET).await.map_err(|failure| failure.at(place))
    }
}

/// Each place once, and until when it may take to yield the manifest.
fn turns(places: &[Repository], deadline: Instant) -> impl Iterator<Item = (&Repository, impl Fn() -> Instant)> {
    let distinct = places.iter().enumerate().filter(|(index, place)| !places[..*index].contains(place));
    distinct.map(move |(index, place)| {
        let last = index + 1 == places.len();
        let until = move || {
            let now = Instant::now();
            if last { deadline } else { now + deadline.saturating_duration_since(now) / 2 }
        };
        (place, until)
    })
}
