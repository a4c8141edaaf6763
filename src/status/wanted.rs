//! The releases that a cluster names and no source on this site knows: with them read, the screen says more.

use crate::engine::Facts;
use crate::policy::Want;
use crate::pullspec::{Digest, Repository, repository};
use crate::release::Lookup;

/// Conditional updates looked at, the newest first, which is how the update service orders them.
const CONDITIONAL: usize = 20;

/// What runs, what is asked for, what bundles hold and what is offered, each once, without what is known.
#[must_use]
pub fn wanted(facts: Facts<'_>) -> Vec<Want> {
    let cv = facts.cluster.cluster_version.known();
    let status = cv.map(|cv| &cv.status);
    let own = cv.into_iter().flat_map(|cv| [&cv.status.desired.image, &cv.spec.desired_update.image]);
    let iri = facts.cluster.internal_release_image.known();
    let bundles = iri.into_iter().flat_map(|iri| iri.status.releases.iter().map(|entry| &entry.image));
    let offered = status.into_iter().flat_map(|status| {
        let conditional = status.conditional_updates.iter().take(CONDITIONAL).map(|update| &update.release.image);
        status.available_updates.iter().map(|offer| &offer.image).chain(conditional)
    });
    let mut wanted: Vec<Want> = vec![];
    for image in own.chain(bundles).chain(offered) {
        let Some(digest) = Digest::of_image(image) else { continue };
        let missing =
            matches!(facts.catalog.lookup(digest), Lookup::Missing) && facts.catalog.list_of(digest).is_none();
        if missing && !wanted.iter().any(|want| want.digest == digest) {
            let repository = repository(image).and_then(|place| Repository::parse(place).ok());
            wanted.push(Want { digest, repository });
        }
    }
    wanted
}
