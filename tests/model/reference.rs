//! The verdicts as the design states them, written for reading: no sharing with the engine, no cleverness.
//!
//! Beside each rule stands the sentence it comes from ("Q4" is settled question 4). Where the design is silent,
//! the comment says "silent:" and what was chosen.

mod bundle_change;
mod bundle_support;
mod catalog;
mod digest_only;
mod in_use;
mod known;
mod overrides;
mod release_identity;
mod texts;
mod upgrade_path;

use std::collections::BTreeMap;

use crate::world::{Mode, OnUnknown, Request, World};
pub use texts::{digest_of, same_version};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    #[default]
    Pass,
    Warn,
    Unknown,
    Deny,
}

/// The overall result, and the worst that each policy asks for; a policy that found nothing is not in the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub result: Outcome,
    /// Of a denial.
    pub code: Option<u16>,
    pub policies: BTreeMap<&'static str, Outcome>,
}

/// What a policy asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub asks: Outcome,
    /// A malformed value: no override opens it.
    pub malformed: bool,
    /// The `target` with which an override names this step.
    pub step: String,
}

impl Finding {
    fn new(asks: Outcome, step: &str) -> Self {
        Self { asks, malformed: false, step: step.to_owned() }
    }

    fn malformed() -> Self {
        Self { asks: Outcome::Deny, malformed: true, step: String::new() }
    }
}

/// A policy's record: the table of the design.
struct Policy {
    id: &'static str,
    on_unknown: OnUnknown,
    /// "Hosted control planes: ClusterVersion policies only warn."
    of_cluster_version: bool,
    judge: fn(&World) -> Vec<Finding>,
}

const POLICIES: [Policy; 7] = [
    Policy { id: "upgrade-path", on_unknown: OnUnknown::Deny, of_cluster_version: true, judge: upgrade_path::judge },
    Policy {
        id: "digest-only",
        on_unknown: OnUnknown::Deny, // "-": it never is
        of_cluster_version: true,
        judge: digest_only::judge,
    },
    Policy { id: "release-in-use", on_unknown: OnUnknown::Deny, of_cluster_version: false, judge: in_use::judge },
    Policy {
        id: "release-identity",
        on_unknown: OnUnknown::Allow,
        of_cluster_version: true,
        judge: release_identity::judge,
    },
    Policy { id: "clusterversion-singleton", on_unknown: OnUnknown::Deny, of_cluster_version: true, judge: singleton },
    Policy {
        id: "bundle-change",
        on_unknown: OnUnknown::Allow,
        of_cluster_version: false,
        judge: bundle_change::judge,
    },
    Policy {
        id: "bundle-support",
        on_unknown: OnUnknown::Warn,
        of_cluster_version: false,
        judge: bundle_support::judge,
    },
];

