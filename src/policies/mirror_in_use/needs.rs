//! Under which repositories the releases that the cluster keeps name their images.

use std::collections::BTreeSet;

use crate::bundle::{self, Bundle, Match};
use crate::cluster::{Missing, RenderedReleases};
use crate::mirrors::Pull;
use crate::objects::cluster_version::ClusterVersion;
use crate::policy::{Context, Judgement};
use crate::pullspec::{Digest, Repository, repository};
use crate::release::{Catalog, Release};
use crate::retain::{self, Kept};
use crate::version::{self, Version};

/// One repository that nodes pull images of kept releases from.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub repository: Repository,
    pub pull: Pull,
    /// Whether the running release's own image is named there.
    pub running: bool,
    /// `release image of 4.22.1 (the cluster runs it)`
    pub what: String,
    /// Whether an InternalReleaseImage holds such a release; `None` where that is not known.
    pub in_iri: Option<bool>,
}

#[derive(Debug, Default)]
pub(super) struct Needs {
    pub all: Vec<Need>,
    /// Why there may be more.
    pub missing: Vec<Missing>,
}

impl Needs {
    pub fn of(context: &Context<'_>, judgement: &mut Judgement) -> Self {
        let mut needs = Self::default();
        let cluster = context.cluster;
        judgement.used("ClusterVersion", cluster.cluster_version.provenance());
        judgement.used("MachineConfigPools", cluster.machine_config_pools.provenance());
        let cv = match cluster.cluster_version.present() {
            Ok(Some(cv)) => cv,
            Ok(None) => {
                needs.missing.push(Missing {
                    why: "there is no ClusterVersion named version, so what the cluster runs is not known".into(),
                    remedy: "oc get clusterversion version -o yaml".into(),
                });
                return needs;
            }
            Err(missing) => {
                needs.missing.push(missing);
                return needs;
            }
        };
        let mut kept = retain::held_by_cluster_version(cv, context.catalog);
        needs.add_pools(context, judgement, &mut kept);
        kept.retain(|kept| kept.level() <= context.settings.retain);
        kept.sort_by_key(Kept::level);
        let bundles = bundles(context, judgement);
        for kept in &kept {
            let in_iri = bundles.as_ref().and_then(|bundles| held(bundles, kept, context.catalog));
            needs.add_images(cv, kept, in_iri, context);
            needs.add_components(kept, in_iri, context, judgement);
        }
        needs
    }

    fn add_pools(&mut self, context: &Context<'_>, judgement: &mut Judgement, kept: &mut Vec<Kept>) {
        let cluster = context.cluster;
        let pools = match cluster.machine_config_pools.present() {
            Ok(pools) => pools.map_or(&[][..], Vec::as_slice),
            Err(missing) => return self.missing.push(missing),
        };
        judgement.used("rendered MachineConfigs", cluster.rendered_releases.provenance());
        let none = RenderedReleases::new();
        match cluster.rendered_releases.present() {
            Ok(rendered) => {
                let added = retain::add_pools(kept, pools, rendered.unwrap_or(&none), context.catalog);
                self.missing.extend(added.err());
            }
            Err(missing) if pools.is_empty() => drop(missing),
            Err(missing) => self.missing.push(missing),
        }
    }

    /// The release image itself, under every name that ClusterVersion has for it.
    fn add_images(&mut self, cv: &ClusterVersion<'_>, kept: &Kept, in_iri: Option<bool>, context: &Context<'_>) {
        let desired = (&*cv.status.desired.version, &*cv.status.desired.image);
        let target = (&*cv.spec.desired_update.version, &*cv.spec.desired_update.image);
        let history = cv.status.history.iter().map(|entry| (&*entry.version, &*entry.image));
        let named = [desired, target].into_iter().chain(history).filter(|(_, image)| !image.is_empty());
        let what = format!("release image of {} ({})", kept.name(), kept.held_by(context.settings.retain));
        let mut found = false;
        for (version, image) in named.filter(|(version, image)| is_of(kept, version, image, context.catalog)) {
            let Some(parsed) = repository(image).and_then(|name| Repository::parse(name).ok()) else { continue };
            found = true;
            let pull = if Digest::of_image(image).is_some() { Pull::Digest } else { Pull::Tag };
            let running = (version, image) == desired;
            self.add(Need { repository: parsed, pull, running, what: what.clone(), in_iri });
        }
        if !found {
            self.missing.push(Missing {
                why: format!(
                    "ClusterVersion names no image of {} ({})",
                    kept.name(),
                    kept.held_by(context.settings.retain)
                ),
                remedy: "oc get clusterversion version -o yaml".into(),
            });
        }
    }

