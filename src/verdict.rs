//! From what policies ask for to one verdict: modes, `onUnknown`, overrides, hosted control planes.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;

use crate::breakglass::{Entry, Override, Step, Use};
use crate::cluster::RegistryQuestion;
use crate::policies::POLICIES;
use crate::policy::{Asks, Context, FactUse, Judgement, Outcome, Policy, Want};
use crate::pullspec::Digest;
use crate::review::Subject;
use crate::settings::{Mode, OnUnknown, ServerMode};
use crate::text::{self, Text, shown};

/// The answer to one review, before it is put into JSON.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub result: Result,
    /// Everything that is not a pass, in policy order.
    pub findings: Vec<Finding>,
    /// What refuses, in policy order; empty when allowed.
    pub denials: Vec<Denial>,
    pub warnings: Vec<String>,
    /// One entry a judged policy.
    pub audit: Vec<(&'static str, String)>,
    pub overrides: Vec<UsedOverride>,
    /// An allow of it cannot be undone, so it must rest on live facts.
    pub irreversible: bool,
    /// Releases whose payload would have told more.
    pub wants: Vec<Want>,
    /// A release whose components are worth looking for.
    pub look_for_components: Option<Digest>,
    /// What the nodes' registries should be asked before this counts, and the policy that wants to know.
    pub question: Option<(&'static str, RegistryQuestion)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Result {
    Allow,
    Warn,
    /// Refused by what the facts say.
    Deny,
    /// Refused because a fact is missing.
    Unknown,
}

impl Result {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing a policy found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub policy: &'static str,
    /// What the facts say: `warn`, `deny` or `unknown`, whatever the mode made of it.
    pub outcome: Result,
    pub mode: Mode,
    pub field: &'static str,
    pub message: String,
    /// Opened by an override.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overridden: bool,
    pub facts: Vec<String>,
}

/// One reason to refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub policy: &'static str,
    pub field: &'static str,
    pub malformed: bool,
    pub text: Text,
    /// The steps an override must name to open it; none: no override does.
    pub steps: Vec<Step>,
    /// The rule, and a note on an override that does not open it.
    pub footer: String,
}

/// A step that an override opened, for the record and an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedOverride {
    pub policy: &'static str,
    pub entry: Entry,
    pub user: String,
}

impl Verdict {
    #[must_use]
    pub fn allowed(&self) -> bool {
        matches!(self.result, Result::Allow | Result::Warn)
    }
}

/// Judges a review by everything known. Total: every input has an answer.
#[must_use]
pub fn judge(context: &Context<'_>) -> Verdict {
    let mut fold = Fold::new(context);
    for policy in POLICIES {
        if policy.mode(context.settings) != Mode::Off && policy.judges(context.review) {
            let mut judgement = Judgement::default();
            (policy.judge)(context, &mut judgement);
            fold.add(policy, judgement);
        }
    }
    fold.finish()
}

struct Fold<'c, 'a> {
    context: &'c Context<'a>,
    over: Override,
    /// Warnings by importance.
    used: Vec<String>,
    softened: Vec<String>,
    plain: Vec<String>,
    verdict: Verdict,
    /// A step needed the override and its annotation could not be read.
    override_fault: Option<(&'static str, String)>,
}

impl<'c, 'a> Fold<'c, 'a> {
    fn new(context: &'c Context<'a>) -> Self {
        let annotation = context.review.subject.metadata().map_or("", |m| &*m.annotations.airgate_override);
        let irreversible = POLICIES
            .iter()
            .flat_map(|policy| policy.guards)
            .any(|guard| guard.irreversible() && guard.touched_by(&context.review.subject));
        Self {
            context,
            over: Override::parse(annotation),
            used: vec![],
            softened: vec![],
            plain: vec![],
            verdict: Verdict {
                result: Result::Allow,
                findings: vec![],
                denials: vec![],
                warnings: vec![],
                audit: vec![],
                overrides: vec![],
                irreversible,
                wants: vec![],
                look_for_components: None,
                question: None,
            },
            override_fault: None,
        }
    }

