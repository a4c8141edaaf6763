//! Scopes as `registries.conf` has them, and which of them cover a repository.

use std::borrow::Cow;

/// No DNS name is longer; of a longer host no parent domains are looked for.
const HOST_MAX: usize = 255;

/// Every scope that covers `repository` (`HOST[:PORT]/PATH`), the most specific first, with how much of the
/// repository it stands for.
///
/// Segments are never split: `quay.io/ocp` does not cover `quay.io/ocp-release`, nor `quay.io` what is at
/// `quay.io:8443`. `*.example.com` covers the hosts below example.com, on any port.
pub(super) fn covering(repository: &str) -> impl Iterator<Item = (Cow<'_, str>, usize)> {
    let paths = repository.rmatch_indices('/').map(|(end, _)| end);
    let prefixes = std::iter::once(repository.len()).chain(paths);
    let prefixes = prefixes.map(|end| (Cow::Borrowed(&repository[..end]), end));
    prefixes.chain(domains(repository).map(|(domain, end)| (Cow::Owned(format!("*{domain}")), end)))
}

/// `.b.example`, `.example` of `a.b.example:5000/x`, each with the length of the whole host name.
fn domains(repository: &str) -> impl Iterator<Item = (&str, usize)> {
    let host = repository.split(['/', ':']).next().unwrap_or_default();
    let host = if host.len() > HOST_MAX { "" } else { host };
    host.match_indices('.').filter(|(dot, _)| *dot > 0).map(move |(dot, _)| (&host[dot..], host.len()))
}

/// `HOST[:PORT][/PATH]` or `*.HOST`: a star anywhere else makes the machine-config-controller refuse all of it.
pub(super) fn valid(scope: &str) -> bool {
    let rest = scope.strip_prefix("*.");
    !scope.is_empty() && !rest.unwrap_or(scope).contains('*') && rest.is_none_or(|rest| !rest.contains(['/', ':', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_comes_first() {
        let scopes = |repository| covering(repository).map(|(scope, end)| format!("{scope} {end}")).collect::<Vec<_>>();
        assert_eq!(
            scopes("a.b.example:5000/ns/repo"),
            [
                "a.b.example:5000/ns/repo 24",
                "a.b.example:5000/ns 19",
                "a.b.example:5000 16",
                "*.b.example 11",
                "*.example 11"
            ]
        );
        assert_eq!(scopes("[fd00::1]:5000/x"), ["[fd00::1]:5000/x 16", "[fd00::1]:5000 14"]);
        assert_eq!(scopes("localhost/x"), ["localhost/x 11", "localhost 9"]);
        assert_eq!(covering(&format!("{}/x", "a.".repeat(200_000))).count(), 2, "bounded");
    }

    #[test]
    fn a_star_stands_at_the_front_only() {
        for (scope, expected) in [
            ("quay.io", true),
            ("quay.io:443/a/b", true),
            ("*.example.com", true),
            ("", false),
            ("*", false),
            ("a.*.b", false),
            ("*.a.*.b", false),
            ("*.a/b", false),
            ("*.a:5000", false),
            ("*a.b", false),
        ] {
            assert_eq!(valid(scope), expected, "{scope}");
        }
    }
}
