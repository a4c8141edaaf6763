//! Pullspecs and digests: the strict form airgate demands and the lenient reading of stored values.

use std::fmt;

/// A sha256 digest, `sha256:` and 64 lower-case hex digits. The all-zero placeholder that MCO
/// writes while api-int is down is never a `Digest`: it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// `None` for any other algorithm, length or letter case, and for the all-zero placeholder.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = hex32(text.strip_prefix("sha256:")?)?;
        (bytes != [0; 32]).then_some(Self(bytes))
    }

    /// The sha256 that was computed of some bytes; `None` for the all-zero placeholder.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        (bytes != [0; 32]).then_some(Self(bytes))
    }

    /// The 64 hex digits, as file names have them.
    #[must_use]
    pub fn hex(&self) -> String {
        self.to_string().split_off("sha256:".len())
    }

    /// The digest a stored image field names, whatever stands before it: the text after the last
    /// `@`. Stored values may be old and bad, so this is lenient where [`Pullspec::parse`] is not.
    #[must_use]
    pub fn of_image(image: &str) -> Option<Self> {
        Self::parse(image.rsplit_once('@')?.1)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn hex32(text: &str) -> Option<[u8; 32]> {
    let nibble = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// `HOST[:PORT]/PATH@sha256:<64 lower-case hex>` and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pullspec<'a> {
    /// `HOST[:PORT]/PATH`
    pub repository: &'a str,
    pub digest: Digest,
}

/// Where a registry keeps images: `HOST[:PORT]` and the path after it. Mirrors are such places too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    /// `HOST[:PORT]`, as it was written.
    pub host: String,
    /// Without a slash at either end.
    pub path: String,
}

impl Repository {
    /// # Errors
    /// The first [`Fault`]: no host, a bad host or path. A tag or digest is not looked for.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        check_repository(text)?;
        let (host, path) = text.split_once('/').ok_or(Fault::NoHost)?;
        Ok(Self { host: host.to_owned(), path: path.to_owned() })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

/// Why a text is not such a pullspec; the display form completes "... because it ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("names a tag, and a tag can be moved to another image")]
    Tag,
    #[error("names neither a tag nor a digest, which means the tag latest")]
    Bare,
    #[error("has a colon where an @ must stand before the digest")]
    ColonBeforeDigest,
    #[error("has a tag beside the digest")]
    TagBesideDigest {
        /// The same pullspec without the tag.
        without: String,
    },
    #[error("has a digest that is not by sha256, the only algorithm that releases and their signatures use")]
    Algorithm,
    #[error("has a digest of {0} characters after sha256:, where 64 are needed")]
    DigestLength(usize),
    #[error("has a digest with other characters than 0-9 and a-f (lower-case)")]
    DigestLetters,
    #[error("has the all-zero placeholder digest, which is no image")]
    ZeroDigest,
    #[error("has more than one @")]
    TwoDigests,
    #[error("has no registry host before the first slash")]
    NoHost,
    #[error("has a registry host that is not a host name or IP address with an optional port")]
    Host,
    #[error("has a repository path that is not lower-case letters, digits and single separators")]
    Path,
    #[error("has a repository path of more than 255 characters")]
    TooLong,
    #[error("has a blank or control character at position {0}")]
    Blank(usize),
    #[error("has a character that is not ASCII at position {0} (U+{1:04X})")]
    NotAscii(usize, u32),
}

impl<'a> Pullspec<'a> {
    /// Grammar: the distribution reference grammar with the host required.
    ///
    /// # Errors
    /// The first [`Fault`] a person would want to hear about.
    pub fn parse(text: &'a str) -> Result<Self, Fault> {
        for (position, letter) in text.chars().enumerate() {
            if letter.is_whitespace() || letter.is_control() {
                return Err(Fault::Blank(position + 1));
            }
            if !letter.is_ascii() {
                return Err(Fault::NotAscii(position + 1, u32::from(letter)));
            }
        }
        let Some((name, digest)) = text.split_once('@') else {
            return Err(without_digest(text));
        };
        if digest.contains('@') {
            return Err(Fault::TwoDigests);
        }
        let parsed = Digest::parse(digest).ok_or_else(|| digest_fault(digest))?;
        let (repository, tag) = split_tag(name);
        check_repository(repository)?;
        if tag.is_some() {
            return Err(Fault::TagBesideDigest { without: format!("{repository}@{digest}") });
        }
        Ok(Self { repository, digest: parsed })
    }
}

/// The repository of any image text, for building a command: what stands before the digest and tag,
/// where that is a well-formed `HOST[:PORT]/PATH`.
#[must_use]
pub fn repository(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let repository = split_tag(name).0;
    check_repository(repository).ok().map(|()| repository)
}

fn without_digest(text: &str) -> Fault {
    match split_tag(text).1 {
        Some(tag) if hex32(tag).is_some() => Fault::ColonBeforeDigest,
        Some(_) => Fault::Tag,
        None => Fault::Bare,
    }
}

fn digest_fault(digest: &str) -> Fault {
    match digest.strip_prefix("sha256:") {
        None => Fault::Algorithm,
        Some(hex) if hex.len() != 64 => Fault::DigestLength(hex.len()),
        Some(hex) if hex32(hex).is_some() => Fault::ZeroDigest,
        Some(_) => Fault::DigestLetters,
    }
}

fn split_tag(name: &str) -> (&str, Option<&str>) {
    // A colon after the last slash is a tag; before it, a port (or part of an IPv6 host).
    match name.rfind(':') {
        Some(colon) if !name[colon..].contains(['/', ']']) => (&name[..colon], Some(&name[colon + 1..])),
        _ => (name, None),
    }
}

