//! Versions as OpenShift compares them: SemVer without build metadata, equality only.
//!
//! Invariant: nothing here orders two versions to reach a verdict. Membership in a release's
//! `previous` is equality; order is offered for display and for ties between stepping stones.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A SemVer version such as `4.19.9`, `4.19.0-rc.3` or `4.20.0-0.nightly-2025-07-14-093021`.
///
/// Equality, hash and order leave build metadata out (as the CVO's SemVer library does, and
/// unlike [`semver::Version`]'s own equality).
#[derive(Clone, Debug)]
pub struct Version(semver::Version);

impl Version {
    /// Parses exactly; no `v` prefix, no blanks, three numbers. `None` is "not SemVer".
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        semver::Version::parse(text).ok().map(Self)
    }

    /// `(major, minor)`, what a z-stream rollback must share.
    #[must_use]
    pub fn minor(&self) -> (u64, u64) {
        (self.0.major, self.0.minor)
    }
}

/// Whether two texts are the same, or are versions that are equal.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    // Equal versions differ in their build metadata at most, so hardly any pair has to be parsed.
    let alike = a.split('+').next() == b.split('+').next();
    a == b || (alike && Version::parse(a).is_some_and(|a| Some(a) == Version::parse(b)))
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.major, self.0.minor, self.0.patch).hash(state);
        self.0.pre.hash(state);
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_leaves_build_metadata_out_and_nothing_else() {
        for (a, b, same) in [
            ("4.19.9", "4.19.9", true),
            ("4.19.9", "4.19.9+amd64", true),
            ("4.9.0", "4.10.0", false),
            ("4.19.0-rc.3", "4.19.0", false),
            ("4.19.0-rc.3", "4.19.0-rc.3+x", true),
            ("5.0.0", "4.22.0", false),
        ] {
            assert_eq!(Version::parse(a) == Version::parse(b), same, "{a} {b}");
        }
    }

    #[test]
    fn texts_of_one_version() {
        for (a, b, expected) in [
            ("4.19.9", "4.19.9+amd64", true),
            ("4.19.9+x", "4.19.9+y", true),
            ("4.19.9", "4.19.90", false),
            ("latest", "latest", true),
            ("latest+x", "latest+y", false),
            ("", "+x", false),
        ] {
            assert_eq!((same(a, b), same(b, a)), (expected, expected), "{a} {b}");
        }
    }

    #[test]
    fn refuses_what_is_not_semver() {
        for text in ["", "4.19", "v4.19.9", " 4.19.9", "4.19.9 ", "4.019.9", "4.19.9\n", "４.19.9", "latest"] {
            assert!(Version::parse(text).is_none(), "{text:?}");
        }
    }
}
