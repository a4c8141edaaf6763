//! Release images made by hand, in the exact form of `oc adm release new` unless a test wants another.
//!
//! Names nothing of this crate: the tests of the command line include it too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

pub const V2S2: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const METADATA: &str = "release-manifests/release-metadata";
pub const REFERENCES: &str = "release-manifests/image-references";

pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in digest(&SHA256, bytes).as_ref() {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Blobs by digest.
#[derive(Clone, Debug, Default)]
pub struct Store(pub BTreeMap<String, Vec<u8>>);

impl Store {
    pub fn put(&mut self, bytes: impl Into<Vec<u8>>) -> String {
        let bytes = bytes.into();
        let digest = sha256(&bytes);
        self.0.insert(digest.clone(), bytes);
        digest
    }

    fn descriptor(&self, digest: &str) -> Value {
        json!({"mediaType": "application/octet-stream", "digest": digest, "size": self.0[digest].len()})
    }

    /// An image of these layers, the last one on top.
    pub fn image(&mut self, media_type: &str, architecture: &str, layers: &[Vec<u8>]) -> String {
        self.image_with(media_type, layers, &json!({
            "architecture": architecture, "os": "linux",
            "config": {"Labels": {"io.openshift.release": "whatever"}}, "rootfs": {"type": "layers", "diff_ids": []},
        }))
    }

    pub fn image_with(&mut self, media_type: &str, layers: &[Vec<u8>], config: &Value) -> String {
        let config = self.put(config.to_string());
        let layers: Vec<String> = layers.iter().map(|layer| self.put(layer.clone())).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": media_type, "config": self.descriptor(&config),
            "layers": layers.iter().map(|layer| self.descriptor(layer)).collect::<Vec<_>>(),
        });
        self.put(manifest.to_string())
    }

    pub fn index(&mut self, media_type: &str, children: &[String]) -> String {
        let children: Vec<Value> = children
            .iter()
            .map(|child| match self.0.get(child) {
                Some(_) => self.descriptor(child),
                None => json!({"digest": child, "size": 1}),
            })
            .collect();
        self.put(json!({"schemaVersion": 2, "mediaType": media_type, "manifests": children}).to_string())
    }

    /// An OCI image layout of everything in here.
    pub fn layout(&self, root: &Path, tops: &[(&str, &str)]) {
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        for (digest, bytes) in &self.0 {
            fs::write(blobs.join(digest.strip_prefix("sha256:").unwrap()), bytes).unwrap();
        }
        fs::write(root.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        fs::write(root.join("index.json"), self.index_json(tops).to_string()).unwrap();
    }

    pub fn index_json(&self, tops: &[(&str, &str)]) -> Value {
        let entry = |(digest, name): &(&str, &str)| {
            let mut entry = self.descriptor(digest);
            entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
            entry
        };
        json!({"schemaVersion": 2, "manifests": tops.iter().map(entry).collect::<Vec<_>>()})
    }
}

/// release-metadata as oc writes it.
pub fn metadata(version: &str, previous: &[&str], multi: bool) -> Vec<u8> {
    let mut metadata = json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": previous});
    if multi {
        metadata["metadata"] = json!({"release.openshift.io/architecture": "multi", "url": "https://errata.example/1"});
    }
    serde_json::to_vec_pretty(&metadata).unwrap()
}

/// image-references with so many components.
pub fn references(version: &str, components: usize) -> Vec<u8> {
    let tag = |number: usize| {
        let image = format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{:064x}", number + 1);
        json!({"name": format!("component-{number}"), "from": {"kind": "DockerImage", "name": image}})
    };
    let tags: Vec<_> = (0..components).map(tag).collect();
    serde_json::to_vec_pretty(&json!({
        "kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}, "spec": {"tags": tags},
    }))
    .unwrap()
}

pub enum Entry<'a> {
    Directory(&'a str),
    File(&'a str, &'a [u8]),
    Link(&'a str, &'a str),
    HardLink(&'a str, &'a str),
}

pub fn tarball(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o444);
        let (path, kind, content): (&str, tar::EntryType, &[u8]) = match entry {
            Entry::Directory(path) => (path, tar::EntryType::Directory, &[]),
            Entry::File(path, content) => (path, tar::EntryType::Regular, content),
            Entry::Link(path, target) => {
                header.set_link_name(target).unwrap();
                (path, tar::EntryType::Symlink, &[])
            }
            Entry::HardLink(path, target) => {
                header.set_link_name(target).unwrap();
                (path, tar::EntryType::Link, &[])
            }
        };
        // set_path refuses what a hostile writer would not.
        header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The tar of a release's last layer.
pub fn payload_tar(metadata: &[u8], references: &[u8]) -> Vec<u8> {
    tarball(&[
        Entry::Directory("release-manifests"),
        Entry::File(REFERENCES, references),
        Entry::File(METADATA, metadata),
        Entry::File("release-manifests/0000_50_x_00_configmap.yaml", b"kind: ConfigMap\n"),
    ])
}

pub fn payload(version: &str, previous: &[&str], multi: bool) -> Vec<u8> {
    gzip(&payload_tar(&metadata(version, previous, multi), &references(version, 3)))
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A base layer, as the cluster-version-operator's.
pub fn base() -> Vec<u8> {
    gzip(&tarball(&[Entry::Directory("usr"), Entry::File("usr/x", b"x")]))
}
