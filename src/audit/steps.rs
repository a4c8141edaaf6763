//! Updates: the one that is asked for, and the one that is under way.

use super::{Audit, CLUSTER_VERSION, Report, known};
use crate::objects::cluster_version::{ClusterVersion, DesiredUpdate, Release};
use crate::pullspec::Digest;
use crate::review::{Change, Subject};
use crate::verdict;

impl Audit<'_> {
    pub(super) fn steps(&self, report: &mut Report) {
        let Some(stored) = known(&self.cluster.cluster_version, CLUSTER_VERSION, report) else { return };
        if stored.spec.desired_update.named() {
            let target = stored.spec.desired_update.clone();
            self.step(asked(stored, target), report, |_| true);
        }
        // What the payload of a tag was when it was asked for, nobody can say any more.
        if !stored.status.desired.image.is_empty() && stored.status.desired.digest().is_none() {
            self.step(asked(stored, target(&stored.status.desired)), report, |f| f.policy == "digest-only");
        }
        if let Some(under_way) = under_way(stored) {
            // What was offered when it was asked for is not known any more, and it runs anyway.
            self.step(under_way, report, |finding| finding.outcome != verdict::Result::Unknown);
        }
    }

    fn step(
        &self,
        change: Change<ClusterVersion<'_>>,
        report: &mut Report,
        counts: impl Fn(&verdict::Finding) -> bool,
    ) {
        let target = &change.object().spec.desired_update;
        let about = match Digest::of_image(&target.image) {
            Some(digest) => digest.to_string(),
            None if target.image.is_empty() => target.version.to_string(),
            None => target.image.to_string(),
        };
        let name = change.object().metadata.name.to_string();
        let mut verdict = self.judge(Subject::ClusterVersion(change));
        verdict.findings.retain(counts);
        self.take(verdict, CLUSTER_VERSION, &name, &about, report);
    }
}

fn target<'a>(release: &Release<'a>) -> DesiredUpdate<'a> {
    DesiredUpdate { version: release.version.clone(), image: release.image.clone(), ..DesiredUpdate::default() }
}

/// The request that asked for `target` while nothing was asked for.
fn asked<'a>(stored: &ClusterVersion<'a>, target: DesiredUpdate<'a>) -> Change<ClusterVersion<'a>> {
    let (mut old, mut new) = (stored.clone(), stored.clone());
    old.spec.desired_update = DesiredUpdate::default();
    new.spec.desired_update = target;
    Change::Update { old, new }
}

/// The request that led to the update which is not completed yet: from what history names before it.
fn under_way<'a>(stored: &ClusterVersion<'a>) -> Option<Change<ClusterVersion<'a>>> {
    let [newest, before, ..] = &stored.status.history[..] else { return None };
    let desired = &stored.status.desired;
    if newest.completed() || newest.version != desired.version || newest.image != desired.image {
        return None;
    }
    let mut earlier = stored.clone();
    earlier.status.desired =
        Release { version: before.version.clone(), image: before.image.clone(), architecture: "".into() };
    earlier.status.history.remove(0);
    earlier.status.observed_generation = earlier.metadata.generation;
    Some(asked(&earlier, target(desired)))
}
