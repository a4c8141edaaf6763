//! Where nodes look for an image: mirror rules and registry settings of the cluster, as the container runtime
//! applies them.
//!
//! The machine-config-controller writes all of them into one `registries.conf`, of which for an image exactly the
//! entry with the longest scope counts. So a longer scope of any kind (a tag mirror, a blocked or an insecure
//! registry) hides the mirrors of a shorter one; that is how it is on nodes, and how it is here.

mod order;
mod scope;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cluster::{Missing, Snapshot};
use crate::objects::Str;
use crate::objects::mirrors::{ImageConfig, MirrorKind, MirrorSet, Mirrors};
use crate::pullspec::Repository;
use crate::text::shown;

/// The port of the registries that an InternalReleaseImage runs on control-plane nodes.
pub const IRI_PORT: &str = ":22625";
/// How rules name such a registry on the node itself.
const IRI_LOCAL: &str = "localhost:22625";
const NEVER: &str = "NeverContactSource";
/// Mirrors of all rules together; real clusters have some dozens.
const MIRRORS_MAX: usize = 20_000;
/// Of one source: those after it are never tried by anybody.
const MIRRORS_OF_SOURCE: usize = 256;

/// What rules are made from; what is absent makes none.
#[derive(Clone, Debug, Default)]
pub struct RuleSources<'a> {
    sets: Vec<(MirrorKind, &'a MirrorSet<'a>)>,
    pub image_config: Option<&'a ImageConfig<'a>>,
    /// The host that leads to the registries of an InternalReleaseImage from everywhere.
    pub api_int: Option<&'a str>,
}

/// The rules of a cluster, ready to be asked. Asking costs a look-up a path segment, however many rules there are.
#[derive(Debug, Default)]
pub struct MirrorRules {
    scopes: HashMap<String, Scope>,
    blocked: HashSet<String>,
    allowed: HashSet<String>,
    insecure: HashSet<String>,
    api_int: Option<String>,
    remarks: Vec<String>,
}

/// An entry of `registries.conf`.
#[derive(Debug, Default)]
struct Scope {
    by_digest: Vec<String>,
    by_tag: Vec<String>,
    never: bool,
}

/// How an image is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    Digest,
    Tag,
}

/// Where nodes look for the images of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The repository that was asked for.
    pub source: Repository,
    /// In the order in which they are tried: mirrors, and `source` itself unless it is blocked. Mirrors on
    /// `localhost:22625` appear as what they are from elsewhere, `api-int.DOMAIN:22625`.
    pub places: Vec<Repository>,
    /// `source` itself must not be contacted.
    pub source_blocked: bool,
    /// `allowedRegistries` names others only: nodes refuse the image, wherever it is; `places` is empty.
    pub refused: bool,
    /// The scope whose entry decided; `None` where no rule is about the repository.
    pub scope: Option<String>,
    /// Mirrors that the rules name and that are not among `places`.
    pub left_out: Vec<(Repository, LeftOut)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// `blockedRegistries`, or a rule for the mirror itself that says NeverContactSource.
    Blocked,
    /// `localhost:22625`, and the Infrastructure that names api-int is not known: only nodes can reach it.
    OnNodesOnly,
}

impl Places {
    /// The places that are not `source`.
    pub fn mirrors(&self) -> impl Iterator<Item = &Repository> {
        self.places.iter().filter(|place| **place != self.source)
    }
}

impl<'a> RuleSources<'a> {
    /// # Errors
    /// [`Missing`] for all kinds of rules that are not known; a missing Infrastructure only leaves `api_int` out.
    pub fn of(cluster: &'a Snapshot) -> Result<Self, Missing> {
        let mut sources = Self::default();
        let mut missing: Vec<Missing> = vec![];
        for kind in MirrorKind::ALL {
            match cluster.mirror_sets(kind).present() {
                Ok(sets) => sources.sets.extend(sets.into_iter().flatten().map(|set| (kind, set))),
                Err(unknown) => missing.push(unknown),
            }
        }
        match cluster.image_config.present() {
            Ok(config) => sources.image_config = config,
            Err(unknown) => missing.push(unknown),
        }
        if !missing.is_empty() {
            let all = |part: fn(&Missing) -> &str| missing.iter().map(part).collect::<Vec<_>>().join("; ");
            return Err(Missing { why: all(|missing| &missing.why), remedy: all(|missing| &missing.remedy) });
        }
        sources.api_int = cluster.infrastructure.known().and_then(|found| found.status.api_int_host());
        Ok(sources)
    }

