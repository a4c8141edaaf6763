//! What makes one set of objects out of another, as kustomize patches.

use serde_json::{Value, json};

use super::Document;

/// From a base to a variant of it.
pub(super) struct Overlay {
    /// Objects that the base does not have.
    pub added: Vec<Document>,
    /// Objects that only the base has.
    removed: Vec<Value>,
    /// Objects of both, with the JSON patch from one to the other.
    changed: Vec<(Value, Vec<Value>)>,
}

impl Overlay {
    pub fn between(base: &[Document], variant: &[Document]) -> Self {
        let find = |documents: &[Document], wanted: &Value| {
            documents.iter().map(|document| &document.object).find(|object| target(object) == target(wanted)).cloned()
        };
        let (mut added, mut changed) = (vec![], vec![]);
        for document in variant {
            let Some(before) = find(base, &document.object) else {
                added.push(document.clone());
                continue;
            };
            let mut steps = vec![];
            difference(&before, &document.object, String::new(), &mut steps);
            if !steps.is_empty() {
                changed.push((before, steps));
            }
        }
        let removed = base.iter().map(|document| &document.object).filter(|object| find(variant, object).is_none());
        Self { added, removed: removed.cloned().collect(), changed }
    }

    /// As a kustomization has them.
    pub fn patches(&self) -> anyhow::Result<Value> {
        let mut patches = vec![];
        for object in &self.removed {
            let mut patch = json!({"$patch": "delete", "apiVersion": object["apiVersion"], "kind": object["kind"],
                "metadata": {"name": object["metadata"]["name"]}});
            if let Some(namespace) = object["metadata"].get("namespace") {
                patch["metadata"]["namespace"] = namespace.clone();
            }
            patches.push(json!({"patch": serde_saphyr::to_string(&patch)?}));
        }
        for (object, steps) in &self.changed {
            patches.push(json!({"target": target(object), "patch": serde_saphyr::to_string(steps)?}));
        }
        Ok(patches.into())
    }
}

/// How a kustomization names an object.
fn target(object: &Value) -> Value {
    let mut target = json!({"kind": object["kind"], "name": object["metadata"]["name"]});
    if let Some(namespace) = object["metadata"].get("namespace") {
        target["namespace"] = namespace.clone();
    }
    target
}

/// Steps of a JSON patch. A list is gone through where it has as many entries as before, with a test of the entry's
/// name; else the whole list is replaced.
fn difference(before: &Value, after: &Value, path: String, steps: &mut Vec<Value>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match old.get(key) {
                    Some(old) => difference(old, value, path, steps),
                    None => steps.push(json!({"op": "add", "path": path, "value": value})),
                }
            }
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                steps.push(json!({"op": "remove", "path": path}));
            }
        }
        (Value::Array(old), Value::Array(new)) if same_names(old, new) => {
            for (index, (old, new)) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
                let path = format!("{path}/{index}");
                steps.push(json!({"op": "test", "path": format!("{path}/name"), "value": new["name"]}));
                difference(old, new, path, steps);
            }
        }
        _ => steps.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

/// Whether both list the same things in the same order.
fn same_names(old: &[Value], new: &[Value]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| old["name"].is_string() && old["name"] == new["name"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_makes_the_one_from_the_other() {
        let before = json!({"a/b": {"x": 1, "gone": true}, "list": [{"name": "one", "v": 1}, {"name": "two", "v": 2}],
            "args": ["a", "b"], "same": [1]});
        let after = json!({"a/b": {"x": 2, "new~": {}}, "list": [{"name": "one", "v": 1}, {"name": "two", "v": 3}],
            "args": ["a", "c", "d"], "same": [1]});
        let mut steps = vec![];
        difference(&before, &after, String::new(), &mut steps);
        let mut patched = before;
        let patch: json_patch::Patch = serde_json::from_value(steps.clone().into()).unwrap();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, after);
        assert!(steps.contains(&json!({"op": "test", "path": "/list/1/name", "value": "two"})), "{steps:?}");
        assert!(steps.iter().all(|step| !step["path"].as_str().unwrap().starts_with("/list/0")), "{steps:?}");
    }
}
