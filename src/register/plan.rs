//! What is to be done about the webhook configuration. Pure: what is stored, what is wanted and who vouches come in.
//!
//! Invariants: an entry begins with failurePolicy Ignore and gets Fail only when its stored caBundle vouches for what
//! is served; an entry that fails closed already, with a CA and for this server, is never opened; a caBundle of
//! somebody else's is never touched; nothing is kept registered for a namespace that is leaving or says not to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The annotation of airgate's namespace that keeps the configuration away.
pub const UNREGISTERED: &str = "airgate.io/unregistered";

/// The namespace that owns the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    Absent,
    /// It is being deleted.
    Leaving,
    /// By the annotation, with its value.
    Unregistered(String),
    There {
        uid: String,
    },
}

/// What the plan goes by.
#[expect(missing_debug_implementations, reason = "a closure has nothing to show")]
pub struct Inputs<'a> {
    pub home: &'a Home,
    pub namespace: &'a str,
    /// What is stored under the name, whoever stored it.
    pub current: Option<&'a Value>,
    /// What `airgate manifests` prints.
    pub printed: &'a Value,
    /// Whether a client that trusts this PEM alone accepts what this server serves.
    pub vouches: &'a dyn Fn(&[u8]) -> Result<(), String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// Server-side apply: it is not there, or something of it is missing.
    Apply {
        object: Value,
        why: Vec<String>,
    },
    /// Replace all entries of this version: somebody added what apply leaves alone.
    Replace {
        webhooks: Value,
        version: String,
        why: Vec<String>,
    },
    Delete {
        uid: String,
        why: String,
    },
}

/// The step, and what keeps the configuration from being as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub step: Step,
    pub waiting: Vec<String>,
    /// Entries that should fail closed and do not yet.
    pub soft: Vec<String>,
}

pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let away = |why: String| {
        let (step, waiting) = match inputs.current {
            None => (Step::Nothing, why),
            // Deleted already: it goes when whoever holds it lets go.
            Some(current) if !current["metadata"]["deletionTimestamp"].is_null() => {
                let held = current["metadata"]["finalizers"].to_string();
                (Step::Nothing, format!("{why}; the configuration is deleted, and held by the finalizers {held}"))
            }
            Some(current) => {
                let uid = text(current, "/metadata/uid").to_owned();
                (Step::Delete { uid, why: why.clone() }, why)
            }
        };
        Plan { step, waiting: vec![waiting], soft: vec![] }
    };
    let namespace = inputs.namespace;
    let uid = match inputs.home {
        Home::Absent => {
            let waiting = vec![format!("the namespace {namespace}, which is to own the configuration, to be there")];
            return Plan { step: Step::Nothing, waiting, soft: vec![] };
        }
        Home::Leaving => return away(format!("the namespace {namespace} is being deleted")),
        Home::Unregistered(reason) => {
            return away(format!("the namespace {namespace} has the annotation {UNREGISTERED} ({reason})"));
        }
        Home::There { uid } => uid,
    };
    let mut wanted = inputs.printed.clone();
    wanted["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid}]);
    let stored = entries(inputs.current.unwrap_or(&Value::Null));
    let (mut waiting, mut soft) = (vec![], vec![]);
    for entry in wanted["webhooks"].as_array_mut().into_iter().flatten() {
        complete(entry);
        if entry["failurePolicy"] != "Fail" {
            continue;
        }
        let before = stored.iter().find(|before| before["name"] == entry["name"]).copied();
        let trust = trusted(entry, before, inputs.vouches);
        let Err(why) = trust else { continue };
        let name = text(entry, "/name").to_owned();
        waiting.push(format!("{name}: its caBundle to vouch for this server; {why}"));
        if !before.is_some_and(|before| closed(before, entry)) {
            entry["failurePolicy"] = "Ignore".into();
            soft.push(name);
        }
    }
    Plan { step: step(&wanted, inputs.current), waiting, soft }
}

/// Whether the API server may be told to fail where it cannot call: by what is stored, not by what will be.
fn trusted(entry: &Value, before: Option<&Value>, vouches: &dyn Fn(&[u8]) -> Result<(), String>) -> Result<(), String> {
    let Some(before) = before else { return Err("it is not registered yet".into()) };
    let bundle = text(before, "/clientConfig/caBundle");
    if bundle.is_empty() {
        return Err("nobody has injected one yet".into());
    }
    let own = text(entry, "/clientConfig/caBundle");
    if !own.is_empty() && own != bundle {
        return Err("the one in place is not this server's".into());
    }
    vouches(&STANDARD.decode(bundle).map_err(|error| format!("it is no base64 ({error})"))?)
}

/// Fails closed now, by a call to where this server is.
fn closed(before: &Value, entry: &Value) -> bool {
    before["failurePolicy"] == "Fail"
        && !text(before, "/clientConfig/caBundle").is_empty()
        && ["service", "url"].iter().all(|key| before["clientConfig"][key] == entry["clientConfig"][key])
}