    /// Takes the object of this name out and puts `set` in its place, where there is one.
    pub fn replace(&mut self, kind: MirrorKind, name: &str, set: Option<&'a MirrorSet<'a>>) {
        self.sets.retain(|(other, old)| *other != kind || &*old.metadata.name != name);
        self.sets.extend(set.map(|set| (kind, set)));
    }
}

impl MirrorRules {
    /// The rules of the cluster as it is known.
    ///
    /// # Errors
    /// [`Missing`] where a kind of rules is not known, or there are more mirrors than anybody has.
    pub fn of(cluster: &Snapshot) -> Result<Self, Missing> {
        Self::new(&RuleSources::of(cluster)?)
    }

    /// # Errors
    /// [`Missing`] where there are more than 100,000 mirrors.
    pub fn new(sources: &RuleSources<'_>) -> Result<Self, Missing> {
        let count: usize = sources.entries().map(|(_, entry)| entry.mirrors.len() + 1).sum();
        if count > MIRRORS_MAX {
            return Err(Missing {
                why: format!(
                    "the cluster's mirror rules hold {count} mirrors, more than airgate reads ({MIRRORS_MAX})"
                ),
                remedy: "oc get imagedigestmirrorsets,imagetagmirrorsets -o yaml; remove what is not needed".into(),
            });
        }
        let mut rules = Self { api_int: sources.api_int.map(str::to_owned), ..Self::default() };
        rules.add_policies(sources);
        rules.add_mirrors(sources, Pull::Digest);
        rules.add_mirrors(sources, Pull::Tag);
        if let Some(config) = sources.image_config {
            let registries = &config.spec.registry_sources;
            let valid =
                |scopes: &[Str<'_>]| scopes.iter().filter(|s| scope::valid(s)).map(ToString::to_string).collect();
            rules.blocked = valid(&registries.blocked_registries);
            rules.allowed = valid(&registries.allowed_registries);
            rules.insecure = valid(&registries.insecure_registries);
            // Each gets an entry of its own, without mirrors where no rule has the same scope.
            for scope in rules.blocked.iter().chain(&rules.insecure) {
                rules.scopes.entry(scope.clone()).or_default();
            }
        }
        Ok(rules)
    }

    /// Where nodes look for an image of `repository` that is named by digest, as the images of releases are.
    #[must_use]
    pub fn places(&self, repository: &Repository) -> Places {
        self.places_for(repository, Pull::Digest)
    }

    #[must_use]
    pub fn places_for(&self, repository: &Repository, pull: Pull) -> Places {
        let name = repository.to_string();
        let found = self.entry_of(&name);
        let mut places = Places {
            source: repository.clone(),
            places: vec![],
            source_blocked: self.is_blocked(&name),
            refused: !self.allows(repository),
            scope: found.as_ref().map(|(scope, ..)| scope.clone()),
            left_out: vec![],
        };
        if places.refused {
            return places;
        }
        if let Some((_, entry, end)) = found {
            let mirrors = match pull {
                Pull::Digest => &entry.by_digest,
                Pull::Tag => &entry.by_tag,
            };
            // The rest after the scope stays. What that makes of an odd mirror may be no repository: nobody finds it.
            let rewritten = mirrors
                .iter()
                .filter_map(|mirror| Repository::parse(&format!("{mirror}{}", &name[end..])).ok())
                .take(MIRRORS_OF_SOURCE);
            for mirror in rewritten {
                self.add_mirror(&mut places, mirror);
            }
        }
        if !places.source_blocked && !places.places.contains(repository) {
            places.places.push(repository.clone());
        }
        places
    }

    /// Whether nodes talk to this place without TLS or without checking its certificate.
    #[must_use]
    pub fn insecure(&self, place: &Repository) -> bool {
        covers(&self.insecure, &place.to_string())
    }

    /// Whether `allowedRegistries` leaves this name in; nodes ask that of the name in the pullspec alone.
    #[must_use]
    pub fn allows(&self, repository: &Repository) -> bool {
        self.allowed.is_empty() || covers(&self.allowed, &repository.to_string())
    }

    /// Whether `blockedRegistries` covers this name, whatever mirrors it has.
    #[must_use]
    pub fn blocks(&self, repository: &Repository) -> bool {
        covers(&self.blocked, &repository.to_string())
    }

    /// What in the rules a person should put right, in a stable order.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Whether a rule has this place, or one that it lies below, as a mirror.
    #[must_use]
    pub fn is_mirror(&self, place: &Repository) -> bool {
        let name = place.to_string();
        let covers =
            |mirror: &String| name.strip_prefix(&**mirror).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.scopes.values().any(|entry| entry.by_digest.iter().any(covers))
    }

    /// Whether a rule has this host as a source or a mirror.
    #[must_use]
    pub fn names_host(&self, host: &str) -> bool {
        let of_host = |name: &str| name.split('/').next() == Some(host);
        self.scopes.iter().any(|(scope, entry)| {
            of_host(scope) || entry.by_digest.iter().chain(&entry.by_tag).any(|mirror| of_host(mirror))
        })
    }

    fn add_mirror(&self, places: &mut Places, mirror: Repository) {
        let mut blocked = self.is_blocked(&mirror.to_string());
        let mut place = mirror.clone();
        if mirror.host == IRI_LOCAL {
            let Some(api_int) = &self.api_int else {
                return places.left_out.push((mirror, LeftOut::OnNodesOnly));
            };
            place.host = format!("{api_int}{IRI_PORT}");
            blocked |= self.is_blocked(&place.to_string());
        }
        if blocked {
            if place != places.source {
                places.left_out.push((place, LeftOut::Blocked));
            }
        } else if !places.places.contains(&place) {
            places.places.push(place);
        }
    }

    /// The entry with the longest scope, and how much of the name the scope stands for.
    fn entry_of(&self, name: &str) -> Option<(String, &Scope, usize)> {
        scope::covering(name)
            .find_map(|(scope, end)| self.scopes.get(&*scope).map(|entry| (scope.into_owned(), entry, end)))
    }

    /// Whether nodes may not contact this place.
    fn is_blocked(&self, name: &str) -> bool {
        covers(&self.blocked, name) || self.entry_of(name).is_some_and(|(_, entry, _)| entry.never)
    }

    /// `NeverContactSource` of any rule that has a real mirror holds for its source, whatever other rules say.
    fn add_policies(&mut self, sources: &RuleSources<'_>) {
        let mut policies: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        for (_, entry) in sources.entries() {
            let (never, always) = policies.entry(&entry.source).or_default();
            let is_never = &*entry.mirror_source_policy == NEVER;
            *never |= is_never;
            *always |= !is_never;
            if is_never && entry.mirrors.contains(&entry.source) {
                let source = shown(&entry.source);
                self.remarks.push(format!(
                    "{source} is named among its own mirrors and says {NEVER}: nodes get no rules at all"
                ));
            }
        }
        for (source, (never, always)) in policies {
            self.scopes.entry(source.to_owned()).or_default().never = never;
            if never && always {
                let source = shown(source);
                self.remarks.push(format!(
                    "the rules for {source} differ in mirrorSourcePolicy: nodes keep their old rules until they agree"
                ));
            }
        }
    }

    fn add_mirrors(&mut self, sources: &RuleSources<'_>, pull: Pull) {
        let mut by_source: BTreeMap<&str, Vec<&[Str<'_>]>> = BTreeMap::new();
        for (kind, entry) in sources.entries() {
            if (kind == MirrorKind::Tag) == (pull == Pull::Tag) {
                by_source.entry(&entry.source).or_default().push(&entry.mirrors);
            }
        }
        for (source, lists) in by_source {
            let order::Merged { mirrors, contradictory } = order::merged(source, &lists);
            if contradictory {
                let (source, listed) = (shown(source), mirrors.join(", "));
                let listed = shown(&listed);
                self.remarks
                    .push(format!("the rules for {source} name its mirrors in different orders; nodes try {listed}"));
            }
            let entry = self.scopes.entry(source.to_owned()).or_default();
            let mirrors = mirrors.into_iter().map(str::to_owned).collect();
            match pull {
                Pull::Digest => entry.by_digest = mirrors,
                Pull::Tag => entry.by_tag = mirrors,
            }
        }
    }
}

impl<'a> RuleSources<'a> {
    /// The rules that count: those with a mirror that is not the source itself.
    fn entries(&self) -> impl Iterator<Item = (MirrorKind, &'a Mirrors<'a>)> {
        let all = self.sets.iter().flat_map(|(kind, set)| set.of(*kind).iter().map(|entry| (*kind, entry)));
        all.filter(|(_, entry)| {
            scope::valid(&entry.source) && entry.mirrors.iter().any(|mirror| *mirror != entry.source)
        })
    }
}

fn covers(scopes: &HashSet<String>, name: &str) -> bool {
    !scopes.is_empty() && scope::covering(name).any(|(scope, _)| scopes.contains(&*scope))
}

#[cfg(test)]
mod tests;
