//! Stepping stones: how to reach a release in several supported hops out of what is on site.

use super::{Catalog, Release};
use crate::version::Version;

/// The first hop from `current` on a shortest way to `target` through releases of the catalog.
///
/// Of equally short ways the one whose first hop has the highest version. `fits` leaves out what
/// the cluster cannot run. `None` where there is no way of at least two hops.
#[must_use]
pub fn stepping_stone<'a>(
    catalog: &'a Catalog,
    current: &Version,
    target: &Release,
    fits: impl Fn(&Release) -> bool,
) -> Option<&'a Release> {
    // Backwards from the target, all releases that are one hop further away at a time.
    let mut unreached: Vec<&Release> =
        catalog.releases().filter(|release| release.digest != target.digest && fits(release)).collect();
    let mut reached = vec![target];
    while !reached.is_empty() {
        let leads_on = |candidate: &&Release| reached.iter().any(|next| next.lists(&candidate.version) == Some(true));
        let (further, rest): (Vec<_>, Vec<_>) = unreached.into_iter().partition(leads_on);
        let can_be_first = |release: &&&Release| release.version != *current && release.lists(current) == Some(true);
        let best = further
            .iter()
            .filter(can_be_first)
            .max_by(|one, other| one.version.cmp(&other.version).then(other.digest.cmp(&one.digest)));
        if let Some(best) = best {
            return Some(best);
        }
        (reached, unreached) = (further, rest);
    }
    None
}

/// The whole way, hop by hop, from `current` to `target`, which is the last; `None` where there is none.
/// Each hop is the one that [`stepping_stone`] names.
#[must_use]
pub fn route<'a>(
    catalog: &'a Catalog,
    current: &Version,
    target: &'a Release,
    fits: impl Fn(&Release) -> bool,
) -> Option<Vec<&'a Release>> {
    let mut hops: Vec<&Release> = vec![];
    // Every hop is on a shortest way, so there are no more than releases.
    while hops.len() <= catalog.len() {
        let from = hops.last().map_or(current, |hop| &hop.version);
        if target.lists(from) == Some(true) {
            hops.push(target);
            return Some(hops);
        }
        hops.push(stepping_stone(catalog, from, target, &fits)?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{digest, release};
    use super::*;

    #[test]
    fn fewest_hops_then_the_highest_version() {
        let catalog = || {
            [
                release("4.18.20", 'a', &["4.18.12"]),
                release("4.18.19", 'b', &["4.18.12"]),
                release("4.18.21", 'c', &["4.18.20"]),
                release("4.19.9", 'd', &["4.18.19", "4.18.20", "4.18.21"]),
                release("4.20.1", 'e', &["4.19.9"]),
                release("4.21.0", 'f', &["4.20.7"]),
            ]
        };
        let arm = Release { architecture: Some("arm64".into()), ..release("4.18.29", '1', &["4.18.12"]) };
        let mut to_arm = release("4.19.9", 'd', &["4.18.19", "4.18.20", "4.18.29"]);
        to_arm.digest = digest('2');
        let catalog = Catalog::new(catalog().into_iter().chain([arm, to_arm]));
        for (from, to, expected) in [
            ("4.18.12", 'd', Some("4.18.20")),
            ("4.18.12", '2', Some("4.18.20")),
            ("4.18.12", 'e', Some("4.18.20")),
            ("4.18.20", 'e', Some("4.19.9")),
            ("4.18.12", 'f', None),
            ("4.17.1", 'd', None),
            ("4.18.20", 'd', Some("4.18.21")),
        ] {
            let from = Version::parse(from).unwrap();
            let target = catalog.get(digest(to)).unwrap();
            let stone = stepping_stone(&catalog, &from, target, |r| r.single_architecture() == Some("amd64"));
            assert_eq!(stone.map(|r| r.version.to_string()).as_deref(), expected, "{from} to {to}");
        }
        let amd64 = |r: &Release| r.single_architecture() == Some("amd64");
        for (from, to, expected) in [
            ("4.18.12", 'e', Some("4.18.20 4.19.9 4.20.1")),
            ("4.18.12", 'a', Some("4.18.20")),
            ("4.19.9", 'e', Some("4.20.1")),
            ("4.18.12", 'f', None),
        ] {
            let target = catalog.get(digest(to)).unwrap();
            let route = route(&catalog, &Version::parse(from).unwrap(), target, amd64);
            let route = route.map(|hops| hops.iter().map(|hop| hop.version.to_string()).collect::<Vec<_>>().join(" "));
            assert_eq!(route.as_deref(), expected, "{from} to {to}");
        }
    }
}
