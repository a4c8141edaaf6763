//! `mirror-in-use`: no release that the cluster keeps loses its last mirror.

mod effect;
mod needs;

use crate::breakglass::Step;
use crate::cluster::Missing;
use crate::mirrors::{MirrorRules, Pull, RuleSources};
use crate::objects::mirrors::{ImageConfig, MirrorKind, MirrorSet};
use crate::policy::{Context, FactKind, Guard, Judgement, Policy};
use crate::pullspec::Repository;
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};
use effect::{Effect, Reach, Rules};
use needs::{Need, Needs};

pub const POLICY: Policy = Policy {
    id: "mirror-in-use",
    title: "no release that the cluster keeps loses its last mirror",
    why: "Nodes find the images of a release through mirror rules whenever a pod moves, a node reboots or an image was \
          garbage-collected. A rule that is removed, shadowed by a longer one or undone by a blocked registry is not \
          missed on the day it goes, but when the next node needs an image and there is no way to it.",
    guards: &[
        Guard::MirrorsCreate(MirrorKind::Digest),
        Guard::MirrorsChange(MirrorKind::Digest),
        Guard::MirrorsDelete(MirrorKind::Digest),
        Guard::MirrorsCreate(MirrorKind::Tag),
        Guard::MirrorsChange(MirrorKind::Tag),
        Guard::MirrorsDelete(MirrorKind::Tag),
        Guard::MirrorsCreate(MirrorKind::ContentSource),
        Guard::MirrorsChange(MirrorKind::ContentSource),
        Guard::MirrorsDelete(MirrorKind::ContentSource),
        Guard::ImageConfigCreate,
        Guard::ImageConfigChange,
        Guard::ImageConfigDelete,
    ],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Warn,
    facts: &[
        FactKind::ClusterVersion,
        FactKind::InternalReleaseImage,
        FactKind::MachineConfigNodes,
        FactKind::MachineConfigPools,
        FactKind::MachineConfigs,
        FactKind::Infrastructure,
        FactKind::ImageDigestMirrorSets,
        FactKind::ImageTagMirrorSets,
        FactKind::ImageContentSourcePolicies,
        FactKind::ImageConfig,
    ],
    judge,
};

/// Repositories and mirrors named one by one.
const SHOWN: usize = 3;

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(change) = RuleChange::of(&context.review.subject) else { return };
    for kind in MirrorKind::ALL {
        judgement.used(kind.resource().kind, context.cluster.mirror_sets(kind).provenance());
    }
    judgement.used("image configuration", context.cluster.image_config.provenance());
    let rules = match change.rules(context) {
        Ok(rules) => rules,
        Err(missing) => return change.unknown(judgement, &missing),
    };
    let needs = Needs::of(context, judgement);
    let mut found: Vec<(&Need, Effect)> = vec![];
    for need in &needs.all {
        let effect = rules.effect(&need.repository, need.pull, need.running, need.in_iri);
        found.extend(effect.map(|effect| (need, effect)));
    }
    change.report(judgement, &rules, &found);
    change.report_trust(judgement, &rules, &needs);
    // What is not known matters only where the change takes something from somebody.
    if !judgement.refuses()
        && let Some(first) = needs.missing.first()
        && change.takes_something(&rules)
    {
        change.unknown(judgement, first);
    }
}

/// The change as the rules see it.
struct RuleChange<'a> {
    kind: &'static str,
    name: &'a str,
    field: &'static str,
    step: Step,
    what: What<'a>,
}

enum What<'a> {
    Mirrors(MirrorKind, Option<&'a MirrorSet<'a>>, Option<&'a MirrorSet<'a>>),
    Config(Option<&'a ImageConfig<'a>>, Option<&'a ImageConfig<'a>>),
}

fn sides<T>(change: &Change<T>) -> (Option<&T>, Option<&T>) {
    match change {
        Change::Create(new) => (None, Some(new)),
        Change::Update { old, new } => (Some(old), Some(new)),
        Change::Delete(old) => (Some(old), None),
    }
}

impl<'a> RuleChange<'a> {
    fn of(subject: &'a Subject<'a>) -> Option<Self> {
        let (what, field) = match subject {
            Subject::MirrorSet(kind, change) => {
                let (old, new) = sides(change);
                (What::Mirrors(*kind, old, new), kind.field())
            }
            Subject::ImageConfig(change) => {
                let (old, new) = sides(change);
                (What::Config(old, new), "spec.registrySources")
            }
            _ => return None,
        };
        let name = &*subject.metadata()?.name;
        let (old, new) = match &what {
            What::Mirrors(_, old, new) => (old.is_some(), new.is_some()),
            What::Config(old, new) => (old.is_some(), new.is_some()),
        };
        let from = if old { name } else { "none" };
        let target = if new { name } else { "delete" };
        let step = Step { from: from.into(), target: target.into() };
        Some(Self { kind: subject.kind(), name, field, step, what })
    }

