//! Judging a target that is known by digest.

use super::{FIELD, PathStep};
use crate::cluster::Missing;
use crate::policy::{Context, Judgement};
use crate::pullspec::Digest;
use crate::release::path::stepping_stone;
use crate::release::{Lookup, Release};
use crate::text::{Text, age, shown};
use crate::upgrade::Upgrade;
use crate::version::Version;

/// What refuses a payload whatever the current version is; yields whether it did.
pub(super) fn wrong_kind(
    context: &Context<'_>,
    upgrade: &Upgrade<'_>,
    digest: Digest,
    judgement: &mut Judgement,
) -> bool {
    if let Some(list) = context.catalog.list_of(digest) {
        child_of_list(context, upgrade, digest, list, judgement);
        return true;
    }
    let release = context.catalog.get(digest);
    match release.and_then(|release| Some((release, release.single_architecture()?))) {
        Some((release, architecture)) if upgrade.multi() => {
            judgement.used_release(release);
            multi_to_single(context, upgrade, release, architecture, judgement);
            true
        }
        _ => false,
    }
}

fn child_of_list(
    context: &Context<'_>,
    upgrade: &Upgrade<'_>,
    digest: Digest,
    list: Digest,
    judgement: &mut Judgement,
) {
    let version = context.catalog.get(list).map(|release| format!(" {}", release.version)).unwrap_or_default();
    let what = format!("{digest} is the payload of one architecture, not the release{version}");
    let why = format!(
        "it is a child of the manifest list {list}; installed by itself it strands nodes of the other architectures"
    );
    let text = Text::new(what, why).works("use the list digest:").works(upgrade.command(list));
    judgement.deny(FIELD, text, upgrade.steps());
}

fn multi_to_single(
    context: &Context<'_>,
    upgrade: &Upgrade<'_>,
    release: &Release,
    architecture: &str,
    judgement: &mut Judgement,
) {
    let version = &release.version;
    let what = format!("the cluster runs a multi release and this payload of {version} is for {architecture} only");
    let says = match (&*upgrade.status.desired.architecture, upgrade.current_digest) {
        ("Multi", _) | (_, None) => "status.desired.architecture says so".to_owned(),
        (_, Some(digest)) => format!("the catalog says so of {digest}"),
    };
    let why = format!(
        "{says}; going from multi to a single architecture is not supported: nodes of any other could not follow"
    );
    let multi = context.catalog.of_version(version).into_iter().find(|release| release.multi());
    let text = match multi {
        Some(multi) => {
            Text::new(what, why).works(format!("the multi payload of {version}:")).works(upgrade.command(multi.digest))
        }
        None => Text::new(what, why).works(format!("mirror the multi payload of {version} and name that")),
    };
    judgement.deny(FIELD, text, upgrade.steps());
}

impl PathStep<'_, '_> {
    pub(super) fn payload(&self, digest: Digest, judgement: &mut Judgement) {
        if wrong_kind(self.context, &self.upgrade, digest, judgement) {
            return;
        }
        let lookup = self.context.catalog.lookup(digest);
        match lookup {
            Lookup::Release(release) => judgement.used_release(release),
            Lookup::Missing if self.lone_shard(digest, judgement) => return,
            Lookup::Contradiction(..) | Lookup::Missing => {}
        }
        if let Some(entry) = self.upgrade.rollback_to(digest) {
            let listed = matches!(lookup, Lookup::Release(release) if release.lists(&self.current) == Some(true));
            if listed {
                // Forward again after a rollback: an upgrade like any other.
                return self.known_risks(digest, &shown(&entry.version), judgement);
            }
            let what = format!("going back from {} to {}, the release before it", self.current, shown(&entry.version));
            let why = "supported within a minor version as a way out, not as a place to stay";
            return judgement.warn(FIELD, Text::new(what, why));
        }
        match lookup {
            Lookup::Release(release) if release.version == self.current => self.same_version(release, judgement),
            Lookup::Release(release) => match release.lists(&self.current) {
                Some(true) => self.listed(release, judgement),
                Some(false) => self.not_listed(release, judgement),
                None => self.by_offer(digest, lookup, judgement),
            },
            Lookup::Contradiction(..) | Lookup::Missing => self.by_offer(digest, lookup, judgement),
        }
    }

