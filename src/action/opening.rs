//! What an override of one action opens: the step is judged as it is stored, and again with the annotation that
//! would be set. The engine decides both times, so what is promised here is what a request will meet.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Action, NoReview, Stored, User};
use crate::breakglass::{ANNOTATION, ENTRIES_MAX, Entry, Override};
use crate::engine::{self, Facts};
use crate::text::{self, shown};
use crate::verdict::{Denial, Verdict};

/// What somebody takes responsibility for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Ids of policies to open; none: all that deny the step.
    pub policies: &'w [String],
    pub reason: &'w str,
    pub expires: Timestamp,
}

/// A step that is denied, and what an override would make of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// Every denial of the step as it is, in policy order.
    pub denials: Vec<Opened>,
    /// Whether the step would be allowed.
    pub opens: bool,
    /// The new entries, one a policy and step.
    pub entries: Vec<Entry>,
    /// The text of the annotation to set: the new entries and those already there that are still good.
    pub annotation: String,
    /// What happens to entries that are there already, and who may use the new ones.
    pub notes: Vec<String>,
    /// What the step would be answered with.
    pub warnings: Vec<String>,
}

/// One denial of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    pub policy: &'static str,
    /// The denial as the requester would read it, without its last line.
    pub message: String,
    pub opened: bool,
    /// Why not; empty where it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Why there is nothing to set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    NoReview(#[from] NoReview),
    #[error("airgate allows this step as it is: there is nothing to override")]
    Allowed,
    #[error("{0}; no override opens a value that cannot be read: mend it")]
    Malformed(String),
    #[error("{policy} does not deny this step, so an override of it would open nothing; denied by: {denying}")]
    NotDenying { policy: String, denying: String },
    #[error(
        "the patch changes the annotation {ANNOTATION} itself, so what is set before it would not count: leave it out"
    )]
    SetByPatch,
    #[error(
        "with it the annotation {ANNOTATION} would have {0} entries, more than {ENTRIES_MAX}; airgate override --clear RESOURCE/NAME removes those that are there"
    )]
    TooMany(usize),
}

impl Opening {
    /// Judges `action` on the object as it is stored, without and with an override.
    ///
    /// # Errors
    /// [`Refusal`] where no override is needed, or none can be made.
    pub fn of(action: &Action, stored: &Stored, wanted: Wanted<'_>, facts: Facts<'_>) -> Result<Self, Refusal> {
        let user = user(facts);
        let (before, _) = judge(action, with_annotation(stored, None), &user, facts)?;
        if before.allowed() {
            return Err(Refusal::Allowed);
        }
        let entries = entries(&before.denials, wanted)?;
        let mut merged = Merged::of(stored, &entries, facts.now);
        merged.entries.extend(entries.iter().cloned());
        if merged.entries.len() > ENTRIES_MAX {
            return Err(Refusal::TooMany(merged.entries.len()));
        }
        let annotation = annotation_of(&merged.entries);
        let (after, met) = judge(action, with_annotation(stored, Some(&annotation)), &user, facts)?;
        if met.is_some_and(|met| met != annotation) {
            return Err(Refusal::SetByPatch);
        }
        let denials = before.denials.iter().map(|denial| opened(denial, &after, wanted)).collect();
        if !facts.settings.override_groups.is_empty() {
            let groups = facts.settings.override_groups.join(", ");
            merged.notes.push(format!("only members of {groups} may use it (overrideGroups)"));
        }
        let (opens, warnings) = (after.allowed(), after.warnings);
        Ok(Self { denials, opens, entries, annotation, notes: merged.notes, warnings })
    }
}

/// The verdict on the action as things are stored.
///
/// # Errors
/// [`Refusal`] where there is nothing to judge.
pub fn verdict(action: &Action, stored: Stored, facts: Facts<'_>) -> Result<Verdict, Refusal> {
    Ok(judge(action, stored, &user(facts), facts)?.0)
}

/// Whoever does the step. The groups that may use an override are said in a note; here the question is what its
/// entries open.
fn user(facts: Facts<'_>) -> User {
    let mut user = User { username: "you".into(), ..User::default() };
    user.groups.extend(facts.settings.override_groups.iter().cloned());
    user
}

