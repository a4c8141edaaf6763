//! `airgate release missing` on registries that lack something.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::images::{Component, Form, Recipe, Release};
use crate::info::ca_bundle;
use crate::mirrors::{Rule, state};
use crate::real::{Options, Registry};
use crate::run::airgate;

/// A release whose components are named at a source that nodes may not contact, and where they are mirrored to.
struct Site {
    source: Registry,
    mirror: Registry,
    release: Release,
    pullspec: String,
    dir: tempfile::TempDir,
}

impl Site {
    fn new(recipe: Recipe) -> Self {
        let (source, mirror) = (Registry::start(Options::default()), Registry::start(Options::default()));
        let release = recipe.components_at(&format!("{}/ocp/art", source.host())).build();
        mirror.push("openshift/release-images", &release);
        mirror.push_images("openshift/release", release.components.iter().map(|component| &component.image));
        let pullspec = format!("{}/ocp/release@{}", source.host(), release.digest());
        Self { source, mirror, release, pullspec, dir: tempfile::tempdir().unwrap() }
    }

    /// `release missing ARGS`, through rules with these mirrors of the components.
    fn missing(&self, component_mirrors: &[&str], args: &[&str]) -> (i32, String, String) {
        let (own, art) = (format!("{}/ocp/release", self.source.host()), format!("{}/ocp/art", self.source.host()));
        let images = format!("{}/openshift/release-images", self.mirror.host());
        let rules = [
            Rule { source: &own, mirrors: &[&images], never: true },
            Rule { source: &art, mirrors: component_mirrors, never: true },
        ];
        let (state, ca) = (state(self.dir.path(), &rules), ca_bundle(&[&self.source, &self.mirror]));
        let output =
            airgate(&[&["release", "missing", "--ca-file", &ca, "--state", &state, &self.pullspec], args].concat());
        (output.code, output.stdout, output.stderr)
    }

    fn mirrored(&self) -> String {
        format!("{}/openshift/release", self.mirror.host())
    }
}

fn digest(component: &Component) -> &str {
    &component.image.top().digest
}