    fn same_version(&self, release: &Release, judgement: &mut Judgement) {
        let ours_is_child =
            self.upgrade.current_digest.and_then(|d| self.context.catalog.list_of(d)) == Some(release.digest);
        if release.multi() && (!self.upgrade.multi() || ours_is_child) {
            return; // Single to multi.
        }
        let what = format!(
            "{} also calls itself {}, the current version, but is another image",
            release.digest, release.version
        );
        let why = match self.upgrade.current_digest {
            Some(current) => {
                format!("the cluster runs {current}; a release that was published does not change its digest")
            }
            None => "a release that was published does not change its digest".into(),
        };
        let text = Text::new(what, why)
            .works("find out where it comes from; nothing has to be installed to stay at this version");
        judgement.deny(FIELD, text, self.upgrade.steps());
    }

    /// The current version is listed; a half-done update may ask for more, and risks may be known.
    fn listed(&self, release: &Release, judgement: &mut Judgement) {
        let status = self.upgrade.status;
        let half_done = status.history.first().is_some_and(|entry| !entry.completed());
        let completed = status.newest_completed().map(|index| &status.history[index]).filter(|_| half_done);
        if let Some(completed) = completed {
            self.newest_completed_listed(release, &completed.version, judgement);
        }
        self.known_risks(release.digest, &release.version.to_string(), judgement);
    }

    /// A half-done update leaves nodes on the newest completed version: the target should list that too, and must
    /// where the update to the current version was refused.
    fn newest_completed_listed(&self, release: &Release, completed: &str, judgement: &mut Judgement) {
        let refused = self.refused_target_is_desired();
        let Some(version) = Version::parse(completed) else {
            let why = "the newest completed entry of status.history names no version";
            let what = format!("whether {} lists the newest version that was completed is not known", release.version);
            if refused {
                let why = format!("the update to {} was refused, and {why}", self.current);
                let missing = Missing { why, remedy: "oc get clusterversion version -o yaml".into() };
                judgement.unknown(FIELD, what, &missing, self.upgrade.steps());
            } else {
                judgement.warn(FIELD, Text::new(what, why));
            }
            return;
        };
        if version == self.current || release.lists(&version) == Some(true) {
            return;
        }
        let what = format!("{} does not list {version}, the newest version that was completed", release.version);
        if refused {
            let why = format!("the update to {} was refused, so nodes still run {version}", self.current);
            judgement.deny(FIELD, self.ways_to(release, Some(&version), Text::new(what, why)), self.upgrade.steps());
        } else {
            let why = format!("allowed because {} is listed and the update to it is under way", self.current);
            judgement.warn(FIELD, Text::new(what, why));
        }
    }

    /// Older CVOs put a target they refused into status.desired: then the cluster is not there yet.
    fn refused_target_is_desired(&self) -> bool {
        let status = self.upgrade.status;
        let refused = status.condition("ReleaseAccepted").is_some_and(|c| &*c.status == "False");
        let stored = self.upgrade.from;
        let is_desired = match Digest::of_image(&stored.image) {
            Some(digest) => self.upgrade.current_digest == Some(digest),
            None => stored.image.is_empty() && Version::parse(&stored.version).as_ref() == Some(&self.current),
        };
        // Set to something else, that one was refused, if the CVO has seen it: else it was written a moment ago.
        refused && (!stored.named() || is_desired || self.upgrade.unseen)
    }

    pub(super) fn known_risks(&self, digest: Digest, version: &str, judgement: &mut Judgement) {
        let Some(update) = self.upgrade.conditional(digest).filter(|update| !update.recommended()) else { return };
        let risks: Vec<_> = update.risks.iter().map(|risk| shown(&risk.name)).collect();
        let risks = if risks.is_empty() { "unnamed".into() } else { risks.join(", ") };
        let what = format!("{version} is possible from {} but has known risks: {risks}", self.current);
        judgement.warn(
            FIELD,
            Text::new(
                what,
                "status.conditionalUpdates names them; read them: oc adm upgrade --include-not-recommended",
            ),
        );
    }

