//! Which releases a cluster still needs, and what for (settled question 7).

use std::fmt;

use crate::cluster::Missing;
use crate::cluster::RenderedReleases;
use crate::objects::cluster_version::{ClusterVersion, HistoryEntry, Status};
use crate::objects::machine_config::MachineConfigPool;
use crate::pullspec::Digest;
use crate::release::Catalog;
use crate::settings::Retain;
use crate::version;

/// One release that something holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// As the cluster spells it; empty where unknown. Bundle names are built from this text.
    pub version: String,
    pub digest: Option<Digest>,
    pub holders: Vec<Holder>,
}

/// What holds a release, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// `status.desired`
    Running,
    /// `spec.desiredUpdate`, asked for and not yet taken up
    Pending,
    /// A history entry above the newest Completed: an update that began on this day and was not completed.
    HalfWay(String),
    /// The newest Completed entry of history, while the cluster is on its way to another; the day it started.
    Completed(String),
    /// A MachineConfigPool whose nodes run or will get it.
    Pool(String),
    Rollback,
    /// An older history entry; the day it started.
    History(String),
}

impl Holder {
    /// The smallest `retain` that keeps a release for this.
    #[must_use]
    pub fn level(&self) -> Retain {
        match self {
            Self::Running | Self::Pending | Self::HalfWay(_) | Self::Completed(_) | Self::Pool(_) => Retain::InUse,
            Self::Rollback => Retain::Rollback,
            Self::History(_) => Retain::History,
        }
    }
}

impl Holder {
    /// In a word or two, for a table.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Running => "running".into(),
            Self::Pending => "pending".into(),
            Self::HalfWay(date) => format!("half-way since {date}"),
            Self::Completed(date) => format!("completed {date}"),
            Self::Pool(pool) => format!("pool {pool}"),
            Self::Rollback => "rollback".into(),
            Self::History(date) => format!("history {date}"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("the cluster runs it"),
            Self::Pending => f.write_str("it is the pending update target"),
            Self::HalfWay(date) => {
                write!(f, "the update to it that began {date} was not completed, so components may run it")
            }
            Self::Completed(date) => {
                write!(f, "it was the last to be completed ({date}), so components may still run it")
            }
            Self::Pool(pool) => write!(f, "MachineConfigPool {pool} runs it"),
            Self::Rollback => f.write_str("a rollback would go to it"),
            Self::History(date) => write!(f, "status.history names it ({date})"),
        }
    }
}

impl Kept {
    /// The smallest `retain` under which this release stays.
    #[must_use]
    pub fn level(&self) -> Retain {
        self.holders.iter().map(Holder::level).min().unwrap_or_default()
    }

    /// Holders that count under `retain`, as one phrase.
    #[must_use]
    pub fn held_by(&self, retain: Retain) -> String {
        let (pools, others): (Vec<_>, Vec<_>) = self
            .holders
            .iter()
            .filter(|holder| holder.level() <= retain)
            .partition(|holder| matches!(holder, Holder::Pool(_)));
        let mut phrases: Vec<String> = others.into_iter().map(ToString::to_string).collect();
        if let [first, rest @ ..] = &pools[..] {
            let more = match rest.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            phrases.push(format!("{first}{more}"));
        }
        phrases.join(", ")
    }

    /// How a person calls it.
    #[must_use]
    pub fn name(&self) -> String {
        match (&*self.version, self.digest) {
            ("", Some(digest)) => digest.to_string(),
            ("", None) => "a release of unknown version".into(),
            (version, _) => version.into(),
        }
    }
}