#[test]
fn what_is_missing_is_named_and_can_be_handed_to_a_mirroring_tool() {
    let site = Site::new(Recipe { components: 190, ..Recipe::new("4.19.9", &["4.18.20"]) });
    let mirrored = site.mirrored();
    let (code, stdout, stderr) = site.missing(&[&mirrored], &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    // 190 components and the release image itself.
    assert!(stdout.contains("complete: all of 191 images found"), "{stdout}");
    assert!(!stdout.contains("only the sources"), "{stdout}");

    let gone: Vec<&Component> = [0, 5, 189].map(|number| &site.release.components[number]).into();
    for component in &gone {
        site.mirror.delete("openshift/release", digest(component));
    }
    let (code, stdout, _) = site.missing(&[&mirrored], &[]);
    assert_eq!(code, 1);
    assert!(stdout.contains("missing: of 191 images 188 found, 3 missing, 0 could not be asked for"), "{stdout}");
    assert!(stdout.contains(&format!("missing, not at {mirrored}:")), "one reason, said once: {stdout}");
    for component in &gone {
        let row = |line: &str| line.contains(&component.name) && line.ends_with(&component.pullspec);
        assert_eq!(stdout.lines().filter(|line| row(line)).count(), 1, "{stdout}");
    }
    let expected: BTreeSet<_> = gone.iter().map(|component| component.pullspec.clone()).collect();

    let (code, stdout, _) = site.missing(&[&mirrored], &["-o", "json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &document["mirror"]), (1, &json!(expected)));
    let release = &document["releases"][0];
    assert_eq!(
        (&release["outcome"], &release["images"], &release["present"]),
        (&json!("missing"), &json!(191), &json!(188))
    );
    assert_eq!(release["missing"][0]["components"], json!([gone[0].name]));
    assert_eq!(release["unknown"], json!([]));

    let (code, list, _) = site.missing(&[&mirrored], &["-o", "list"]);
    assert_eq!((code, list.lines().map(str::to_owned).collect::<BTreeSet<_>>()), (1, expected));
    let (_, imageset, _) = site.missing(&[&mirrored], &["-o", "imageset"]);
    assert!(
        imageset.starts_with("apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n"),
        "{imageset}"
    );
    assert_eq!(imageset.lines().filter(|line| line.starts_with("  - name: ")).count(), 3, "{imageset}");

    // What the list names is what makes it complete again.
    site.mirror.push_images("openshift/release", gone.iter().map(|component| &component.image));
    assert_eq!(site.missing(&[&mirrored], &["-o", "list"]), (0, String::new(), String::new()));
    let asked = site.source.requests();
    assert_eq!(asked, [""; 0], "nodes may not contact the source, so nobody did");
}

#[test]
fn absent_everywhere_is_not_the_same_as_out_of_reach() {
    let mut site = Site::new(Recipe::new("4.19.9", &["4.18.20"]).form(Form::List));
    let mirrored = site.mirrored();
    let mut down = Registry::start(Options::default());
    down.stop();
    let elsewhere = format!("{}/openshift/release", down.host());
    // 12 components, the list and its four images.
    let (code, stdout, _) = site.missing(&[&elsewhere, &mirrored], &[]);
    assert!(code == 0 && stdout.contains("all of 17 images found"), "the second mirror has all: {stdout}");

    let gone = &site.release.components[3];
    site.mirror.delete("openshift/release", digest(gone));
    let (code, stdout, stderr) = site.missing(&[&elsewhere, &mirrored], &["-o", "json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let release = &document["releases"][0];
    assert_eq!((code, &release["outcome"], &release["missing"]), (3, &json!("unknown"), &json!([])), "{stderr}");
    assert_eq!(release["unknown"][0]["components"], json!([gone.name]));
    assert!(release["unknown"][0]["why"].as_str().unwrap().contains(&down.host()), "{stdout}");
    assert_eq!(document["mirror"], json!([]), "nobody knows whether it is there");

    let (code, stdout, _) = site.missing(&[&mirrored], &[]);
    assert!(code == 1 && stdout.contains("of 17 images 16 found, 1 missing"), "{stdout}");
    let (code, stdout, _) = site.missing(&[], &[]);
    assert!(
        code == 1 && stdout.contains("12 missing"),
        "a rule without mirrors is none, and the source has nothing: {stdout}"
    );

    site.mirror.delete("openshift/release-images", site.release.digest());
    let (code, stdout, stderr) = site.missing(&[&mirrored], &["-o", "list"]);
    assert_eq!((code, stdout.trim_end()), (1, &*site.pullspec), "the release itself is what is missing: {stderr}");
    site.mirror.stop();
    let (code, stdout, stderr) = site.missing(&[&mirrored], &[]);
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert!(stderr.contains("no connection to"), "{stderr}");
}

#[test]
fn a_copy_on_disk_says_what_must_be_in_the_registry() {
    let site = Site::new(Recipe::new("4.19.9", &["4.18.20"]));
    site.source.push_images("ocp/art", site.release.components.iter().skip(2).map(|component| &component.image));
    let ca = ca_bundle(&[&site.source]);
    site.mirror.tag("openshift/release-images", "4.19.9-x86_64", &site.release.image);
    let storage = site.mirror.storage().display().to_string();
    let output = airgate(&["release", "missing", "--ca-file", &ca, &storage]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stdout.contains("of 12 images 10 found, 2 missing"), "{}", output.stdout);
    assert!(output.stdout.contains("only the sources were asked"), "{}", output.stdout);

    let catalog = site.dir.path().join("catalog.yaml");
    let entry = format!("- {{digest: '{}', version: 4.19.9}}", site.release.digest());
    std::fs::write(&catalog, format!("apiVersion: airgate.io/v1alpha1\nkind: ReleaseCatalog\nreleases:\n{entry}\n"))
        .unwrap();
    let output = airgate(&["release", "missing", "--ca-file", &ca, catalog.to_str().unwrap()]);
    assert!(output.code == 3 && output.stderr.contains("does not say of which images"), "{}", output.stderr);
}
