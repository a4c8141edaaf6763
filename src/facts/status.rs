//! The facts as `/statusz` shows them: what is known, from where, how old.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Facts;
use super::files::Files;
use crate::cluster::{Fact, Missing, Provenance, Snapshot};
use crate::metrics::Metrics;

pub(super) fn describe(facts: &Facts, files: &Files, now: Timestamp) -> Value {
    let (snapshot, signatures) = (facts.snapshot(), facts.signatures());
    json!({
        "now": now,
        "ready": facts.ready(),
        "facts": each(&snapshot).into_iter().map(|(name, fact)| (name.to_owned(), shown(fact, now))).collect::<Map<_, _>>(),
        "watches": facts.watches().map(super::Watches::statuses).unwrap_or_default().iter().map(|status| json!(**status)).collect::<Vec<_>>(),
        "catalog": {
            "releases": facts.catalog().len(),
            "directories": files.release_directories.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>(),
            "readAt": files.read_at,
            "fromRegistries": facts.read_releases().iter().map(|release| json!({
                "digest": release.digest.to_string(),
                "version": release.version.to_string(),
                "from": *release.source.name,
                "readAt": release.source.read_at,
            })).collect::<Vec<_>>(),
        },
        "signatures": {
            "found": signatures.counts().0,
            "digests": signatures.counts().1,
            "keysFrom": signatures.keys().map(|keys| keys.source.to_string()),
        },
        "problems": *files.problems,
    })
}

/// One fact without what it says.
type Standing<'a> = Result<(&'static str, &'a Provenance), &'a Missing>;

/// Every fact under the name it has on `/statusz` and in metrics.
fn each(snapshot: &Snapshot) -> [(&'static str, Standing<'_>); 15] {
    [
        ("clusterVersion", standing(&snapshot.cluster_version)),
        ("internalReleaseImage", standing(&snapshot.internal_release_image)),
        ("machineConfigNodes", standing(&snapshot.machine_config_nodes)),
        ("machineConfigPools", standing(&snapshot.machine_config_pools)),
        ("renderedReleases", standing(&snapshot.rendered_releases)),
        ("infrastructure", standing(&snapshot.infrastructure)),
        ("imageDigestMirrorSets", standing(&snapshot.image_digest_mirror_sets)),
        ("imageTagMirrorSets", standing(&snapshot.image_tag_mirror_sets)),
        ("imageContentSourcePolicies", standing(&snapshot.image_content_source_policies)),
        ("imageConfig", standing(&snapshot.image_config)),
        ("releaseSignatures", standing(&snapshot.release_signatures)),
        ("releaseVerification", standing(&snapshot.release_verification)),
        ("controlPlaneNodes", standing(&snapshot.control_plane_nodes)),
        ("catalogSources", standing(&snapshot.catalog_sources)),
        ("clusterCatalogs", standing(&snapshot.cluster_catalogs)),
    ]
}

fn standing<T>(fact: &Fact<T>) -> Standing<'_> {
    match fact {
        Fact::Known(_, provenance) => Ok(("known", provenance)),
        Fact::Absent(provenance) => Ok(("absent", provenance)),
        Fact::Unknown(missing) => Err(missing),
    }
}

fn shown(standing: Standing<'_>, now: Timestamp) -> Value {
    match standing {
        Err(missing) => json!({"state": "unknown", "why": missing.why, "remedy": missing.remedy}),
        Ok((state, provenance)) => json!({
            "state": state,
            "source": *provenance.source,
            "asOf": provenance.as_of,
            "ageSeconds": now.duration_since(provenance.as_of).as_secs(),
            "stale": provenance.stale(now),
        }),
    }
}

/// The same for whoever watches from outside.
pub(super) fn observe(facts: &Facts, metrics: &Metrics) {
    let of = |read: fn(Standing<'_>, Timestamp) -> Option<i64>| {
        let facts = facts.clone();
        move || {
            let (snapshot, now) = (facts.snapshot(), Timestamp::now());
            each(&snapshot).into_iter().filter_map(|(name, fact)| Some((name, read(fact, now)?))).collect()
        }
    };
    let help = "1 where a fact is not known, 0 where it is";
    metrics.observe_each("fact_unknown", help, "fact", of(|fact, _| Some(fact.is_err().into())));
    let help = "1 where the watch of a fact has been silent for so long that it proves nothing any more";
    let stale = |fact: Standing<'_>, now| Some(fact.is_ok_and(|(_, provenance)| provenance.stale(now)).into());
    metrics.observe_each("fact_stale", help, "fact", of(stale));
    let help = "As of when a fact is true, in Unix time; not there while it is unknown";
    let as_of = |fact: Standing<'_>, _| Some(fact.ok()?.1.as_of.as_second());
    metrics.observe_each("fact_as_of_seconds", help, "fact", of(as_of));

    let of_count = |read: fn(&Facts) -> usize| {
        let facts = facts.clone();
        move || i64::try_from(read(&facts)).unwrap_or(i64::MAX)
    };
    metrics.observe("catalog_releases", "Releases that are known", of_count(|facts| facts.catalog().len()));
    let help = "Files of the state and release directories that cannot be used";
    metrics.observe("file_problems", help, of_count(|facts| facts.problems().len()));
}
