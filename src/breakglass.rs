//! The break-glass of settled question 6: the annotation `airgate.io/override` on the guarded object.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::review::UserInfo;
use crate::text::shown;
use crate::version;

pub const ANNOTATION: &str = "airgate.io/override";
/// An override is for now, not for ever.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// More steps than anybody takes at once.
pub const ENTRIES_MAX: usize = 64;

/// What the annotation holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Override {
    Entries(Vec<Entry>),
    /// Why it cannot be read.
    Malformed(String),
}

/// One step that somebody took responsibility for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub policy: String,
    /// The current version; `none` on CREATE; metadata.name for kinds other than ClusterVersion.
    pub from: String,
    /// The digest, else the version, `VERSION/Multi`, a bundle's name, or `delete`.
    pub target: String,
    pub reason: String,
    #[serde(deserialize_with = "rfc3339")]
    pub expires: Timestamp,
}

/// RFC 3339 to the letter, as every other tool that reads the annotation would take it.
fn rfc3339<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let zone = shape.strip_prefix("0000-00-00T00:00:00").map(|rest| match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches('0'),
        None => rest,
    });
    match zone {
        Some("Z" | "+00:00" | "-00:00") => text.parse().map_err(serde::de::Error::custom),
        _ => Err(serde::de::Error::custom("expires is no RFC 3339 time such as 2026-12-01T06:00:00Z")),
    }
}

impl Entry {
    /// On one line, cleaned.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { policy, from, target, reason, expires } = self;
        let (policy, from, target, reason) = (shown(policy), shown(from), shown(target), shown(reason));
        format!("{policy}, {from} -> {target} until {expires} ({reason})")
    }
}

impl Override {
    /// Reads the annotation's text; "" is no override.
    #[must_use]
    pub fn parse(annotation: &str) -> Self {
        if annotation.is_empty() {
            return Self::Entries(vec![]);
        }
        // Straight into entries, not by way of a JSON tree: a key that stands there twice is an error.
        let entries: Result<Vec<Entry>, _> = if annotation.trim_start().starts_with('[') {
            serde_json::from_str(annotation)
        } else {
            serde_json::from_str(annotation).map(|entry| vec![entry])
        };
        match entries {
            Ok(entries) if entries.len() > ENTRIES_MAX => {
                Self::Malformed(format!("it has {} entries, more than {ENTRIES_MAX}", entries.len()))
            }
            Ok(entries) if entries.iter().any(|entry: &Entry| entry.reason.trim().is_empty()) => {
                Self::Malformed("an entry has no reason".into())
            }
            Ok(entries) => Self::Entries(entries),
            Err(error) => Self::Malformed(shown(&error.to_string()).into_owned()),
        }
    }
}

/// One step as an override names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: String,
    pub target: String,
}

/// Who asks, when, and who may.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    pub user: &'a UserInfo<'a>,
    pub groups_allowed: &'a [String],
    pub now: Timestamp,
}

impl Use<'_> {
    /// The entry that opens `step` for `policy`.
    ///
    /// # Errors
    /// What this step needs and what the annotation has instead; `None` where it has no entry at all.
    pub fn opens<'e>(&self, entries: &'e [Entry], policy: &str, step: &Step) -> Result<&'e Entry, Option<String>> {
        let needed = format!("from {}, target {}", shown(&step.from), shown(&step.target));
        let mut fault = format!("has no entry for {policy}");
        for entry in entries.iter().filter(|entry| entry.policy == policy) {
            match self.fault(entry, step) {
                None => return Ok(entry),
                Some(of_entry) => fault = of_entry,
            }
        }
        Err((!entries.is_empty()).then(|| format!("{fault}; this step needs {needed}")))
    }

    fn fault(&self, entry: &Entry, step: &Step) -> Option<String> {
        if !version::same(&entry.from, &step.from) || !version::same(&entry.target, &step.target) {
            return Some(format!("is for {} -> {}", shown(&entry.from), shown(&entry.target)));
        }
        if entry.expires <= self.now {
            return Some(format!("expired at {}", entry.expires));
        }
        if !in_force(entry.expires, self.now) {
            return Some(format!("expires at {}, more than 24 hours from now", entry.expires));
        }
        let allowed = self.groups_allowed.is_empty()
            || self.user.groups.iter().any(|group| self.groups_allowed.iter().any(|allowed| **group == **allowed));
        (!allowed).then(|| format!("may only be used by members of {}", self.groups_allowed.join(", ")))
    }
}

