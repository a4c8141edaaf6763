//! What the image holds and says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use serde_json::json;

use crate::archive::{Image, build};

/// Path, kind and mode, owner, time of each member of all layers.
fn members(image: &Image) -> BTreeMap<String, (u32, (u64, u64), u64)> {
    let mut members = BTreeMap::new();
    for layer in &image.layers {
        for entry in tar::Archive::new(&layer[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let kind = if header.entry_type().is_dir() { 0o40_000 } else { 0o100_000 };
            assert!(header.entry_type().is_dir() || header.entry_type().is_file(), "{:?}", entry.path());
            let mode = kind | header.mode().unwrap();
            let owner = (header.uid().unwrap(), header.gid().unwrap());
            members.insert(entry.path().unwrap().display().to_string(), (mode, owner, header.mtime().unwrap()));
        }
    }
    members
}

pub fn file(image: &Image, path: &str) -> Vec<u8> {
    let mut found = vec![];
    for layer in &image.layers {
        for entry in tar::Archive::new(&layer[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().as_os_str() == path {
                found.clear();
                entry.read_to_end(&mut found).unwrap();
            }
        }
    }
    found
}

#[test]
fn it_holds_the_binary_its_licence_and_nothing_else() {
    let image = Image::built();
    let of_root = |mode| (mode, (0, 0), 0);
    let expected = [
        ("licenses/", 0o40_755),
        ("licenses/LICENSE", 0o100_444),
        ("usr/", 0o40_755),
        ("usr/bin/", 0o40_755),
        ("usr/bin/airgate", 0o100_555),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(path, mode)| (path.to_owned(), of_root(mode))).into();
    assert_eq!(members(image), expected);
    assert_eq!(file(image, "licenses/LICENSE"), fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE")).unwrap());

    let compressed: u64 =
        image.manifest["layers"].as_array().unwrap().iter().map(|l| l["size"].as_u64().unwrap()).sum();
    let binary = file(image, "usr/bin/airgate").len();
    println!("compressed {compressed} bytes, the binary {binary} bytes");
    // Pulled by each control-plane node over the site's own network; what it is today with room for half as much again.
    assert!(compressed < 15_000_000, "{compressed}");
}

#[test]
fn it_says_what_it_is_and_whom_it_runs_as() {
    let image = Image::built();
    let config = &image.config["config"];
    assert_eq!(image.config["os"], "linux");
    assert_eq!(image.config["architecture"], if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" });
    assert_eq!(image.config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/usr/bin/airgate"]));
    assert_eq!(config["Cmd"], json!(null));
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(labels["org.opencontainers.image.licenses"], env!("CARGO_PKG_LICENSE"));
    for label in ["org.opencontainers.image.title", "io.k8s.description", "io.openshift.tags"] {
        assert!(labels[label].as_str().is_some_and(|text| !text.is_empty()), "{label}: {labels:#}");
    }
}

/// A mirror keeps images by digest, so one that was built again from the same sources is the same.
#[test]
fn building_it_again_makes_the_same_image() {
    if std::env::var_os(crate::archive::GIVEN).is_some() {
        return; // this process was given an image because it cannot build one; its parent runs this test
    }
    let first = Image::built();
    let second = Image::read(&build());
    assert_eq!(first.manifest, second.manifest);
}

#[test]
fn its_binary_is_complete_in_itself() {
    let elf = file(Image::built(), "usr/bin/airgate");
    let number = |at: usize, size: usize| {
        elf[at..at + size].iter().rev().fold(0_usize, |number, byte| (number << 8) | usize::from(*byte))
    };
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01", "64 bits, little endian");
    let (table, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let headers: Vec<_> = (0..count).map(|header| table + header * size).collect();
    const INTERPRETER: usize = 3;
    assert!(headers.iter().all(|at| number(*at, 4) != INTERPRETER), "a dynamic loader is asked for");
    const DYNAMIC: usize = 2;
    const NEEDED: usize = 1;
    for at in headers.iter().filter(|at| number(**at, 4) == DYNAMIC) {
        let (offset, length) = (number(at + 8, 8), number(at + 32, 8));
        let mut tags = (offset..offset + length).step_by(16).map(|entry| number(entry, 8));
        assert!(!tags.any(|tag| tag == NEEDED), "a shared library is asked for");
    }
    let text = String::from_utf8_lossy(&elf);
    for place in [env!("CARGO_MANIFEST_DIR"), "/.cargo/registry/"] {
        let found = text.find(place).map(|at| text[at..].chars().take(120).collect::<String>());
        assert_eq!(found, None, "the binary names a directory of the machine that built it");
    }
}
