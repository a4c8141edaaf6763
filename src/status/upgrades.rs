//! Where the cluster can go from here: straight, back, or through stepping stones, with the command that works.

use serde::Serialize;

use super::{Judged, clean};
use crate::engine::Facts;
use crate::objects::Str;
use crate::objects::cluster_version::{ClusterVersion, DesiredUpdate};
use crate::pullspec::{self, Digest};
use crate::release::path::route;
use crate::release::{Catalog, Release};
use crate::review::{Change, Review, Subject, UserInfo};
use crate::text::age;
use crate::upgrade::Upgrade;
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrades {
    /// The current version; null where it is not known, and then there is no target either.
    pub from: Option<String>,
    /// Releases that the sources on this site know.
    pub on_site: usize,
    /// Every release that is known and does not run, the nearest kind first, then the highest version.
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub version: String,
    pub digest: String,
    pub architecture: Option<String>,
    pub kind: Kind,
    /// The stepping stones, the first hop first; the target itself is not among them.
    pub through: Vec<Hop>,
    /// What airgate answers to a request for this release now.
    pub judged: Judged,
    /// The command for the next hop; null where there is none.
    pub command: Option<String>,
    /// Where it was read, how long ago, and how much that proves.
    pub source: String,
    pub verified: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    pub version: String,
    pub digest: String,
}

/// How it can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Direct,
    /// The release before the current one.
    Back,
    Through,
    None,
}

/// A release to look at: from the catalog, or offered by the update service.
struct Candidate<'a> {
    version: String,
    digest: Digest,
    release: Option<&'a Release>,
}

impl Upgrades {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let on_site = facts.catalog.releases().count();
        let nothing = Self { from: None, on_site, targets: vec![] };
        let Some(cv) = facts.cluster.cluster_version.known() else { return nothing };
        let status = &cv.status;
        let current_digest = status.desired.digest();
        let Some(current) = Version::parse(&status.desired.version) else { return nothing };
        let runs = |digest: Digest| current_digest.is_some_and(|ours| facts.catalog.same_release(ours, digest));
        let mut candidates: Vec<Candidate<'_>> = candidates(facts.catalog, cv);
        candidates.retain(|candidate| !runs(candidate.digest));
        let mut targets: Vec<(Option<Version>, Target)> = candidates
            .iter()
            .filter_map(|candidate| {
                let target = Target::of(facts, cv, &current, candidate)?;
                Some((Version::parse(&target.version), target))
            })
            .collect();
        targets.sort_by(|(one, a), (other, b)| {
            a.kind.cmp(&b.kind).then_with(|| other.cmp(one)).then_with(|| a.digest.cmp(&b.digest))
        });
        let targets = targets.into_iter().map(|(_, target)| target).collect();
        Self { from: Some(current.to_string()), on_site, targets }
    }
}

fn candidates<'a>(catalog: &'a Catalog, cv: &'a ClusterVersion<'static>) -> Vec<Candidate<'a>> {
    let of_catalog = |release: &'a Release| Candidate {
        version: release.version.to_string(),
        digest: release.digest,
        release: Some(release),
    };
    let mut found: Vec<_> = catalog.releases().map(of_catalog).collect();
    let status = &cv.status;
    let conditional = status.conditional_updates.iter().map(|update| &update.release);
    let offers = status.available_updates.iter().chain(conditional);
    let history = status.rollback_candidate();
    let named = offers.filter_map(|offer| Some((&offer.version, offer.digest()?)));
    let named = named.chain(history.and_then(|entry| Some((&entry.version, entry.digest()?))));
    for (version, digest) in named {
        let known = |candidate: &Candidate<'_>| catalog.same_release(candidate.digest, digest);
        if !found.iter().any(known) {
            found.push(Candidate { version: clean(version), digest, release: None });
        }
    }
    found
}

impl Target {
    /// `None` for a release that this cluster could not run.
    fn of(
        facts: Facts<'_>,
        cv: &ClusterVersion<'static>,
        current: &Version,
        candidate: &Candidate<'_>,
    ) -> Option<Self> {
        let judged = judged(facts, cv, candidate.digest);
        let review = review(cv, candidate.digest);
        let Facts { catalog, now, .. } = facts;
        let upgrade = Upgrade::of(&facts.context(&review))?;
        if candidate.release.is_some_and(|release| !upgrade.fits(release)) && !judged.allowed() {
            return None;
        }
        let listed = candidate.release.is_some_and(|release| release.lists(current) == Some(true));
        let back = !listed && upgrade.rollback_to(candidate.digest).is_some();
        // Nobody goes back by stepping stones, and a way is worth nothing where its first hop is refused too.
        let ahead = |release: &&Release| !judged.allowed() && release.version > *current;
        let stones = candidate.release.filter(ahead).and_then(|release| {
            let hops = route(catalog, current, release, |release| upgrade.fits(release))?;
            let (_, stones) = hops.split_last()?;
            let first = stones.first()?;
            self::judged(facts, cv, first.digest).allowed().then(|| stones.to_vec())
        });
        let kind = match (&stones, judged.allowed()) {
            (_, true) if back => Kind::Back,
            (_, true) => Kind::Direct,
            (Some(_), false) => Kind::Through,
            (None, false) => Kind::None,
        };
        let through: Vec<_> = stones.into_iter().flatten().collect();
        let next = through.first().map_or(candidate.digest, |stone| stone.digest);
        let source = match candidate.release {
            Some(release) => {
                let source = &release.source;
                format!("{}, {} ago", clean(&source.name), age(now.duration_since(source.read_at).as_secs()))
            }
            None => "status of the ClusterVersion".into(),
        };
        Some(Self {
            version: candidate.version.clone(),
            digest: candidate.digest.to_string(),
            architecture: candidate.release.and_then(|release| release.architecture.clone()),
            kind,
            through: through
                .iter()
                .map(|stone| Hop { version: stone.version.to_string(), digest: stone.digest.to_string() })
                .collect(),
            judged,
            command: (kind != Kind::None).then(|| upgrade.command(next)),
            source,
            verified: candidate.release.is_some_and(|release| release.source.verified),
        })
    }
}

fn judged(facts: Facts<'_>, cv: &ClusterVersion<'static>, digest: Digest) -> Judged {
    Judged::of(facts, review(cv, digest).subject)
}

/// What `oc adm upgrade --to-image` of this digest asks for, in the repository that the cluster uses. Asked for again,
/// a pending target changes nothing and is not judged: it is looked at as if it were new.
fn review(cv: &ClusterVersion<'static>, digest: Digest) -> Review<'static> {
    let repository = pullspec::repository(&cv.status.desired.image).unwrap_or("REPOSITORY");
    let image = Str(format!("{repository}@{digest}").into());
    let mut new = cv.clone();
    new.spec.desired_update = DesiredUpdate { image, ..DesiredUpdate::default() };
    let mut old = cv.clone();
    if Digest::of_image(&old.spec.desired_update.image) == Some(digest) {
        old.spec.desired_update = DesiredUpdate::default();
    }
    let subject = Subject::ClusterVersion(Change::Update { old, new });
    Review { uid: "".into(), user: UserInfo::default(), dry_run: true, subject }
}
