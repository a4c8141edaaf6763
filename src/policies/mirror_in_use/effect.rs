//! What a change of the rules does to one repository.

use crate::mirrors::{IRI_PORT, LeftOut, MirrorRules, Places, Pull};
use crate::pullspec::Repository;

/// The worst that happens to a repository, worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nodes could pull from somewhere, and now from nowhere.
    Unreachable { refused: bool },
    /// No mirror is left, only the source itself, and whether that is out of reach.
    LastMirror(Reach),
    /// Every mirror was a registry of the InternalReleaseImage, and none of them is left; others are.
    LeavesIri,
    /// Other mirrors took the place of all there were, by a rule for a longer scope.
    Shadowed { scope: String },
    /// Other mirrors took the place of all there were.
    Replaced,
    /// Nodes may contact the source again.
    Opened,
    /// Blocked by name: mirrors have it, and nodes may refuse the name all the same.
    NameBlocked,
    /// `allowedRegistries` leaves in the name and none of the mirrors.
    MirrorsNotAllowed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A rule or a block kept nodes from it.
    Forbidden,
    /// Nothing but the InternalReleaseImage held it.
    OnlyInIri,
    /// Nothing but registries of an InternalReleaseImage was named, and whether that holds it is not known.
    PerhapsOnlyInIri,
    Open,
}

/// The rules before and after the change.
#[derive(Debug)]
pub(super) struct Rules {
    pub before: MirrorRules,
    pub after: MirrorRules,
}

impl Rules {
    /// `in_iri`: whether an InternalReleaseImage holds what is pulled.
    pub fn effect(&self, repository: &Repository, pull: Pull, running: bool, in_iri: Option<bool>) -> Option<Effect> {
        let (before, after) = (self.before.places_for(repository, pull), self.after.places_for(repository, pull));
        let (old, new) = (mirrors(&before), mirrors(&after));
        let somewhere = |places: &Places, mirrors: &[Repository]| !(places.places.is_empty() && mirrors.is_empty());
        if somewhere(&before, &old) && !somewhere(&after, &new) {
            return Some(Effect::Unreachable { refused: after.refused });
        }
        let only_iri = !old.is_empty() && old.iter().all(is_iri);
        if !old.is_empty() && new.is_empty() {
            let reach = match in_iri {
                _ if before.source_blocked => Reach::Forbidden,
                Some(true) if only_iri => Reach::OnlyInIri,
                None if only_iri => Reach::PerhapsOnlyInIri,
                _ => Reach::Open,
            };
            return Some(Effect::LastMirror(reach));
        }
        if only_iri && in_iri == Some(true) && !new.iter().any(is_iri) {
            return Some(Effect::LeavesIri);
        }
        let longer = |scope: &&String| before.scope.as_ref().is_some_and(|old| old.len() < scope.len());
        let dropped = old.iter().filter(|mirror| !new.contains(mirror)).count();
        match after.scope.as_ref().filter(longer) {
            Some(scope) if dropped > 0 => return Some(Effect::Shadowed { scope: scope.clone() }),
            _ if dropped > 0 && dropped == old.len() => return Some(Effect::Replaced),
            _ => {}
        }
        if before.source_blocked && !after.source_blocked && !new.is_empty() {
            return Some(Effect::Opened);
        }
        // The running release's own repository is the one that the machine-config-controller lets pass.
        if self.after.blocks(repository) && !self.before.blocks(repository) && !running {
            return Some(Effect::NameBlocked);
        }
        let none_allowed = |rules: &MirrorRules| !new.is_empty() && !new.iter().any(|mirror| rules.allows(mirror));
        (none_allowed(&self.after) && !none_allowed(&self.before)).then_some(Effect::MirrorsNotAllowed)
    }

    /// What was there, as a person would check it.
    pub fn mirrors_before(&self, repository: &Repository, pull: Pull) -> Vec<Repository> {
        mirrors(&self.before.places_for(repository, pull))
    }