    fn add_components(&mut self, kept: &Kept, in_iri: Option<bool>, context: &Context<'_>, judgement: &mut Judgement) {
        let releases = releases_of(kept, context.catalog);
        let listed = releases.iter().filter_map(|release| Some((*release, release.components.as_deref()?)));
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (release, components) in listed {
            judgement.used_release(release);
            names.extend(components.iter().filter_map(|component| repository(&component.image)));
        }
        if names.is_empty() {
            self.missing.push(Missing {
                why: format!("no catalog entry has the component images of {}", kept.name()),
                remedy: "airgate release export REF, with its output in a --releases directory".into(),
            });
        }
        let what = format!("component images of {} ({})", kept.name(), kept.held_by(context.settings.retain));
        for name in names {
            if let Ok(repository) = Repository::parse(name) {
                self.add(Need { repository, pull: Pull::Digest, running: false, what: what.clone(), in_iri });
            }
        }
    }

    /// The first that needs a repository speaks for it: they come in the order of what is needed most.
    fn add(&mut self, need: Need) {
        match self.all.iter_mut().find(|known| known.repository == need.repository && known.pull == need.pull) {
            Some(known) => {
                known.running |= need.running;
                known.in_iri = match (known.in_iri, need.in_iri) {
                    (Some(a), Some(b)) => Some(a || b),
                    (a, b) => a.filter(|held| *held).or(b.filter(|held| *held)),
                };
            }
            None => self.all.push(need),
        }
    }
}

fn is_of(kept: &Kept, version: &str, image: &str, catalog: &Catalog) -> bool {
    match kept.digest.zip(Digest::of_image(image)) {
        Some((a, b)) => catalog.same_release(a, b),
        None => !version.is_empty() && version::same(&kept.version, version),
    }
}

/// The release in the catalog, and of a manifest list its children too: any of them may list the components.
fn releases_of<'c>(kept: &Kept, catalog: &'c Catalog) -> Vec<&'c Release> {
    let tops = match kept.digest {
        Some(digest) => {
            let top = catalog.list_of(digest).and_then(|list| catalog.get(list));
            top.or_else(|| catalog.get(digest)).into_iter().collect()
        }
        None => Version::parse(&kept.version).map(|version| catalog.of_version(&version)).unwrap_or_default(),
    };
    let children = tops.iter().flat_map(|top| &top.shards).filter_map(|shard| catalog.get(*shard)).collect::<Vec<_>>();
    tops.into_iter().chain(children).collect()
}

/// The bundles of the InternalReleaseImage; `None` where it is not known whether there is one.
fn bundles(context: &Context<'_>, judgement: &mut Judgement) -> Option<Vec<Bundle>> {
    let cluster = context.cluster;
    judgement.used("InternalReleaseImage", cluster.internal_release_image.provenance());
    let iri = cluster.internal_release_image.present().ok()?;
    let nodes = cluster.machine_config_nodes.known().map_or(&[][..], Vec::as_slice);
    Some(iri.map(|iri| bundle::all(iri, nodes)).unwrap_or_default())
}

fn held(bundles: &[Bundle], kept: &Kept, catalog: &Catalog) -> Option<bool> {
    let found = bundle::holding(bundles, kept, catalog);
    let same = found.iter().any(|(_, matched)| *matched == Match::Same);
    (same || found.is_empty()).then_some(same)
}
