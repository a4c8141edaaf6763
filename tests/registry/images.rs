//! Release images as `oc adm release new` makes them, the same bytes for the same recipe.

#[path = "images/parts.rs"]
mod parts;

use std::fmt::Write;

use flate2::Compression;
use serde_json::{Value, json};

pub use parts::{Image, Manifest, Packing};
use parts::{Layer, gzip_with, tarball};

use crate::testing::{LIST, METADATA, OCI, OCI_INDEX, REFERENCES, V2S2, gzip, metadata, sha256};

pub const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "ppc64le", "s390x"];
const COMPONENTS: &str = "quay.io/openshift-release-dev/ocp-v4.0-art-dev";
/// The first of them, sorted, as oc sorts them.
const NAMES: [&str; 8] = [
    "agent-installer-api-server",
    "aws-cluster-api-controllers",
    "cli",
    "cluster-etcd-operator",
    "cluster-version-operator",
    "console",
    "machine-config-operator",
    "rhel-coreos",
];

/// What the image of a release is wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Docker schema 2, as oc writes it.
    Docker,
    Oci,
    /// A docker manifest list of four architectures, which share the payload layer.
    List,
    /// An OCI index of two OCI indexes of two images each.
    Nested,
}

#[derive(Clone, Debug)]
pub struct Recipe {
    pub version: String,
    pub previous: Vec<String>,
    pub form: Form,
    pub packing: Packing,
    /// `HOST/PATH` that image-references names.
    pub components_at: String,
    pub components: usize,
    /// Files beside image-references and release-metadata.
    pub manifests: usize,
    /// Of the lowest layer.
    pub base_bytes: usize,
}

impl Recipe {
    /// A small one: what differs from a real release is size alone.
    pub fn new(version: &str, previous: &[&str]) -> Self {
        Self {
            version: version.into(),
            previous: previous.iter().map(ToString::to_string).collect(),
            form: Form::Docker,
            packing: Packing::Gzip,
            components_at: COMPONENTS.into(),
            components: 12,
            manifests: 20,
            base_bytes: 64 << 10,
        }
    }

    /// As many components and manifests as a release of today has: 10 MB, 4 MB compressed.
    pub fn real(version: &str, previous: &[&str]) -> Self {
        Self { components: 190, manifests: 760, ..Self::new(version, previous) }
    }

    pub fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    pub fn packing(self, packing: Packing) -> Self {
        Self { packing, ..self }
    }

    pub fn components_at(self, repository: &str) -> Self {
        Self { components_at: repository.into(), ..self }
    }

    pub fn build(self) -> Release {
        let multi = matches!(self.form, Form::List | Form::Nested);
        let components = self.component_images();
        let tar = self.payload(&components, multi);
        let payload = Layer { packing: self.packing, bytes: self.packing.pack(&tar), diff_id: sha256(&tar) };
        let mut image = Image::default();
        let manifest_type = if matches!(self.form, Form::Docker | Form::List) { V2S2 } else { OCI };
        let architectures = &ARCHITECTURES[..if multi { 4 } else { 1 }];
        let shards: Vec<_> = architectures
            .iter()
            .map(|name| image.add(manifest_type, &self.config(name), &self.layers(name, &payload)))
            .collect();
        match self.form {
            Form::Docker | Form::Oci => {}
            Form::List => drop(image.index(LIST, manifest_type, &shards, architectures)),
            Form::Nested => {
                let halves = [0..2, 2..4]
                    .map(|half| image.index(OCI_INDEX, manifest_type, &shards[half.clone()], &architectures[half]));
                image.index(OCI_INDEX, OCI_INDEX, &halves, &["unknown"; 2]);
            }
        }
        Release {
            recipe: self,
            image,
            shards: if multi { shards } else { vec![] },
            payload: sha256(&payload.bytes),
            components,
        }
    }

    fn seed(&self, what: &str) -> Random {
        let bytes = sha256(format!("{} {what}", self.version).as_bytes());
        Random(u64::from_str_radix(&bytes["sha256:".len()..][..16], 16).expect("hex digits"))
    }

    /// Base and binary are one architecture's, the payload is everybody's.
    fn layers(&self, architecture: &str, payload: &Layer) -> Vec<Layer> {
        let mut random = self.seed(architecture);
        let mut layer = |path, length| {
            let tar = tarball([(path, random.bytes(length))]);
            Layer { packing: Packing::Gzip, bytes: gzip_with(Compression::none(), &tar), diff_id: sha256(&tar) }
        };
        vec![
            layer("usr/lib/base", self.base_bytes),
            layer("usr/bin/cluster-version-operator", 64 << 10),
            payload.clone(),
        ]
    }

