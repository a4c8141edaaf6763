//! `clusterversions.config.openshift.io`: the fields a verdict rests on.

use serde::Deserialize;

use super::{Condition, DetailedCondition, Metadata, Str, into_owned, nullable, object, objects};
use crate::pullspec::Digest;
use crate::version::Version;

/// The singleton's name; the CVO watches no other.
pub const NAME: &str = "version";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ClusterVersion<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: Spec<'a>,
    #[serde(deserialize_with = "object")]
    pub status: Status<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Spec<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub desired_update: DesiredUpdate<'a>,
    pub channel: Str<'a>,
    pub upstream: Str<'a>,
}

/// `spec.desiredUpdate` reduced to the effective target: "" and absent alike, acceptRisks left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct DesiredUpdate<'a> {
    #[serde(borrow)]
    pub version: Str<'a>,
    pub image: Str<'a>,
    pub architecture: Str<'a>,
    #[serde(deserialize_with = "nullable")]
    pub force: bool,
    pub mode: Str<'a>,
}

impl DesiredUpdate<'_> {
    /// Whether it names anything to go to; `{}`, acceptRisks only and force alone do not.
    #[must_use]
    pub fn named(&self) -> bool {
        !(self.version.is_empty() && self.image.is_empty() && self.architecture.is_empty())
    }

    /// Whether going from `old` to this is a step to judge: a target is named, and it or `mode`
    /// changed, or `force` was switched on. (`force` switched off asks for nothing new.)
    #[must_use]
    pub fn steps_from(&self, old: &DesiredUpdate<'_>) -> bool {
        let target_changed = (&*self.version, &*self.image, &*self.architecture, &*self.mode)
            != (&*old.version, &*old.image, &*old.architecture, &*old.mode);
        self.named() && (target_changed || (self.force && !old.force))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Status<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub desired: Release<'a>,
    /// Newest first.
    #[serde(deserialize_with = "objects")]
    pub history: Vec<HistoryEntry<'a>>,
    #[serde(deserialize_with = "objects")]
    pub available_updates: Vec<Release<'a>>,
    #[serde(deserialize_with = "objects")]
    pub conditional_updates: Vec<ConditionalUpdate<'a>>,
    #[serde(deserialize_with = "objects")]
    pub conditions: Vec<DetailedCondition<'a>>,
    /// The `metadata.generation` that the CVO has seen.
    #[serde(deserialize_with = "nullable")]
    pub observed_generation: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Release<'a> {
    #[serde(borrow)]
    pub version: Str<'a>,
    pub image: Str<'a>,
    pub architecture: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct HistoryEntry<'a> {
    #[serde(borrow)]
    pub state: Str<'a>,
    pub version: Str<'a>,
    pub image: Str<'a>,
    /// RFC 3339; shown, never compared.
    pub started_time: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ConditionalUpdate<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub release: Release<'a>,
    #[serde(deserialize_with = "objects")]
    pub risks: Vec<Risk<'a>>,
    #[serde(deserialize_with = "objects")]
    pub conditions: Vec<Condition<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Risk<'a> {
    #[serde(borrow)]
    pub name: Str<'a>,
}

impl Release<'_> {
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        Digest::of_image(&self.image)
    }
}

impl HistoryEntry<'_> {
    #[must_use]
    pub fn completed(&self) -> bool {
        &*self.state == "Completed"
    }

    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        Digest::of_image(&self.image)
    }

    /// The day it started, for messages.
    #[must_use]
    pub fn date(&self) -> &str {
        self.started_time.get(..10).unwrap_or("an unknown date")
    }
}

impl ConditionalUpdate<'_> {
    #[must_use]
    pub fn recommended(&self) -> bool {
        self.conditions.iter().any(|c| &*c.kind == "Recommended" && &*c.status == "True")
    }
}

impl<'a> Status<'a> {
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&DetailedCondition<'a>> {
        self.conditions.iter().find(|c| &*c.kind == kind)
    }

    #[must_use]
    pub fn newest_completed(&self) -> Option<usize> {
        self.history.iter().position(HistoryEntry::completed)
    }

    /// Where `oc adm upgrade rollback` would go: the first history entry whose version differs from
    /// `status.desired`, if it is of the same minor (the CVO refuses any other).
    #[must_use]
    pub fn rollback_candidate(&self) -> Option<&HistoryEntry<'a>> {
        let current = Version::parse(&self.desired.version)?;
        let differs = |entry: &&HistoryEntry<'_>| Version::parse(&entry.version).is_none_or(|v| v != current);
        let entry = self.history.iter().find(differs)?;
        (Version::parse(&entry.version)?.minor() == current.minor()).then_some(entry)
    }
}

into_owned! {
    ClusterVersion { metadata, spec, status }
    Spec { desired_update, channel, upstream }
    DesiredUpdate { version, image, architecture, force, mode }
    Status { desired, history, available_updates, conditional_updates, conditions, observed_generation }
    Release { version, image, architecture }
    HistoryEntry { state, version, image, started_time }
    ConditionalUpdate { release, risks, conditions }
    Risk { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(json: &str) -> DesiredUpdate<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_step_is_a_changed_named_target_or_force_switched_on() {
        let stored = r#"{"version":"4.18.20","image":"q.io/r@sha256:x","force":false}"#;
        for (new, step) in [
            (stored, false),
            ("{}", false),
            (r#"{"acceptRisks":[{"name":"A"}]}"#, false),
            (r#"{"architecture":"","version":"","image":"","force":false}"#, false),
            (r#"{"force":true}"#, false),
            (r#"{"version":"4.18.20","image":"q.io/r@sha256:x","architecture":null}"#, false),
            (r#"{"version":"4.18.20","image":"q.io/r@sha256:x","force":true}"#, true),
            (r#"{"version":"4.18.20","image":"q.io/r@sha256:x","mode":"Preflight"}"#, true),
            (r#"{"version":"4.18.21","image":"q.io/r@sha256:x"}"#, true),
            (r#"{"image":"q.io/r@sha256:x"}"#, true),
        ] {
            assert_eq!(target(new).steps_from(&target(stored)), step, "{new}");
        }
        let forced = r#"{"image":"q.io/r@sha256:x","force":true}"#;
        assert!(!target(r#"{"image":"q.io/r@sha256:x"}"#).steps_from(&target(forced)), "force true to false");
    }

    #[test]
    fn rollback_is_to_the_first_differing_entry_of_the_same_minor() {
        let status = |history: &str| format!(r#"{{"desired":{{"version":"4.19.9"}},"history":{history}}}"#);
        for (history, expected) in [
            (r#"[{"version":"4.19.9"},{"version":"4.19.8","state":"Partial"},{"version":"4.19.7"}]"#, Some("4.19.8")),
            (r#"[{"version":"4.19.9"},{"version":"4.18.20"},{"version":"4.19.8"}]"#, None),
            (r#"[{"version":"4.19.9"},{"version":""},{"version":"4.19.8"}]"#, None),
            ("[]", None),
            ("null", None),
        ] {
            let text = status(history);
            let status: Status<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(status.rollback_candidate().map(|e| &*e.version), expected, "{history}");
        }
    }
}
