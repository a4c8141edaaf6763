//! The manifests as files: one a concern, with what kustomize needs, and variants as overlays of a base.

use serde_json::{Value, json};

use super::overlay::Overlay;
use super::{Certificates, Document, Flavor, Options, documents, payload, render};
use crate::settings::ServerMode;

/// A file to be written, by its path below the directory.
#[derive(Clone, Debug)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// One set of objects: a file for each concern, in the order in which they are applied.
///
/// # Errors
/// Where one cannot be written as YAML.
pub fn files(options: &Options, documents: &[Document]) -> anyhow::Result<Vec<File>> {
    let mut concerns: Vec<(&str, Vec<Document>)> = vec![];
    for document in documents {
        match concerns.iter_mut().find(|(concern, _)| *concern == document.file) {
            Some((_, of_concern)) => of_concern.push(document.clone()),
            None => concerns.push((document.file, vec![document.clone()])),
        }
    }
    let mut files = vec![];
    for (position, (concern, documents)) in concerns.iter().enumerate() {
        let path = match options.flavor {
            Flavor::Payload => payload::file_name(position, concern),
            Flavor::Openshift | Flavor::Kubernetes | Flavor::Olm => format!("{concern}.yaml"),
        };
        files.push(File { path, text: render(documents)? });
    }
    if options.flavor == Flavor::Payload {
        files.push(File { path: "image-references".into(), text: payload::image_references(&options.image)? });
    } else {
        let resources: Vec<&str> = files.iter().map(|file| &*file.path).collect();
        files.push(kustomization(&json!({"resources": resources}))?);
    }
    Ok(files)
}

/// A base and its overlays: everything of a flavour that `deploy/` holds.
///
/// # Errors
/// Where one cannot be written as YAML.
pub fn tree(base: &Options) -> anyhow::Result<Vec<File>> {
    let of_base = documents(base)?;
    let mut tree: Vec<File> = below("base", files(base, &of_base)?);
    for (name, options) in overlays(base) {
        let overlay = Overlay::between(&of_base, &documents(&options)?);
        let mut kustomization_of = json!({"resources": ["../../base"]});
        let mut more = vec![];
        if !overlay.added.is_empty() {
            let path = format!("{name}.yaml");
            kustomization_of["resources"] = json!(["../../base", path]);
            more.push(File { path, text: render(&overlay.added)? });
        }
        kustomization_of["patches"] = overlay.patches()?;
        more.push(kustomization(&kustomization_of)?);
        tree.extend(below(&format!("overlays/{name}"), more));
    }
    Ok(tree)
}

fn overlays(base: &Options) -> Vec<(&'static str, Options)> {
    let mut overlays = vec![
        ("audit", Options { mode: ServerMode::Audit, ..base.clone() }),
        ("single-node", Options { single_node: true, ..base.clone() }),
    ];
    if base.flavor == Flavor::Kubernetes {
        overlays.push(("cert-manager", Options { certificates: Certificates::CertManager, ..base.clone() }));
        overlays.push(("monitoring", Options { monitoring: true, ..base.clone() }));
    }
    overlays
}

fn below(directory: &str, files: Vec<File>) -> Vec<File> {
    files.into_iter().map(|file| File { path: format!("{directory}/{}", file.path), ..file }).collect()
}

/// Without an order of its own: kubectl and oc bring the namespace first and the webhook configuration last.
fn kustomization(fields: &Value) -> anyhow::Result<File> {
    let mut text = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"});
    if let (Value::Object(all), Value::Object(fields)) = (&mut text, fields) {
        all.extend(fields.clone());
    }
    Ok(File { path: "kustomization.yaml".into(), text: serde_saphyr::to_string(&text)? })
}
