use serde_json::json;

use super::testing::*;
use super::*;

impl Blobs for Store {
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
        match self.0.get(&digest.to_string()) {
            Some(bytes) if bytes.len() as u64 > limit => Err("is too long".into()),
            found => Ok(found.cloned()),
        }
    }
}

fn digest(text: &str) -> Digest {
    Digest::parse(text).unwrap()
}

fn versions(payload: &Payload) -> Vec<String> {
    payload.previous.iter().map(ToString::to_string).collect()
}

/// The release of one layer on a base.
fn of_layer(layer: Vec<u8>) -> Result<Payload, Fault> {
    let mut store = Store::default();
    let image = store.image(V2S2, "amd64", &[base(), layer]);
    read(&store, digest(&image))
}

fn refused(layer: Vec<u8>, part: &str) {
    match of_layer(layer) {
        Err(Fault::Bad(why)) => assert!(why.contains(part), "{part}: {why}"),
        other => panic!("{part}: {other:?}"),
    }
}

#[test]
fn every_compression_of_a_layer_reads_the_same() {
    let tar = payload_tar(&metadata("4.19.9", &["4.18.2", "4.18.19"], false), &references("4.19.9", 190));
    let expected = of_layer(gzip(&tar)).unwrap();
    assert_eq!((expected.version.to_string().as_str(), &*expected.architecture), ("4.19.9", "amd64"));
    assert_eq!((versions(&expected), expected.components.len()), (vec!["4.18.2".into(), "4.18.19".into()], 190));
    assert!(!expected.rewritten && !expected.lone_shard && expected.shards.is_empty());
    let (head, tail) = tar.split_at(700);
    let skippable = [
        &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
        &zstd(head),
        &[0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0],
        &zstd(tail),
    ];
    for (name, layer) in [
        ("plain", tar.clone()),
        ("two gzip members", [gzip(head), gzip(tail)].concat()),
        ("zstd", zstd(&tar)),
        ("zstd frames between skippable ones", skippable.concat()),
        ("no end of the tar", gzip(&tar[..tar.len() - 1024])),
    ] {
        let found = of_layer(layer).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(
            (&found.version, &found.previous, &found.components),
            (&expected.version, &expected.previous, &expected.components),
            "{name}"
        );
    }
}

