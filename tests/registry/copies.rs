//! Releases that skopeo copied out of a real registry read as they were built.

use std::io::Read;

use serde_json::{Value, json};

use crate::images::{ARCHITECTURES, Form, Packing, Recipe, Release};
use crate::real::{Options, Registry};
use crate::run::airgate;
use crate::skopeo::Skopeo;
use crate::testing::V2S2;

fn info(path: &str) -> Value {
    let output = airgate(&["release", "info", "-o", "json", path]);
    assert_eq!(output.code, 0, "{path}: {}", output.stderr);
    let mut document: Value = serde_json::from_str(&output.stdout).expect("JSON");
    document["releases"][0].take()
}

/// That what was read is what was built.
pub fn assert_read(read: &Value, release: &Release) {
    let components: Vec<_> = release.components.iter().map(|component| &component.pullspec).collect();
    assert_eq!(read["version"], json!(release.recipe.version));
    assert_eq!(read["previous"], json!(release.recipe.previous));
    assert_eq!(read["components"], json!(components));
    assert_eq!(read["architecture"], if release.shards.is_empty() { "amd64" } else { "multi" });
}

#[test]
fn every_form_is_taken_by_the_registry_and_has_the_digest_that_skopeo_sees() {
    let registry = Registry::start(Options::default());
    let skopeo = Skopeo::trusting(&[&registry]);
    let forms = [Form::Docker, Form::Oci, Form::List, Form::Nested];
    let packings = [Packing::Gzip, Packing::Members, Packing::Zstd, Packing::Plain];
    let all = forms.map(|form| (form, Packing::Gzip)).into_iter().chain(packings.map(|packing| (Form::Oci, packing)));
    for (form, packing) in all {
        let release = Recipe::new("4.19.9", &["4.18.20", "4.19.8"]).form(form).packing(packing).build();
        let pullspec = registry.push("ocp/release", &release);
        let raw = skopeo.raw(&format!("docker://{pullspec}")).unwrap();
        assert_eq!(raw, release.image.top().bytes, "{form:?} {packing:?}");
    }
    registry.eventually_asked("GET /v2/ocp/release/manifests/sha256:");
}

#[test]
fn a_copy_with_kept_digests_reads_as_it_was_built() {
    let registry = Registry::start(Options::default());
    let skopeo = Skopeo::trusting(&[&registry]);
    for (number, form) in [Form::Docker, Form::Oci].into_iter().enumerate() {
        let release = Recipe::new("4.19.9", &["4.18.20", "4.19.0-rc.3", "4.19.8"]).form(form).build();
        let pullspec = registry.push("ocp/release", &release);
        for kind in ["oci", "oci-archive"] {
            let path = skopeo.path(&format!("{kind}-{number}"));
            skopeo.copy(&["--preserve-digests"], &format!("docker://{pullspec}"), &format!("{kind}:{path}")).unwrap();
            let read = info(&path);
            assert_read(&read, &release);
            // An OCI manifest in a layout may have been converted: it proves no digest.
            let proved = form == Form::Docker;
            assert_eq!(read["verified"], proved, "{kind} {form:?}: {read}");
            assert_eq!(read["digest"], if proved { json!(release.digest()) } else { Value::Null }, "{kind} {form:?}");
        }
    }
}

#[test]
fn a_multi_release_reads_from_a_converted_copy_and_from_the_storage_itself() {
    let registry = Registry::start(Options::default());
    let skopeo = Skopeo::trusting(&[&registry]);
    let release = Recipe::new("4.19.9", &["4.18.20"]).form(Form::List).build();
    assert_eq!(release.image.manifests.len(), ARCHITECTURES.len() + 1);
    let shared = release.image.manifests.iter().filter(|manifest| manifest.media_type == V2S2);
    assert!(
        shared
            .map(|shard| String::from_utf8_lossy(&shard.bytes).into_owned())
            .all(|text| text.contains(&release.payload))
    );
    let pullspec = registry.push("ocp/release", &release);
    let layout = skopeo.path("layout");
    skopeo.copy(&["--all"], &format!("docker://{pullspec}"), &format!("oci:{layout}")).unwrap();
    let converted = info(&layout);
    assert_read(&converted, &release);
    assert_eq!((&converted["digest"], &converted["verified"]), (&Value::Null, &json!(false)));

    registry.tag("ocp/release", "4.19.9-multi", &release.image);
    let stored = info(registry.storage().to_str().unwrap());
    assert_read(&stored, &release);
    assert_eq!((&stored["digest"], &stored["verified"]), (&json!(release.digest()), &json!(true)));
    assert_eq!(stored["shards"], json!(release.shards));
}

