//! Two steps, each allowed on what was known, of which one takes away what the other needs.
//!
//! A validating webhook sees neither of two concurrent writes stored (settled question 15), so this looks at what was
//! stored in the end: a release that left the InternalReleaseImage while something came to need it.

use jiff::Timestamp;
use serde::Serialize;

use super::Audit;
use crate::breakglass::{self, Override};
use crate::bundle::{self, Bundle, Match};
use crate::cluster::Fact;
use crate::retain::{self, Holder, Kept};
use crate::settings::Retain;
use crate::text::{Text, shown};

/// What left the InternalReleaseImage while somebody looked. Bounded: more has never left one.
const REMEMBERED: usize = 64;

/// Looks at one snapshot after the other and remembers what left.
#[derive(Debug, Default)]
pub struct Detector {
    /// `None` before the InternalReleaseImage was known.
    present: Option<Vec<Bundle>>,
    dropped: Vec<Bundle>,
    /// The override on the InternalReleaseImage as it was last seen.
    annotation: String,
}

/// A release in use that has just left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// As the cluster names it.
    pub release: String,
    pub bundle: String,
    /// What happened, why it matters, and the commands that undo it.
    #[serde(skip)]
    pub text: Text,
    pub message: String,
}

impl Detector {
    /// The conflicts that stand now; the same ones again as long as they stand.
    pub fn observe(&mut self, audit: &Audit<'_>) -> Vec<Conflict> {
        let cluster = audit.cluster;
        let (now_present, gone) = match &cluster.internal_release_image {
            Fact::Known(iri, _) => {
                let nodes = cluster.machine_config_nodes.known().map_or(&[][..], Vec::as_slice);
                let named = iri.spec.releases.iter().map(|entry| Bundle::named(&entry.name, iri, nodes));
                (named.collect::<Vec<_>>(), false)
            }
            Fact::Absent(_) => (vec![], true),
            // Nothing is taken for gone because it cannot be seen.
            Fact::Unknown(_) => return vec![],
        };
        let here = |bundle: &Bundle| now_present.iter().any(|present| present.name == bundle.name);
        self.dropped.retain(|bundle| !here(bundle));
        let annotation = cluster.internal_release_image.known().map(|iri| &*iri.metadata.annotations.airgate_override);
        let sanctioned =
            [annotation.unwrap_or_default(), &*self.annotation].map(|text| opened(text, audit.now)).concat();
        for bundle in self.present.iter().flatten().filter(|bundle| !here(bundle)) {
            // Somebody has taken responsibility for it, and that is on record.
            if sanctioned.contains(&bundle.name) {
                continue;
            }
            if self.dropped.len() == REMEMBERED {
                self.dropped.remove(0);
            }
            self.dropped.push(bundle.clone());
        }
        annotation.unwrap_or_default().clone_into(&mut self.annotation);
        self.present = Some(now_present);
        self.conflicts(audit, gone)
    }

    fn conflicts(&self, audit: &Audit<'_>, gone: bool) -> Vec<Conflict> {
        let Some(cv) = audit.cluster.cluster_version.known() else { return vec![] };
        if self.dropped.is_empty() {
            return vec![];
        }
        let mut kept = retain::held_by_cluster_version(cv, audit.catalog);
        if let (Some(pools), Some(rendered)) =
            (audit.cluster.machine_config_pools.known(), audit.cluster.rendered_releases.known())
        {
            // A pool whose release is not known holds nothing that could be named here.
            drop(retain::add_pools(&mut kept, pools, rendered, audit.catalog));
        }
        let present = self.present.as_deref().unwrap_or_default();
        let holds = |bundles: &[Bundle], kept: &Kept| {
            let holding = bundle::holding(bundles, kept, audit.catalog);
            holding.into_iter().find(|(_, matched)| *matched == Match::Same).map(|(bundle, _)| bundle.name.clone())
        };
        let in_use = kept.iter().filter(|kept| kept.level() == Retain::InUse && holds(present, kept).is_none());
        in_use.filter_map(|kept| Some(conflict(kept, holds(&self.dropped, kept)?, gone))).collect()
    }
}

/// The bundles that an override lets go.
fn opened(annotation: &str, now: Timestamp) -> Vec<String> {
    let Override::Entries(entries) = Override::parse(annotation) else { return vec![] };
    let entries = entries.into_iter();
    let opens = entries.filter(|e| e.policy == "release-in-use" && breakglass::in_force(e.expires, now));
    opens.map(|entry| entry.target).collect()
}

fn conflict(kept: &Kept, bundle: String, gone: bool) -> Conflict {
    let what = format!("{} left the InternalReleaseImage with {}", shown(&bundle), shown(&kept.name()));
    let put_back = if gone {
        format!("make the InternalReleaseImage cluster again with {} in spec.releases", shown(&bundle))
    } else {
        format!(
            "oc patch internalreleaseimage cluster --type json -p '[{{\"op\":\"add\",\"path\":\"/spec/releases/-\",\"value\":{{\"name\":\"{}\"}}}}]'",
            shown(&bundle)
        )
    };
    let mut text = Text::new(what, kept.held_by(Retain::InUse)).works(put_back);
    // Nothing runs a target that was not taken up yet.
    if kept.holders.iter().all(|holder| *holder == Holder::Pending) {
        text = text.works("or, as nothing runs it yet, give the update up: oc adm upgrade --clear");
    }
    let message = text.block("");
    Conflict { release: kept.name(), bundle, text, message }
}