    pub fn mirrors_after(&self, repository: &Repository, pull: Pull) -> Vec<Repository> {
        mirrors(&self.after.places_for(repository, pull))
    }
}

/// Mirrors that nodes can use, those on the node itself included.
fn mirrors(places: &Places) -> Vec<Repository> {
    let on_nodes = places.left_out.iter().filter(|(_, why)| *why == LeftOut::OnNodesOnly).map(|(mirror, _)| mirror);
    places.mirrors().chain(on_nodes).cloned().collect()
}

fn is_iri(mirror: &Repository) -> bool {
    mirror.host.ends_with(IRI_PORT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::mirrors::RuleSources;
    use crate::objects::mirrors::{MirrorKind, MirrorSet};

    /// Source and mirrors by number, and whether nodes are kept from the source.
    type Rule = (usize, Vec<usize>, bool);

    const SOURCES: [&str; 4] = ["quay.io", "quay.io/ocp", "quay.io/ocp/release", "*.io"];
    const MIRRORS: [&str; 4] = ["a.example", "b.example/b", "localhost:22625/i", "api-int.c.example:22625/i"];

    fn rules(rules: &[Rule]) -> MirrorRules {
        let entries: Vec<_> = rules
            .iter()
            .map(|(source, mirrors, never)| {
                let mirrors: Vec<_> = mirrors.iter().map(|mirror| MIRRORS[*mirror]).collect();
                let policy = if *never { "NeverContactSource" } else { "" };
                serde_json::json!({"source": SOURCES[*source], "mirrors": mirrors, "mirrorSourcePolicy": policy})
            })
            .collect();
        let object = serde_json::json!({"metadata": {"name": "a"}, "spec": {"imageDigestMirrors": entries}});
        let set = MirrorSet::deserialize(object).unwrap();
        let mut sources = RuleSources::default();
        sources.replace(MirrorKind::Digest, "a", Some(&set));
        sources.api_int = Some("api-int.c.example");
        MirrorRules::new(&sources).unwrap()
    }

    fn effect(before: &[Rule], after: &[Rule], in_iri: Option<bool>) -> Option<Effect> {
        let at = Repository::parse("quay.io/ocp/release").unwrap();
        Rules { before: rules(before), after: rules(after) }.effect(&at, Pull::Digest, false, in_iri)
    }

    fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
        let rule = (0..SOURCES.len(), proptest::collection::vec(0..MIRRORS.len(), 0..3), any::<bool>());
        proptest::collection::vec(rule, 0..4)
    }

    proptest! {
        #[test]
        fn what_changes_nothing_has_no_effect(before in some_rules(), in_iri in any::<Option<bool>>()) {
            let mut after = before.clone();
            after.reverse();
            prop_assert_eq!(effect(&before, &after, in_iri), None);
        }

        /// A further rule for a source that has rules already takes nothing: lists merge.
        #[test]
        fn one_more_mirror_takes_nothing(
            before in some_rules(),
            mirror in 0..MIRRORS.len(),
            in_iri in any::<Option<bool>>(),
        ) {
            let Some((source, ..)) = before.iter().find(|(_, mirrors, _)| !mirrors.is_empty()) else { return Ok(()) };
            let after = [before.clone(), vec![(*source, vec![mirror], false)]].concat();
            prop_assert_eq!(effect(&before, &after, in_iri), None);
        }

        /// Whatever happens, it is named where nodes are left without the mirrors that they had.
        #[test]
        fn the_loss_of_every_mirror_is_always_noticed(
            before in some_rules(),
            after in some_rules(),
            in_iri in any::<Option<bool>>(),
        ) {
            let at = Repository::parse("quay.io/ocp/release").unwrap();
            let (old, new) = (mirrors(&rules(&before).places(&at)), mirrors(&rules(&after).places(&at)));
            let lost = !old.is_empty() && old.iter().all(|mirror| !new.contains(mirror));
            prop_assert!(!lost || effect(&before, &after, in_iri).is_some(), "{before:?} {after:?}");
        }
    }
}
