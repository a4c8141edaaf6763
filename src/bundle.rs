//! Release bundles of an InternalReleaseImage and the releases they hold (settled questions 8 and 9).

use crate::objects::internal_release_image::{InternalReleaseImage, MachineConfigNode};
use crate::pullspec::Digest;
use crate::release::Catalog;
use crate::retain::Kept;
use crate::version::Version;

const PREFIX: &str = "ocp-release-bundle-";
/// Names are cut at this length by whoever makes them, and by the CRD.
const NAME_MAX: usize = 64;
const SUFFIXES: [&str; 6] = ["", "-x86_64", "-aarch64", "-ppc64le", "-s390x", "-multi"];
/// How OpenShift prereleases of a version go on.
const PRERELEASES: [&str; 3] = ["ec.", "rc.", "0."];

/// A bundle by its identifier, with every digest that somebody reports for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub name: String,
    pub digests: Vec<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Same,
    Different,
    /// Neither digest nor name decides.
    Unknown,
}

/// Every bundle that the object's spec or status or any node names, in that order.
#[must_use]
pub fn all(iri: &InternalReleaseImage<'_>, nodes: &[MachineConfigNode<'_>]) -> Vec<Bundle> {
    let mut names: Vec<&str> = vec![];
    let listed = iri.spec.releases.iter().chain(&iri.status.releases);
    let reported = nodes.iter().flat_map(|node| &node.status.internal_release_image.releases);
    for entry in listed.chain(reported) {
        if !names.contains(&&*entry.name) {
            names.push(&entry.name);
        }
    }
    names.into_iter().map(|name| Bundle::named(name, iri, nodes)).collect()
}

impl Bundle {
    /// The bundle with the digests that IRI status and every node report for it. The all-zero
    /// placeholder is no digest.
    #[must_use]
    pub fn named(name: &str, iri: &InternalReleaseImage<'_>, nodes: &[MachineConfigNode<'_>]) -> Self {
        let reported = nodes.iter().flat_map(|node| &node.status.internal_release_image.releases);
        let mut digests: Vec<Digest> = vec![];
        for entry in iri.status.releases.iter().chain(reported).filter(|entry| &*entry.name == name) {
            match Digest::of_image(&entry.image) {
                Some(digest) if !digests.contains(&digest) => digests.push(digest),
                _ => {}
            }
        }
        Self { name: name.to_owned(), digests }
    }

    /// Whether this bundle holds that release: by digest or by name, the union.
    #[must_use]
    pub fn holds(&self, kept: &Kept, catalog: &Catalog) -> Match {
        let by_digest = kept.digest.is_some_and(|kept| self.digests.iter().any(|d| catalog.same_release(*d, kept)));
        let version = Version::parse(&kept.version);
        let by_catalog = self
            .digests
            .iter()
            .filter_map(|d| catalog.get(*d))
            .any(|release| Some(&release.version) == version.as_ref());
        if by_digest || by_catalog || self.is_named_for(&kept.version) {
            return Match::Same;
        }
        if kept.digest.is_some() && !self.digests.is_empty() {
            return Match::Different;
        }
        self.name_decides(kept)
    }

    #[must_use]
    pub fn is_named_for(&self, version: &str) -> bool {
        let Some(named) = self.name.strip_prefix(PREFIX) else { return false };
        if version.is_empty() || self.name.len() > NAME_MAX {
            return false;
        }
        let is_cut = self.name.len() == NAME_MAX;
        match named.strip_prefix(version) {
            Some(rest) => SUFFIXES.iter().any(|suffix| *suffix == rest || (is_cut && suffix.starts_with(rest))),
            None => is_cut && version.starts_with(named),
        }
    }

    fn name_decides(&self, kept: &Kept) -> Match {
        if Version::parse(&kept.version).is_none() {
            return Match::Unknown;
        }
        let Some(named) = self.name.strip_prefix(PREFIX).filter(|rest| starts_with_version(rest)) else {
            return Match::Unknown;
        };
        let Some(rest) = named.strip_prefix(&*kept.version) else { return Match::Different };
        // 4.22.10 does not continue 4.22.1, 4.22.0-rc.1 is another release than 4.22.0; anything else that
        // goes on from the version may be the same release under a name nobody here knows.
        let other_number = rest.starts_with(|c: char| c.is_ascii_digit());
        let prerelease = rest.strip_prefix('-').is_some_and(|rest| PRERELEASES.iter().any(|pre| rest.starts_with(pre)));
        if other_number || prerelease { Match::Different } else { Match::Unknown }
    }
}