fn check_repository(repository: &str) -> Result<(), Fault> {
    let (host, path) = repository.split_once('/').ok_or(Fault::NoHost)?;
    // As the reference grammar tells a host from a first path component.
    let is_host = host.contains(['.', ':', '[']) || host == "localhost" || host.bytes().any(|b| b.is_ascii_uppercase());
    if !is_host {
        return Err(Fault::NoHost);
    }
    if !valid_host(host) {
        return Err(Fault::Host);
    }
    if path.len() > 255 {
        return Err(Fault::TooLong);
    }
    if path.split('/').all(valid_component) { Ok(()) } else { Err(Fault::Path) }
}

fn valid_host(host: &str) -> bool {
    let port_ok = |port: &str| !port.is_empty() && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else { return false };
        let after_ok = after.is_empty() || after.strip_prefix(':').is_some_and(port_ok);
        return address.parse::<std::net::Ipv6Addr>().is_ok() && after_ok;
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let label_ok = |label: &str| {
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    name.split('.').all(label_ok) && port.is_none_or(port_ok)
}

/// `[a-z0-9]+` runs joined by one `.`, one or two `_`, or any number of `-`.
fn valid_component(component: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|b| b.is_some_and(alnum));
    ends && bytes
        .split(alnum)
        .filter(|run| !run.is_empty())
        .all(|run| matches!(run, b"." | b"_" | b"__") || run.iter().all(|b| *b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "3f2a5c1d9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a29";

    fn check(text: &str, expected: Result<&str, Fault>) {
        let text = text.replace("{D}", &format!("sha256:{HEX}"));
        assert_eq!(Pullspec::parse(&text).map(|spec| spec.repository), expected, "{text:?}");
    }

    #[test]
    fn accepts_digest_pullspecs_only() {
        check("quay.io/openshift-release-dev/ocp-release@{D}", Ok("quay.io/openshift-release-dev/ocp-release"));
        check("registry.example:5000/ocp/release@{D}", Ok("registry.example:5000/ocp/release"));
        check("[fd00::1]:5000/ocp/release@{D}", Ok("[fd00::1]:5000/ocp/release"));
        check("[fd00::1]/ocp@{D}", Ok("[fd00::1]/ocp"));
        check("MIRROR.Example/ocp@{D}", Ok("MIRROR.Example/ocp"));
        check("localhost/a__b/c---d/e.f@{D}", Ok("localhost/a__b/c---d/e.f"));
    }

    #[test]
    fn names_the_fault() {
        check("quay.io/ocp/release:4.19.9-x86_64", Err(Fault::Tag));
        check("registry.example:5000/ocp/release", Err(Fault::Bare));
        check("bar", Err(Fault::Bare));
        let without = format!("quay.io:443/ocp/release@sha256:{HEX}");
        check("quay.io:443/ocp/release:4.19.9@{D}", Err(Fault::TagBesideDigest { without }));
        check(&format!("quay.io/ocp/release:sha256:{HEX}"), Err(Fault::ColonBeforeDigest));
        check(&format!("sha256:{HEX}"), Err(Fault::ColonBeforeDigest));
        check("quay.io/ocp@sha256:3F2A", Err(Fault::DigestLength(4)));
        check(&format!("quay.io/ocp@sha256:{}", HEX.to_uppercase()), Err(Fault::DigestLetters));
        check(&format!("quay.io/ocp@sha512:{HEX}{HEX}"), Err(Fault::Algorithm));
        check(&format!("quay.io/ocp@SHA256:{HEX}"), Err(Fault::Algorithm));
        check(&format!("quay.io/ocp@sha256:{HEX}0"), Err(Fault::DigestLength(65)));
        check(&format!("quay.io/ocp@sha256:{}", "0".repeat(64)), Err(Fault::ZeroDigest));
        check("quay.io/ocp@{D}@{D}", Err(Fault::TwoDigests));
        check("ocp/release@{D}", Err(Fault::NoHost));
        check("release@{D}", Err(Fault::NoHost));
        check("@{D}", Err(Fault::NoHost));
        check("quay.io//release@{D}", Err(Fault::Path));
        check("quay.io/Release@{D}", Err(Fault::Path));
        check(&format!("quay.io/{}@{{D}}", "a".repeat(256)), Err(Fault::TooLong));
        check("quay.io/r\u{435}lease@{D}", Err(Fault::NotAscii(10, 0x435))); // a Cyrillic letter
        check("quay.io/release\u{ff20}{D}", Err(Fault::NotAscii(16, 0xff20))); // a full-width @
        check("quay.io:x/release@{D}", Err(Fault::Host));
        check("[fd00::zz]:5000/ocp@{D}", Err(Fault::Host));
        check("https://quay.io/ocp@{D}", Err(Fault::Host));
        check("docker://quay.io/ocp@{D}", Err(Fault::Host));
        check(" quay.io/ocp@{D}", Err(Fault::Blank(1)));
        check("quay.io/ocp@{D}\n", Err(Fault::Blank(84)));
    }

    #[test]
    fn reads_stored_images_leniently() {
        let digest = Digest::parse(&format!("sha256:{HEX}"));
        assert!(digest.is_some());
        for (image, expected) in [
            (format!("quay.io/x:tag@sha256:{HEX}"), digest),
            (format!("localhost:22625/openshift/release-images@sha256:{HEX}"), digest),
            (format!("quay.io/x@sha256:{}", "0".repeat(64)), None),
            ("quay.io/x:4.22.1".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(Digest::of_image(&image), expected, "{image}");
        }
        assert_eq!(repository("registry.example:5000/ocp/release:4.19"), Some("registry.example:5000/ocp/release"));
        assert_eq!(repository("4.19.9"), None);
    }
}
