//! The facts as `/statusz` shows them: what is known, from where, how old.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Facts;
use super::files::Files;
use crate::cluster::Fact;

pub(super) fn describe(facts: &Facts, files: &Files, now: Timestamp) -> Value {
    let (snapshot, signatures) = (facts.snapshot(), facts.signatures());
    json!({
        "now": now,
        "ready": facts.ready(),
        "facts": {
            "clusterVersion": fact(&snapshot.cluster_version, now),
            "internalReleaseImage": fact(&snapshot.internal_release_image, now),
            "machineConfigNodes": fact(&snapshot.machine_config_nodes, now),
            "machineConfigPools": fact(&snapshot.machine_config_pools, now),
            "renderedReleases": fact(&snapshot.rendered_releases, now),
            "infrastructure": fact(&snapshot.infrastructure, now),
            "imageDigestMirrorSets": fact(&snapshot.image_digest_mirror_sets, now),
            "imageTagMirrorSets": fact(&snapshot.image_tag_mirror_sets, now),
            "imageContentSourcePolicies": fact(&snapshot.image_content_source_policies, now),
            "imageConfig": fact(&snapshot.image_config, now),
            "releaseSignatures": fact(&snapshot.release_signatures, now),
            "releaseVerification": fact(&snapshot.release_verification, now),
            "controlPlaneNodes": fact(&snapshot.control_plane_nodes, now),
            "catalogSources": fact(&snapshot.catalog_sources, now),
            "clusterCatalogs": fact(&snapshot.cluster_catalogs, now),
        },
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

fn fact<T>(fact: &Fact<T>, now: Timestamp) -> Value {
    let state = match fact {
        Fact::Known(..) => "known",
        Fact::Absent(_) => "absent",
        Fact::Unknown(missing) => return json!({"state": "unknown", "why": missing.why, "remedy": missing.remedy}),
    };
    fact.provenance().map_or(Value::Null, |provenance| {
        json!({
            "state": state,
            "source": *provenance.source,
            "asOf": provenance.as_of,
            "ageSeconds": now.duration_since(provenance.as_of).as_secs(),
            "stale": provenance.stale(now),
        })
    })
}
