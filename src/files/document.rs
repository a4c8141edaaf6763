//! YAML and JSON documents into JSON values: duplicate keys refused, unfolding bounded.
//!
//! One type for both, because serde_json lets the last of two equal keys win, and a person who
//! wrote a key twice must hear about it.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Deeper than any object airgate reads; 100 overflows a 2 MiB stack in a debug build.
const DEPTH: usize = 64;
/// Far more than the largest List airgate reads; some hundred megabytes at worst.
const VALUES: usize = 4_000_000;

/// # Errors
/// What is wrong and where, for a person.
pub fn from_yaml(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_events: 8_000_000,
            max_nodes: VALUES,
            max_aliases: 1_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options::<Document>(text, options)
        .map(|documents| documents.into_iter().map(|document| document.0).filter(|value| !value.is_null()).collect())
        .map_err(|error| {
            let error = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            format!("is not usable YAML: {error}")
        })
}

/// # Errors
/// What is wrong and where, for a person.
pub fn from_json(text: &str) -> Result<Vec<Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::Deserializer::from_str(text)
        .into_iter::<Document>()
        .map(|document| document.map(|document| document.0))
        .filter(|value| !matches!(value, Ok(Value::Null)))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("is not usable JSON: {error}"))
}

struct Document(Value);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueVisitor { left: &Cell::new(VALUES) }.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct ValueVisitor<'a> {
    /// How many values the document may still have.
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| D::Error::custom(format_args!("more than {VALUES} values")))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that JSON does not have"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} occurs twice")));
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn several_documents_and_types_as_kubectl_prints_them() {
        let text = "---\n# nothing\n---\na: yes\nb: true\nc: 4.10\nd: '4.10'\ne: ~\nf: 2026-11-30T10:00:00Z\ng: 0777\n---\n- 1\n";
        let documents = from_yaml(text).unwrap();
        assert_eq!(documents.len(), 2, "{documents:?}");
        assert_eq!(documents[0]["a"], "yes", "strict booleans");
        assert_eq!(documents[0]["b"], true);
        assert_eq!(documents[0]["c"], json!(4.1));
        assert_eq!(documents[0]["d"], "4.10");
        assert_eq!(documents[0]["f"], "2026-11-30T10:00:00Z");
        assert_eq!(
            from_json("{\"a\":1}\n{\"b\":\"\\ud83d\\ude00\"} null").unwrap(),
            [json!({"a": 1}), json!({"b": "😀"})]
        );
        assert!(from_yaml("").unwrap().is_empty() && from_json(" ").unwrap().is_empty());
    }

    #[test]
    fn duplicate_keys_are_refused_in_both() {
        assert!(from_yaml("a: {b: 1, b: 2}").unwrap_err().contains('b'));
        assert!(from_json(r#"{"a": {"b": 1, "b": 2}}"#).unwrap_err().contains("\"b\" occurs twice"));
    }

    #[test]
    fn hostile_documents_are_bounded() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(",");
            bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
        }
        assert!(from_yaml(&bomb).is_err());
        for deep in [100_000, 500] {
            assert!(from_yaml(&"[".repeat(deep)).is_err());
            assert!(from_yaml(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))).is_err());
            assert!(from_yaml(&"- ".repeat(deep)).is_err());
            assert!(from_json(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))).is_err());
        }
        assert!(
            from_yaml(&format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH))).is_ok(),
            "what is allowed fits the stack"
        );
        assert!(from_json(&format!("[{}1]", "1,".repeat(VALUES))).unwrap_err().contains("more than"));
        assert!(from_yaml("a: .nan").is_err() && from_yaml("a: [1").is_err() && from_yaml("a: *b").is_err());
    }
}