#[test]
fn every_spelling_of_the_paths() {
    let (metadata, references) = (metadata("4.19.9", &[], false), references("4.19.9", 1));
    for prefix in ["./", "/", "//./"] {
        let names = (format!("{prefix}{METADATA}"), format!("{prefix}{REFERENCES}"));
        let tar = tarball(&[
            Entry::Directory("./release-manifests/"),
            Entry::File(&names.0, &metadata),
            Entry::File(&names.1, &references),
            Entry::File("release-manifests/.wh..wh..opq", b""),
        ]);
        assert!(of_layer(gzip(&tar)).is_ok(), "{prefix}");
    }
    // Sizes of links mean nothing, those of kinds that nobody knows do.
    for (kind, size) in [(tar::EntryType::Symlink, 4096), (tar::EntryType::new(b'Z'), 512)] {
        let mut header = tar::Header::new_ustar();
        header.set_path("x").unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        let content = vec![b'x'; if size == 512 { 512 } else { 0 }];
        let layer = [header.as_bytes().to_vec(), content, payload_tar(&metadata, &references)].concat();
        assert!(of_layer(layer).is_ok(), "{kind:?}");
    }
    // Long names, as GNU and PAX write them.
    let long = format!("release-manifests/{}", "x".repeat(300));
    for pax in [false, true] {
        let mut builder = tar::Builder::new(vec![]);
        if pax {
            builder.append_pax_extensions([("path", METADATA.as_bytes()), ("comment", &b"a\nb"[..])]).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(metadata.len() as u64);
        builder.append_data(&mut header, if pax { "short" } else { METADATA }, &metadata[..]).unwrap();
        header.set_size(1);
        builder.append_data(&mut header, &long, &b"x"[..]).unwrap();
        header.set_size(references.len() as u64);
        builder.append_data(&mut header, REFERENCES, &references[..]).unwrap();
        assert!(of_layer(builder.into_inner().unwrap()).is_ok(), "pax {pax}");
    }
}

#[test]
fn what_tools_could_read_differently_is_refused() {
    let (good, references) = (metadata("6.6.6", &["6.6.5"], false), references("6.6.6", 1));
    let with = |more: &[Entry<'_>]| {
        let mut tar = payload_tar(&good, &references);
        tar.truncate(tar.len() - 1024);
        [tar, tarball(more)].concat()
    };
    for (more, part) in [
        (Entry::File(METADATA, b"{}"), "twice"),
        (Entry::File("./release-manifests//release-metadata", b"{}"), "twice"),
        (Entry::File(REFERENCES, b"{}"), "twice"),
        (Entry::Link(METADATA, "/etc/passwd"), "link or directory"),
        (Entry::HardLink(REFERENCES, "usr/x"), "link or directory"),
        (Entry::Directory(METADATA), "link or directory"),
        (Entry::Link("release-manifests", "etc"), "release-manifests as a link"),
        (Entry::File("release-manifests/.wh.release-metadata", b""), "takes a file of the release away"),
        (Entry::File(".wh.release-manifests", b""), "takes a file of the release away"),
        (Entry::File("usr/../release-manifests/release-metadata", b""), "leads elsewhere"),
    ] {
        refused(gzip(&with(&[more])), part);
    }
    assert!(of_layer(gzip(&with(&[Entry::File("usr/../../etc/passwd", b"")]))).is_ok(), "nothing is extracted");
    refused(gzip(&tarball(&[Entry::File(METADATA, &good)])), "has no release-manifests/image-references");
    refused(gzip(&tarball(&[Entry::File(REFERENCES, &references)])), "has no release-manifests/release-metadata");
    refused(base(), "mirror the release again");
}

#[test]
fn hostile_layers_end_soon() {
    let bomb = gzip(&vec![0; 100 << 20]);
    let zeros = [payload_tar(b"", b"")[..512].to_vec(), {
        let mut header = tar::Header::new_ustar();
        header.set_path("big").unwrap();
        header.set_size(4 << 30);
        header.set_cksum();
        header.as_bytes().to_vec()
    }];
    let mut endless = gzip(&zeros.concat());
    for _ in 0..3 {
        endless.extend_from_slice(&bomb);
    }
    refused(endless, "unpacks to more than");

    let entry = |kind: tar::EntryType, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_path("x").unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        [header.as_bytes().to_vec(), vec![b'x'; 4096]].concat()
    };
    refused(entry(tar::EntryType::GNULongName, 1 << 40), "a name of 1099511627776 bytes");
    refused(entry(tar::EntryType::XHeader, 1 << 30), "an extended header of");
    refused(entry(tar::EntryType::XHeader, 512), "broken extended header");
    refused(entry(tar::EntryType::GNUSparse, 5), "sparse");
    refused(entry(tar::EntryType::Regular, u64::MAX), "bytes at byte");
    refused(entry(tar::EntryType::Regular, 1 << 40), "cut off");
    refused(entry(tar::EntryType::Regular, 0), "checksum does not fit");
    let mut huge = tar::Header::new_ustar();
    huge.set_path(METADATA).unwrap();
    huge.set_size(2 << 20);
    huge.set_cksum();
    refused(huge.as_bytes().to_vec(), "more than the 262144 that are read");
    let whole = payload("6.6.6", &[], false);
    refused(whole[..whole.len() / 2].to_vec(), "cut off");
    refused([&whole[..20], &[0xff; 40], &whole[60..]].concat(), "cannot be read");
    refused(b"<html>not found</html>".to_vec(), "neither gzip, zstd nor tar");
    refused(vec![], "neither gzip, zstd nor tar");
    refused(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 2, 3], "cannot be read");
    refused(vec![0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff], "cut off");
}

