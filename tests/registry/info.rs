//! `airgate release info` and `export` on a real registry.

use std::fs;

use airgate::pullspec::{Digest, Repository};
use airgate::registry::{Access, Registry as Reader, Unread};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::copies::assert_read;
use crate::images::{Form, Packing, Recipe};
use crate::real::{Options, Registry, auth};
use crate::run::{Output, airgate, airgate_with};
use crate::skopeo::Skopeo;

const LOGIN: Option<(&str, &str)> = Some(("reader", "a password"));

/// What `airgate release info` makes of these arguments.
pub fn info(args: &[&str]) -> (Output, Value) {
    let output = airgate(&[&["release", "info", "-o", "json"], args].concat());
    let document =
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}{}", output.stdout, output.stderr));
    (output, document)
}

/// A CA file for all of these registries, which goes away with the first.
pub fn ca_bundle(registries: &[&Registry]) -> String {
    let bundle: String = registries.iter().map(|registry| fs::read_to_string(registry.ca_file()).unwrap()).collect();
    let file = registries[0].ca_file().with_file_name("bundle.crt");
    fs::write(&file, bundle).unwrap();
    file.display().to_string()
}

#[test]
fn every_form_reads_by_digest_as_it_was_built() {
    let registry = Registry::start(Options::default());
    let ca = ca_bundle(&[&registry]);
    let forms = [Form::Docker, Form::Oci, Form::List, Form::Nested];
    let packings = [Packing::Members, Packing::Zstd, Packing::Plain];
    let all =
        forms.map(|form| (form, Packing::Gzip)).into_iter().chain(packings.map(|packing| (Form::Docker, packing)));
    let (mut pullspecs, mut releases) = (vec![], vec![]);
    for (number, (form, packing)) in all.enumerate() {
        let version = format!("4.19.{number}");
        let release = Recipe::new(&version, &["4.18.20", "4.19.0-rc.3"]).form(form).packing(packing).build();
        pullspecs.push(registry.push("ocp/release", &release));
        releases.push(release);
    }
    let references: Vec<_> = pullspecs.iter().map(String::as_str).collect();
    let (output, document) = info(&[&["--ca-file", &ca], &references[..]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "no progress where there is no terminal");
    assert_eq!(document["releases"].as_array().unwrap().len(), releases.len());
    for ((read, release), pullspec) in document["releases"].as_array().unwrap().iter().zip(&releases).zip(&pullspecs) {
        // In the order of the references, several read at a time.
        assert_eq!(read["ref"], json!(pullspec));
        assert_read(read, release);
        assert_eq!((&read["digest"], &read["verified"]), (&json!(release.digest()), &json!(true)), "{pullspec}");
        assert_eq!(read["shards"], json!(release.shards));
        assert_eq!(read["source"], json!(format!("{}/ocp/release", registry.host())));
    }

    let list = &releases[2];
    let child = format!("{}/ocp/release@{}", registry.host(), list.shards[1]);
    let (output, document) = info(&["--ca-file", &ca, &format!("docker://{child}")]);
    let read = &document["releases"][0];
    assert_eq!((output.code, &read["digest"], &read["architecture"]), (0, &json!(list.shards[1]), &json!("multi")));
    assert_eq!(read["verified"], false, "whose list it is cannot be told from it");
    assert!(read["notes"][0].as_str().unwrap().contains("is one image of a multi release"), "{read}");

    let export = airgate(&["release", "export", "--ca-file", &ca, references[0], references[2]]);
    assert_eq!((export.code, export.stderr.as_str()), (0, ""));
    let catalogs = tempfile::tempdir().unwrap();
    fs::write(catalogs.path().join("catalog.yaml"), export.stdout).unwrap();
    // From the catalog now, without the registry: its CA is not even named.
    let releases_dir = catalogs.path().to_str().unwrap();
    for (reference, release) in [(references[0], &releases[0]), (references[2], list)] {
        let (output, document) = info(&["--releases", releases_dir, reference]);
        assert_eq!(
            (output.code, &document["releases"][0]["digest"]),
            (0, &json!(release.digest())),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn credentials_and_certificates_are_found_and_refusals_are_told_apart() {
    let mut registry = Registry::start(Options { login: LOGIN, read_only: false });
    let other = Registry::start(Options::default());
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let pullspec = registry.push("ocp/release", &release);
    registry.restart(Options { login: LOGIN, read_only: true });
    let (ca, authfile) = (ca_bundle(&[&registry]), registry.authfile().display().to_string());
    let beside = |name: &str, text: String| {
        let file = registry.ca_file().with_file_name(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let wrong = beside("wrong.json", json!({"auths": {registry.host(): auth(("reader", "another"))}}).to_string());
    let elsewhere = beside(
        "elsewhere.json",
        json!({"auths": {format!("{}/secret", registry.host()): auth(LOGIN.unwrap())}}).to_string(),
    );
    let here =
        beside("here.json", json!({"auths": {format!("{}/ocp", registry.host()): auth(LOGIN.unwrap())}}).to_string());

    for file in [&authfile, &here] {
        let (output, document) = info(&["--ca-file", &ca, "--authfile", file, &pullspec]);
        assert_eq!(
            (output.code, &document["releases"][0]["digest"]),
            (0, &json!(release.digest())),
            "{}",
            output.stderr
        );
    }
    let trusting = Skopeo::trusting(&[&registry]).authfile(authfile.clone().into());
    assert_eq!(trusting.digest(&format!("docker://{pullspec}")).as_deref(), Ok(release.digest()));

    let absent = format!("sha256:{}", "9".repeat(64));
    let unknown = format!("{}/nobody/knows@{absent}", registry.host());
    let empty = format!("{}/ocp/release@{absent}", registry.host());
    let other_ca = other.ca_file().display().to_string();
    for (args, part) in [
        (vec!["--ca-file", &ca, &pullspec], "has none for"),
        (vec!["--ca-file", &ca, "--authfile", &wrong, &pullspec], "refuses the credentials"),
        (vec!["--ca-file", &ca, "--authfile", &elsewhere, &pullspec], "has none for"),
        (vec!["--authfile", &authfile, &pullspec], "is signed by an unknown CA"),
        (vec!["--ca-file", &other_ca, "--authfile", &authfile, &pullspec], "is signed by an unknown CA"),
        (vec!["--ca-file", &ca, "--authfile", &authfile, &unknown], "no registry has it"),
        (vec!["--ca-file", &ca, "--authfile", &authfile, &empty], "no registry has it"),
    ] {
        let (output, document) = info(&args);
        assert_eq!((output.code, &document["releases"]), (1, &json!([])), "{args:?}");
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
        let both = format!("{}{}", output.stdout, output.stderr);
        assert!(!both.contains("a password") && !both.contains("another"), "{both}");
    }
    let not_there = beside("x/y", String::new()) + "z";
    for (args, part) in [
        (["--authfile", &not_there], "cannot read the credentials in"),
        (["--authfile", &ca], "is no pull secret"),
        (["--ca-file", &not_there], "cannot read the CAs in"),
        (["--ca-file", &authfile], "holds no certificate that can be used"),
        (["--insecure", "https://x"], "is no host of a registry"),
    ] {
        let output = airgate(&["release", "info", args[0], args[1], &pullspec]);
        assert!(output.code == 2 && output.stderr.contains(part), "{args:?}: {} {}", output.code, output.stderr);
    }

    // The environment twins, podman's places, and a host that may present any certificate.
    let host = registry.host();
    beside("run/containers/auth.json", fs::read_to_string(&authfile).unwrap());
    beside("home/.docker/config.json", fs::read_to_string(&authfile).unwrap());
    let (run, home) = (registry.ca_file().with_file_name("run"), registry.ca_file().with_file_name("home"));
    for environment in [
        [("AIRGATE_CA_FILE", &*ca), ("AIRGATE_AUTHFILE", &*authfile)],
        [("AIRGATE_INSECURE", &*host), ("REGISTRY_AUTH_FILE", &*authfile)],
        [("AIRGATE_INSECURE", &*host), ("XDG_RUNTIME_DIR", run.to_str().unwrap())],
        [("AIRGATE_INSECURE", &*host), ("HOME", home.to_str().unwrap())],
    ] {
        let output = airgate_with(&["release", "info", &pullspec], &environment, "");
        assert!(output.code == 0 && output.stdout.contains(release.digest()), "{environment:?}: {}", output.stderr);
    }
}

#[tokio::test]
async fn each_host_has_its_own_authority() {
    let (one, other) = (Registry::start(Options::default()), Registry::start(Options::default()));
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let digest = Digest::parse(release.digest()).unwrap();
    let places = [&one, &other].map(|registry| {
        registry.push("ocp/release", &release);
        Repository { host: registry.host(), path: "ocp/release".into() }
    });
    let pem = [&one, &other].map(|registry| fs::read(registry.ca_file()).unwrap());
    let deadline = || Instant::now() + Duration::from_mins(1);

    let trusting = |first: usize, second: usize| {
        let access = Access::default().host_ca(&one.host(), &pem[first]).unwrap();
        // As the ConfigMap that additionalTrustedCA names writes a port.
        Reader::new(access.host_ca(&other.host().replace(':', ".."), &pem[second]).unwrap()).unwrap()
    };
    for place in &places {
        let read = trusting(0, 1).release(std::slice::from_ref(place), digest, deadline()).await.unwrap();
        assert_eq!((read.payload.digest, &read.place), (digest, place));
        let swapped = trusting(1, 0).release(std::slice::from_ref(place), digest, deadline()).await;
        assert!(matches!(swapped, Err(Unread::Unreachable(_))), "{swapped:?}");
    }
    let read = trusting(1, 1).release(&places, digest, deadline()).await.unwrap();
    assert_eq!(
        (&read.place, read.attempts.len()),
        (&places[1], 1),
        "the next place stands in for one that is not trusted"
    );
}

/// A kubeconfig that nobody named only helps: where its cluster does not answer, the registry is asked all the same.
#[test]
fn a_kubeconfig_in_use_whose_cluster_is_gone_is_said_and_does_without() {
    let registry = Registry::start(Options::default());
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let (pullspec, ca) = (registry.push("ocp/release", &release), ca_bundle(&[&registry]));
    let kubeconfig = registry.ca_file().with_file_name("kubeconfig");
    let gone = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gone",
        "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "gone", "user": {}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "gone"}}],
    });
    fs::write(&kubeconfig, gone.to_string()).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let args = ["release", "info", "--ca-file", &ca, &pullspec];
    let used = airgate_with(&args, &[("KUBECONFIG", kubeconfig)], "");
    assert!(used.code == 0 && used.stdout.contains("4.19.9"), "{}{}", used.stdout, used.stderr);
    assert!(used.stderr.contains("are not known") && used.stderr.contains("--kubeconfig FILE"), "{}", used.stderr);
    let named = airgate(&[&args[..], &["--kubeconfig", kubeconfig]].concat());
    assert!(named.code == 2 && named.stderr.contains("are not known"), "{}{}", named.stdout, named.stderr);
}