    fn not_listed(&self, release: &Release, judgement: &mut Judgement) {
        let what = format!("{} cannot go straight to {}", self.current, release.version);
        let mut why = self.describe_previous(release);
        if self.upgrade.to.force {
            why.push_str("; force does not change that");
        }
        let text = self.ways_to(release, Some(&self.current), Text::new(what, why));
        judgement.deny(FIELD, text, self.upgrade.steps());
    }

    fn describe_previous(&self, release: &Release) -> String {
        let minor = self.current.minor();
        let mut previous: Vec<&Version> = release.previous.iter().flatten().collect();
        previous.sort();
        let (same, other): (Vec<&Version>, Vec<&Version>) = previous.into_iter().partition(|v| v.minor() == minor);
        let seconds = self.context.now.duration_since(release.source.read_at).as_secs();
        let trust = if release.source.verified { "digest verified" } else { "not verified against the image" };
        let read = format!("(read from {} {} ago, {trust})", release.source.name, age(seconds));
        let version = &release.version;
        match (&same[..], &other[..]) {
            ([], []) => format!("{version} declares no upgrade sources at all, as nightly and CI builds do {read}"),
            ([], other) => {
                format!(
                    "{version} says which versions it can be reached from: {}, none of {}.{} {read}",
                    list(other),
                    minor.0,
                    minor.1
                )
            }
            (same, _) => {
                format!(
                    "{version} says which versions it can be reached from; of {}.{} these are {} {read}",
                    minor.0,
                    minor.1,
                    list(same)
                )
            }
        }
    }

    /// Adds what works instead: a stepping stone on site, or what to mirror.
    fn ways_to(&self, release: &Release, from: Option<&Version>, text: Text) -> Text {
        let from = from.unwrap_or(&self.current);
        if let Some(stone) = stepping_stone(self.context.catalog, from, release, |r| self.upgrade.fits(r)) {
            let version = &stone.version;
            return text
                .works(format!("go to {version} first, it is on this site and {from} is on its list:"))
                .works(self.upgrade.command(stone.digest));
        }
        let instead = self
            .context
            .catalog
            .releases()
            .filter(|r| {
                r.version != *from
                    && r.version.minor() == release.version.minor()
                    && r.lists(from) == Some(true)
                    && self.upgrade.fits(r)
            })
            .max_by(|a, b| a.version.cmp(&b.version));
        if let Some(instead) = instead {
            return text
                .works(format!("{} is on this site and {from} is on its list:", instead.version))
                .works(self.upgrade.command(instead.digest));
        }
        // Order only chooses what to advise: nobody goes back to a stepping stone.
        if release.version < *from {
            return self.way_back(text);
        }
        let ahead = |v: &&Version| v.minor() == from.minor() && *v > from;
        match release.previous.iter().flatten().filter(ahead).max() {
            Some(stone) => text
                .works(format!(
                    "no release on this site leads there; {stone} is on its list: mirror {stone} or one like it"
                ))
                .works("and go there first, if it lists the current version"),
            None => text.works(
                "no release on this site leads there; mirror a later one, or the releases in between, and look at",
            ),
        }
        .works("each with: oc adm release info PULLSPEC")
    }

    fn way_back(&self, text: Text) -> Text {
        let candidate = self.upgrade.status.rollback_candidate();
        match candidate.and_then(|entry| Some((entry, entry.digest()?))) {
            Some((entry, digest)) => text
                .works(format!(
                    "going back is supported to {} only, the release before the current one:",
                    shown(&entry.version)
                ))
                .works(self.upgrade.command(digest)),
            None => text.works(
                "going back is supported only to the release before the current one, within the same minor version",
            ),
        }
    }
}

/// Up to four versions, and the highest.
fn list(sorted: &[&Version]) -> String {
    let text = |versions: &[&Version]| versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match sorted {
        [first @ .., last] if first.len() > 4 => {
            format!("{} and {} more, the highest {last}", text(&first[..3]), first.len() - 2)
        }
        all => text(all),
    }
}
