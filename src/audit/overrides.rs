//! Overrides that are still set and open nothing.

use super::{
    Audit, CLUSTER_VERSION, Found, INTERNAL_RELEASE_IMAGE, OVERRIDE, OVERRIDE_FIELD, Report, add, remove_override,
};
use crate::breakglass::{self, Override};
use crate::objects::Metadata;
use crate::policies;
use crate::settings::Mode;
use crate::text::{Text, shown};
use crate::verdict;

impl Audit<'_> {
    pub(super) fn overrides(&self, report: &mut Report) {
        if let Some(cv) = self.cluster.cluster_version.known() {
            self.on(&cv.metadata, CLUSTER_VERSION, "clusterversion version", report);
        }
        if let Some(iri) = self.cluster.internal_release_image.known() {
            self.on(&iri.metadata, INTERNAL_RELEASE_IMAGE, "internalreleaseimage cluster", report);
        }
    }

    fn on(&self, metadata: &Metadata<'_>, kind: &'static str, object: &str, report: &mut Report) {
        let mut found = |policy: &'static str, about: String, text: Text| {
            let message = text.works(remove_override(object)).block("");
            let (name, field) = (metadata.name.to_string(), OVERRIDE_FIELD);
            let outcome = verdict::Result::Warn;
            add(report, Found { policy, outcome, mode: Mode::Warn, kind, name, field, about, message });
        };
        match Override::parse(&metadata.annotations.airgate_override) {
            Override::Malformed(fault) => {
                let what = format!("the override on {kind} {} cannot be read and opens nothing", shown(&metadata.name));
                found(OVERRIDE, "malformed".into(), Text::new(what, fault));
            }
            Override::Entries(entries) => {
                for entry in entries.iter().filter(|entry| !breakglass::in_force(entry.expires, self.now)) {
                    let policy = policies::by_id(&entry.policy).map_or(OVERRIDE, |policy| policy.id);
                    let step = format!("{} -> {}", shown(&entry.from), shown(&entry.target));
                    let what =
                        format!("an override of {} for {step} opens nothing and is still set", shown(&entry.policy));
                    let why = if entry.expires <= self.now {
                        format!("it expired at {}", entry.expires)
                    } else {
                        format!("it expires at {}, more than 24 hours from now", entry.expires)
                    };
                    found(policy, format!("override {step} {}", entry.expires), Text::new(what, why));
                }
            }
        }
    }
}
