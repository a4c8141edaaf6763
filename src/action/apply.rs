//! Client-side `oc apply`: a three-way merge by the stored last-applied annotation.

use serde_json::Value;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object as it would be stored. Without the annotation it is a plain merge; lists are replaced, as kubectl
/// does for custom resources; status stays as stored.
#[must_use]
pub fn apply(stored: &Value, applied: &Value) -> Value {
    let last: Value = stored["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut result = stored.clone();
    let mut applied = applied.clone();
    applied.as_object_mut().map(|fields| fields.remove("status"));
    merge(&mut result, &last, &applied);
    result
}

fn merge(current: &mut Value, last: &Value, applied: &Value) {
    let (Some(fields), Some(new)) = (current.as_object_mut(), applied.as_object()) else {
        *current = applied.clone();
        return;
    };
    // What was applied before and is no longer there was removed on purpose.
    for key in last.as_object().into_iter().flat_map(|last| last.keys()).filter(|key| !new.contains_key(*key)) {
        if key != "status" {
            fields.remove(key);
        }
    }
    for (key, value) in new {
        match (fields.get_mut(key), value) {
            (_, Value::Null) => {
                fields.remove(key);
            }
            (Some(current @ Value::Object(_)), Value::Object(_)) => merge(current, &last[key], value),
            _ => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(last: Option<Value>, stored_spec: Value, applied_spec: Value, expected: Value) {
        let mut stored = json!({"metadata": {"name": "x"}, "spec": stored_spec, "status": {"a": 1}});
        if let Some(last) = last {
            stored["metadata"]["annotations"][LAST_APPLIED] =
                json!({"metadata": {"name": "x"}, "spec": last}).to_string().into();
        }
        let result =
            apply(&stored, &json!({"metadata": {"name": "x"}, "spec": applied_spec, "status": {"forged": true}}));
        assert_eq!(result["spec"], expected);
        assert_eq!(result["status"], json!({"a": 1}));
    }

    #[test]
    fn three_way_by_last_applied_else_plain_merge() {
        // A stored sibling that was never applied stays (T13); one that was applied goes.
        check(
            None,
            json!({"u": {"version": "1", "image": "a"}}),
            json!({"u": {"image": "b"}}),
            json!({"u": {"version": "1", "image": "b"}}),
        );
        check(
            Some(json!({"u": {"version": "1"}})),
            json!({"u": {"version": "1", "image": "a"}}),
            json!({"u": {"image": "b"}}),
            json!({"u": {"image": "b"}}),
        );
        check(
            Some(json!({"u": {"version": "1"}, "c": "x"})),
            json!({"u": {"version": "1"}, "c": "x"}),
            json!({"c": "x"}),
            json!({"c": "x"}),
        );
        check(None, json!({"l": [1, 2], "k": 1}), json!({"l": [3], "k": null}), json!({"l": [3]}));
    }
}
