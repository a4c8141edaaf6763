//! `airgate release` on what the real tools wrote: it must read what `oc adm release info` reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use airgate::payload::digest_of;
use airgate::payload::manifest::Manifest;
use serde_json::{Value, json};

use super::run::{Output, airgate};
use super::testing::{LIST, OCI, Store, V2S2, base, payload, tarball};

/// A registry that is not there, on this machine.
const NOBODY: &str = "127.0.0.1:1";

/// Data that a clone may lack; the tests say so and pass then.
fn shared() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let root = std::env::var_os("AIRGATE_SHARED").map_or_else(beside, PathBuf::from).join("data/releases");
    if !root.join("forms.json").is_file() {
        eprintln!("SKIPPED: no release images at {} (set AIRGATE_SHARED)", root.display());
        return None;
    }
    Some(root)
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn info(args: &[&str]) -> (Output, Value) {
    let output = airgate(&[&["release", "info", "-o", "json"], args].concat());
    let document =
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}{}", output.stdout, output.stderr));
    (output, document)
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().map(|items| items.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

#[test]
fn every_form_reads_as_oc_reads_it() {
    let Some(root) = shared() else { return };
    let oracles: BTreeMap<(String, bool), Value> = fs::read_dir(root.join("oracle"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(".info.json"))
        .map(|path| json_of(&path))
        .map(|oracle| ((oracle["metadata"]["version"].as_str().unwrap().into(), oracle["listDigest"] != ""), oracle))
        .collect();
    let forms = json_of(&root.join("forms.json"));
    let (mut good, mut hostile) = (0, 0);
    for form in forms["forms"].as_array().unwrap() {
        let path = root.join(form["path"].as_str().unwrap());
        let (output, document) = info(&[path.to_str().unwrap()]);
        let id = &form["id"];
        if form["hostile"] == true {
            hostile += 1;
            assert_eq!((output.code, &document["releases"]), (1, &json!([])), "{id}");
            assert!(!output.stdout.contains(form["never"].as_str().unwrap()), "{id}: {}", output.stdout);
            assert_eq!(document["problems"][0]["file"], path.to_str().unwrap(), "{id}");
            assert!(output.stderr.contains(path.to_str().unwrap()), "{id}: {}", output.stderr);
            continue;
        }
        good += 1;
        let expect = &form["expect"];
        let releases = document["releases"].as_array().unwrap();
        let found = releases.iter().find(|release| release["version"] == expect["version"]);
        let found = found.unwrap_or_else(|| panic!("{id}: {}{}", output.stdout, output.stderr));
        assert_eq!(output.code, 0, "{id}: {}", output.stderr);
        assert_eq!(
            (&found["previous"], &found["architecture"]),
            (&expect["previous"], &expect["architecture"]),
            "{id}"
        );
        assert_eq!(found["signature"]["status"], "unknown");
        let kept = form["converted"] != true && expect["digest"].is_string();
        assert_eq!(found["verified"], kept, "{id}");
        assert_eq!(found["digest"], if kept { expect["digest"].clone() } else { Value::Null }, "{id}");
        assert_eq!(kept, found["notes"] == json!([]), "{id}: {found}");
        if let Some(own) = expect["digest"].as_str().filter(|_| !kept) {
            assert!(found["notes"][0].as_str().unwrap().contains(own), "{id}: the conversion's own digest is named");
        }

        let multi = expect["architecture"] == "multi";
        let oracle = &oracles[&(expect["version"].as_str().unwrap().to_owned(), multi)];
        assert_eq!(found["previous"], oracle["metadata"]["previous"], "{id}");
        let tags = oracle["references"]["spec"]["tags"].as_array().unwrap();
        let components: Vec<_> = tags.iter().filter_map(|tag| tag["from"]["name"].as_str()).collect();
        assert_eq!(strings(&found["components"]), components, "{id}");
        if kept {
            let digest = if multi { &oracle["listDigest"] } else { &oracle["digest"] };
            assert_eq!(&found["digest"], digest, "{id}");
        }
        if kept && multi {
            assert!(strings(&found["shards"]).contains(&oracle["digest"].as_str().unwrap()), "{id}");
        }
    }
    assert!(good >= 12 && hostile >= 6, "{good} {hostile}");
}

#[test]
fn a_directory_of_all_of_them_loads_what_is_sound() {
    let Some(root) = shared() else { return };
    let releases = json_of(&root.join("releases.json"));
    let directory = root.to_str().unwrap();
    let mut found = 0;
    for release in releases["releases"].as_array().unwrap() {
        // Not its own host: what the directories lack is asked of the registry, and no test leaves the machine.
        let pullspec = &format!("{NOBODY}/ocp-release@{}", release["digest"].as_str().unwrap());
        let (output, document) = info(&["--releases", directory, pullspec]);
        // Kept byte for byte somewhere: 4.18.20 and 4.19.8 by oc-mirror, 4.18.21 and the multi in layouts.
        let kept = ["4.18.20", "4.18.21", "4.19.8", "4.19.9-multi"].contains(&release["id"].as_str().unwrap());
        assert_eq!(output.code, i32::from(!kept), "{pullspec}: {}", output.stderr);
        if kept {
            found += 1;
            let read = &document["releases"][0];
            assert_eq!((&read["digest"], &read["verified"]), (&release["digest"], &json!(true)), "{pullspec}");
            assert_eq!(read["previous"], release["previous"]);
        } else {
            assert!(output.stderr.contains("is in none of the release directories"), "{}", output.stderr);
        }
    }
    assert_eq!(found, 4);
    let shard = releases["releases"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|release| release["children"].as_object()?.values().next()?.as_str());
    let (output, _) =
        info(&["--releases", directory, &format!("quay.io/openshift-release-dev/ocp-release@{}", shard.unwrap())]);
    assert!(
        output.code == 1 && output.stderr.contains("is one image of a multi release: ask for"),
        "{}",
        output.stderr
    );
}

#[test]
fn every_manifest_of_the_real_tools_is_understood() {
    let Some(root) = shared() else { return };
    let releases = json_of(&root.join("releases.json"));
    for release in releases["releases"].as_array().unwrap() {
        let id = release["id"].as_str().unwrap();
        let bytes = fs::read(root.join(format!("oracle/{id}.manifest.json"))).unwrap();
        assert_eq!(digest_of(&bytes).unwrap().to_string(), release["digest"].as_str().unwrap(), "{id}");
        match Manifest::parse(&bytes).unwrap() {
            Manifest::Image(image) => assert!(image.docker && release["children"] == json!({}), "{id}"),
            Manifest::Index(children) => {
                let mut found: Vec<_> = children.iter().map(|child| child.digest.to_string()).collect();
                let mut expected: Vec<_> = release["children"]
                    .as_object()
                    .unwrap()
                    .values()
                    .map(|digest| digest.as_str().unwrap().to_owned())
                    .collect();
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{id}");
            }
        }
    }
}

/// A multi release and a single one, kept as they were, and a converted copy.
struct Site {
    root: tempfile::TempDir,
    list: String,
    single: String,
}

impl Site {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let layer = payload("4.19.9", &["4.18.20", "4.19.8"], true);
        let shards: Vec<_> = ["amd64", "arm64"].map(|name| store.image(V2S2, name, &[base(), layer.clone()])).into();
        let list = store.index(LIST, &shards);
        let single = store.image(V2S2, "s390x", &[base(), payload("4.18.20", &[], false)]);
        store.layout(&root.path().join("kept"), &[(&list, "4.19.9-multi"), (&single, "4.18.20-s390x")]);
        let mut store = Store::default();
        let converted = store.image(OCI, "amd64", &[payload("4.17.1", &["4.16.9"], false)]);
        store.layout(&root.path().join("converted"), &[(&converted, "4.17.1")]);
        Self { root, list, single }
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().into()
    }
}

#[test]
fn references_of_every_kind_at_once() {
    let site = Site::new();
    let (kept, converted) = (site.path("kept"), site.path("converted"));
    let pullspec = format!("registry.example:5000/ocp/release@{}", site.single);
    let named = format!("oci:{kept}:4.19.9-multi");
    let (output, document) = info(&["--releases", &kept, &kept, &format!("oci:{converted}"), &pullspec, &named]);
    let read: Vec<_> = document["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["ref"].as_str().unwrap(), r["version"].as_str().unwrap(), r["digest"].as_str()))
        .collect();
    let oci = format!("oci:{converted}");
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        read,
        [
            (&*kept, "4.19.9", Some(&*site.list)),
            (&*kept, "4.18.20", Some(&*site.single)),
            (&*oci, "4.17.1", None),
            (&*pullspec, "4.18.20", Some(&*site.single)),
            (&*named, "4.19.9", Some(&*site.list)),
        ]
    );
    let (bare, document) = info(&["--releases", &kept, &site.single]);
    assert_eq!((bare.code, &document["releases"][0]["version"]), (0, &json!("4.18.20")), "a digest alone will do");
    let inspect = airgate(&["release", "inspect", &kept]);
    for part in
        ["4.19.9", &site.list, "4.18.20, 4.19.8 (2)", "multi", "(verified)", "signature:    unknown (there is no key"]
    {
        assert!(inspect.stdout.contains(part), "{part}: {}", inspect.stdout);
    }
    let yaml = airgate(&["release", "info", "-o", "yaml", &converted]);
    assert!(yaml.code == 0 && yaml.stdout.contains("digest: null"), "{}", yaml.stdout);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_printed() {
    let site = Site::new();
    let kept = site.path("kept");
    fs::write(site.root.path().join("x.tar"), tarball(&[])).unwrap();
    fs::write(site.root.path().join("x.tar.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).unwrap();
    fs::write(site.root.path().join("cut.tar"), &tarball(&[])[..700]).unwrap();
    let absent = format!("{NOBODY}/ocp-release@sha256:{}", "9".repeat(64));
    for (reference, part) in [
        (absent.as_str(), "no connection to 127.0.0.1:1"),
        (absent.rsplit_once('@').unwrap().1, "names no registry: write HOST/PATH@sha256:999"),
        (
            "quay.io/openshift-release-dev/ocp-release:4.19.9-x86_64",
            "skopeo inspect --raw docker://quay.io/openshift-release-dev/ocp-release:4.19.9-x86_64 | sha256sum",
        ),
        (&format!("quay.io/ocp/release:4.19.9@{}", site.single), &format!("write quay.io/ocp/release@{}", site.single)),
        ("no/such/layout", "there is no such path"),
        ("oci:no/such/layout", "there is no no/such/layout"),
        (&format!("oci:{kept}:4.1.1"), "names no image \"4.1.1\""),
        (&site.path("x.tar"), "neither an OCI layout"),
        (&site.path("x.tar.gz"), "compressed (gzip): unpack it first"),
        (&site.path("kept/blobs"), "holds no release"),
        (&site.path("kept/oci-layout"), "is cut off"),
        ("policies/sample/state/clusterversion.yaml", "no release catalog"),
    ] {
        let (output, document) = info(&[reference, &kept]);
        assert_eq!((output.code, document["releases"].as_array().unwrap().len()), (1, 2), "{reference}");
        assert!(output.stderr.contains(part), "{reference}: {}", output.stderr);
    }
    assert_eq!(airgate(&["release", "info"]).code, 2);
    assert_eq!(airgate(&["release", "info", "-o", "table", &kept]).code, 2);
    let elsewhere = airgate(&["release", "info", "--releases", &kept, &absent]);
    assert!(elsewhere.code == 1 && elsewhere.stderr.contains("which hold 2 releases"), "{}", elsewhere.stderr);
}

#[test]
fn an_export_reads_back_to_the_same_facts() {
    let site = Site::new();
    let facts = |reference: &str| {
        let (_, mut document) = info(&[reference]);
        let mut releases = document["releases"].take();
        for release in releases.as_array_mut().unwrap() {
            for key in ["ref", "source", "verified"] {
                release.as_object_mut().unwrap().remove(key);
            }
        }
        releases.as_array_mut().unwrap().sort_by_key(|release| release["version"].to_string());
        releases
    };
    let kept = site.path("kept");
    for (format, name) in [("yaml", "a.yaml"), ("json", "a.json"), ("text", "b.yaml")] {
        let export = airgate(&["release", "export", "-o", format, &kept]);
        assert_eq!((export.code, export.stderr.as_str()), (0, ""));
        let file = site.path(name);
        fs::write(&file, export.stdout).unwrap();
        assert_eq!(facts(&file), facts(&kept), "{format}");
    }
    // Beside the payload itself, the file agrees with it.
    let pullspec = format!("registry.example/ocp/release@{}", site.list);
    let (output, document) = info(&["--releases", site.root.path().to_str().unwrap(), &pullspec]);
    assert_eq!((output.code, &document["releases"][0]["verified"]), (0, &json!(true)), "{}", output.stderr);

    let converted = airgate(&["release", "export", &site.path("converted")]);
    assert_eq!((converted.code, converted.stdout.as_str()), (1, ""));
    assert!(converted.stderr.contains("--preserve-digests"), "{}", converted.stderr);
}

#[test]
fn a_payload_on_site_decides_an_upgrade() {
    let root = tempfile::tempdir().unwrap();
    let mut store = Store::default();
    let reachable = store.image(V2S2, "amd64", &[base(), payload("4.22.9", &["4.21.9"], false)]);
    let unreachable = store.image(V2S2, "amd64", &[base(), payload("4.23.9", &["4.22.9"], false)]);
    store.layout(&root.path().join("all"), &[(&reachable, "a"), (&unreachable, "b")]);
    for (digest, code, part) in [(&reachable, 0, "allowed"), (&unreachable, 1, "go to 4.22.9 first")] {
        let image = format!("registry.example:5000/ocp/release@{digest}");
        let releases = root.path().to_str().unwrap();
        let args =
            ["check", "upgrade", "--to-image", &image, "--state", "policies/sample/state", "--releases", releases];
        let output = airgate(&args);
        assert_eq!(output.code, code, "{}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains(part) && !output.stdout.contains("not verified"), "{}", output.stdout);
    }
}

/// The sample's releases are signed by the key that its cluster has.
#[test]
fn the_signature_of_a_release_is_told() {
    let digest = "sha256:fadc51d23179355edf2c44c012450ecf19e72f45f5baa4578f616493954adb74";
    let sources = ["--releases", "policies/sample/releases", digest];
    let signature = |more: &[&str]| {
        let (output, document) = info(&[&sources[..], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        document["releases"][0]["signature"].clone()
    };
    let valid = signature(&["--state", "policies/sample/state"]);
    assert_eq!((&valid["status"], &valid["release"]), (&json!("valid"), &json!("4.21.12 for amd64")), "{valid}");
    assert_eq!(valid["key"].as_str().map(str::len), Some(40), "{valid}");

    let keys = "policies/sample/state/configmaps.yaml";
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("config.yaml");
    let text = "apiVersion: airgate.io/v1alpha1\nkind: Config\nreleaseRepositories: [registry.example/elsewhere]\n";
    fs::write(&config, text).unwrap();
    let elsewhere = signature(&["--state", "policies/sample/state", "--config", config.to_str().unwrap()]);
    assert_eq!((&elsewhere["status"], &elsewhere["release"]), (&json!("valid"), &Value::Null), "{elsewhere}");
    assert!(elsewhere["note"].as_str().unwrap().contains("proves the digest only"), "{elsewhere}");

    let map = fs::read_to_string(keys).unwrap();
    let (head, signatures) = map.split_once("- metadata:\n    name: mirrored").unwrap();
    let (state, releases) = (root.path().join("state"), root.path().join("releases"));
    fs::create_dir_all(&state).unwrap();
    fs::create_dir_all(&releases).unwrap();
    fs::write(state.join("configmaps.yaml"), head).unwrap();
    let missing = signature(&["--state", state.to_str().unwrap()]);
    assert_eq!(missing["status"], "missing", "{missing}");
    // Of another digest's signature: found under this one, and no proof.
    let other = "2c4561d010718b8eae013edb48ce7003907ec3ab0597a301d197bf8239f9ff10";
    let hex = digest.trim_start_matches("sha256:");
    let swapped = signatures.replace(hex, "00").replace(other, hex);
    fs::write(state.join("configmaps.yaml"), format!("{head}- metadata:\n    name: mirrored{swapped}")).unwrap();
    let invalid = signature(&["--state", state.to_str().unwrap()]);
    assert_eq!(invalid["status"], "invalid", "{invalid}");
    assert!(invalid["note"].as_str().unwrap().contains("another image"), "{invalid}");
    let unknown = signature(&[]);
    assert_eq!(unknown["status"], "unknown", "{unknown}");
    assert!(unknown["note"].as_str().unwrap().contains("no key"), "{unknown}");
}