    fn rules(&self, context: &Context<'_>) -> Result<Rules, Missing> {
        let mut sources = RuleSources::of(context.cluster)?;
        // The request's own objects count: they are the stored one and the one to be stored.
        let mut with = |new: bool| {
            match &self.what {
                What::Mirrors(kind, before, after) => {
                    sources.replace(*kind, self.name, if new { *after } else { *before });
                }
                What::Config(before, after) => sources.image_config = if new { *after } else { *before },
            }
            MirrorRules::new(&sources)
        };
        Ok(Rules { before: with(false)?, after: with(true)? })
    }

    /// `ImageDigestMirrorSet idms-release-0`
    fn object(&self) -> String {
        format!("{} {}", self.kind, shown(self.name))
    }

    /// `deleting ImageDigestMirrorSet idms-release-0`
    fn action(&self) -> String {
        let verb = match (&*self.step.from, &*self.step.target) {
            ("none", _) => "creating",
            (_, "delete") => "deleting",
            _ => "changing",
        };
        format!("{verb} {}", self.object())
    }

    fn report(&self, judgement: &mut Judgement, rules: &Rules, found: &[(&Need, Effect)]) {
        let denied: Vec<_> = found.iter().filter(|(_, effect)| denies(effect)).collect();
        if let [(first, _), ..] = &denied[..] {
            let more = match denied.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            let what = format!("{} takes the last way to {}{more} from the nodes", self.action(), first.repository);
            let mut why: Vec<String> =
                denied.iter().take(SHOWN).map(|(need, effect)| because(rules, need, effect)).collect();
            if denied.len() > SHOWN {
                why.push(format!("and {} more", denied.len() - SHOWN));
            }
            judgement.deny(self.field, self.works(Text::new(what, why.join("; "))), vec![self.step.clone()]);
        }
        for (need, effect) in found.iter().filter(|(_, effect)| !denies(effect)) {
            if let Effect::LastMirror(Reach::PerhapsOnlyInIri) = effect {
                let missing = Missing {
                    why: format!(
                        "{} is found in registries of the InternalReleaseImage alone, and whether that holds it is not known",
                        need.repository
                    ),
                    remedy: "oc get internalreleaseimage cluster -o yaml; oc get machineconfignodes -o yaml".into(),
                };
                self.unknown(judgement, &missing);
                continue;
            }
            judgement.warn(self.field, self.warning(rules, need, effect));
        }
    }

    fn works(&self, text: Text) -> Text {
        let all = "oc get imagedigestmirrorsets,imagetagmirrorsets -o yaml";
        match &self.what {
            What::Mirrors(_, None, _) => text
                .works("give the new rule the same source as the rule that it hides: nodes then use both; the rules there are:")
                .works(all),
            What::Mirrors(..) => text
                .works("name the new mirror beside the old one first, and take the old one away in a second step,")
                .works("once the images are at the new one; the rules there are:")
                .works(all),
            What::Config(..) => text
                .works("leave out what covers the mirrors or the name; to keep nodes from a source and leave them its mirrors,")
                .works("set mirrorSourcePolicy: NeverContactSource on those; what there is now:")
                .works(format!("oc get images.config.openshift.io {} -o yaml; {all}", shown(self.name))),
        }
    }

    fn warning(&self, rules: &Rules, need: &Need, effect: &Effect) -> Text {
        let (object, repository) = (self.object(), &need.repository);
        let now = listed(&rules.mirrors_after(repository, need.pull));
        match effect {
            Effect::LastMirror(_) => Text::new(
                format!("{object} takes the last mirror of {repository}"),
                format!("from now on nodes contact the source itself for the {}", need.what),
            ),
            Effect::Shadowed { scope } => Text::new(
                format!("the longer source {} shadows the mirrors of {repository}", shown(scope)),
                format!("from now on nodes look at {now} alone for the {}", need.what),
            ),
            Effect::Replaced => Text::new(
                format!("no mirror of {repository} stays"),
                format!("from now on nodes look at {now}; make sure that it holds the {}", need.what),
            ),
            Effect::Opened => Text::new(
                format!("nodes may contact {repository} itself again"),
                "no rule for it says NeverContactSource any more; on a disconnected site that costs time-outs",
            ),
            Effect::NameBlocked => Text::new(
                format!("{repository} is blocked by name"),
                "nodes may refuse its images although a mirror has them; NeverContactSource on its mirrors keeps nodes \
                 from the source without that",
            ),
            Effect::MirrorsNotAllowed => Text::new(
                format!("allowedRegistries names no mirror of {repository}"),
                format!("nodes ask for the name alone, but image imports and builds would refuse {now}"),
            ),
            Effect::Unreachable { .. } | Effect::LeavesIri => Text::new(object, because(rules, need, effect)),
        }
    }

