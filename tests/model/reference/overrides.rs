//! Break-glass, Q6.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::world::{NOW, Request, World};

pub enum Annotation {
    Malformed,
    Entries(Vec<Entry>),
}

pub struct Entry {
    policy: String,
    from: String,
    target: String,
    expires: Timestamp,
}

/// "annotation airgate.io/override on the guarded object, JSON (one object or a list)"; "it may be set before or in the
/// same request; DELETE reads it from oldObject".
pub fn read(world: &World) -> Annotation {
    let text = match &world.request {
        Request::CreateCv(object) | Request::UpdateCv(_, object) | Request::DeleteCv(object) => &object.annotation,
        Request::CreateIri(object) | Request::UpdateIri(_, object) | Request::DeleteIri(object) => &object.annotation,
        Request::Create(object) | Request::Update(_, object) | Request::Delete(object) => &object.annotation,
    };
    if text.is_empty() {
        return Annotation::Entries(vec![]);
    }
    let objects = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(object @ Value::Object(_)) => vec![object],
        _ => return Annotation::Malformed,
    };
    let mut entries = vec![];
    for object in objects {
        let field = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let expires = field("expires").and_then(|text| text.parse().ok());
        match (field("policy"), field("from"), field("target"), field("reason"), expires) {
            (Some(policy), Some(from), Some(target), Some(_), Some(expires)) => {
                entries.push(Entry { policy, from, target, expires });
            }
            _ => return Annotation::Malformed,
        }
    }
    Annotation::Entries(entries)
}

impl Entry {
    pub fn in_time(&self) -> bool {
        let now: Timestamp = NOW.parse().unwrap();
        now < self.expires && self.expires <= now + SignedDuration::from_hours(24)
    }

    pub fn opens(&self, world: &World, policy: &str, step: &str) -> bool {
        // "`from` is the current version, `none` on CREATE, metadata.name for other kinds"
        let from = match &world.request {
            Request::CreateCv(_) | Request::Create(_) | Request::CreateIri(_) => "none",
            Request::Update(old, _) | Request::Delete(old) => &old.name,
            Request::UpdateCv(old, _) | Request::DeleteCv(old) => &old.desired.version,
            Request::UpdateIri(..) | Request::DeleteIri(_) => "cluster",
        };
        // "valid while now < expires <= now + 24 h at the time of use"
        let in_time = self.in_time();
        // "overrideGroups (default: whoever may write the object) is checked against the using request's userInfo"
        let allowed = &world.settings.override_groups;
        let permitted = allowed.is_empty() || world.groups.iter().any(|group| allowed.contains(group));
        // silent: an empty `from` names no step, so that a stored object without a version has no override.
        self.policy == policy && !from.is_empty() && self.from == from && self.target == step && in_time && permitted
    }
}
