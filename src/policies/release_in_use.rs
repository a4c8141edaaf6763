//! `release-in-use`: no release that the cluster still needs leaves it with an InternalReleaseImage.

mod catalogs;

use crate::breakglass::Step;
use crate::bundle::{self, Bundle, Match};
use crate::cluster::{Missing, Provenance, RenderedReleases};
use crate::objects::cluster_version::ClusterVersion;
use crate::objects::internal_release_image::{InternalReleaseImage, MachineConfigNode};
use crate::objects::machine_config::MachineConfigPool;
use crate::policy::{Context, FactKind, Guard, Judgement, Policy};
use crate::retain::{self, Kept};
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown, Retain};
use crate::text::{Text, shown};

pub const POLICY: Policy = Policy {
    id: "release-in-use",
    title: "no release that is in use, or that status.history still names, leaves the InternalReleaseImage",
    why: "Removing a release bundle deletes the images that nodes pull when they reboot, when pods move and when images \
          were garbage-collected; it cannot be undone. The guard that OpenShift ships compares status.desired with \
          digests that may be placeholders and does not look at updates of spec.releases at all.",
    guards: &[Guard::InternalReleaseImageDrop, Guard::InternalReleaseImageDelete],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Deny,
    facts: &[
        FactKind::ClusterVersion,
        FactKind::MachineConfigNodes,
        FactKind::MachineConfigPools,
        FactKind::MachineConfigs,
        FactKind::CatalogSources,
        FactKind::ClusterCatalogs,
    ],
    judge,
};

const FIELD: &str = "spec.releases";
/// Bundles named one by one in a denial.
const SHOWN: usize = 4;

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Subject::InternalReleaseImage(change) = &context.review.subject else { return };
    let mut missing: Vec<Missing> = vec![];
    let nodes = nodes(context, judgement, &mut missing);
    let nodes_known = missing.is_empty();
    let (iri, removed) = match change {
        Change::Update { old, new } => (old, dropped(old, new, nodes)),
        Change::Delete(old) => (old, bundle::all(old, nodes)),
        Change::Create(_) => return,
    };
    let name = iri.metadata.name.to_string();
    let step = |target: &str| Step { from: name.clone(), target: target.to_owned() };
    let whole_object = matches!(change, Change::Delete(_));
    let kept = kept(context, judgement, &mut missing);

    let held = Held::of(&removed, &kept, context);
    if !held.denied.is_empty() {
        let steps = held.denied.iter().map(|(bundle, _)| step(&bundle.name)).collect();
        judgement.deny(FIELD, held.denial(whole_object, context.settings.retain), steps);
    }
    for (bundle, kept) in &held.warned {
        let what = format!("{} leaves the cluster with {}", kept.name(), shown(&bundle.name));
        judgement
            .warn(FIELD, Text::new(what, format!("nothing runs it any more, but {}", kept.held_by(Retain::History))));
    }
    // What is refused anyway leaves nobody without operators.
    if held.denied.is_empty() {
        catalogs::warn(context, judgement, &removed, whole_object);
    }
    // Where all that could leave is held anyway, a missing fact changes nothing; nodes could name more that leaves.
    let all_denied = removed.iter().all(|bundle| held.denied.iter().any(|(known, _)| known.name == bundle.name));
    if all_denied && (!whole_object || nodes_known) {
        missing.clear();
    }
    // A missing fact leaves everything unjudged that is not denied anyway, so an override has to name all of that.
    let mut unknown_names: Vec<&str> = held.undecided.iter().map(|(bundle, _)| &*bundle.name).collect();
    if !missing.is_empty() && whole_object {
        unknown_names.push("delete");
    } else if !missing.is_empty() {
        let denied = |bundle: &&Bundle| held.denied.iter().any(|(known, _)| known.name == bundle.name);
        unknown_names = removed.iter().filter(|bundle| !denied(bundle)).map(|bundle| &*bundle.name).collect();
    }
    missing.extend(held.undecided.iter().map(|(bundle, kept)| Missing {
        why: format!("neither a digest nor its name says whether {} holds {}", shown(&bundle.name), kept.name()),
        remedy: "oc get internalreleaseimage cluster -o yaml; oc get machineconfignodes -o yaml".into(),
    }));
    if let Some(first) = missing.first() {
        let what = if whole_object {
            "whether the cluster still needs a release of this InternalReleaseImage cannot be judged".to_owned()
        } else {
            format!("whether the cluster still needs {} cannot be judged", names(&removed))
        };
        let steps = unknown_names.into_iter().map(step).collect();
        judgement.unknown(FIELD, what, &Missing { why: together(&missing), ..first.clone() }, steps);
        // All that is missing is named at once: nobody wants to hear of it fact by fact.
        if let Some(outcome) = judgement.outcomes.last_mut() {
            outcome.text.works = remedies(&missing);
        }
    }
}