#[test]
fn metadata_and_references_are_strict() {
    let hex = "ab".repeat(32);
    let references_ok = String::from_utf8(references("6.6.6", 1)).unwrap();
    let metadata_ok = String::from_utf8(metadata("6.6.6", &["6.6.5"], false)).unwrap();
    let kind = r#""kind":"cincinnati-metadata-v0""#;
    let tag =
        |name: &str, image: &str| format!(r#"{{"name":"{name}","from":{{"kind":"DockerImage","name":"{image}"}}}}"#);
    let stream = |version: &str, tags: &str| {
        format!(r#"{{"kind":"ImageStream","metadata":{{"name":"{version}"}},"spec":{{"tags":[{tags}]}}}}"#)
    };
    for (metadata, part) in [
        (r#"{"kind":"cincinnati-metadata-v1","version":"6.6.6"}"#.to_owned(), "takes cincinnati-metadata-v0 only"),
        (r#"{"version":"6.6.6"}"#.into(), "is of kind \"\""),
        (format!("{{{kind},\"version\":\"v6.6.6\"}}"), "\"v6.6.6\" in version"),
        (format!("{{{kind},\"version\":6}}"), "has a version that is not a text"),
        (format!("{{{kind}}}"), "\"\" in version"),
        (format!("{{{kind},\"version\":\"6.6.6\",\"version\":\"6.6.7\"}}"), "occurs twice"),
        (format!("{{{kind},\"version\":\"6.6.6\",\"Version\":\"6.6.7\"}}"), "other tools take for \"version\""),
        (format!("{{{kind},\"version\":\"6.6.6\",\"ver\u{17f}ion\":\"6.6.7\"}}"), "other tools take for"),
        (format!("{{{kind},\"version\":\"6.6.6\",\"previous\":[\"6.6.5\",\"6.6\"]}}"), "\"6.6\" in previous"),
        (format!("{{{kind},\"version\":\"6.6.6\",\"previous\":[5]}}"), "in previous"),
        (format!("{{{kind},\"version\":\"6.6.6\",\"previous\":\"6.6.5\"}}"), "previous that is not a list"),
        (format!("\u{feff}{{{kind},\"version\":\"6.6.6\"}}"), "byte order mark"),
        (format!("{{{kind},\"version\":\"6.6.6\"}} {{}}"), "not one JSON object"),
        (format!("{{{kind},\"version\":\"6.6.7\"}}"), "\"6.6.6\" while release-metadata says 6.6.7"),
        ("[1]".into(), "not one JSON object"),
        ("<html>".into(), "not usable JSON"),
        (String::new(), "not one JSON object"),
        ("[".repeat(100_000), "not usable JSON"),
    ] {
        refused(gzip(&payload_tar(metadata.as_bytes(), references_ok.as_bytes())), part);
    }
    refused(gzip(&payload_tar(b"{\"kind\":\"\xff\"}", references_ok.as_bytes())), "is not UTF-8 from byte 9");
    let image = format!("quay.io/a/b@sha256:{hex}");
    for (references, part) in [
        (stream("6.6.7", ""), "is of version \"6.6.7\""),
        (stream("6.6.6", &tag("cli", "quay.io/a/b:latest")), "for \"cli\""),
        (stream("6.6.6", &[tag("cli", &image), tag("cli", &image)].join(",")), "\"cli\" twice"),
        (stream("6.6.6", &tag("", &image)), "without a name"),
        (r#"{"kind":"List"}"#.into(), "no ImageStream"),
        (r#"{"kind":"ImageStream","metadata":{"name":"6.6.6"}}"#.into(), "has no spec"),
    ] {
        refused(gzip(&payload_tar(metadata_ok.as_bytes(), references.as_bytes())), part);
    }
    for previous in
        ["", ",\"previous\":null", ",\"previous\":[]", ",\"next\":[\"7.0.0\"],\"metadata\":{\"version\":{\"a\":1}}"]
    {
        let metadata = format!("{{{kind},\"version\":\"6.6.6\"{previous}}}");
        assert_eq!(versions(&of_layer(payload_tar(metadata.as_bytes(), references_ok.as_bytes())).unwrap()), [""; 0]);
    }
}

#[test]
fn a_list_is_one_release_by_its_own_digest() {
    let mut store = Store::default();
    let layer = payload("4.19.9", &["4.19.8"], true);
    let shards: Vec<_> =
        ["amd64", "arm64", "ppc64le", "s390x"].map(|name| store.image(V2S2, name, &[base(), layer.clone()])).into();
    let list = store.index(LIST, &shards);
    let nested = {
        let inner = store.index(OCI_INDEX, &shards[1..]);
        store.index(OCI_INDEX, &[shards[0].clone(), inner])
    };
    for top in [&list, &nested] {
        let read = read(&store, digest(top)).unwrap();
        assert_eq!((read.digest, &*read.architecture, read.rewritten), (digest(top), "multi", false));
        assert_eq!(read.shards, shards.iter().map(|shard| digest(shard)).collect::<Vec<_>>());
    }
    let lone = read(&store, digest(&shards[0])).unwrap();
    assert!(lone.lone_shard && lone.architecture == "multi", "{lone:?}");

    let converted = store.image(OCI, "arm64", &[layer]);
    let top = store.index(OCI_INDEX, &[converted, shards[0].clone()]);
    assert!(read(&store, digest(&top)).unwrap().rewritten);

    // Sparse copies: what is there is read, what is not is named.
    let absent = format!("sha256:{}", "7".repeat(64));
    let sparse = store.index(LIST, &[absent.clone(), shards[1].clone()]);
    let found = read(&store, digest(&sparse)).unwrap();
    assert_eq!((found.unread, found.shards.len()), (vec![digest(&absent)], 2));
    let nothing = store.index(LIST, &[absent]);
    assert!(matches!(read(&store, digest(&nothing)), Err(Fault::Missing { .. })));

    let other = store.image(V2S2, "arm64", &[payload("4.19.9", &["4.1.1"], true)]);
    let lie = store.index(LIST, &[shards[0].clone(), other]);
    assert!(matches!(read(&store, digest(&lie)), Err(Fault::Bad(why)) if why.contains("contradict each other")));
    let empty = store.index(LIST, &[]);
    assert!(matches!(read(&store, digest(&empty)), Err(Fault::NotRelease(_))));
    let many = store.index(LIST, &vec![shards[0].clone(); 65]);
    assert!(matches!(read(&store, digest(&many)), Err(Fault::Bad(why)) if why.contains("more than 64")));
    let mut deep = list;
    for _ in 0..3 {
        deep = store.index(OCI_INDEX, &[deep]);
    }
    assert!(matches!(read(&store, digest(&deep)), Err(Fault::Bad(why)) if why.contains("deep")));
}

#[test]
fn nothing_is_believed_that_was_not_hashed() {
    let mut store = Store::default();
    let image = store.image(V2S2, "amd64", &[base(), payload("6.6.6", &[], false)]);
    for (name, bytes) in store.0.clone() {
        // The base is not read, so its damage is not noticed.
        let counts = bytes != base();
        for change in ["changed", "cut", "gone"] {
            let mut store = store.clone();
            match change {
                "changed" => store.0.get_mut(&name).unwrap()[10] ^= 1,
                "cut" => store.0.get_mut(&name).unwrap().truncate(bytes.len() - 1),
                _ => drop(store.0.remove(&name)),
            }
            match read(&store, digest(&image)) {
                Ok(_) => assert!(!counts, "{change} {name}"),
                Err(Fault::Missing { digest, .. }) => assert!(change == "gone" && digest.to_string() == name),
                Err(fault) => assert!(fault.to_string().contains("damaged or forged"), "{change}: {fault}"),
            }
        }
    }
    let mut manifest: serde_json::Value = serde_json::from_slice(&store.0[&image]).unwrap();
    manifest["layers"][1]["size"] = json!(5);
    let lie = store.put(manifest.to_string());
    assert!(read(&store, digest(&lie)).unwrap_err().to_string().contains("where its descriptor says 5"));
    manifest["layers"][1]["size"] = json!(LAYER_BYTES + 1);
    let large = store.put(manifest.to_string());
    assert!(read(&store, digest(&large)).unwrap_err().to_string().contains("is said to have"));
}

#[test]
fn odd_manifests_are_refused_and_other_images_told_apart() {
    let mut store = Store::default();
    let layer = [payload("6.6.6", &[], false)];
    let config = |text: serde_json::Value| text;
    let component =
        store.image_with(V2S2, &layer, &config(json!({"architecture": "amd64", "config": {"Labels": null}})));
    assert!(matches!(read(&store, digest(&component)), Err(Fault::NotRelease(_))));
    let labels = json!({"Labels": {"io.openshift.release": "6.6.6"}});
    let riscy = store.image_with(V2S2, &layer, &json!({"architecture": "vax", "config": labels}));
    assert!(read(&store, digest(&riscy)).unwrap_err().to_string().contains("names no architecture"));
    let bare = store.image(V2S2, "amd64", &[]);
    assert!(read(&store, digest(&bare)).unwrap_err().to_string().contains("no layers"));
    let descriptor = json!({"digest": image_digest(), "size": 1});
    for (manifest, part) in [
        (json!({"schemaVersion": 1, "fsLayers": []}), "schema version 2"),
        (json!({"schemaVersion": 2}), "neither manifests nor layers"),
        (json!({"schemaVersion": 2, "manifests": [], "layers": []}), "both manifests and layers"),
        (json!({"schemaVersion": 2, "layers": []}), "has no config"),
        (json!({"schemaVersion": 2, "config": descriptor, "layers": [], "Layers": []}), "take for \"layers\""),
        (
            json!({"schemaVersion": 2, "config": descriptor, "layers": [{"digest": "sha512:aa", "size": 1}]}),
            "\"sha512:aa\"",
        ),
        (
            json!({"schemaVersion": 2, "config": descriptor, "layers": [{"digest": image_digest(), "size": -1}]}),
            "no size",
        ),
        (json!({"schemaVersion": 2, "config": descriptor, "layers": vec![descriptor.clone(); 129]}), "129 layers"),
        (json!({"schemaVersion": 2, "manifests": [1]}), "no descriptors"),
    ] {
        let digest = digest(&store.put(manifest.to_string()));
        let why = read(&store, digest).unwrap_err().to_string();
        assert!(why.contains(part) && why.contains(&digest.to_string()), "{part}: {why}");
    }
    let html = store.put("<html>sign in</html>");
    assert!(read(&store, digest(&html)).unwrap_err().to_string().contains("is not usable JSON"));
    // Builders put attestations beside the images of an index.
    let good = store.image(V2S2, "amd64", &layer);
    let index = json!({"schemaVersion": 2, "manifests": [
        {"digest": good, "size": store.0[&good].len()},
        {"digest": image_digest(), "size": 1, "platform": {"architecture": "unknown", "os": "unknown"}},
    ]});
    let index = store.put(index.to_string());
    let read = read(&store, digest(&index)).unwrap();
    assert_eq!((read.shards.len(), &*read.architecture), (1, "amd64"));
}

fn image_digest() -> String {
    format!("sha256:{}", "5".repeat(64))
}

/// A layer is hashed first, so only its maker can do this; a panic would still be a bug.
#[test]
fn damaged_layers_never_panic() {
    let tar = payload_tar(&metadata("6.6.6", &["6.6.5"], false), &references("6.6.6", 3));
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    };
    for layer in [tar.clone(), gzip(&tar), zstd(&tar)] {
        for _ in 0..3000 {
            let mut damaged = layer.clone();
            for _ in 0..=next(4) {
                let at = next(damaged.len());
                damaged[at] ^= 1 << next(8);
            }
            damaged.truncate(damaged.len() - next(20).min(damaged.len() / 2));
            let _either = Contents::of_layer(&damaged);
        }
    }
}
