//! The form of every answer.

use airgate::engine::Judged;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::always;
use crate::bridge::{Situation, UID};

/// What must hold of any answer to a review that could be judged.
pub fn well_formed(judged: &Judged, uid: &str) -> Result<(), TestCaseError> {
    let response = json!(judged.response);
    prop_assert_eq!(&response["uid"], uid);
    if judged.response.allowed {
        prop_assert_eq!(&response["status"], &Value::Null);
    } else {
        let code = response["status"]["code"].as_u64();
        prop_assert!(code == Some(403) || code == Some(422), "{response}");
        let message = response["status"]["message"].as_str().unwrap();
        let length = message.chars().count();
        prop_assert!((20..=1200).contains(&length), "{length} characters:\n{message}");
        prop_assert!(clean(&message.replace('\n', " ")), "{message:?}");
        prop_assert!(!response["status"]["details"]["causes"].as_array().unwrap().is_empty());
        if code == Some(422) {
            prop_assert_eq!(&response["status"]["details"]["causes"][0]["message"], message);
        }
    }
    let warnings = &judged.response.warnings;
    prop_assert!(warnings.len() <= 10, "{} warnings", warnings.len());
    for warning in warnings {
        prop_assert!(warning.chars().count() <= 250 && !warning.is_empty() && clean(warning), "{warning:?}");
    }
    for (key, value) in &judged.response.audit_annotations {
        prop_assert!(!key.contains('/') && clean(&value.replace('\n', " ")), "{key}: {value:?}");
    }
    Ok(())
}

/// Printable, and nothing that turns a line around.
fn clean(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}'))
}

#[test]
fn every_answer_is_well_formed_and_the_same_in_a_dry_run() {
    always(1500, |world| {
        let mut situation = Situation::of(world);
        let judged = situation.judge();
        well_formed(&judged, UID)?;
        situation.review["request"]["dryRun"] = json!(!world.dry_run);
        let other = situation.judge();
        prop_assert_eq!(json!(judged.response), json!(other.response));
        Ok(())
    });
}