/// Every release that ClusterVersion holds, whatever `retain` says; each once.
#[must_use]
pub fn held_by_cluster_version(cv: &ClusterVersion<'_>, catalog: &Catalog) -> Vec<Kept> {
    let mut kept = Keeper { kept: vec![], catalog };
    let status = &cv.status;
    kept.add(&status.desired.version, status.desired.digest(), Holder::Running);
    let target = &cv.spec.desired_update;
    if target.named() {
        kept.add(&target.version, Digest::of_image(&target.image), Holder::Pending);
    }
    let window = status.newest_completed().unwrap_or(status.history.len());
    let rollback = status.rollback_candidate().map(|entry| position(status, entry));
    for (index, entry) in status.history.iter().enumerate() {
        let date = entry.date().to_owned();
        if index < window {
            kept.add(&entry.version, entry.digest(), Holder::HalfWay(date));
        } else if index == window {
            kept.add(&entry.version, entry.digest(), Holder::Completed(date));
        } else if rollback == Some(index) {
            kept.add(&entry.version, entry.digest(), Holder::Rollback);
        } else {
            kept.add(&entry.version, entry.digest(), Holder::History(date));
        }
    }
    kept.kept
}

fn position(status: &Status<'_>, entry: &HistoryEntry<'_>) -> usize {
    status.history.iter().position(|candidate| std::ptr::eq(candidate, entry)).unwrap_or(usize::MAX)
}

/// Adds what pools still run.
///
/// # Errors
/// [`Missing`] for the first pool whose release cannot be known; the others are added all the same.
pub fn add_pools(
    kept: &mut Vec<Kept>,
    pools: &[MachineConfigPool<'_>],
    rendered: &RenderedReleases,
    catalog: &Catalog,
) -> Result<(), Missing> {
    let mut keeper = Keeper { kept: std::mem::take(kept), catalog };
    let mut missing = Ok(());
    for pool in pools {
        let name = &*pool.metadata.name;
        for config in [&pool.status.configuration.name, &pool.spec.configuration.name] {
            match rendered.get(&**config) {
                _ if config.is_empty() => {}
                Some(Some(version)) => keeper.add(version, None, Holder::Pool(name.to_owned())),
                found => {
                    let problem = if found.is_some() { "has no release annotation" } else { "is not known" };
                    missing = missing.and(Err(Missing {
                        why: format!("MachineConfigPool {name}: its rendered config {} {problem}", &**config),
                        remedy: format!("oc get machineconfig {} -o yaml", &**config),
                    }));
                }
            }
        }
    }
    *kept = keeper.kept;
    missing
}

struct Keeper<'c> {
    kept: Vec<Kept>,
    catalog: &'c Catalog,
}

impl Keeper<'_> {
    /// Adds a holder to the release it holds; what one mention leaves open another may fill.
    fn add(&mut self, version: &str, digest: Option<Digest>, holder: Holder) {
        let of_catalog = digest.and_then(|digest| self.catalog.get(digest)).filter(|_| version.is_empty());
        let version = of_catalog.map_or_else(|| version.to_owned(), |release| release.version.to_string());
        // Bundle names have no build metadata, and equality leaves it out.
        let version = version.split('+').next().unwrap_or_default().to_owned();
        // Digests decide where both are known (one version can be two releases, single and multi), unless the
        // versions contradict that: then both names must be kept.
        let same = |kept: &&mut Kept| {
            let versions =
                (!version.is_empty() && !kept.version.is_empty()).then(|| version::same(&kept.version, &version));
            let digests = kept.digest.zip(digest).map(|(a, b)| self.catalog.same_release(a, b));
            match (digests, versions) {
                (Some(digests), versions) => digests && versions != Some(false),
                (None, versions) => versions == Some(true),
            }
        };
        if let Some(kept) = self.kept.iter_mut().find(same) {
            kept.digest = kept.digest.or(digest);
            if kept.version.is_empty() {
                kept.version = version;
            }
            // A release the cluster runs is not news from its own history too.
            if !kept.holders.contains(&holder) && (kept.holders.is_empty() || holder_adds(kept, &holder)) {
                kept.holders.push(holder);
            }
            return;
        }
        self.kept.push(Kept { version, digest, holders: vec![holder] });
    }
}

/// A finished target stays in spec, and history names what runs: neither says anything new of a running release.
fn holder_adds(kept: &Kept, holder: &Holder) -> bool {
    let running = kept.holders.contains(&Holder::Running);
    match holder {
        Holder::Pending | Holder::HalfWay(_) | Holder::Completed(_) | Holder::Rollback => !running,
        Holder::History(_) => false,
        Holder::Running | Holder::Pool(_) => true,
    }
}
