//! What the real oc wrote, in a real registry: airgate must read there what `oc adm release info` read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::images::{Image, Manifest};
use crate::info::{ca_bundle, info};
use crate::real::{Options, Registry};
use crate::testing::{LIST, OCI, OCI_INDEX, V2S2, sha256};

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// An image of a layout as it stands there, byte for byte.
fn from_layout(layout: &Path) -> Image {
    let mut image = Image::default();
    let index = json_of(&layout.join("index.json"));
    add(&mut image, layout, index["manifests"][0]["digest"].as_str().unwrap());
    image
}

fn add(image: &mut Image, layout: &Path, digest: &str) {
    let blob = |digest: &str| fs::read(layout.join("blobs/sha256").join(&digest["sha256:".len()..])).unwrap();
    let bytes = blob(digest);
    let manifest: Value = serde_json::from_slice(&bytes).unwrap();
    for child in manifest["manifests"].as_array().into_iter().flatten() {
        add(image, layout, child["digest"].as_str().unwrap());
    }
    let config = manifest.get("config").into_iter();
    for part in config.chain(manifest["layers"].as_array().into_iter().flatten()) {
        let digest = part["digest"].as_str().unwrap();
        image.blobs.insert(digest.into(), blob(digest));
    }
    let said = manifest["mediaType"].as_str();
    let shape = if manifest.get("manifests").is_some() { OCI_INDEX } else { OCI };
    let media_type = [V2S2, LIST, OCI, OCI_INDEX].into_iter().find(|known| said == Some(known)).unwrap_or(shape);
    image.manifests.push(Manifest { digest: sha256(&bytes), media_type, bytes });
}

#[test]
fn releases_of_the_real_tools_read_from_a_registry_as_oc_reads_them() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let root = std::env::var_os("AIRGATE_SHARED").map_or_else(beside, PathBuf::from).join("data/releases");
    if !root.join("forms.json").is_file() {
        // As the tests of what the repository promises: a clone may lack the images.
        eprintln!("SKIPPED: no release images at {} (set AIRGATE_SHARED)", root.display());
        return;
    }
    let registry = Registry::start(Options::default());
    let ca = ca_bundle(&[&registry]);
    // The layout, the oracle, and whether the copy kept the release's digest.
    for (layout, id, kept) in [
        ("4.18.20", "4.18.20", false),
        ("4.19.0-rc.3", "4.19.0-rc.3", false),
        ("4.19.9", "4.19.9", false),
        ("nightly", "nightly", false),
        ("zstd", "4.18.20", false),
        ("4.19.9-multi", "4.19.9-multi", false),
        ("kept-v2s2", "4.18.21", true),
        ("kept-list", "4.19.9-multi", true),
    ] {
        let image = from_layout(&root.join("layouts").join(layout));
        let oracle = json_of(&root.join(format!("oracle/{id}.info.json")));
        registry.push_images("ocp/release", [&image]);
        let (output, document) =
            info(&["--ca-file", &ca, &format!("{}/ocp/release@{}", registry.host(), image.top().digest)]);
        assert_eq!(output.code, 0, "{layout}: {}", output.stderr);
        let read = &document["releases"][0];
        let tags = oracle["references"]["spec"]["tags"].as_array().unwrap();
        let components: Vec<_> = tags.iter().map(|tag| tag["from"]["name"].clone()).collect();
        assert_eq!(read["version"], oracle["metadata"]["version"], "{layout}");
        assert_eq!(read["previous"], oracle["metadata"]["previous"], "{layout}");
        assert_eq!(read["components"], json!(components), "{layout}");
        let multi = oracle["listDigest"] != "";
        assert_eq!(read["architecture"], if multi { json!("multi") } else { oracle["config"]["architecture"].clone() });
        if kept {
            assert_eq!(read["digest"], oracle[if multi { "listDigest" } else { "digest" }], "{layout}");
        }
    }
}
