//! airgate as an operator: a registry+v1 bundle and a file-based catalog, for sites that install mirrored operators.
//!
//! A CSV's webhook definitions cannot carry matchConditions, so the bundle has none: the Deployment registers itself
//! (`airgate serve --register`). OLM puts every Role of a bundle into the operator's namespace, so what airgate reads
//! in others is a cluster permission here, limited to the same names where the verb allows.

mod csv;

use serde_json::{Value, json};

use super::{Document, File, NAME, Options, documents, monitoring, render};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHANNEL: &str = "stable";
/// In which a bundle image has them, as its labels say.
const MANIFESTS: &str = "manifests/";
const METADATA: &str = "metadata/";
/// Kinds that every OLM since OpenShift 4.17 takes from a bundle beside the CSV.
const TAKEN: [&str; 5] = ["Service", "ConfigMap", "PodDisruptionBudget", "PrometheusRule", "ServiceMonitor"];

/// The bundle, the catalog, and what builds an image of each.
///
/// # Errors
/// Where one cannot be written as YAML.
pub fn olm(options: &Options, bundle_image: &str) -> anyhow::Result<Vec<File>> {
    let options = Options { register: true, ..options.clone() };
    let documents = documents(&options)?;
    let csv = csv::csv(&options, &documents);
    let mut files = vec![yaml("bundle/manifests/airgate.clusterserviceversion.yaml", &csv)?];
    for document in documents.iter().filter(|document| taken(document, &options.namespace)) {
        let mut object = document.object.clone();
        // OLM puts it where the operator is.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        let text = |pointer: &str| document.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let path = format!("bundle/manifests/{}.{}.yaml", text("/metadata/name"), text("/kind").to_lowercase());
        files.push(File { path, text: render(&[Document { object, ..document.clone() }])? });
    }
    files.push(yaml("bundle/metadata/annotations.yaml", &json!({"annotations": annotations()}))?);
    let labels = annotations().as_object().cloned().unwrap_or_default();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("LABEL {key}={value}")).collect();
    let labels = labels.join("\n");
    let text = format!("FROM scratch\n{labels}\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n");
    files.push(File { path: "bundle.Containerfile".into(), text });
    files.push(catalog(&options, &csv, bundle_image)?);
    files.push(File { path: "catalog.Containerfile".into(), text: CATALOG_IMAGE.into() });
    Ok(files)
}

/// What serves a catalog is a site's own opm: OpenShift's, by the tag of the cluster.
const CATALOG_IMAGE: &str = "\
# podman build --build-arg OPM=REGISTRY/openshift4/ose-operator-registry-rhel9:v4.20 -f catalog.Containerfile .
ARG OPM
FROM ${OPM}
ENTRYPOINT [\"/bin/opm\"]
CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]
COPY catalog /configs
RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]
LABEL operators.operatorframework.io.index.configs.v1=/configs
";

fn taken(document: &Document, namespace: &str) -> bool {
    let kind = document.object["kind"].as_str().unwrap_or_default();
    // The config file is the site's, named by its Subscription: an update of the operator would write it anew.
    let config = kind == "ConfigMap" && document.object["metadata"]["name"] == NAME;
    // Everything of a bundle goes to the operator's namespace: what belongs elsewhere, such as a dashboard, is not in it.
    let here = document.object["metadata"]["namespace"] == namespace;
    // Airgate's own rights stand in the CSV; those of the cluster's Prometheus are none of them.
    let of_prometheus = document.file == monitoring::FILE && ["Role", "RoleBinding"].contains(&kind);
    here && (TAKEN.contains(&kind) || of_prometheus) && !config
}

fn annotations() -> Value {
    let mut annotations = json!({"com.redhat.openshift.versions": "v4.17"});
    for (key, value) in [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", MANIFESTS),
        ("metadata.v1", METADATA),
        ("package.v1", NAME),
        ("channels.v1", CHANNEL),
        ("channel.default.v1", CHANNEL),
    ] {
        annotations[format!("operators.operatorframework.io.bundle.{key}")] = value.into();
    }
    annotations
}

fn catalog(options: &Options, csv: &Value, bundle_image: &str) -> anyhow::Result<File> {
    let name = format!("{NAME}.v{VERSION}");
    let spec = &csv["spec"];
    let mut metadata = json!({"annotations": csv["metadata"]["annotations"]});
    for key in ["description", "displayName", "installModes", "keywords", "maturity", "minKubeVersion", "provider"] {
        metadata[key] = spec[key].clone();
    }
    let parts = [
        json!({"schema": "olm.package", "name": NAME, "defaultChannel": CHANNEL, "description": csv::SUMMARY}),
        json!({"schema": "olm.channel", "package": NAME, "name": CHANNEL, "entries": [{"name": name, "skipRange": format!("<{VERSION}")}]}),
        json!({"schema": "olm.bundle", "package": NAME, "name": name, "image": bundle_image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": NAME, "version": VERSION}},
                {"type": "olm.csv.metadata", "value": metadata},
            ],
            "relatedImages": [{"name": "", "image": bundle_image}, {"name": NAME, "image": options.image}]}),
    ];
    let texts = parts.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(File { path: format!("catalog/{NAME}/catalog.yaml"), text: texts.join("---\n") })
}

fn yaml(path: &str, object: &Value) -> anyhow::Result<File> {
    Ok(File { path: path.into(), text: serde_saphyr::to_string(object)? })
}
