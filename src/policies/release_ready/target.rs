//! Which bundle of the InternalReleaseImage a step goes to.

use crate::bundle::{self, Bundle, Match};
use crate::objects::internal_release_image::{BundleEntry, InternalReleaseImage, MachineConfigNode};
use crate::pullspec::Digest;
use crate::release::Catalog;
use crate::retain::Kept;
use crate::text::shown;
use crate::upgrade::{Requested, Upgrade};
use crate::version::Version;

/// The release asked for, and what holds it.
pub(super) struct Target<'c> {
    release: Kept,
    /// Never empty.
    bundles: Vec<Bundle>,
    certain: bool,
    catalog: &'c Catalog,
}

/// Whether the step goes to the release that runs: nothing is pulled for it.
pub(super) fn same_release(upgrade: &Upgrade<'_>) -> bool {
    match upgrade.target_digest() {
        Some(digest) => upgrade.current_digest == Some(digest),
        None => {
            upgrade.requested() == Requested::VersionOnly
                && upgrade.current.is_some()
                && Version::parse(&upgrade.to.version) == upgrade.current
        }
    }
}

impl<'c> Target<'c> {
    /// `None` where the InternalReleaseImage does not hold it. What only a node names, such as a bundle that is
    /// mounted and was never added, is not held.
    pub fn of(
        upgrade: &Upgrade<'_>,
        iri: &InternalReleaseImage<'_>,
        reported: &[MachineConfigNode<'_>],
        catalog: &'c Catalog,
    ) -> Option<Self> {
        let digest = upgrade.target_digest();
        let release = Kept { version: version(upgrade, digest, catalog), digest, holders: vec![] };
        let mut held: Vec<Bundle> = vec![];
        for entry in iri.spec.releases.iter().chain(&iri.status.releases) {
            if held.iter().all(|bundle| bundle.name != *entry.name) {
                held.push(Bundle::named(&entry.name, iri, reported));
            }
        }
        if upgrade.requested() == Requested::Architecture {
            // Multi at the current version: a bundle of one architecture has the version too, and another payload.
            held.retain(|bundle| bundle.name.ends_with("-multi"));
        }
        let found = bundle::holding(&held, &release, catalog);
        let certain = found.iter().any(|(_, matched)| *matched == Match::Same);
        let wanted = if certain { Match::Same } else { Match::Unknown };
        let bundles: Vec<Bundle> =
            found.into_iter().filter(|(_, matched)| *matched == wanted).map(|(bundle, _)| bundle.clone()).collect();
        (!bundles.is_empty()).then_some(Self { release, bundles, certain, catalog })
    }

    pub fn digest(&self) -> Option<Digest> {
        self.release.digest
    }

    /// Whether it is known that the bundle holds the release asked for.
    pub fn certain(&self) -> bool {
        self.certain
    }

    /// The bundle as a message names it.
    pub fn name(&self) -> String {
        shown(&self.bundles[0].name).into_owned()
    }

    /// What remains open when something is missing.
    pub fn unjudged(&self) -> String {
        if self.certain {
            return format!("whether {} is ready on every control-plane node cannot be judged", self.name());
        }
        format!(
            "neither a digest nor its name says whether {} is the release asked for, and whether it is ready on every \
             control-plane node cannot be judged",
            self.name()
        )
    }

    /// Whether what a node lists is this release.
    pub fn is(&self, entry: &BundleEntry<'_>) -> Match {
        if self.bundles.iter().any(|bundle| bundle.name == *entry.name) {
            return Match::Same;
        }
        let digests = Digest::of_image(&entry.image).into_iter().collect();
        Bundle { name: entry.name.to_string(), digests }.holds(&self.release, self.catalog)
    }
}

/// What is known of the version that will be installed, without build metadata, which bundle names do not have; empty
/// where nothing is.
fn version(upgrade: &Upgrade<'_>, digest: Option<Digest>, catalog: &Catalog) -> String {
    let of_digest = |digest: Digest| {
        let offered = || {
            let available = upgrade.available(digest).map(|offer| offer.version.to_string());
            let conditional = || upgrade.conditional(digest).map(|update| update.release.version.to_string());
            available.or_else(conditional)
        };
        let ran = || {
            let entry = upgrade.status.history.iter().find(|entry| entry.digest() == Some(digest));
            entry.map(|entry| entry.version.to_string())
        };
        let read = catalog.get(digest).map(|release| release.version.to_string());
        read.or_else(offered).or_else(ran).filter(|version| Version::parse(version).is_some())
    };
    let version = digest.and_then(of_digest).unwrap_or_else(|| upgrade.to.version.to_string());
    version.split('+').next().unwrap_or_default().to_owned()
}