#[test]
fn a_release_of_real_size_and_its_components_go_through() {
    let registry = Registry::start(Options::default());
    let skopeo = Skopeo::trusting(&[&registry]);
    let release = Recipe { base_bytes: 75 << 20, ..Recipe::real("4.19.9", &["4.18.20", "4.19.8"]) };
    let release = release.components_at(&format!("{}/ocp/components", registry.host())).build();
    let payload = &release.image.blobs[&release.payload];
    let mut tar = vec![];
    flate2::read::GzDecoder::new(&payload[..]).read_to_end(&mut tar).unwrap();
    let sizes = (tar.len() >> 20, payload.len() >> 20);
    assert!((8..=12).contains(&sizes.0) && (3..=4).contains(&sizes.1), "{sizes:?} MiB unpacked and packed");
    let pullspec = registry.push("ocp/release", &release);
    registry.push_images("ocp/components", release.components.iter().map(|component| &component.image));
    let layout = skopeo.path("layout");
    skopeo.copy(&["--preserve-digests"], &format!("docker://{pullspec}"), &format!("oci:{layout}")).unwrap();
    let read = info(&layout);
    assert_read(&read, &release);
    assert_eq!((read["components"].as_array().unwrap().len(), &read["digest"]), (190, &json!(release.digest())));
    let digest = |number: usize| skopeo.digest(&format!("docker://{}", release.components[number].pullspec));
    let last = &release.components[189].image.top().digest;
    assert_eq!(digest(189).as_ref(), Ok(last));
    registry.delete("ocp/components", last);
    assert!(digest(189).unwrap_err().contains("manifest unknown"));
    assert_eq!(digest(188).as_ref(), Ok(&release.components[188].image.top().digest), "the others stay");
}

#[test]
fn the_registry_refuses_whom_it_does_not_know_and_what_it_may_not_take() {
    let login = Some(("reader", "a password"));
    let mut registry = Registry::start(Options { login, read_only: false });
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let reference = format!("docker://{}", registry.push("ocp/release", &release));
    let anonymous = Skopeo::trusting(&[&registry]);
    let known = Skopeo::trusting(&[&registry]).authfile(registry.authfile());
    assert!(anonymous.digest(&reference).unwrap_err().contains("authentication required"));
    assert_eq!(known.digest(&reference).as_deref(), Ok(release.digest()));

    registry.restart(Options { login, read_only: true });
    assert_eq!(known.digest(&reference).as_deref(), Ok(release.digest()));
    let to = format!("docker://{}/other", registry.host());
    assert!(known.copy(&[], &reference, &to).is_err(), "a registry in maintenance takes no push");
    registry.delete_is_refused("ocp/release", release.digest());

    registry.stop();
    assert!(known.digest(&reference).unwrap_err().contains("connection refused"));
}

#[test]
fn a_mirror_stands_in_for_a_source_that_is_never_asked() {
    let (source, mirror) = (Registry::start(Options::default()), Registry::start(Options::default()));
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    mirror.push("mirror/release", &release);
    let skopeo = Skopeo::trusting(&[&source, &mirror]);
    skopeo.registries_conf(&format!(
        "[[registry]]\nprefix = \"{0}/ocp\"\nlocation = \"{0}/ocp\"\nblocked = true\n[[registry.mirror]]\nlocation = \"{1}/mirror\"\n",
        source.host(),
        mirror.host()
    ));
    let digest = skopeo.digest(&format!("docker://{}/ocp/release@{}", source.host(), release.digest()));
    assert_eq!(digest.as_deref(), Ok(release.digest()));
    mirror.eventually_asked("GET /v2/mirror/release/manifests/sha256:");
    assert_eq!(source.requests(), [""; 0]);
}