    fn add(&mut self, policy: &'static Policy, judgement: Judgement) {
        let Judgement { outcomes, facts, wants, look_for_components, question } = judgement;
        self.verdict.question = self.verdict.question.take().or(question.map(|question| (policy.id, question)));
        self.verdict.wants.extend(wants);
        self.verdict.look_for_components = self.verdict.look_for_components.or(look_for_components);
        let mut recorded = vec![];
        for outcome in outcomes {
            recorded.push(self.outcome(policy, outcome, &facts));
        }
        let now = self.context.now;
        let facts: Vec<_> = facts.iter().map(|fact| fact.describe(now)).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" (facts: {})", facts.join("; ")) };
        let what = if recorded.is_empty() { "pass".to_owned() } else { recorded.join("; ") };
        self.verdict.audit.push((policy.id, format!("{what}{facts}")));
    }

    /// Files one outcome under what it leads to and returns its line for the audit log.
    fn outcome(&mut self, policy: &'static Policy, outcome: Outcome, facts: &[FactUse]) -> String {
        let settings = self.context.settings;
        let mode = policy.mode(settings);
        let (asked, wanted) = match outcome.asks {
            Asks::Warn => (Result::Warn, Mode::Warn),
            Asks::Deny | Asks::Malformed => (Result::Deny, Mode::Deny),
            Asks::Unknown => (Result::Unknown, on_unknown(policy.on_unknown(settings))),
            Asks::UnknownForced => {
                (Result::Unknown, on_unknown(policy.set_on_unknown(settings).unwrap_or(OnUnknown::Deny)))
            }
        };
        let level = wanted.min(mode).min(self.ceiling());
        let opened = if level == Mode::Deny { self.opened_by(policy, &outcome) } else { Err(None) };
        let line = outcome.text.line();
        let footer = |note: Option<&str>| footer(policy, !outcome.steps.is_empty(), note);
        let mut finding = Finding {
            policy: policy.id,
            outcome: asked,
            mode,
            field: outcome.field,
            message: text::message(&[(&outcome.text, &footer(None))]),
            overridden: opened.is_ok(),
            facts: facts.iter().map(|fact| fact.describe(self.context.now)).collect(),
        };
        let word = match (level, &opened) {
            (_, Ok(entries)) => {
                for entry in entries {
                    let who = shown(&self.context.review.user.username);
                    let reason = shown(&entry.reason);
                    self.used.push(format!("override of {} used by {who} ({reason}): {line}", policy.id));
                    let user = who.clone().into_owned();
                    self.verdict.overrides.push(UsedOverride { policy: policy.id, entry: entry.clone(), user });
                }
                "override"
            }
            (Mode::Deny, Err(note)) => {
                let footer = footer(note.as_deref());
                finding.message = text::message(&[(&outcome.text, &footer)]);
                self.verdict.denials.push(Denial {
                    policy: policy.id,
                    field: outcome.field,
                    malformed: outcome.asks == Asks::Malformed,
                    text: outcome.text.clone(),
                    steps: outcome.steps.clone(),
                    footer,
                });
                if asked != Result::Unknown {
                    self.verdict.result = Result::Deny;
                } else if self.verdict.result != Result::Deny {
                    self.verdict.result = Result::Unknown;
                }
                if asked == Result::Unknown { "unknown" } else { "deny" }
            }
            // Nothing was softened: no more than a warning was wanted.
            (Mode::Warn, _) if wanted == Mode::Warn => {
                self.plain.push(format!("{}: {line}", policy.id));
                if asked == Result::Unknown { "unknown, warned" } else { "warn" }
            }
            (Mode::Warn, _) => {
                let instead =
                    if self.hosted() { " here; this control plane is hosted, so act on its HostedCluster" } else { "" };
                self.softened.push(format!("{} would deny this{instead}: {line}", policy.id));
                if asked == Result::Unknown { "unknown, not enforced" } else { "deny, not enforced" }
            }
            _ => match asked {
                Result::Unknown => "unknown, allowed",
                _ => "recorded",
            },
        };
        self.verdict.findings.push(finding);
        format!("{word}: {line}")
    }

    /// What caps every policy: the server's mode, and a ClusterVersion that HyperShift owns.
    fn ceiling(&self) -> Mode {
        if self.hosted() || self.context.settings.mode == ServerMode::Audit { Mode::Warn } else { Mode::Deny }
    }

    fn hosted(&self) -> bool {
        matches!(self.context.review.subject, Subject::ClusterVersion(_)) && self.context.cluster.hosted()
    }

    /// The entries that open every step of an outcome, or why the nearest does not.
    fn opened_by(
        &mut self,
        policy: &'static Policy,
        outcome: &Outcome,
    ) -> std::result::Result<Vec<Entry>, Option<String>> {
        if outcome.steps.is_empty() {
            return Err(None);
        }
        let entries = match &self.over {
            Override::Entries(entries) => entries,
            Override::Malformed(fault) => {
                self.override_fault.get_or_insert((policy.id, fault.clone()));
                return Err(None);
            }
        };
        let usage = Use {
            user: &self.context.review.user,
            groups_allowed: &self.context.settings.override_groups,
            now: self.context.now,
        };
        outcome.steps.iter().map(|step| usage.opens(entries, policy.id, step).cloned()).collect()
    }

    fn finish(mut self) -> Verdict {
        if let Some((policy, fault)) = self.override_fault.take() {
            let text = Text::new(
                format!("the annotation {} cannot be read", crate::breakglass::ANNOTATION),
                format!(
                    "{fault}; it is one JSON object or a list of them with policy, from, target, reason and expires"
                ),
            )
            .works("remove it to see the verdict without it, and set one that can be read:")
            .works(format!("airgate override --clear {}", self.object()))
            .works("airgate override --help");
            self.verdict.result = Result::Deny;
            self.verdict.findings.push(Finding {
                policy,
                outcome: Result::Deny,
                mode: Mode::Deny,
                field: OVERRIDE_FIELD,
                message: text.block(""),
                overridden: false,
                facts: vec![],
            });
            let (steps, footer) = (vec![], String::new());
            self.verdict.denials = vec![Denial { policy, field: OVERRIDE_FIELD, malformed: true, text, steps, footer }];
        }
        self.record_override_set();
        let warnings = self.used.into_iter().chain(self.softened).chain(self.plain);
        self.verdict.warnings = text::warnings(warnings);
        if self.verdict.result == Result::Allow && !self.verdict.warnings.is_empty() {
            self.verdict.result = Result::Warn;
        }
        self.verdict
    }
}

