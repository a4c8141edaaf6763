//! ConfigMaps of `openshift-config-managed` that hold release signatures, or the keys that verify them.
//!
//! Signatures stand in `binaryData` under `sha256-<hex>`, with anything after it: tools count up over releases.
//! Keys stand in `data`; the CVO reads none from `binaryData`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{IntoOwned, Str, nullable};
use crate::pullspec::Digest;

/// What ConfigMaps with keys call each of them, before a name.
pub const KEY_PREFIX: &str = "verifier-public-key-";
/// What a ConfigMap with signatures is labelled with.
pub const LABEL: &str = "release.openshift.io/verification-signatures";

/// The key in `binaryData`, the digest it begins with, the signature.
pub type Entry = (String, Digest, Arc<[u8]>);

/// What airgate keeps of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReleaseConfigMap {
    pub name: String,
    /// Whether it is labelled as one with signatures.
    pub labelled: bool,
    /// `verifier-public-key-*` and what stands there.
    pub keys: Vec<(String, String)>,
    /// In the order of the keys.
    pub signatures: Vec<Entry>,
}

/// As the API server writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ConfigMap<'a> {
    #[serde(borrow, deserialize_with = "super::object")]
    metadata: Labelled<'a>,
    #[serde(deserialize_with = "nullable")]
    data: BTreeMap<Str<'a>, Str<'a>>,
    #[serde(deserialize_with = "signatures")]
    binary_data: Vec<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Labelled<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(deserialize_with = "nullable")]
    labels: BTreeMap<Str<'a>, Str<'a>>,
}

fn signatures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Entry>, D::Error> {
    let entries: Option<BTreeMap<Str<'de>, Str<'de>>> = Option::deserialize(deserializer)?;
    let entries = entries.into_iter().flatten().filter_map(|(key, value)| Some((digest_of(&key)?, key, value)));
    entries
        .map(|(digest, key, value)| {
            let bytes = STANDARD.decode(&*value.0).map_err(|error| D::Error::custom(format_args!("{key}: {error}")))?;
            Ok((key.to_string(), digest, bytes.into()))
        })
        .collect()
}

/// The digest that a key of a signature begins with.
fn digest_of(key: &str) -> Option<Digest> {
    let hex = key.strip_prefix("sha256-")?.get(..64)?;
    Digest::parse(&format!("sha256:{hex}"))
}

impl IntoOwned for ConfigMap<'_> {
    type Owned = ReleaseConfigMap;

    fn into_owned(self) -> ReleaseConfigMap {
        let keys = self.data.into_iter().filter(|(key, _)| key.starts_with(KEY_PREFIX));
        ReleaseConfigMap {
            name: self.metadata.name.to_string(),
            labelled: self.metadata.labels.contains_key(&Str::from(LABEL)),
            keys: keys.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            signatures: self.binary_data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::from_text;

    #[test]
    fn signatures_are_found_by_the_beginning_of_their_key() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let text = format!(
            r#"{{"metadata":{{"name":"m","labels":{{"{LABEL}":""}}}},"data":{{"verifier-public-key-x":"k","store-y":"u","sha256-{a}-9":"b"}},
                "binaryData":{{"sha256-{a}":"YQ==","sha256-{b}-17":"Yg==","sha256-{a}-2":"","sha256-zz":"YQ==","other":"?","verifier-public-key-z":"YQ=="}}}}"#
        );
        let map = from_text::<ConfigMap<'_>>(&text).unwrap();
        assert!(map.labelled);
        assert_eq!(map.keys, [("verifier-public-key-x".to_owned(), "k".to_owned())]);
        let found: Vec<_> = map.signatures.iter().map(|(key, _, bytes)| (&key[7..8], &key[71..], &**bytes)).collect();
        assert_eq!(found, [("a", "", &b"a"[..]), ("a", "-2", b""), ("b", "-17", b"b")]);
        assert_eq!(from_text::<ConfigMap<'_>>("{}").unwrap(), ReleaseConfigMap::default());
        let fault = from_text::<ConfigMap<'_>>(&text.replace("YQ==", "Y")).unwrap_err();
        assert!(fault.contains("binaryData") && fault.contains(&a), "{fault}");
    }
}
