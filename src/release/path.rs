//! Stepping stones: how to reach a release in several supported hops out of what is on site.

use std::collections::{HashMap, VecDeque};

use super::{Catalog, Release};
use crate::pullspec::Digest;
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
    // Hops still to go from each release on site, breadth first backwards from the target.
    let candidates: Vec<&Release> = catalog.releases().filter(|release| fits(release)).collect();
    let mut hops: HashMap<Digest, usize> = HashMap::from([(target.digest, 0)]);
    let mut queue = VecDeque::from([target]);
    while let Some(next) = queue.pop_front() {
        let distance = hops.get(&next.digest).map_or(0, |hops| hops + 1);
        for candidate in &candidates {
            if next.lists(&candidate.version) == Some(true) && !hops.contains_key(&candidate.digest) {
                hops.insert(candidate.digest, distance);
                queue.push_back(candidate);
            }
        }
    }
    candidates
        .into_iter()
        .filter(|release| release.version != *current && release.lists(current) == Some(true))
        .filter_map(|release| Some((hops.get(&release.digest).copied().filter(|hops| *hops > 0)?, release)))
        .min_by(|(a, one), (b, other)| {
            a.cmp(b).then(other.version.cmp(&one.version)).then(one.digest.cmp(&other.digest))
        })
        .map(|(_, release)| release)
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
    }
}