/// The verdict on the action, and the annotation that it would be judged by.
fn judge(action: &Action, stored: Stored, user: &User, facts: Facts<'_>) -> Result<(Verdict, Option<String>), Refusal> {
    let review = action.review(stored, user)?;
    let request = &review["request"];
    let object = if request["object"].is_null() { &request["oldObject"] } else { &request["object"] };
    let met = object["metadata"]["annotations"][ANNOTATION].as_str().map(str::to_owned);
    match engine::judge(review.to_string().as_bytes(), facts) {
        Ok(judged) => Ok((judged.verdict, met)),
        Err(bad) => Err(Refusal::Malformed(bad.message)),
    }
}

/// The stored object with this annotation, or without any.
fn with_annotation(stored: &Stored, annotation: Option<&str>) -> Stored {
    let Stored::Found(object, source) = stored else { return stored.clone() };
    let mut object = object.clone();
    let patch = serde_json::json!({"metadata": {"annotations": {ANNOTATION: annotation}}});
    json_patch::merge(&mut object, &patch);
    Stored::Found(object, source.clone())
}

/// One entry for each step of each denial that is to be opened.
fn entries(denials: &[Denial], wanted: Wanted<'_>) -> Result<Vec<Entry>, Refusal> {
    if let Some(idle) = wanted.policies.iter().find(|id| !denials.iter().any(|denial| denial.policy == **id)) {
        let mut denying: Vec<&str> = denials.iter().map(|denial| denial.policy).collect();
        denying.dedup();
        return Err(Refusal::NotDenying { policy: shown(idle).into_owned(), denying: denying.join(", ") });
    }
    let mut entries: Vec<Entry> = vec![];
    for denial in denials.iter().filter(|denial| wanted.names(denial.policy)) {
        for step in &denial.steps {
            let entry = Entry {
                policy: denial.policy.into(),
                from: step.from.clone(),
                target: step.target.clone(),
                reason: wanted.reason.into(),
                expires: wanted.expires,
            };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

impl Wanted<'_> {
    fn names(&self, policy: &str) -> bool {
        self.policies.is_empty() || self.policies.iter().any(|id| id == policy)
    }
}

fn opened(denial: &Denial, after: &Verdict, wanted: Wanted<'_>) -> Opened {
    let still = after.denials.iter().find(|still| still.policy == denial.policy && still.text == denial.text);
    let why = match still {
        None => String::new(),
        Some(_) if denial.steps.is_empty() => "no override opens a value's form: mend it".into(),
        Some(_) if !wanted.names(denial.policy) => format!("--policy does not name {}", denial.policy),
        Some(still) => still.footer.trim().to_owned(),
    };
    let message = text::message(&[(&denial.text, "")]);
    Opened { policy: denial.policy, message, opened: still.is_none(), why }
}

/// What stays of the annotation that is there.
struct Merged {
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl Merged {
    fn of(stored: &Stored, new: &[Entry], now: Timestamp) -> Self {
        let mut merged = Self { entries: vec![], notes: vec![] };
        let text = match stored {
            Stored::Found(object, _) => annotation(object),
            Stored::KnownAbsent | Stored::Unknown(_) => "",
        };
        match Override::parse(text) {
            Override::Malformed(fault) => {
                merged.notes.push(format!("what the annotation holds now cannot be read and is replaced: {fault}"));
            }
            Override::Entries(entries) => {
                for entry in entries {
                    merged.sort(entry, new, now);
                }
            }
        }
        merged
    }

    fn sort(&mut self, entry: Entry, new: &[Entry], now: Timestamp) {
        let same_step =
            |new: &Entry| (&new.policy, &new.from, &new.target) == (&entry.policy, &entry.from, &entry.target);
        if new.iter().any(same_step) {
            self.notes.push(format!("replaces: {}", entry.describe()));
        } else if entry.expires <= now {
            self.notes.push(format!("drops what has expired: {}", entry.describe()));
        } else {
            self.notes.push(format!("keeps: {}", entry.describe()));
            self.entries.push(entry);
        }
    }
}

/// The override annotation of a whole object; "" where it has none.
#[must_use]
pub fn annotation(object: &Value) -> &str {
    object["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default()
}

/// One entry as an object, several as a list.
fn annotation_of(entries: &[Entry]) -> String {
    // Strings and a time: there is nothing in them that JSON could not hold.
    match entries {
        [entry] => serde_json::to_string(entry),
        entries => serde_json::to_string(entries),
    }
    .unwrap_or_default()
}

#[cfg(test)]
mod tests;