impl Fold<'_, '_> {
    /// As `oc` and the command line name the object.
    fn object(&self) -> String {
        let subject = &self.context.review.subject;
        let name = subject.metadata().map_or("", |metadata| &*metadata.name);
        format!("{}/{}", subject.kind().to_ascii_lowercase(), shown(name))
    }

    /// Who set an override is on record, whether or not this request uses it.
    fn record_override_set(&mut self) {
        let Some(annotation) = self.context.review.subject.override_set() else { return };
        let who = shown(&self.context.review.user.username);
        if annotation.is_empty() {
            return self.verdict.audit.push(("override", format!("removed by {who}")));
        }
        let now = self.context.now;
        let (lines, idle): (Vec<String>, Vec<String>) = match &self.over {
            Override::Malformed(fault) => {
                let line = format!("the override opens nothing, it cannot be read: {fault}");
                (vec![line.clone()], vec![line])
            }
            Override::Entries(entries) => (
                entries.iter().map(Entry::describe).collect(),
                entries.iter().filter_map(|entry| idle_entry(entry, now)).collect(),
            ),
        };
        self.verdict.audit.push(("override", format!("set by {who}: {}", lines.join("; "))));
        self.plain.extend(idle);
    }
}

/// Why an entry opens nothing as it stands: better said when it is set than when it is needed.
fn idle_entry(entry: &Entry, now: Timestamp) -> Option<String> {
    let policy = shown(&entry.policy);
    if crate::policies::by_id(&policy).is_none() {
        return Some(format!("the override opens nothing: there is no policy {policy}"));
    }
    let in_force = crate::breakglass::in_force(entry.expires, now);
    (!in_force).then(|| {
        format!(
            "the override of {policy} opens nothing now: expires must be within the next 24 hours, not {}",
            entry.expires
        )
    })
}

const OVERRIDE_FIELD: &str = "metadata.annotations[airgate.io/override]";

fn on_unknown(on_unknown: OnUnknown) -> Mode {
    match on_unknown {
        OnUnknown::Deny => Mode::Deny,
        OnUnknown::Warn => Mode::Warn,
        OnUnknown::Allow => Mode::Audit,
    }
}

/// The rule that made a denial and, where one exists, the way out in an emergency.
fn footer(policy: &Policy, opens: bool, note: Option<&str>) -> String {
    // Writing to a String cannot fail.
    let mut footer = String::new();
    if let Some(note) = note {
        let _ = write!(footer, "\n  note:  the {} annotation {note}", crate::breakglass::ANNOTATION);
    }
    let emergency = if opens { "; in an emergency: airgate override --help" } else { "" };
    let _ = write!(footer, "\n  rule:  {} (airgate policies explain {0}){emergency}", policy.id);
    footer
}
