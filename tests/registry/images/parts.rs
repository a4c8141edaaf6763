//! What images are made of: layers, manifests and indexes, as oc and its libraries write them.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::testing::{OCI_INDEX, V2S2, gzip, sha256, zstd};

/// Blobs by digest and manifests in the order in which they can be pushed: the top one last.
#[derive(Default)]
pub struct Image {
    pub blobs: BTreeMap<String, Vec<u8>>,
    pub manifests: Vec<Manifest>,
}

pub struct Manifest {
    pub digest: String,
    pub media_type: &'static str,
    pub bytes: Vec<u8>,
}

/// How the payload layer is compressed; mirrors do that anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    /// Several members, as pigz and eStargz write them.
    Members,
    Zstd,
    Plain,
}

#[derive(Clone)]
pub struct Layer {
    pub packing: Packing,
    pub bytes: Vec<u8>,
    pub diff_id: String,
}

impl Image {
    pub fn top(&self) -> &Manifest {
        self.manifests.last().expect("an image has a manifest")
    }

    pub fn add(&mut self, media_type: &'static str, config: &Value, layers: &[Layer]) -> String {
        let docker = media_type == V2S2;
        let mut config = config.clone();
        config["rootfs"] =
            json!({"type": "layers", "diff_ids": layers.iter().map(|layer| &layer.diff_id).collect::<Vec<_>>()});
        let kind = if docker {
            "application/vnd.docker.container.image.v1+json"
        } else {
            "application/vnd.oci.image.config.v1+json"
        };
        let config = self.blob(kind, config.to_string().into_bytes());
        let layers: Vec<_> =
            layers.iter().map(|layer| self.blob(layer.packing.media_type(docker), layer.bytes.clone())).collect();
        self.manifest(
            media_type,
            &json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers}),
        )
    }

    pub fn index(
        &mut self,
        media_type: &'static str,
        child_type: &str,
        children: &[String],
        architectures: &[&str],
    ) -> String {
        let child = |(digest, architecture): (&String, &&str)| {
            let bytes = self.manifests.iter().find(|manifest| manifest.digest == *digest).map_or(0, |m| m.bytes.len());
            let mut child = json!({"mediaType": child_type, "size": bytes, "digest": digest});
            if child_type != OCI_INDEX {
                child["platform"] = json!({"architecture": architecture, "os": "linux"});
            }
            child
        };
        let children: Vec<_> = children.iter().zip(architectures).map(child).collect();
        self.manifest(media_type, &json!({"schemaVersion": 2, "mediaType": media_type, "manifests": children}))
    }

    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let descriptor = json!({"mediaType": media_type, "size": bytes.len(), "digest": digest});
        self.blobs.insert(digest, bytes);
        descriptor
    }

    fn manifest(&mut self, media_type: &'static str, manifest: &Value) -> String {
        let bytes = serde_json::to_vec_pretty(manifest).expect("JSON");
        let digest = sha256(&bytes);
        self.manifests.push(Manifest { digest: digest.clone(), media_type, bytes });
        digest
    }
}

impl Packing {
    pub fn pack(self, tar: &[u8]) -> Vec<u8> {
        match self {
            // oc's own is slower and smaller; what matters here is that it is one member.
            Self::Gzip => gzip_with(Compression::fast(), tar),
            Self::Members => tar.chunks(tar.len().div_ceil(3)).flat_map(gzip).collect(),
            Self::Zstd => zstd(tar),
            Self::Plain => tar.to_vec(),
        }
    }

    fn media_type(self, docker: bool) -> &'static str {
        match (self, docker) {
            (Self::Gzip | Self::Members, true) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
            (Self::Zstd, true) => "application/vnd.docker.image.rootfs.diff.tar.zstd",
            (Self::Plain, true) => "application/vnd.docker.image.rootfs.diff.tar",
            (Self::Gzip | Self::Members, false) => "application/vnd.oci.image.layer.v1.tar+gzip",
            (Self::Zstd, false) => "application/vnd.oci.image.layer.v1.tar+zstd",
            (Self::Plain, false) => "application/vnd.oci.image.layer.v1.tar",
        }
    }
}

pub fn gzip_with(level: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], level);
    encoder.write_all(bytes).expect("write into memory");
    encoder.finish().expect("write into memory")
}

/// ustar as oc writes it: the directory of the first file without a slash at its end, then files that all may read.
pub fn tarball<'a>(files: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    let mut append = |path: &str, kind: tar::EntryType, mode: u32, bytes: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_path(path).expect("a short path");
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        builder.append(&header, bytes).expect("write into memory");
    };
    let mut files = files.into_iter().peekable();
    if let Some((directory, _)) = files.peek().and_then(|(path, _)| path.rsplit_once('/')) {
        append(directory, tar::EntryType::Directory, 0o777, &[]);
    }
    files.for_each(|(path, bytes)| append(path, tar::EntryType::Regular, 0o444, &bytes));
    builder.into_inner().expect("write into memory")
}