/// What the API server fills in, so that somebody else's selector is seen as the difference that it is.
fn complete(entry: &mut Value) {
    for selector in ["namespaceSelector", "objectSelector"] {
        if entry[selector].is_null() {
            entry[selector] = json!({});
        }
    }
}

fn step(wanted: &Value, current: Option<&Value>) -> Step {
    let Some(current) = current else {
        return Step::Apply { object: wanted.clone(), why: vec!["it is not registered".into()] };
    };
    let (mut missing, mut foreign) = (vec![], vec![]);
    metadata(wanted, current, &mut missing);
    let (stored, own) = (entries(current), entries(wanted));
    for entry in &own {
        let name = text(entry, "/name");
        match stored.iter().find(|before| before["name"] == entry["name"]) {
            None => missing.push(format!("{name} is missing")),
            Some(before) => differences(name, entry, before, &mut missing, &mut foreign),
        }
    }
    for before in stored.iter().filter(|before| !own.iter().any(|entry| entry["name"] == before["name"])) {
        foreign.push(format!("{} is none of airgate's", text(before, "/name")));
    }
    if !foreign.is_empty() {
        foreign.extend(missing);
        let webhooks = own.iter().map(|entry| with_bundle(entry, &stored)).collect();
        let version = text(current, "/metadata/resourceVersion").to_owned();
        return Step::Replace { webhooks: Value::Array(webhooks), version, why: foreign };
    }
    if missing.is_empty() { Step::Nothing } else { Step::Apply { object: wanted.clone(), why: missing } }
}

fn metadata(wanted: &Value, current: &Value, missing: &mut Vec<String>) {
    for map in ["annotations", "labels"] {
        for (key, value) in wanted["metadata"][map].as_object().into_iter().flatten() {
            if current["metadata"][map].get(key) != Some(value) {
                missing.push(format!("the {} {key}", map.trim_end_matches('s')));
            }
        }
    }
    let owners = current["metadata"]["ownerReferences"].as_array();
    let uid = &wanted["metadata"]["ownerReferences"][0]["uid"];
    if !owners.into_iter().flatten().any(|owner| owner["uid"] == *uid) {
        missing.push("the owner reference".into());
    }
}

/// What one stored entry lacks, and what was added to it.
fn differences(name: &str, entry: &Value, before: &Value, missing: &mut Vec<String>, foreign: &mut Vec<String>) {
    for (key, value) in entry.as_object().into_iter().flatten() {
        match key.as_str() {
            "clientConfig" => {
                let (wanted, stored) = (value, &before["clientConfig"]);
                if ["service", "url"].iter().any(|key| !stored[key].is_null() && wanted[key].is_null()) {
                    foreign.push(format!("{name}: it calls somebody else"));
                } else if ["service", "url"].iter().any(|key| stored[key] != wanted[key]) {
                    missing.push(format!("{name}: whom it calls"));
                }
                if !wanted["caBundle"].is_null() && wanted["caBundle"] != stored["caBundle"] {
                    missing.push(format!("{name}: caBundle"));
                }
            }
            // Merged by name when they are applied: others' stay, and one that is never true switches the guard off.
            "matchConditions" => {
                let conditions = |of: &Value| of.as_array().cloned().unwrap_or_default();
                let (wanted, stored) = (conditions(value), conditions(&before[key]));
                if stored.iter().any(|one| !wanted.iter().any(|other| other["name"] == one["name"])) {
                    foreign.push(format!("{name}: a condition that is none of airgate's"));
                } else if !wanted.iter().all(|one| stored.contains(one)) {
                    missing.push(format!("{name}: {key}"));
                }
            }
            _ if before[key] != *value => missing.push(format!("{name}: {key}")),
            _ => {}
        }
    }
}

/// The entry with the caBundle that the stored one has, unless it brings its own.
fn with_bundle(entry: &Value, stored: &[&Value]) -> Value {
    let mut entry = entry.clone();
    let before = stored.iter().find(|before| before["name"] == entry["name"]);
    let bundle = before.map(|before| before["clientConfig"]["caBundle"].clone()).unwrap_or_default();
    if entry["clientConfig"]["caBundle"].is_null() && !bundle.is_null() {
        entry["clientConfig"]["caBundle"] = bundle;
    }
    entry
}

/// Who else has written it, by field manager.
pub fn others(current: &Value, own: &str) -> Vec<String> {
    let managers = current["metadata"]["managedFields"].as_array();
    let names = managers.into_iter().flatten().map(|entry| text(entry, "/manager").to_owned());
    let mut names: Vec<String> = names.filter(|name| !name.is_empty() && name != own).collect();
    names.sort();
    names.dedup();
    names
}

fn entries(configuration: &Value) -> Vec<&Value> {
    configuration["webhooks"].as_array().into_iter().flatten().collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