/// The bundles among `bundles` that hold `kept`. On its first sync MCO writes the current image for every
/// bundle: where several report one digest and some are named for the release, only those hold it.
#[must_use]
pub fn holding<'b>(bundles: &'b [Bundle], kept: &Kept, catalog: &Catalog) -> Vec<(&'b Bundle, Match)> {
    let found: Vec<_> = bundles
        .iter()
        .map(|bundle| (bundle, bundle.holds(kept, catalog)))
        .filter(|(_, m)| *m != Match::Different)
        .collect();
    let copied = found.len() > 1
        && found.iter().all(|(bundle, matched)| !bundle.digests.is_empty() && *matched == Match::Same)
        && found.windows(2).all(|pair| pair[0].0.digests == pair[1].0.digests);
    let named = |bundle: &Bundle| bundle.is_named_for(&kept.version);
    if copied && found.iter().any(|(bundle, _)| named(bundle)) {
        return found.into_iter().filter(|(bundle, _)| named(bundle)).collect();
    }
    found
}

fn starts_with_version(text: &str) -> bool {
    let mut numbers = text.splitn(3, '.');
    let number = |part: Option<&str>| part.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    number(numbers.next())
        && number(numbers.next())
        && numbers.next().is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::{digest, release};

    fn check(name: &str, digests: &[char], version: &str, kept: Option<char>, expected: Match) {
        let bundle = Bundle { name: name.into(), digests: digests.iter().map(|c| digest(*c)).collect() };
        let kept = Kept { version: version.into(), digest: kept.map(digest), holders: vec![] };
        let mut list = release("4.22.9", 'e', &[]);
        list.shards = vec![digest('f')];
        let catalog = Catalog::new([list]);
        assert_eq!(bundle.holds(&kept, &catalog), expected, "{name} {digests:?} and {version} {:?}", kept.digest);
    }

    #[test]
    fn digest_or_version_never_prefix() {
        use Match::{Different, Same, Unknown};
        check("ocp-release-bundle-4.22.1-x86_64", &['a'], "4.22.1", Some('a'), Same);
        check("ocp-release-bundle-4.22.1-x86_64", &['b'], "4.22.1", Some('a'), Same);
        check("ocp-release-bundle-4.22.2-x86_64", &['a'], "4.22.1", Some('a'), Same);
        check("ocp-release-bundle-4.22.2-x86_64", &['b'], "4.22.1", Some('a'), Different);
        check("ocp-release-bundle-4.22.9-x86_64", &['f'], "4.22.8", Some('e'), Same);
        check("ocp-release-bundle-x-1", &['f'], "4.22.9", None, Unknown);
        check("ocp-release-bundle-x-1", &['e'], "4.22.9", None, Same);
    }

    #[test]
    fn without_digests_the_name_decides() {
        use Match::{Different, Same, Unknown};
        for (name, version, expected) in [
            ("ocp-release-bundle-4.22.1", "4.22.1", Same),
            ("ocp-release-bundle-4.22.1-multi", "4.22.1", Same),
            ("ocp-release-bundle-4.22.10-x86_64", "4.22.1", Different),
            ("ocp-release-bundle-4.22.0-rc.1-x86_64", "4.22.0", Different),
            ("ocp-release-bundle-4.22.0-rc.1-x86_64", "4.22.0-rc.1", Same),
            ("ocp-release-bundle-4.22.0-rc.10-x86_64", "4.22.0-rc.1", Different),
            ("ocp-release-bundle-4.22.0-ec.3-x86_64", "4.22.0", Different),
            ("ocp-release-bundle-4.22.1-custom", "4.22.1", Unknown),
            ("ocp-release-bundle-4.22.1-X86_64", "4.22.1", Unknown),
            ("ocp-release-bundle-4.22.1_x86_64", "4.22.1", Unknown),
            ("ocp-release-bundle-4.23.0-x86_64", "4.22.1", Different),
            ("ocp-release-bundle-latest", "4.22.1", Unknown),
            ("something-else", "4.22.1", Unknown),
            ("ocp-release-bundle-4.22.1-x86_64", "", Unknown),
            ("ocp-release-bundle-4.14.0-0.nightly-2025-11-23-025204", "4.14.0-0.nightly-2025-11-23-025204", Same),
            ("ocp-release-bundle-4.14.0-0.nightly-2025-11-23-025204", "4.14.0", Different),
        ] {
            check(name, &[], version, Some('a'), expected);
        }
        let long = format!("4.22.0-0.nightly-{}", "2".repeat(60));
        let name: String = format!("ocp-release-bundle-{long}-x86_64").chars().take(64).collect();
        check(&name, &[], &long, None, Same);
    }
}