    fn config(&self, architecture: &str) -> Value {
        let base = sha256(format!("base of {} {architecture}", self.version).as_bytes());
        json!({
            "id": "", "created": "2026-01-01T00:00:00Z", "container_config": {}, "architecture": architecture, "os": "linux", "size": 0,
            "config": {
                "Env": ["PATH=/usr/bin"], "Entrypoint": ["/usr/bin/cluster-version-operator"],
                "Labels": {"io.openshift.release": self.version, "io.openshift.release.base-image-digest": base},
            },
            "history": [{"created": "2026-01-01T00:00:00Z", "comment": "Release image for OpenShift"}],
        })
    }

    /// The tar of the layer that makes the image a release: entries in oc's order.
    fn payload(&self, components: &[Component], multi: bool) -> Vec<u8> {
        let previous: Vec<_> = self.previous.iter().map(String::as_str).collect();
        let mut files = vec![
            (REFERENCES.to_owned(), self.references(components)),
            (METADATA.to_owned(), metadata(&self.version, &previous, multi)),
        ];
        let mut random = self.seed("manifests");
        for number in 0..self.manifests {
            let component = &components[number * components.len() / self.manifests].name;
            files.push((format!("release-manifests/0000_50_{component}_{number:03}.yaml"), random.manifest(component)));
        }
        tarball(files.iter().map(|(path, bytes)| (&**path, bytes.clone())))
    }

    fn references(&self, components: &[Component]) -> Vec<u8> {
        let tag = |component: &Component| {
            json!({
                "name": component.name,
                "annotations": {
                    "io.openshift.build.commit.id": &component.image.top().digest["sha256:".len()..][..40],
                    "io.openshift.build.commit.ref": "release",
                    "io.openshift.build.source-location": format!("https://github.com/openshift/{}", component.name),
                },
                "from": {"kind": "DockerImage", "name": component.pullspec},
                "generation": null, "importPolicy": {}, "referencePolicy": {"type": ""},
            })
        };
        serde_json::to_vec_pretty(&json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "metadata": {"name": self.version, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"lookupPolicy": {"local": false}, "tags": components.iter().map(tag).collect::<Vec<_>>()},
            "status": {"dockerImageRepository": ""},
        }))
        .expect("JSON")
    }

    /// Few KB each, and one layer for all: what is asked of them is whether they are there.
    fn component_images(&self) -> Vec<Component> {
        let tar = tarball([("usr/bin/component", self.seed("components").bytes(2 << 10))]);
        let layer = Layer { packing: Packing::Gzip, bytes: gzip(&tar), diff_id: sha256(&tar) };
        let image = |number: usize| {
            let name = NAMES.get(number).map_or_else(|| format!("zz-operator-{number:03}"), ToString::to_string);
            let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": {"name": name, "version": self.version}}});
            let mut image = Image::default();
            image.add(V2S2, &config, std::slice::from_ref(&layer));
            let pullspec = format!("{}@{}", self.components_at, image.top().digest);
            Component { name, pullspec, image }
        };
        (0..self.components).map(image).collect()
    }
}

/// A release image with everything that a registry must hold of it.
pub struct Release {
    pub recipe: Recipe,
    pub image: Image,
    /// The images of a list.
    pub shards: Vec<String>,
    /// The digest of the layer that all of them share.
    pub payload: String,
    pub components: Vec<Component>,
}

impl Release {
    /// By which a cluster names it.
    pub fn digest(&self) -> &str {
        &self.image.top().digest
    }
}

pub struct Component {
    pub name: String,
    /// As image-references has it.
    pub pullspec: String,
    pub image: Image,
}

/// SplitMix64: the same numbers everywhere and for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Most of them small, few large, and as compressible as YAML is.
    fn manifest(&mut self, component: &str) -> Vec<u8> {
        const WORDS: [&str; 8] = [
            "description",
            "namespace",
            "type",
            "properties",
            "image",
            "serviceAccountName",
            "resources",
            "x-kubernetes-map-type",
        ];
        // Each size is half as frequent as half of it: nobody needs floating point for a heavy tail.
        let doublings = self.next().trailing_zeros().min(7);
        let length = (2_000 + self.next() % 2_000) << doublings;
        let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {component}\ndata:\n");
        while (text.len() as u64) < length {
            let (one, other) = (self.next(), self.next() >> 32);
            let word = WORDS[(one % 8) as usize];
            writeln!(text, "    {word}: the {component} {one:016x}{other:08x}").expect("write into memory");
        }
        text.into_bytes()
    }
}
