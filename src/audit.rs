//! What is stored already, judged as if it were requested now: what airgate would have refused had it been there.
//!
//! Pure: the reviews that would have led to the stored state are made of the facts and go through the same policies.
//! Invariant: an audit changes nothing and refuses nothing; what it cannot know it names.

pub mod conflict;
mod overrides;
mod releases;
mod steps;

use std::ops::Deref;

use serde::Serialize;

use crate::breakglass;
use crate::cluster::{Fact, Missing};
use crate::engine::Facts;
use crate::policies;
use crate::review::{Review, Subject, UserInfo};
use crate::settings::{Mode, OnUnknown, ServerMode, Settings};
use crate::verdict::{self, Verdict};

/// What stands under `policy` where no policy found it: an override that opens nothing.
pub const OVERRIDE: &str = "override";

/// One thing that would not have been let pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    pub policy: &'static str,
    /// `warn`, `deny`, or `unknown` where a fact is missing: what the facts say, whatever the mode makes of it.
    pub outcome: verdict::Result,
    pub mode: Mode,
    pub kind: &'static str,
    pub name: String,
    pub field: &'static str,
    /// What it is about, such as a digest or a bundle: with policy, object and outcome it makes this finding the same
    /// one tomorrow, when ages in its message are others.
    pub about: String,
    pub message: String,
}

/// The result of one audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In policy order.
    pub findings: Vec<Found>,
    /// Facts without which something was not audited.
    pub missing: Vec<Unread>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    pub fact: &'static str,
    pub why: String,
    pub remedy: String,
}

/// Everything an audit looks at: what a verdict rests on.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a>(pub Facts<'a>);

impl<'a> Deref for Audit<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.0
    }
}

impl Report {
    /// Whether nothing is wrong but something could not be judged.
    #[must_use]
    pub fn only_unknown(&self) -> bool {
        let unknown = |found: &Found| found.outcome == verdict::Result::Unknown;
        self.findings.iter().all(unknown) && !(self.findings.is_empty() && self.missing.is_empty())
    }
}

impl Found {
    /// What stays the same as long as it is the same finding.
    #[must_use]
    pub fn content(&self) -> (&'static str, &'static str, &str, &'static str, &str) {
        (self.policy, self.kind, &self.name, self.outcome.as_str(), &self.about)
    }

    /// The first line of the message, without its stop.
    #[must_use]
    pub fn what(&self) -> &str {
        self.message.lines().next().unwrap_or_default().trim_end_matches('.')
    }
}

/// Audits all that is known.
#[must_use]
pub fn audit(audit: Audit<'_>) -> Report {
    let mut report = Report::default();
    audit.steps(&mut report);
    audit.releases(&mut report);
    audit.overrides(&mut report);
    let place = |found: &Found| policies::POLICIES.iter().position(|policy| policy.id == found.policy);
    report.findings.sort_by_key(|found| place(found).unwrap_or(usize::MAX));
    report
}

impl<'a> Audit<'a> {
    /// The verdict on a change as an enforcing airgate would give it. Whoever asked may have used an override.
    fn judge(&self, subject: Subject<'_>) -> Verdict {
        let groups = self.settings.override_groups.iter().map(|group| group.as_str().into()).collect();
        let user = UserInfo { username: "airgate-audit".into(), groups };
        let review = Review { uid: "audit".into(), user, dry_run: true, subject };
        let settings = Settings { mode: ServerMode::Enforce, ..self.settings.clone() };
        verdict::judge(&Facts { settings: &settings, attempt: None, ..self.0 }.context(&review))
    }

    /// The findings of a verdict that count: what an override opened is settled, and what a policy lets pass where
    /// it cannot know is nothing to report.
    fn take(&self, verdict: Verdict, kind: &'static str, name: &str, about: &str, report: &mut Report) {
        for finding in verdict.findings {
            let policy = policies::by_id(finding.policy);
            let let_pass = finding.outcome == verdict::Result::Unknown
                && policy.is_some_and(|policy| policy.on_unknown(self.settings) == OnUnknown::Allow);
            if finding.overridden || let_pass {
                continue;
            }
            add(
                report,
                Found {
                    policy: finding.policy,
                    outcome: finding.outcome,
                    mode: finding.mode,
                    kind,
                    name: name.to_owned(),
                    field: finding.field,
                    about: about.to_owned(),
                    message: finding.message,
                },
            );
        }
    }

    /// The value of a fact; one that is not known is named in the report.
    fn known<T>(&self, fact: &'a Fact<T>, name: &'static str, report: &mut Report) -> Option<&'a T> {
        if let Fact::Unknown(Missing { why, remedy }) = fact {
            let unread = Unread { fact: name, why: why.clone(), remedy: remedy.clone() };
            if !report.missing.contains(&unread) {
                report.missing.push(unread);
            }
        }
        fact.known()
    }
}

/// The same thing is found once, however many ways lead to it.
fn add(report: &mut Report, found: Found) {
    if !report.findings.iter().any(|known| known.content() == found.content()) {
        report.findings.push(found);
    }
}

const CLUSTER_VERSION: &str = "ClusterVersion";
const INTERNAL_RELEASE_IMAGE: &str = "InternalReleaseImage";
const OVERRIDE_FIELD: &str = "metadata.annotations[airgate.io/override]";

/// The command that takes an override away.
fn remove_override(object: &str) -> String {
    format!("oc annotate {object} {}-", breakglass::ANNOTATION)
}
