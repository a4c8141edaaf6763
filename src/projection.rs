//! From an object's text or tree to the few owned fields that airgate keeps; faults name the field.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use crate::objects::IntoOwned;

/// # Errors
/// The field and what is wrong with it.
pub fn from_text<'a, P>(text: &'a str) -> Result<P::Owned, String>
where
    P: Deserialize<'a> + IntoOwned,
{
    project::<P, _>(&mut serde_json::Deserializer::from_str(text))
}

/// # Errors
/// The field and what is wrong with it.
pub fn from_value<'a, P>(value: &'a Value) -> Result<P::Owned, String>
where
    P: Deserialize<'a> + IntoOwned,
{
    project::<P, _>(value)
}

fn project<'a, P, D>(deserializer: D) -> Result<P::Owned, String>
where
    P: Deserialize<'a> + IntoOwned,
    D: Deserializer<'a>,
{
    match serde_path_to_error::deserialize::<_, P>(deserializer) {
        Ok(object) => Ok(object.into_owned()),
        Err(error) => Err(format!("{}: {}", error.path(), error.inner())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::cluster_version::ClusterVersion;

    #[test]
    fn a_fault_names_its_field() {
        let text = r#"{"status":{"history":[{"version":"4.1.0"},{"version":5}]}}"#;
        let fault = from_text::<ClusterVersion<'_>>(text).unwrap_err();
        assert!(fault.starts_with("status.history[1].version: ") && fault.contains("a string"), "{fault}");
        let value = serde_json::from_str(text).unwrap();
        assert!(from_value::<ClusterVersion<'_>>(&value).unwrap_err().starts_with("status.history[1].version: "));
    }
}
