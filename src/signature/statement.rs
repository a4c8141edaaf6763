//! What a release signature says, once it is known that the right key said it: `atomic container signature`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::pullspec::Digest;
use crate::version::Version;

/// What the message states. Its fields mean nothing before the signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub digest: Digest,
    pub reference: Reference,
}

/// `critical.identity.docker-reference`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// As it stands there.
    pub text: String,
    /// Without tag and digest.
    pub repository: String,
    /// What a tag `<version>-<arch>` names; `None` where there is no such tag.
    pub release: Option<SignedRelease>,
}

/// A version and architecture that a tag names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignedRelease {
    pub version: Version,
    /// In Go's names, or `multi`.
    pub architecture: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    critical: Critical,
    #[serde(default, rename = "optional")]
    _optional: Option<Optional>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    r#type: String,
    image: Image,
    identity: Identity,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Optional {
    #[serde(default, rename = "creator")]
    _creator: IgnoredAny,
    #[serde(default, rename = "timestamp")]
    _timestamp: IgnoredAny,
}

impl Statement {
    /// Unknown fields and keys that occur twice are errors, as is anything after the JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let message: Message =
            serde_json::from_slice(json).map_err(|error| format!("its message is no release signature: {error}"))?;
        let Critical { r#type, image, identity } = message.critical;
        if r#type != "atomic container signature" {
            return Err(format!("its type is {type:?}, not \"atomic container signature\""));
        }
        if identity.reference.is_empty() {
            return Err("its docker-reference is empty".into());
        }
        let digest = Digest::parse(&image.digest)
            .ok_or_else(|| format!("its docker-manifest-digest {:?} is no digest", image.digest))?;
        Ok(Self { digest, reference: Reference::parse(identity.reference) })
    }
}

impl Reference {
    fn parse(text: String) -> Self {
        let name = text.split('@').next().unwrap_or_default();
        let (repository, tag) = match name.rsplit_once(':') {
            // A colon before the last slash is a port's.
            Some((repository, tag)) if !tag.contains('/') && !text.contains('@') => (repository, Some(tag)),
            _ => (name, None),
        };
        Self { repository: repository.to_owned(), release: tag.and_then(SignedRelease::of_tag), text }
    }
}

impl SignedRelease {
    /// From `<version>-<arch>` as release tags are written.
    #[must_use]
    pub fn of_tag(tag: &str) -> Option<Self> {
        let (version, architecture) = tag.rsplit_once('-')?;
        let architecture = match architecture {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "ppc64le" => "ppc64le",
            "s390x" => "s390x",
            "multi" => "multi",
            _ => return None,
        };
        Some(Self { version: Version::parse(version)?, architecture })
    }
}

impl std::fmt::Display for SignedRelease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {}", self.version, self.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_is_a_statement() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let good = format!(
            r#"{{"critical":{{"type":"atomic container signature","image":{{"docker-manifest-digest":"{digest}"}},"identity":{{"docker-reference":"q/r:4.19.9-x86_64"}}}},"optional":{{"creator":"x","timestamp":1}}}}"#
        );
        let parsed = Statement::parse(good.as_bytes()).unwrap();
        assert_eq!(parsed.reference.release.unwrap().to_string(), "4.19.9 for amd64");
        assert!(Statement::parse(good.replace(r#","optional":{"creator":"x","timestamp":1}"#, "").as_bytes()).is_ok());
        for (from, to) in [
            ("atomic", "Atomic"),
            (&*digest, "sha256:aa"),
            (&digest, &digest.to_uppercase()),
            ("q/r:4.19.9-x86_64", ""),
            (r#""type""#, r#""more":1,"type""#),
            (r#""creator""#, r#""more":1,"creator""#),
            (r#""optional""#, r#""more":1,"optional""#),
            (r#""type":"atomic container signature""#, r#""type":"x","type":"atomic container signature""#),
            (r#""timestamp":1}}"#, r#""timestamp":1}} x"#),
            (r#""identity""#, r#""identities""#),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(Statement::parse(good.replace(from, to).as_bytes()).is_err(), "{from} -> {to}");
        }
        assert!(Statement::parse(b"").is_err());
    }

    #[test]
    fn a_reference_names_a_release_only_by_its_tag() {
        for (text, repository, release) in [
            ("quay.io/o/r:4.19.0-rc.3-aarch64", "quay.io/o/r", Some("4.19.0-rc.3 for arm64")),
            ("quay.io/o/r:4.19.9-multi", "quay.io/o/r", Some("4.19.9 for multi")),
            ("host:5000/o/r:4.19.9-s390x", "host:5000/o/r", Some("4.19.9 for s390x")),
            ("host:5000/o/r", "host:5000/o/r", None),
            ("quay.io/o/r:4.19.9", "quay.io/o/r", None),
            ("quay.io/o/r:4.19.9-riscv64", "quay.io/o/r", None),
            ("quay.io/o/r:v4.19.9-x86_64", "quay.io/o/r", None),
            ("quay.io/o/r@sha256:ab", "quay.io/o/r", None),
            ("quay.io/o/r:4.19.9-x86_64@sha256:ab", "quay.io/o/r:4.19.9-x86_64", None),
        ] {
            let parsed = Reference::parse(text.into());
            assert_eq!(parsed.repository, repository, "{text}");
            assert_eq!(parsed.release.map(|release| release.to_string()).as_deref(), release, "{text}");
        }
    }
}
