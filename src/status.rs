//! Where a cluster stands and where it can go: the model of `airgate status`, before anything is printed.
//!
//! Invariants: what may be removed and which step is possible is what the engine answers to exactly that request; the
//! same facts give the same model, entry by entry. A section is a list of records, so that what is learned later of a
//! bundle, a release or a node is one more field.

mod bundles;
mod cluster;
mod facts;
mod needed;
mod registration;
mod upgrades;
mod wanted;

use jiff::Timestamp;
use serde::Serialize;

use crate::breakglass::{Override, in_force};
use crate::cluster::Fact;
use crate::engine::Facts;
use crate::objects::Metadata;
use crate::problem::Problem;
use crate::review::{Review, Subject, UserInfo};
use crate::settings::{Retain, ServerMode};
use crate::text::shown;
use crate::verdict;

use needed::Window;

pub use bundles::{BundleStatus, Bundles, NodeStatus};
pub use cluster::{Cluster, Pending, Running};
pub use facts::FactStatus;
pub use needed::{Needed, NeededRelease};
pub use registration::{REMOVAL, Registration};
pub use upgrades::{Hop, Kind, Target, Upgrades};
pub use wanted::wanted;

/// Everything on the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub as_of: Timestamp,
    /// The configuration's `mode` and `retain`, which the verdicts below go by.
    pub mode: ServerMode,
    pub retain: Retain,
    pub cluster: Cluster,
    pub needed: Needed,
    pub bundles: Bundles,
    pub upgrades: Upgrades,
    pub overrides: Vec<OverrideStatus>,
    /// Whether the API server asks airgate; null where there is none to look at.
    pub registration: Option<Registration>,
    pub facts: Vec<FactStatus>,
    /// What could not be read or contradicts itself, of files and release sources.
    pub problems: Vec<Problem>,
}

/// Yes, no, or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Yes,
    No,
    Unknown,
}

/// Whether an object or a collection is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    Known,
    Absent,
    Unknown,
}

/// What the engine says to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// `allow`, `warn`, `deny` or `unknown`.
    pub outcome: verdict::Result,
    /// The policies that refuse, in their order.
    pub policies: Vec<&'static str>,
    /// Each refusal in one sentence; empty where it is allowed.
    pub denials: Vec<String>,
    /// The same with the reason, or the warnings of what is allowed.
    pub why: Vec<String>,
}

/// One entry of an `airgate.io/override` annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideStatus {
    /// `RESOURCE/NAME`
    pub object: String,
    /// Whether it opens its step at this moment.
    pub in_force: bool,
    pub text: String,
}

/// A condition that a person should see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Status {
    #[must_use]
    pub fn of(facts: Facts<'_>, problems: &[Problem]) -> Self {
        let window = Window::of(facts);
        Self {
            as_of: facts.now,
            mode: facts.settings.mode,
            retain: facts.settings.retain,
            cluster: Cluster::of(facts),
            needed: window.status(facts),
            bundles: Bundles::of(facts, &window),
            upgrades: Upgrades::of(facts),
            overrides: overrides(facts),
            registration: None,
            facts: facts::all(facts),
            problems: problems.to_vec(),
        }
    }
}

impl Judged {
    fn of(facts: Facts<'_>, subject: Subject<'_>) -> Self {
        // Nobody asks: an override of a group's members is not in this.
        let review = Review { uid: "".into(), user: UserInfo::default(), dry_run: true, subject };
        Self::from(verdict::judge(&facts.context(&review)))
    }

    #[must_use]
    pub fn allowed(&self) -> bool {
        matches!(self.outcome, verdict::Result::Allow | verdict::Result::Warn)
    }
}

impl From<verdict::Verdict> for Judged {
    fn from(verdict: verdict::Verdict) -> Self {
        let mut policies: Vec<_> = verdict.denials.iter().map(|denial| denial.policy).collect();
        policies.dedup();
        let mut why: Vec<String> = verdict.denials.iter().map(|denial| denial.text.line()).collect();
        if why.is_empty() {
            why.clone_from(&verdict.warnings);
        }
        let denials = verdict.denials.iter().map(|denial| denial.text.what.clone()).collect();
        Self { outcome: verdict.result, policies, denials, why }
    }
}

impl Presence {
    fn of<T>(fact: &Fact<T>) -> Self {
        match fact {
            Fact::Known(..) => Self::Known,
            Fact::Absent(_) => Self::Absent,
            Fact::Unknown(_) => Self::Unknown,
        }
    }
}

fn overrides(facts: Facts<'_>) -> Vec<OverrideStatus> {
    let cluster = facts.cluster;
    let version = cluster.cluster_version.known().map(|object| ("clusterversion", &object.metadata));
    let image = cluster.internal_release_image.known().map(|object| ("internalreleaseimage", &object.metadata));
    version.into_iter().chain(image).flat_map(|(kind, metadata)| overrides_of(kind, metadata, facts.now)).collect()
}

fn overrides_of(kind: &str, metadata: &Metadata<'_>, now: Timestamp) -> Vec<OverrideStatus> {
    let object = format!("{kind}/{}", clean(&metadata.name));
    match Override::parse(&metadata.annotations.airgate_override) {
        Override::Malformed(fault) => {
            vec![OverrideStatus { object, in_force: false, text: format!("cannot be read: {fault}") }]
        }
        Override::Entries(entries) => {
            let status = |entry: &crate::breakglass::Entry| OverrideStatus {
                object: object.clone(),
                in_force: in_force(entry.expires, now),
                text: entry.describe(),
            };
            entries.iter().map(status).collect()
        }
    }
}

/// A string of the cluster as it may be shown, on one line.
fn clean(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}
