//! JSON as the Go tools read it, where they and serde agree; refused where they would not.

use serde_json::{Map, Value};

use crate::files::document;

/// One JSON object; no byte order mark, no repeated key, nothing after it.
///
/// # Errors
/// What is wrong; the text goes on after the name of the thing.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("is not UTF-8 from byte {} on", error.valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        return Err("begins with a byte order mark, which is no JSON".into());
    }
    let mut documents = document::from_json(text)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(Value::Object(map)), true) => Ok(map),
        _ => Err("is not one JSON object".into()),
    }
}

/// Go matches keys without regard to case, serde does not: a key that only Go would take is refused.
///
/// # Errors
/// The key.
pub fn exact_keys(map: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    // The two letters outside ASCII that Go folds into it.
    let folded = |key: &str| key.replace('\u{17f}', "s").replace('\u{212a}', "k");
    for key in map.keys() {
        if let Some(meant) = known.iter().find(|known| **known != key && known.eq_ignore_ascii_case(&folded(key))) {
            return Err(format!("has a key {key:?}, which other tools take for {meant:?}"));
        }
    }
    Ok(())
}

/// A text; null and absent alike.
///
/// # Errors
/// Where it is something else.
pub fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("has a {key} that is not a text")),
    }
}

/// An object below; null and absent alike.
///
/// # Errors
/// Where it is something else.
pub fn below<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a Map<String, Value>>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(format!("has a {key} that is not an object")),
    }
}

/// A list; null and absent alike.
///
/// # Errors
/// Where it is something else.
pub fn list<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a [Value]>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(format!("has a {key} that is not a list")),
    }
}
