//! Releases that the cluster needs and nothing holds: as if somebody had just taken their bundle away.

use super::{Audit, Found, INTERNAL_RELEASE_IMAGE, Report, add};
use crate::bundle::{self, Match};
use crate::objects::internal_release_image::{BundleEntry, InternalReleaseImage};
use crate::release::Lookup;
use crate::retain::{self, Holder, Kept};
use crate::review::{Change, Subject};
use crate::settings::Retain;
use crate::text::{Text, shown};
use crate::verdict;
use crate::version::Version;

impl Audit<'_> {
    pub(super) fn releases(&self, report: &mut Report) {
        let cluster = self.cluster;
        let Some(iri) = self.known(&cluster.internal_release_image, INTERNAL_RELEASE_IMAGE, report) else { return };
        let nodes = self.known(&cluster.machine_config_nodes, "MachineConfigNodes", report);
        let bundles = bundle::all(iri, nodes.map_or(&[][..], Vec::as_slice));
        for kept in self.kept(report) {
            let held = bundle::holding(&bundles, &kept, self.catalog).iter().any(|(_, m)| *m != Match::Different);
            // The step to a target that nothing has taken up is judged by itself.
            let only_asked_for = kept.holders.iter().all(|holder| *holder == Holder::Pending);
            if held || only_asked_for || self.in_catalog(&kept) || kept.level() > self.settings.retain {
                continue;
            }
            self.gone(iri, &kept, report);
        }
    }

    /// What the cluster needs, as far as it is known.
    fn kept(&self, report: &mut Report) -> Vec<Kept> {
        let cluster = self.cluster;
        let Some(cv) = self.known(&cluster.cluster_version, super::CLUSTER_VERSION, report) else { return vec![] };
        let mut kept = retain::held_by_cluster_version(cv, self.catalog);
        if let Some(pools) = self.known(&cluster.machine_config_pools, "MachineConfigPools", report)
            && let Some(rendered) = self.known(&cluster.rendered_releases, "MachineConfigs", report)
            && let Err(missing) = retain::add_pools(&mut kept, pools, rendered, self.catalog)
        {
            let unread = super::Unread { fact: "MachineConfigs", why: missing.why, remedy: missing.remedy };
            report.missing.push(unread);
        }
        kept.retain(|kept| !kept.version.is_empty() || kept.digest.is_some());
        kept
    }

    fn in_catalog(&self, kept: &Kept) -> bool {
        let by_digest = kept.digest.is_some_and(|digest| {
            self.catalog.list_of(digest).is_some() || !matches!(self.catalog.lookup(digest), Lookup::Missing)
        });
        by_digest || Version::parse(&kept.version).is_some_and(|version| !self.catalog.of_version(&version).is_empty())
    }

    /// The verdict on the removal that would have led here, and what it means now that it is done.
    fn gone(&self, iri: &InternalReleaseImage<'static>, kept: &Kept, report: &mut Report) {
        let name = format!("ocp-release-bundle-{}", if kept.version.is_empty() { "unknown" } else { &kept.version });
        let image = kept.digest.map(|digest| format!("localhost/release@{digest}")).unwrap_or_default();
        let mut before: InternalReleaseImage<'_> = iri.clone();
        before.spec.releases.push(BundleEntry { name: name.as_str().into(), ..BundleEntry::default() });
        before.status.releases.push(BundleEntry {
            name: name.as_str().into(),
            image: image.as_str().into(),
            ..BundleEntry::default()
        });
        let removal = Change::Update { old: before, new: iri.clone() };
        let verdict = self.judge(Subject::InternalReleaseImage(removal));
        let refused = verdict.findings.into_iter().find(|finding| {
            finding.policy == "release-in-use" && !finding.overridden && finding.outcome != verdict::Result::Unknown
        });
        let Some(finding) = refused else { return };
        let text = Text::new(
            format!("{} is in no bundle of the InternalReleaseImage and known to no release source", shown(&kept.name())),
            kept.held_by(self.settings.retain),
        )
        .works("if a mirror holds it, say so in a catalog file (docs/releases.md); else mount its bundle and add it again:")
        .works(format!(
            "oc patch internalreleaseimage cluster --type json -p '[{{\"op\":\"add\",\"path\":\"/spec/releases/-\",\"value\":{{\"name\":\"{}\"}}}}]'",
            shown(&name)
        ));
        // Of what nothing runs any more the loss is no emergency.
        let outcome = if kept.level() == Retain::InUse { finding.outcome } else { verdict::Result::Warn };
        let found = Found {
            policy: finding.policy,
            outcome,
            mode: finding.mode,
            kind: INTERNAL_RELEASE_IMAGE,
            name: iri.metadata.name.to_string(),
            field: finding.field,
            about: kept.name(),
            message: text.block(""),
        };
        add(report, found);
    }
}
