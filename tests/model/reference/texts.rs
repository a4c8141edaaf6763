//! Versions, digests and pullspecs, read by hand.

/// SemVer's core and prerelease, build metadata left out ("SemVer equality without build metadata").
pub fn version(text: &str) -> Option<&str> {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let identifier = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = |part: &str| digits(part) && part.len() > 1 && part.starts_with('0');
    let numbers: Vec<_> = core.split('.').collect();
    let good = numbers.len() == 3
        && numbers.iter().all(|part| digits(part) && !leading_zero(part))
        && pre.is_none_or(|pre| pre.split('.').all(|part| identifier(part) && !leading_zero(part)))
        && build.is_none_or(|build| build.split('.').all(identifier));
    good.then_some(rest)
}

/// Whether two texts are one version; what is no version equals nothing.
pub fn same_version(a: &str, b: &str) -> bool {
    version(a).is_some() && version(a) == version(b)
}

/// `4.19` of `4.19.9-rc.1`.
pub fn minor(text: &str) -> Option<(&str, &str)> {
    let mut parts = version(text)?.split('.');
    Some((parts.next()?, parts.next()?))
}

fn is_digest(text: &str) -> bool {
    let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(lower_hex))
}

/// The digest that an image ends in. "An all-zero or missing digest is unknown."
pub fn digest_of(image: &str) -> Option<&str> {
    let (_, digest) = image.rsplit_once('@')?;
    (is_digest(digest) && digest.bytes().skip(7).any(|b| b != b'0')).then_some(digest)
}

/// `HOST[:PORT]/PATH@sha256:<64 lower-case hex>` and nothing else. Only for the few repositories that worlds have:
/// whether a repository is well-formed is looked up, not parsed.
pub fn digest_pullspec(image: &str) -> bool {
    let Some((repository, digest)) = image.split_once('@') else { return false };
    crate::generate::GOOD_REPOSITORIES.contains(&repository)
        && !digest.contains('@')
        && digest_of(&format!("@{digest}")).is_some()
}