    /// Mirrors that nodes can no longer verify, or not without TLS.
    fn report_trust(&self, judgement: &mut Judgement, rules: &Rules, needs: &Needs) {
        let What::Config(Some(old), new) = &self.what else { return };
        let mut mirrors = needs.all.iter().flat_map(|need| rules.mirrors_after(&need.repository, need.pull));
        let trusted = |config: Option<&ImageConfig<'_>>| {
            config.map(|config| config.spec.additional_trusted_ca.name.to_string()).filter(|name| !name.is_empty())
        };
        let insecure = mirrors.find(|mirror| rules.before.insecure(mirror) && !rules.after.insecure(mirror));
        if let Some(mirror) = insecure {
            let why =
                "nodes demand TLS and a certificate they trust there from now on; releases in use are found there";
            judgement.warn(self.field, Text::new(format!("{mirror} is no longer an insecure registry"), why));
        }
        let first =
            needs.all.iter().find_map(|need| rules.mirrors_after(&need.repository, need.pull).into_iter().next());
        if let (Some(name), None, Some(mirror)) = (trusted(Some(old)), trusted(*new), first) {
            let what = format!("the CA bundles of ConfigMap openshift-config/{} are no longer trusted", shown(&name));
            let why = format!("nodes may refuse the certificates of mirrors such as {mirror}");
            judgement.warn("spec.additionalTrustedCA", Text::new(what, why));
        }
    }

    fn unknown(&self, judgement: &mut Judgement, missing: &Missing) {
        let what = format!("whether {} takes a mirror that a release in use needs cannot be judged", self.object());
        judgement.unknown(self.field, what, missing, vec![self.step.clone()]);
    }

    /// Whether any image at all could be found less well after the change: asked at each scope that it names.
    fn takes_something(&self, rules: &Rules) -> bool {
        let takes = |scope: &str| {
            let below = format!("{scope}/x");
            let asked = [scope, &below].map(|name| match name.strip_prefix('*') {
                Some(domain) => Repository::parse(&format!("x{domain}")),
                None => Repository::parse(name),
            });
            let mut effects =
                asked.iter().flatten().filter_map(|at| rules.effect(at, Pull::Digest, false, Some(false)));
            effects.any(|effect| effect != Effect::Opened)
        };
        match &self.what {
            What::Mirrors(kind, old, new) => {
                let entries = [old, new].into_iter().flatten().flat_map(|set| set.of(*kind));
                entries.into_iter().any(|entry| takes(&entry.source))
            }
            What::Config(_, new) => {
                let registries = new.map(|config| &config.spec.registry_sources);
                registries.is_some_and(|registries| {
                    let named = registries.blocked_registries.iter().chain(&registries.insecure_registries);
                    let allowed = &registries.allowed_registries;
                    !allowed.is_empty() || named.into_iter().any(|scope| takes(scope))
                })
            }
        }
    }
}

/// What the table of policies denies: the source is out of reach.
fn denies(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Unreachable { .. } | Effect::LastMirror(Reach::Forbidden | Reach::OnlyInIri) | Effect::LeavesIri
    )
}

/// One repository of a denial: what is named there, where it was found, what is left.
fn because(rules: &Rules, need: &Need, effect: &Effect) -> String {
    let before = rules.mirrors_before(&need.repository, need.pull);
    let before = if before.is_empty() { "at the source itself".to_owned() } else { format!("at {}", listed(&before)) };
    let after = match effect {
        Effect::Unreachable { refused: true } => "allowedRegistries leaves its name out, so nodes refuse it".to_owned(),
        Effect::Unreachable { refused: false } => "no place is left, and the source itself is blocked".to_owned(),
        Effect::LastMirror(Reach::OnlyInIri) => {
            "only the source itself is left, and the InternalReleaseImage is all that holds it".to_owned()
        }
        Effect::LeavesIri => {
            let now = listed(&rules.mirrors_after(&need.repository, need.pull));
            format!("from now on at {now}, of which airgate cannot say that it holds it")
        }
        _ => "only the source itself is left, from which nodes were kept so far".to_owned(),
    };
    format!("{}: named {}, looked for {before}; {after}", need.what, need.repository)
}

fn listed(mirrors: &[Repository]) -> String {
    let names: Vec<String> = mirrors.iter().take(SHOWN).map(ToString::to_string).collect();
    match mirrors.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names.join(", "), all - SHOWN),
    }
}
