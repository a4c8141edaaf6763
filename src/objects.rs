//! Typed projections of the cluster objects airgate reads: only the fields that a rule uses.
//!
//! Lenient as the API server is: null and absent alike, unknown fields and enum values kept or
//! skipped. Strict about what a verdict rests on: a wrong type or a key that occurs twice is an error.
//! Strings are borrowed from the body wherever JSON allows it.

pub mod api_server;
pub mod catalog;
pub mod cluster_version;
pub mod crd;
pub mod internal_release_image;
pub mod machine_config;
pub mod mirrors;
pub mod node;
pub mod release_config_map;
pub mod secret;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A string of an object: borrowed where it has no escapes, empty where it is null or absent.
///
/// A visitor of its own, because serde copies a `Cow` that stands inside an `Option`, a `Vec` or a newtype.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Str<'a>(pub Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(text)))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Str::default())
            }

            fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Str::default())
            }
        }
        deserializer.deserialize_any(StrVisitor)
    }
}

/// For a bool, a number or a list of strings: null means the default, as for the API server.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// For a field that is an object: null means empty, and a JSON array is an error (serde's derived structs would
/// take it for their fields in order).
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<MapOnly<T>>::deserialize(deserializer)?.map(|object| object.0).unwrap_or_default())
}

/// For a list of objects: null means empty, and each entry is an object.
///
/// Bounded, so that three bytes of a request (`{},`) cannot become a hundred of memory without end, and work that
/// compares lists stays small: the longest real list is conditionalUpdates with some hundreds.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    entries(2000, deserializer)
}

/// The same for a list of strings, such as the mirrors of a source.
pub(crate) fn strings<'de, D>(deserializer: D) -> Result<Vec<Str<'de>>, D::Error>
where
    D: Deserializer<'de>,
{
    at_most(2000, deserializer)
}

/// The same for the bundles of an InternalReleaseImage, of which its CRD allows 16 and 32.
pub(crate) fn bundles<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    entries(256, deserializer)
}

fn entries<'de, D, T>(most: usize, deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Vec<MapOnly<T>> = at_most(most, deserializer)?;
    Ok(entries.into_iter().map(|entry| entry.0).collect())
}

/// The same for conditions, of which no CRD allows more than 20.
pub(crate) fn conditions<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    entries(64, deserializer)
}

fn at_most<'de, D, T>(most: usize, deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ListVisitor<T>(usize, std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(vec![])
        }

        fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
            Ok(vec![])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut list = vec![];
            while let Some(entry) = entries.next_element()? {
                if list.len() == self.0 {
                    return Err(A::Error::custom(format!("a list of more than {} entries", self.0)));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_any(ListVisitor(most, std::marker::PhantomData))
}

/// A struct that is read from a JSON object and from nothing else.
pub(crate) struct MapOnly<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for MapOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<D>(D);
        impl<'de, D: Deserializer<'de>> Deserializer<'de> for Map<D> {
            type Error = D::Error;

            fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                self.0.deserialize_map(visitor)
            }

            serde::forward_to_deserialize_any! {
                bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
                unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
            }
        }
        T::deserialize(Map(deserializer)).map(Self)
    }
}

/// Turns a projection that borrows from a body into one that can be kept.
pub trait IntoOwned {
    type Owned: 'static;
    fn into_owned(self) -> Self::Owned;
}

impl IntoOwned for Str<'_> {
    type Owned = Str<'static>;

    fn into_owned(self) -> Str<'static> {
        Str(Cow::Owned(self.0.into_owned()))
    }
}

impl IntoOwned for bool {
    type Owned = bool;

    fn into_owned(self) -> bool {
        self
    }
}

impl IntoOwned for i64 {
    type Owned = i64;

    fn into_owned(self) -> i64 {
        self
    }
}

impl<T: IntoOwned> IntoOwned for Vec<T> {
    type Owned = Vec<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(IntoOwned::into_owned).collect()
    }
}

impl<T: IntoOwned> IntoOwned for Option<T> {
    type Owned = Option<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.map(IntoOwned::into_owned)
    }
}

/// `into_owned!(Type { field, ... })`: field by field.
macro_rules! into_owned {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::objects::IntoOwned for $name<'_> {
            type Owned = $name<'static>;

            fn into_owned(self) -> Self::Owned {
                $name { $($field: $crate::objects::IntoOwned::into_owned(self.$field)),* }
            }
        }
    )*};
}
pub(crate) use into_owned;

/// What airgate reads of `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Metadata<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
    /// Empty for what is cluster-scoped.
    pub namespace: Str<'a>,
    #[serde(deserialize_with = "object")]
    pub annotations: Annotations<'a>,
    pub deletion_timestamp: Str<'a>,
    /// Counts the changes of spec; 0 where nobody counts.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
}

impl Metadata<'_> {
    #[must_use]
    pub fn terminating(&self) -> bool {
        !self.deletion_timestamp.is_empty()
    }
}

/// The annotations that mean something to airgate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Annotations<'a> {
    /// The break-glass of settled question 6.
    #[serde(borrow, rename = "airgate.io/override")]
    pub airgate_override: Str<'a>,
    /// On rendered MachineConfigs: the release they were rendered for.
    #[serde(rename = "machineconfiguration.openshift.io/release-image-version")]
    pub release_image_version: Str<'a>,
}

/// One entry of a `conditions` list. Reasons are not API: rules look at type and status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    pub status: Str<'a>,
    pub reason: Str<'a>,
}

/// A condition whose reason and message a person will want to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(default, expecting = "an object")]
pub struct DetailedCondition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    pub status: Str<'a>,
    pub reason: Str<'a>,
    pub message: Str<'a>,
}

into_owned! {
    DetailedCondition { kind, status, reason, message }
    Metadata { name, namespace, annotations, deletion_timestamp, generation }
    Annotations { airgate_override, release_image_version }
    Condition { kind, status, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_even_inside_lists() {
        let conditions: Vec<Condition<'_>> =
            serde_json::from_str(r#"[{"type":"Available","status":"True","reason":null,"other":{"deep":[1]}}]"#)
                .unwrap();
        assert!(matches!(conditions[0].kind.0, Cow::Borrowed("Available")));
        assert_eq!(&*conditions[0].reason, "");
    }

    #[test]
    fn wrong_types_and_repeated_keys_are_errors() {
        let many = format!(r#"{{"releases":[{}]}}"#, vec!["{}"; 257].join(","));
        assert!(serde_json::from_str::<internal_release_image::Releases<'_>>(&many).is_err(), "bounded");
        let many = format!(r#"{{"conditionalUpdates":[{}]}}"#, vec!["{}"; 2001].join(","));
        assert!(serde_json::from_str::<cluster_version::Status<'_>>(&many).is_err(), "bounded");
        // A list is no object, though serde would take it for the fields in order.
        assert!(serde_json::from_str::<machine_config::MachineConfigPool<'_>>(r#"{"metadata":["name"]}"#).is_err());
        assert!(serde_json::from_str::<cluster_version::Status<'_>>(r#"{"conditions":[["Available"]]}"#).is_err());
        for text in [r#"{"type":5}"#, r#"{"type":"A","type":"B"}"#, r#"{"status":{}}"#] {
            assert!(serde_json::from_str::<Condition<'_>>(text).is_err(), "{text}");
        }
    }
}
