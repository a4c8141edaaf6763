//! `release-identity`: "requested version is the payload's; its architecture fits the cluster's".

use super::catalog::{self, Known};
use super::known::{cluster_is_multi, current_payload, current_version, version_in_history, version_offered};
use super::texts::{digest_of, same_version, version};
use super::upgrade_path::{Payload, guarded, payload, step};
use super::{Finding, Outcome};
use crate::world::World;

pub fn judge(world: &World) -> Vec<Finding> {
    let Some((old, new)) = guarded(world) else { return vec![] };
    let target = &new.target;
    let finding = |asks| vec![Finding::new(asks, &step(target))];
    let digest = match payload(world, old, new) {
        Payload::Digest { digest, .. } => digest,
        // silent: what upgrade-path says of a malformed version leaves the architecture to be compared.
        Payload::Malformed if digest_of(&target.image).is_some() => digest_of(&target.image).unwrap().to_owned(),
        _ => return vec![],
    };
    let known = match catalog::look_up(&world.catalog, &digest) {
        Known::Release(release) => Some(release),
        _ => None,
    };
    // silent: without a payload, what status says of this very digest counts for the version.
    let of_status = version_offered(old, &digest).or_else(|| version_in_history(old, &digest));
    let is = known.as_ref().map(|release| &*release.version).or(of_status);
    // silent: a version alone is not a claim about a payload, it is how the payload was found.
    let stated = version(&target.version).is_some();
    let claimed = stated && !target.image.is_empty();
    match is {
        // "403: version or architecture that is not the payload's"
        Some(is) if stated && !same_version(&target.version, is) => return finding(Outcome::Deny),
        None if claimed => return finding(Outcome::Unknown),
        _ => {}
    }
    let Some(release) = known else { return vec![] };
    let multi = cluster_is_multi(old, &world.catalog);
    let running = current_payload(old, &world.catalog).and_then(|running| running.architecture);
    // "architectures known on both sides and different: deny". Multi to single is upgrade-path's, and one cause is one
    // denial.
    match (running, &release.architecture) {
        (Some(running), Some(payload)) if !multi && *payload != running => {
            if payload != "multi" {
                return finding(Outcome::Deny);
            }
            // Q4, Q5: "single to multi" at the same version; with another one "migrate first, then upgrade".
            match current_version(old) {
                None => finding(Outcome::Unknown),
                Some(current) if same_version(&release.version, current) => vec![],
                Some(_) => finding(Outcome::Deny),
            }
        }
        _ => vec![],
    }
}