fn together(missing: &[Missing]) -> String {
    let whys: Vec<&str> = missing.iter().map(|missing| &*missing.why).collect();
    whys.join("; ")
}

fn remedies(missing: &[Missing]) -> Vec<String> {
    let mut remedies: Vec<String> = vec![];
    for Missing { remedy, .. } in missing {
        if !remedies.contains(remedy) {
            remedies.push(remedy.clone());
        }
    }
    remedies
}

fn dropped(
    old: &InternalReleaseImage<'_>,
    new: &InternalReleaseImage<'_>,
    nodes: &[MachineConfigNode<'_>],
) -> Vec<Bundle> {
    let stays = |name: &str| new.spec.releases.iter().any(|release| &*release.name == name);
    old.spec.releases.iter().filter(|r| !stays(&r.name)).map(|r| Bundle::named(&r.name, old, nodes)).collect()
}

fn nodes<'a>(
    context: &Context<'a>,
    judgement: &mut Judgement,
    missing: &mut Vec<Missing>,
) -> &'a [MachineConfigNode<'static>] {
    let fact = &context.cluster.machine_config_nodes;
    judgement.used("MachineConfigNodes", fact.provenance());
    match fact.reliable("MachineConfigNodes", context.now) {
        Ok(nodes) => nodes.map_or(&[], Vec::as_slice),
        Err(why) => {
            missing.push(why);
            fact.known().map_or(&[], Vec::as_slice)
        }
    }
}

/// Everything the cluster holds, and which facts were missing to say so.
fn kept(context: &Context<'_>, judgement: &mut Judgement, missing: &mut Vec<Missing>) -> Vec<Kept> {
    let cluster = context.cluster;
    let mut use_fact = |name: &str, provenance: Option<&Provenance>| judgement.used(name, provenance);
    use_fact("ClusterVersion", cluster.cluster_version.provenance());
    use_fact("MachineConfigPools", cluster.machine_config_pools.provenance());
    let cv: Option<&ClusterVersion<'_>> = match cluster.cluster_version.reliable("ClusterVersion", context.now) {
        Ok(Some(cv)) => Some(cv),
        Ok(None) => {
            missing.push(Missing {
                why: "there is no ClusterVersion named version, so what the cluster runs is not known".into(),
                remedy: "oc get clusterversion version -o yaml".into(),
            });
            None
        }
        Err(why) => {
            missing.push(why);
            cluster.cluster_version.known()
        }
    };
    if cv.is_some_and(|cv| cv.status.history.is_empty()) {
        missing.push(Missing {
            why: "ClusterVersion version has an empty status.history, so what the cluster ran is not known".into(),
            remedy: "oc get clusterversion version -o yaml; the CVO writes its status".into(),
        });
    }
    let mut kept = cv.map(|cv| retain::held_by_cluster_version(cv, context.catalog)).unwrap_or_default();
    if cv.is_some_and(|cv| cv.status.desired.version.is_empty() && cv.status.desired.digest().is_none()) {
        missing.push(Missing {
            why: "ClusterVersion version has no status.desired, so what the cluster runs is not known".into(),
            remedy: "oc get clusterversion version -o yaml; the CVO writes its status".into(),
        });
    }
    kept.retain(|kept| {
        !(kept.version.is_empty() && kept.digest.is_none() && kept.holders == [retain::Holder::Running])
    });
    let pools = &cluster.machine_config_pools;
    // A stale pool may still say what holds a release; only an allow must not rest on it.
    missing.extend(pools.reliable("MachineConfigPools", context.now).err());
    let pools = pools.known().map_or(&[][..], Vec::as_slice);
    if pools.iter().any(names_a_configuration) {
        let rendered = &cluster.rendered_releases;
        judgement.used("rendered MachineConfigs", rendered.provenance());
        let reliable = rendered.reliable("rendered MachineConfigs", context.now);
        let readable = reliable.is_ok();
        missing.extend(reliable.err());
        let none = RenderedReleases::new();
        let added = retain::add_pools(&mut kept, pools, rendered.known().unwrap_or(&none), context.catalog);
        // Where the configurations cannot be read at all, that was said already.
        missing.extend(added.err().filter(|_| readable));
    }
    kept
}

