//! Sources below a release directory.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::payload::testing::{
    Entry, LIST, OCI, OCI_INDEX, Store, V2S2, base, metadata, payload, payload_tar, references, sha256, tarball,
};
use crate::pullspec::Digest;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn digest(text: &str) -> Digest {
    Digest::parse(text).unwrap()
}

/// A release kept as oc wrote it.
fn kept(version: &str) -> (Store, String) {
    let mut store = Store::default();
    let image = store.image(V2S2, "amd64", &[base(), payload(version, &["4.1.1"], false)]);
    (store, image)
}

/// A tar of files with paths of any length.
fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, &content[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn oci_archive(store: &Store, tops: &[(&str, &str)]) -> Vec<u8> {
    let blobs = store.0.iter().map(|(digest, bytes)| (format!("blobs/sha256/{}", &digest[7..]), bytes.clone()));
    let mut files: Vec<_> = blobs.collect();
    files.push(("index.json".into(), store.index_json(tops).to_string().into_bytes()));
    files.push(("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    tar_of(&files)
}

/// What oc-mirror writes: tags of all, blobs of some.
fn mirror_archive(store: &Store, tags: &[(&str, &str)], held: impl Fn(&str) -> bool) -> Vec<u8> {
    let storage = "docker/registry/v2";
    let mut files: Vec<_> = tags
        .iter()
        .map(|(tag, digest)| (format!("{storage}/repositories/{tag}/current/link"), digest.as_bytes().to_vec()))
        .collect();
    for (digest, bytes) in store.0.iter().filter(|(digest, _)| held(digest)) {
        let hex = &digest[7..];
        files.push((format!("{storage}/blobs/sha256/{}/{hex}/data", &hex[..2]), bytes.clone()));
    }
    files.push(("working-dir/logs/x.log".into(), b"x".to_vec()));
    tar_of(&files)
}

const RELEASES: &str = "openshift/release-images/_manifests/tags";

fn load_one(root: &Path) -> (Catalog, Vec<Problem>) {
    load(&[root.to_owned()], NOW)
}

#[test]
fn layouts_and_archives_are_sources_and_what_proves_nothing_is_named() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (store, one) = kept("4.2.1");
    store.layout(&at("sub/layout"), &[(&one, "x")]);
    let (store, two) = kept("4.2.2");
    fs::write(at("two.tar"), oci_archive(&store, &[(&two, "x")])).unwrap();
    let mut store = Store::default();
    let converted = store.image(OCI, "arm64", &[payload("4.2.3", &[], false)]);
    store.layout(&at("converted"), &[(&converted, "x")]);
    let shard = store.image(V2S2, "arm64", &[payload("4.2.4", &[], true)]);
    store.layout(&at("shard"), &[(&shard, "x")]);
    let index = store.index(OCI_INDEX, &[converted]);
    store.layout(&at("converted-list"), &[(&index, "x")]);
    fs::write(at("other.tar"), tarball(&[Entry::File("readme", b"x")])).unwrap();
    fs::write(at("packed.tgz"), [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
    fs::write(at("notes.txt"), "not looked at").unwrap();
    let (catalog, problems) = load_one(root.path());
    for (image, version) in [(&one, "4.2.1"), (&two, "4.2.2")] {
        let release = catalog.get(digest(image)).unwrap_or_else(|| panic!("{version}: {problems:?}"));
        assert_eq!((release.version.to_string().as_str(), release.source.verified), (version, true));
        assert_eq!(release.components.as_ref().unwrap().len(), 3);
    }
    assert_eq!(catalog.len(), 2);
    let told: Vec<_> =
        problems.iter().map(|problem| problem.to_string().replace(root.path().to_str().unwrap(), "")).collect();
    for part in [
        "/converted: 4.2.3 (arm64) is here as a converted copy",
        "skopeo copy --preserve-digests",
        "keeps manifest lists",
        "/shard: 4.2.4 (multi): sha256:",
        "/other.tar: is a tar, but neither",
        "/packed.tgz: is compressed (gzip)",
    ] {
        assert!(told.iter().any(|problem| problem.contains(part)), "{part}: {told:#?}");
    }
    assert_eq!(told.len(), 5, "{told:#?}");
}

#[test]
fn a_converted_copy_beside_the_real_one_is_not_worth_a_word() {
    let root = tempfile::tempdir().unwrap();
    let (store, one) = kept("4.2.1");
    store.layout(&root.path().join("a"), &[(&one, "x")]);
    let mut store = Store::default();
    let converted = store.image(OCI, "amd64", &[payload("4.2.1", &[], false)]);
    store.layout(&root.path().join("b"), &[(&converted, "x")]);
    let (catalog, problems) = load_one(root.path());
    assert_eq!((catalog.len(), problems), (1, vec![]));
}

#[test]
fn a_broken_layout_is_a_problem_and_the_rest_loads() {
    let root = tempfile::tempdir().unwrap();
    let (store, one) = kept("4.2.1");
    store.layout(&root.path().join("good"), &[(&one, "x")]);
    let bad = root.path().join("bad");
    let component = {
        let mut store = store.clone();
        let component = store.image_with(V2S2, &[base()], &json!({"architecture": "amd64"}));
        store.layout(&bad, &[(&one, "x")]);
        component
    };
    let blob = |digest: &str| bad.join("blobs/sha256").join(&digest[7..]);
    for (name, text, part) in [
        ("index.json", "{", "its index.json is not usable JSON"),
        ("index.json", r#"{"schemaVersion":2,"manifests":[]}"#, "names no image"),
        ("index.json", r#"{"schemaVersion":2,"layers":[],"config":{"digest":"sha256:aa","size":1}}"#, "its index.json"),
        ("oci-layout", "{}", "no version 1 of the image layout"),
    ] {
        store.layout(&bad, &[(&one, "x")]);
        fs::write(bad.join(name), text).unwrap();
        let (catalog, problems) = load_one(root.path());
        assert_eq!((catalog.len(), problems.len()), (1, 1), "{part}: {problems:?}");
        assert!(problems[0].file.ends_with("bad") && problems[0].message.contains(part), "{problems:?}");
    }
    fs::remove_file(bad.join("index.json")).unwrap();
    store.layout(&bad, &[(&one, "x")]);
    fs::remove_file(blob(&one)).unwrap();
    assert!(load_one(root.path()).1[0].message.contains("is not in this copy; copy the whole image again"));
    store.layout(&bad, &[(&one, "x")]);
    fs::remove_file(blob(&one)).unwrap();
    fs::create_dir(blob(&one)).unwrap();
    assert!(load_one(root.path()).1[0].message.contains("is not a regular file"));
    fs::remove_dir(blob(&one)).unwrap();
    fs::write(blob(&one), vec![b' '; 5 << 20]).unwrap();
    assert!(load_one(root.path()).1[0].message.contains("has more than the 4194304 bytes"));
    let mut with_component = store.clone();
    with_component.image_with(V2S2, &[base()], &json!({"architecture": "amd64"}));
    with_component.layout(&bad, &[(&component, "x")]);
    assert!(load_one(root.path()).1[0].message.contains("holds no release image"));
}

#[test]
fn archives_of_oc_mirror_complete_each_other() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (mut store, old) = kept("4.2.1");
    let new = store.image(V2S2, "ppc64le", &[base(), payload("4.2.2", &["4.2.1"], false)]);
    let shards = ["arm64", "s390x"].map(|name| store.image(V2S2, name, &[payload("4.2.3", &[], true)]));
    let multi = store.index(LIST, &shards);
    let component = store.image_with(V2S2, &[base()], &json!({"architecture": "amd64"}));
    let tag = |name: &str| format!("{RELEASES}/{name}");
    let tags = [
        (tag("4.2.1-x86_64"), &*old),
        (tag("4.2.2-ppc64le"), &*new),
        (tag("4.2.3-multi"), &*multi),
        (tag("4.2.3-aarch64"), &*shards[0]),
        ("openshift/release/_manifests/tags/4.2.1-x86_64-cli".to_owned(), &*component),
    ];
    let tags: Vec<_> = tags.iter().map(|(tag, digest)| (tag.as_str(), *digest)).collect();
    let (first, _) = kept("4.2.1");
    let second = |digest: &str| !first.0.contains_key(digest) && digest != component;
    fs::write(at("mirror_000002.tar"), mirror_archive(&store, &tags, second)).unwrap();
    let mut reader = Reader::default();
    let (catalog, problems) = reader.load(&[root.path().to_owned()], NOW);
    assert_eq!((catalog.len(), problems.len()), (2, 1), "{problems:?}");
    assert!(problems[0].message.starts_with("openshift/release-images:4.2.1-x86_64: manifest sha256:"), "{problems:?}");
    assert!(problems[0].message.contains("archives of earlier oc-mirror runs beside it"), "{problems:?}");

    fs::write(at("mirror_000001.tar"), mirror_archive(&store, &tags, |digest| first.0.contains_key(digest))).unwrap();
    let (catalog, problems) = reader.load(&[root.path().to_owned()], NOW);
    assert_eq!(problems, []);
    let multi_read = catalog.get(digest(&multi)).unwrap();
    assert_eq!((multi_read.shards.len(), multi_read.architecture.as_deref()), (2, Some("multi")));
    assert!(multi_read.source.name.ends_with("mirror_000002.tar") && multi_read.source.verified);
    assert!(catalog.get(digest(&old)).unwrap().source.name.ends_with("mirror_000001.tar"));
    // One archive by its path is completed by those beside it too.
    let alone = read(&at("mirror_000002.tar"), None, NOW);
    assert_eq!((alone.findings.len(), alone.problems), (3, vec![]));
    assert_eq!(catalog.len(), 3, "the child is no release of its own");
}

#[test]
fn storages_and_mirrored_trees_keep_every_manifest() {
    let root = tempfile::tempdir().unwrap();
    let mut store = Store::default();
    let oci = store.image(OCI, "amd64", &[payload("4.2.1", &[], false)]);
    let write = |path: String, bytes: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write(format!("cache/docker/registry/v2/repositories/{RELEASES}/4.2.1-x86_64/current/link"), oci.as_bytes());
    for (digest, bytes) in &store.0 {
        write(format!("cache/docker/registry/v2/blobs/sha256/{}/{}/data", &digest[7..9], &digest[7..]), bytes);
    }
    let (store, tree) = kept("4.2.2");
    write("to-dir/v2/openshift/release/manifests/4.2.2-x86_64".into(), tree.as_bytes());
    for (digest, bytes) in &store.0 {
        let below = if *digest == tree { "manifests" } else { "blobs" };
        write(format!("to-dir/v2/openshift/release/{below}/{digest}"), bytes);
    }
    // Unpacked files of a release prove nothing; they are not mistaken for documents either.
    write("hold/release-manifests/release-metadata".into(), b"{");
    write("hold/release-manifests/image-references".into(), b"{");
    write("hold/release-manifests/x.yaml".into(), b"a: [");
    let (catalog, problems) = load_one(root.path());
    assert_eq!((catalog.len(), problems), (2, vec![]));
    assert!(catalog.get(digest(&oci)).unwrap().source.verified, "a registry keeps what it was sent");
    assert!(catalog.get(digest(&tree)).unwrap().source.verified);
}

#[test]
fn a_docker_archive_is_read_and_never_known_by_digest() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x.tar");
    let layer = payload_tar(&metadata("4.2.1", &["4.1.1"], false), &references("4.2.1", 2));
    let config = json!({"architecture": "amd64", "config": {"Labels": {"io.openshift.release": "4.2.1"}},
        "rootfs": {"diff_ids": [sha256(&layer)]}})
    .to_string()
    .into_bytes();
    let name = format!("{}.json", &sha256(&config)[7..]);
    let manifest = json!([{"Config": name, "RepoTags": ["x:1"], "Layers": ["l.tar"]}]).to_string().into_bytes();
    let write = |config: &[u8], layer: &[u8], manifest: &[u8]| {
        let files = [
            (name.clone(), config.to_vec()),
            ("l.tar".into(), layer.to_vec()),
            ("manifest.json".into(), manifest.to_vec()),
        ];
        fs::write(&path, tar_of(&files)).unwrap();
        load_one(root.path())
    };
    let (catalog, problems) = write(&config, &layer, &manifest);
    assert!(catalog.is_empty() && problems[0].message.contains("keeps no manifest"), "{problems:?}");
    let Outcome { findings, .. } = read(&path, None, NOW);
    assert_eq!((findings[0].standing, findings[0].version.to_string().as_str()), (Standing::NoManifest, "4.2.1"));
    for (config, layer, manifest, part) in [
        (&config[..config.len() - 1], &layer[..], &manifest[..], "is damaged: it has the digest"),
        (&config, &layer[512..], &manifest, "its layer l.tar is damaged"),
        (&config, &layer, b"{}", "not a list of images"),
        (&config, &layer, br#"[{"Config":"nope.json"}]"#, "nope.json is not there as a file"),
    ] {
        let (_, problems) = write(config, layer, manifest);
        assert!(problems[0].message.contains(part), "{part}: {problems:?}");
    }
}

#[test]
fn what_did_not_change_is_not_read_again() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let (store, one) = kept("4.2.1");
    fs::write(at("one.tar"), oci_archive(&store, &[(&one, "x")])).unwrap();
    store.layout(&at("layout"), &[(&one, "x")]);
    let tags = [(&*format!("{RELEASES}/4.2.1-x86_64"), &*one)];
    fs::write(at("mirror_000001.tar"), mirror_archive(&store, &tags, |_| true)).unwrap();
    let mut reader = Reader::default();
    let directories = [root.path().to_owned()];
    let later = NOW + jiff::SignedDuration::from_secs(60);
    let read_at = |catalog: &Catalog, image: &str| catalog.get(digest(image)).unwrap().source.read_at;
    let before = fingerprint(&directories);
    assert_eq!(read_at(&reader.load(&directories, NOW).0, &one), NOW);
    assert_eq!(fingerprint(&directories), before);
    assert_eq!(read_at(&reader.load(&directories, later).0, &one), NOW, "kept");

    let (store, two) = kept("4.2.2");
    store.layout(&at("layout"), &[(&two, "x")]);
    assert_ne!(fingerprint(&directories), before, "files inside of a layout count");
    let catalog = reader.load(&directories, later).0;
    assert_eq!((read_at(&catalog, &one), read_at(&catalog, &two)), (NOW, later));
    fs::remove_file(at("one.tar")).unwrap();
    fs::remove_file(at("mirror_000001.tar")).unwrap();
    fs::remove_dir_all(at("layout")).unwrap();
    assert!(reader.load(&directories, later).0.is_empty(), "what is gone is gone");
}

/// 100 GiB of another image before the release: reading it would not end today.
#[test]
fn a_large_archive_is_walked_and_not_read() {
    let root = tempfile::tempdir().unwrap();
    let (store, one) = kept("4.2.1");
    let mut header = tar::Header::new_gnu();
    header.set_path(format!("blobs/sha256/{}", "a".repeat(64))).unwrap();
    header.set_size(100 << 30);
    header.set_cksum();
    let mut file = fs::File::create(root.path().join("big.tar")).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.seek(SeekFrom::Current(100 << 30)).unwrap();
    file.write_all(&oci_archive(&store, &[(&one, "x")])).unwrap();
    let (catalog, problems) = load_one(root.path());
    assert_eq!((catalog.len(), problems), (1, vec![]));
}
