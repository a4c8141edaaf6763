//! The form that the cluster-version operator applies, as a part of OpenShift's release payload.

use serde_json::json;

use super::{Document, NAME, config};

/// Beside the operators that are not needed to bring a cluster up.
const RUN_LEVEL: &str = "0000_50";
/// Which clusters get it. Not hosted control planes: there the step to guard is the HostedCluster's, on another cluster.
const PROFILES: [&str; 2] = ["self-managed-high-availability", "single-node-developer"];

/// Where catalogs of operators live; only with the capability of that name.
const MARKETPLACE: &str = "openshift-marketplace";

pub(super) fn annotate(document: &mut Document) {
    let annotations = &mut document.object["metadata"]["annotations"];
    for profile in PROFILES {
        annotations[format!("include.release.openshift.io/{profile}")] = json!("true");
    }
    // A cluster without that capability does not have the namespace, and the CVO would try for ever.
    if document.object["metadata"]["namespace"] == MARKETPLACE {
        document.object["metadata"]["annotations"]["capability.openshift.io/name"] = json!("marketplace");
    }
    // What others write: the administrator, the network operator. It is made once and then left alone.
    if document.file == config::FILE && document.object["kind"] == "ConfigMap" {
        document.object["metadata"]["annotations"]["release.openshift.io/create-only"] = json!("true");
    }
}

/// Files are applied in the order of their names.
pub(super) fn file_name(position: usize, concern: &str) -> String {
    format!("{RUN_LEVEL}_{NAME}_{position:02}_{concern}.yaml")
}

/// The file `image-references`: which pullspec of the manifests `oc adm release new` puts the payload's own image in place of.
pub(super) fn image_references(image: &str) -> anyhow::Result<String> {
    let stream = json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": [
        {"name": NAME, "from": {"kind": "DockerImage", "name": image}},
    ]}});
    Ok(serde_saphyr::to_string(&stream)?)
}