fn names_a_configuration(pool: &MachineConfigPool<'_>) -> bool {
    !(pool.spec.configuration.name.is_empty() && pool.status.configuration.name.is_empty())
}

/// What the removal would take, sorted by what follows.
struct Held<'b> {
    denied: Vec<(&'b Bundle, &'b Kept)>,
    warned: Vec<(&'b Bundle, &'b Kept)>,
    undecided: Vec<(&'b Bundle, &'b Kept)>,
}

impl<'b> Held<'b> {
    fn of(removed: &'b [Bundle], kept: &'b [Kept], context: &Context<'_>) -> Self {
        let mut held = Self { denied: vec![], warned: vec![], undecided: vec![] };
        let retain = context.settings.retain;
        let add = |list: &mut Vec<(&'b Bundle, &'b Kept)>, bundle: &'b Bundle, kept| {
            if !list.iter().any(|(known, _)| known.name == bundle.name) {
                list.push((bundle, kept));
            }
        };
        let mut strongest_first: Vec<&Kept> = kept.iter().collect();
        strongest_first.sort_by_key(|kept| kept.level());
        for kept in strongest_first {
            for (bundle, matched) in bundle::holding(removed, kept, context.catalog) {
                match (matched, kept.level() <= retain) {
                    (Match::Same, true) => add(&mut held.denied, bundle, kept),
                    (Match::Same, false) => add(&mut held.warned, bundle, kept),
                    (Match::Unknown, true) => add(&mut held.undecided, bundle, kept),
                    (Match::Unknown, false) | (Match::Different, _) => {}
                }
            }
        }
        // A bundle that is refused anyway needs no second sentence.
        let denied: Vec<&str> = held.denied.iter().map(|(bundle, _)| &*bundle.name).collect();
        held.undecided.retain(|(bundle, _)| !denied.contains(&&*bundle.name));
        held.warned.retain(|(bundle, _)| !denied.contains(&&*bundle.name));
        held
    }

    fn names(&self) -> String {
        listed(self.denied.iter().map(|(bundle, _)| &*bundle.name))
    }

    fn denial(&self, whole_object: bool, retain: Retain) -> Text {
        let (bundle, kept) = self.denied[0];
        let more = match self.denied.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        let need = match kept.level() {
            Retain::InUse => "which this cluster needs",
            Retain::Rollback => "which a rollback would need",
            Retain::History => "which status.history still names",
        };
        let what = if whole_object {
            format!("InternalReleaseImage cluster still holds {}{more}, {need}", kept.name())
        } else {
            format!("{} holds {}{more}, {need}", shown(&bundle.name), kept.name())
        };
        let mut why: Vec<String> = self
            .denied
            .iter()
            .take(SHOWN)
            .map(|(bundle, kept)| format!("{} holds {}: {}", shown(&bundle.name), kept.name(), kept.held_by(retain)))
            .collect();
        if self.denied.len() > SHOWN {
            why.push(format!("and {} more", self.denied.len() - SHOWN));
        }
        let text = Text::new(what, why.join("; "));
        match (kept.level(), whole_object) {
            (Retain::History, _) => text
                .works("nothing runs it any more; sites that clean up after each upgrade set retain: in-use in airgate's configuration,")
                .works("which allows this removal with a warning; for this one time: airgate override --help"),
            (Retain::Rollback, _) => text
                .works("once no rollback is wanted: set retain: in-use in airgate's configuration; for this one time: airgate override --help"),
            (Retain::InUse, true) => text
                .works("keep the InternalReleaseImage; see what still uses it:")
                .works("oc get clusterversion version -o yaml; oc get machineconfigpools"),
            (Retain::InUse, false) => text
                .works(format!("leave {} in spec.releases until the cluster has moved on:", self.names()))
                .works("oc get clusterversion version -o yaml; oc get machineconfigpools"),
        }
    }
}

fn names(bundles: &[Bundle]) -> String {
    listed(bundles.iter().map(|bundle| &*bundle.name))
}

/// The first few names, and how many more there are.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(shown).collect();
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}
