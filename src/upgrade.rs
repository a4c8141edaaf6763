//! A step of a ClusterVersion as several policies see it: from what, to what, and what is known of both.

use crate::breakglass::Step;
use crate::objects::cluster_version::{ConditionalUpdate, DesiredUpdate, HistoryEntry, Release as Offer, Status};
use crate::policy::Context;
use crate::pullspec::{self, Digest, Repository};
use crate::release::{Catalog, Lookup, Release};
use crate::review::{Change, Subject};
use crate::text::shown;
use crate::version::Version;

/// An UPDATE of the ClusterVersion whose effective target changed. The stored object's status counts.
#[derive(Debug)]
pub struct Upgrade<'a> {
    pub from: &'a DesiredUpdate<'a>,
    pub to: &'a DesiredUpdate<'a>,
    pub status: &'a Status<'a>,
    /// The CVO has not yet seen the stored spec: its target was neither taken up nor refused.
    pub unseen: bool,
    /// The same request also changes `channel` or `upstream`.
    pub source_changed: bool,
    /// `status.desired.version`; `None` where it is missing or not SemVer.
    pub current: Option<Version>,
    pub current_digest: Option<Digest>,
    catalog: &'a Catalog,
}

/// What the request names, most specific first, as the CVO reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    Digest(Digest),
    /// An image that names no usable digest.
    ImageWithoutDigest,
    /// `architecture` without an image.
    Architecture,
    VersionOnly,
}

impl<'a> Upgrade<'a> {
    /// `None` for anything but such an UPDATE.
    #[must_use]
    pub fn of(context: &Context<'a>) -> Option<Self> {
        let Subject::ClusterVersion(Change::Update { old, new }) = &context.review.subject else { return None };
        Some(Self {
            from: &old.spec.desired_update,
            to: &new.spec.desired_update,
            status: &old.status,
            unseen: (1..old.metadata.generation).contains(&old.status.observed_generation),
            source_changed: old.spec.channel != new.spec.channel || old.spec.upstream != new.spec.upstream,
            current: Version::parse(&old.status.desired.version),
            current_digest: old.status.desired.digest(),
            catalog: context.catalog,
        })
    }

    #[must_use]
    pub fn requested(&self) -> Requested {
        match (self.to.image.is_empty(), Digest::of_image(&self.to.image)) {
            (false, Some(digest)) => Requested::Digest(digest),
            (false, None) => Requested::ImageWithoutDigest,
            (true, _) if !self.to.architecture.is_empty() => Requested::Architecture,
            (true, _) => Requested::VersionOnly,
        }
    }

    /// The entries of availableUpdates that a version-only request would be resolved to.
    #[must_use]
    pub fn available_by_version(&self) -> Vec<&'a Offer<'a>> {
        let Some(version) = Version::parse(&self.to.version) else { return vec![] };
        self.status.available_updates.iter().filter(|u| Version::parse(&u.version).as_ref() == Some(&version)).collect()
    }

    /// The digest that will be installed, as far as the request and availableUpdates tell.
    #[must_use]
    pub fn target_digest(&self) -> Option<Digest> {
        match (self.requested(), &self.available_by_version()[..]) {
            (Requested::Digest(digest), _) => Some(digest),
            (Requested::VersionOnly, [only]) => only.digest(),
            _ => None,
        }
    }

    #[must_use]
    pub fn available(&self, digest: Digest) -> Option<&'a Offer<'a>> {
        self.status.available_updates.iter().find(|update| update.digest() == Some(digest))
    }

    #[must_use]
    pub fn conditional(&self, digest: Digest) -> Option<&'a ConditionalUpdate<'a>> {
        self.status.conditional_updates.iter().find(|update| update.release.digest() == Some(digest))
    }

    /// Where the request, or else the update service's offer, says that an image is.
    #[must_use]
    pub fn repository_of(&self, digest: Digest) -> Option<Repository> {
        let requested = Some(&*self.to.image).filter(|image| Digest::of_image(image) == Some(digest));
        let offered = || self.available(digest).map(|offer| &*offer.image);
        let conditional = || self.conditional(digest).map(|update| &*update.release.image);
        let image = requested.or_else(offered).or_else(conditional)?;
        Repository::parse(pullspec::repository(image)?).ok()
    }

    #[must_use]
    pub fn current_release(&self) -> Option<&'a Release> {
        self.catalog.get(self.current_digest?)
    }

    /// Why the catalog cannot say what the running release is, where it knows its digest.
    #[must_use]
    pub fn current_contradiction(&self) -> Option<String> {
        let digest = self.current_digest?;
        match self.catalog.lookup(digest) {
            Lookup::Contradiction(one, other) => Some(format!(
                "{} and {} say different things about the running {digest}",
                shown(&one.name),
                shown(&other.name)
            )),
            _ => None,
        }
    }

    /// Whether the cluster runs a multi release: it says so, or the catalog says so of its digest.
    #[must_use]
    pub fn multi(&self) -> bool {
        &*self.status.desired.architecture == "Multi"
            || self.current_release().is_some_and(Release::multi)
            || self.current_digest.is_some_and(|digest| self.catalog.list_of(digest).is_some())
    }

    /// Whether a release may be offered to this cluster as far as architectures are known.
    #[must_use]
    pub fn fits(&self, release: &Release) -> bool {
        if self.multi() {
            return release.multi();
        }
        match (self.current_release().and_then(Release::single_architecture), release.single_architecture()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (Some(_), None) => !release.multi(),
            (None, _) => true,
        }
    }

    /// The one payload of a version that fits the cluster, or how many there are.
    ///
    /// # Errors
    /// The number of payloads of that version that would fit, when it is not one.
    pub fn one_of_version(&self, version: &Version) -> Result<&'a Release, usize> {
        let fitting: Vec<_> = self.catalog.of_version(version).into_iter().filter(|r| self.fits(r)).collect();
        match fitting[..] {
            [only] => Ok(only),
            _ => Err(fitting.len()),
        }
    }

    /// The rollback candidate, where `digest` is it.
    #[must_use]
    pub fn rollback_to(&self, digest: Digest) -> Option<&'a HistoryEntry<'a>> {
        self.status.rollback_candidate().filter(|entry| entry.digest() == Some(digest))
    }

    /// The command that asks for a release by digest, with the repository this request or the cluster uses.
    #[must_use]
    pub fn command(&self, digest: Digest) -> String {
        let repository = pullspec::repository(&self.to.image)
            .or_else(|| pullspec::repository(&self.status.desired.image))
            .unwrap_or("REPOSITORY");
        format!("oc adm upgrade --allow-explicit-upgrade --to-image {repository}@{digest}")
    }

    /// The step as an override names it.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let target = match self.requested() {
            Requested::Digest(digest) => digest.to_string(),
            Requested::Architecture => format!("{}/{}", &*self.to.version, &*self.to.architecture),
            // Never opened by an override while digest-only is on; named all the same for when it is off.
            Requested::ImageWithoutDigest if self.to.version.is_empty() => self.to.image.to_string(),
            Requested::ImageWithoutDigest | Requested::VersionOnly => self.to.version.to_string(),
        };
        vec![Step { from: from_version(self.status), target }]
    }
}

/// The current version as an override names it.
#[must_use]
pub fn from_version(status: &Status<'_>) -> String {
    if status.desired.version.is_empty() { "unknown".into() } else { status.desired.version.to_string() }
}