/// Judges a world.
pub fn judge(world: &World) -> Answer {
    let mut answer = Answer::default();
    // Q6: "A write that changes this annotation reaches airgate so that the setter is recorded." silent: with a
    // warning where it opens nothing as it stands.
    let mut warned = match &world.request {
        Request::UpdateCv(old, new) => old.annotation != new.annotation,
        Request::UpdateIri(old, new) => old.annotation != new.annotation,
        Request::Update(old, new) => old.annotation != new.annotation,
        Request::CreateCv(_) | Request::CreateIri(_) | Request::Create(_) => true,
        Request::DeleteCv(_) | Request::DeleteIri(_) | Request::Delete(_) => false,
    };
    warned &= match overrides::read(world) {
        overrides::Annotation::Malformed => true,
        overrides::Annotation::Entries(entries) => entries.iter().any(|entry| !entry.in_time()),
    };
    // What would be denied: the policy, its finding.
    let mut denials: Vec<(&Policy, Finding)> = vec![];
    for policy in &POLICIES {
        let (mode, on_unknown) = world.settings.policies.get(policy.id).copied().unwrap_or_default();
        let mode = mode.unwrap_or(Mode::Deny);
        // "off: not judged"
        if mode == Mode::Off {
            continue;
        }
        for finding in (policy.judge)(world) {
            let worst = answer.policies.entry(policy.id).or_default();
            *worst = finding.asks.max(*worst);
            // "A Finding asks for deny or warn, an Unknown for what onUnknown (deny, warn, allow) says"
            let asked = match finding.asks {
                Outcome::Pass => continue,
                Outcome::Warn => Mode::Warn,
                Outcome::Deny => Mode::Deny,
                Outcome::Unknown => match on_unknown.unwrap_or(policy.on_unknown) {
                    OnUnknown::Allow => continue,
                    OnUnknown::Warn => Mode::Warn,
                    OnUnknown::Deny => Mode::Deny,
                },
            };
            // "mode is the ceiling on both: deny as asked, warn never more than a warning, audit recorded only"
            // A MachineConfig is no ClusterVersion, whichever rule it meets.
            let of_other = matches!(world.request, Request::Create(_) | Request::Update(..) | Request::Delete(_));
            let hosted = policy.of_cluster_version && !of_other && hosted(world);
            let asked = asked.min(mode).min(if hosted { Mode::Warn } else { Mode::Deny });
            match asked {
                Mode::Deny => denials.push((policy, finding)),
                Mode::Warn => warned = true,
                Mode::Audit | Mode::Off => {}
            }
        }
    }
    // Q14: "Mode audit for the whole server judges, records and answers allow with warnings."
    if world.settings.audit {
        warned |= !denials.is_empty();
        denials.clear();
    }
    let openable = |policy: &Policy, finding: &Finding| policy.id != "digest-only" && !finding.malformed;
    if denials.iter().any(|(policy, finding)| openable(policy, finding)) {
        match overrides::read(world) {
            // "a malformed override on a step that needs one is the only denial, 422"
            overrides::Annotation::Malformed => {
                for (policy, _) in denials.iter().filter(|(policy, finding)| openable(policy, finding)) {
                    answer.policies.insert(policy.id, Outcome::Deny);
                }
                answer.result = Outcome::Deny;
                answer.code = Some(422);
                return answer;
            }
            overrides::Annotation::Entries(entries) => {
                let before = denials.len();
                denials.retain(|(policy, finding)| {
                    !(openable(policy, finding)
                        && entries.iter().any(|entry| entry.opens(world, policy.id, &finding.step)))
                });
                // "Every use is a warning"
                warned |= denials.len() < before;
            }
        }
    }
    // Q11: "403 Forbidden, unless every denial is a malformed value: 422 Invalid"
    if !denials.is_empty() {
        let malformed = denials.iter().all(|(_, finding)| finding.malformed);
        answer.code = Some(if malformed { 422 } else { 403 });
    }
    // "Deny beats Unknown in one review."
    answer.result = if denials.iter().any(|(_, finding)| finding.asks == Outcome::Deny) {
        Outcome::Deny
    } else if !denials.is_empty() {
        Outcome::Unknown
    } else if warned {
        Outcome::Warn
    } else {
        Outcome::Pass
    };
    answer
}

/// "Infrastructure missing or unreadable counts as not hosted."
fn hosted(world: &World) -> bool {
    world.hosted.value().is_some_and(|hosted| *hosted)
}

/// "ClusterVersion `version` DELETE; CREATE with a target"
fn singleton(world: &World) -> Vec<Finding> {
    match &world.request {
        // silent: a ClusterVersion by another name, which nothing acts on, is nobody's business.
        Request::DeleteCv(old) if old.name == "version" && !old.terminating => {
            vec![Finding::new(Outcome::Deny, "delete")]
        }
        Request::CreateCv(new) if new.name == "version" && upgrade_path::names_a_target(&new.target) => {
            vec![Finding::new(Outcome::Deny, &upgrade_path::step(&new.target))]
        }
        _ => vec![],
    }
}
