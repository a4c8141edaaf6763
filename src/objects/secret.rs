//! Secrets, as far as an InternalReleaseImage depends on them: which keys hold something, never what.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{Metadata, Str};

/// Of the registry that serves release bundles, and of its clients.
pub const NAMES: [&str; 2] = ["internal-release-image-tls", "internal-release-image-registry-auth"];
pub const NAMESPACE: &str = "openshift-machine-config-operator";
/// The two have two keys each.
const KEYS_MAX: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Secret<'a> {
    pub metadata: Metadata<'a>,
    /// Read for the two above only.
    pub data: FilledKeys<'a>,
}

impl Secret<'_> {
    /// Whether an InternalReleaseImage depends on it.
    #[must_use]
    pub fn supports(metadata: &Metadata<'_>) -> bool {
        &*metadata.namespace == NAMESPACE && NAMES.contains(&&*metadata.name)
    }

    /// The keys that hold something here and nothing in `new`.
    pub fn emptied_in<'s>(&'s self, new: &'s Secret<'_>) -> impl Iterator<Item = &'s str> {
        self.data.0.iter().map(|key| &**key).filter(|key| !new.data.0.iter().any(|kept| &**kept == *key))
    }
}

/// The keys of `data` whose value is not empty. Values are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilledKeys<'a>(Vec<Str<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for FilledKeys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Vec<Str<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(vec![])
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut filled = vec![];
                let mut count = 0;
                while let Some((key, value)) = map.next_entry::<Str<'de>, Str<'de>>()? {
                    count += 1;
                    if count > KEYS_MAX {
                        return Err(A::Error::custom(format!("more than {KEYS_MAX} keys")));
                    }
                    if !value.is_empty() {
                        filled.push(key);
                    }
                }
                Ok(filled)
            }
        }
        deserializer.deserialize_any(Keys).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(data: &str) -> Option<Vec<String>> {
        let keys: FilledKeys<'_> = serde_json::from_str(data).ok()?;
        Some(keys.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn only_keys_that_hold_something_are_kept() {
        for (data, expected) in [
            ("null", Some(vec![])),
            ("{}", Some(vec![])),
            (r#"{"a":"eA==","b":"","c":null}"#, Some(vec!["a"])),
            (r#"{"a":5}"#, None),
            (r#"{"a":{"b":"x"}}"#, None),
            ("[]", None),
            (r#""eA==""#, None),
        ] {
            assert_eq!(keys(data), expected.map(|list| list.into_iter().map(str::to_owned).collect()), "{data}");
        }
        let many: Vec<String> = (0..=KEYS_MAX).map(|n| format!("\"k{n}\":\"\"")).collect();
        assert_eq!(keys(&format!("{{{}}}", many.join(","))), None, "bounded");
    }
}
