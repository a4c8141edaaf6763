//! Whether the API server asks airgate at all, and how to take it away.

use serde::Serialize;
use serde_json::Value;

use super::{Presence, clean};

/// The webhook configuration `airgate`, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub state: Presence,
    /// Why it is not known; null where it is.
    pub why: Option<String>,
    /// The entries that make a call fail when airgate cannot answer.
    pub fails_closed: Vec<String>,
    /// The entries without a CA: no call of theirs can succeed.
    pub without_ca: Vec<String>,
    /// The namespace that owns it, where one does: it goes with it.
    pub owner: Option<String>,
    /// Who keeps or applied it, by field manager.
    pub managers: Vec<String>,
    /// The annotation airgate.io/unregistered of its namespace, which keeps it away.
    pub unregistered: Option<String>,
    /// What takes the guard away; before airgate is uninstalled, for what is left behind would refuse guarded steps.
    pub removal: Option<&'static str>,
}

/// The one command that needs no part of airgate.
pub const REMOVAL: &str = "oc delete validatingwebhookconfiguration airgate";

impl Registration {
    /// Of the stored object, or of its absence; `unregistered` is what the namespace's annotation says.
    pub fn of(stored: Option<&Value>, unregistered: Option<String>) -> Self {
        let text = |value: &Value| clean(value.as_str().unwrap_or_default());
        let entries: Vec<&Value> = stored.into_iter().flat_map(|stored| list(&stored["webhooks"])).collect();
        let names = |wanted: &dyn Fn(&Value) -> bool| {
            entries.iter().filter(|entry| wanted(entry)).map(|entry| text(&entry["name"])).collect()
        };
        let metadata = stored.map(|stored| &stored["metadata"]);
        let owner = metadata.into_iter().flat_map(|metadata| list(&metadata["ownerReferences"]));
        let managers = metadata.into_iter().flat_map(|metadata| list(&metadata["managedFields"]));
        let mut managers: Vec<String> = managers.map(|entry| text(&entry["manager"])).collect();
        managers.sort();
        managers.dedup();
        Self {
            state: if stored.is_some() { Presence::Known } else { Presence::Absent },
            why: None,
            fails_closed: names(&|entry| entry["failurePolicy"] == "Fail"),
            without_ca: names(&|entry| entry["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty)),
            owner: owner.filter(|owner| owner["kind"] == "Namespace").map(|owner| text(&owner["name"])).next(),
            managers,
            unregistered,
            removal: stored.is_some().then_some(REMOVAL),
        }
    }

    pub fn unknown(why: &str) -> Self {
        Self { state: Presence::Unknown, why: Some(clean(why)), ..Self::of(None, None) }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