/// `now < expires <= now + 24 h`
#[must_use]
pub fn in_force(expires: Timestamp, now: Timestamp) -> bool {
    now < expires && expires.duration_since(now) <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"{"policy":"upgrade-path","from":"4.18.20","target":"sha256:aa","reason":"support case 1","expires":"2026-11-30T12:00:00Z"}"#;

    #[test]
    fn one_object_or_a_list_and_nothing_half_right() {
        let count = |text: &str| match Override::parse(text) {
            Override::Entries(entries) => Some(entries.len()),
            Override::Malformed(_) => None,
        };
        assert_eq!(count(""), Some(0));
        assert_eq!(count(ENTRY), Some(1));
        assert_eq!(count(&format!("[{ENTRY},{ENTRY}]")), Some(2));
        for broken in [
            "yes",
            "{}",
            "{",
            "[1]",
            &ENTRY.replace("support case 1", " "),
            &ENTRY.replace("2026-11-30T12:00:00Z", "tomorrow"),
            &ENTRY.replace("2026-11-30T12:00:00Z", "20261130T120000Z"),
            &ENTRY.replace("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z[Europe/Paris]"),
            &ENTRY.replace("2026-11-30T12:00:00Z", "2026-11-30 12:00:00Z"),
            &ENTRY.replace("\"from\":\"4.18.20\"", "\"from\":\"4.18.20\",\"from\":\"4.18.21\""),
            &ENTRY.replace("reason", "reasons"),
            &ENTRY.replace("\"from\"", "\"extra\":1,\"from\""),
        ] {
            assert_eq!(count(broken), None, "{broken}");
        }
    }

    #[test]
    fn opens_exactly_one_step_for_a_day_at_most() {
        let Override::Entries(entries) = Override::parse(ENTRY) else { panic!() };
        let user = UserInfo { username: "admin".into(), groups: vec!["ops".into()] };
        let check = |now: &str, groups: &[&str], from: &str, target: &str, expected: Option<&str>| {
            let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
            let usage = Use { user: &user, groups_allowed: &groups, now: now.parse().unwrap() };
            let step = Step { from: from.into(), target: target.into() };
            let fault = usage.opens(&entries, "upgrade-path", &step).err().map(|fault| fault.unwrap());
            match expected {
                Some(part) => assert!(fault.as_ref().is_some_and(|f| f.contains(part)), "{fault:?} lacks {part:?}"),
                None => assert_eq!(fault, None),
            }
        };
        check("2026-11-30T11:59:59Z", &[], "4.18.20", "sha256:aa", None);
        check("2026-11-30T11:59:59Z", &[], "4.18.20+x", "sha256:aa", None);
        check("2026-11-29T12:00:00Z", &["ops", "x"], "4.18.20", "sha256:aa", None);
        check("2026-11-29T11:59:59Z", &[], "4.18.20", "sha256:aa", Some("24 hours"));
        check("2026-11-30T12:00:00Z", &[], "4.18.20", "sha256:aa", Some("expired"));
        check("2026-11-30T11:00:00Z", &["sre"], "4.18.20", "sha256:aa", Some("members of sre"));
        check("2026-11-30T11:00:00Z", &[], "4.18.21", "sha256:aa", Some("is for 4.18.20"));
        check("2026-11-30T11:00:00Z", &[], "4.18.20", "sha256:ab", Some("is for"));
    }
}
