//! Mirror rules of a cluster, followed by airgate and by skopeo on the same registries.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::copies::assert_read;
use crate::images::{Form, Recipe};
use crate::info::{ca_bundle, info};
use crate::real::{Options, Registry};
use crate::skopeo::Skopeo;

/// One entry of an ImageDigestMirrorSet.
pub struct Rule<'a> {
    pub source: &'a str,
    pub mirrors: &'a [&'a str],
    pub never: bool,
}

/// A `--state` directory of a cluster with these rules and nothing else.
pub fn state(dir: &Path, rules: &[Rule<'_>]) -> String {
    let rule = |rule: &Rule<'_>| {
        let policy = if rule.never { "NeverContactSource" } else { "AllowContactingSource" };
        json!({"source": rule.source, "mirrors": rule.mirrors, "mirrorSourcePolicy": policy})
    };
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let set = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "idms-release-0"},
        "spec": {"imageDigestMirrors": rules},
    });
    let list = json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSetList", "items": [set]});
    let state = dir.join("state");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("imagedigestmirrorsets.json"), list.to_string()).unwrap();
    fs::write(
        state.join("airgate.yaml"),
        "absent: [imagetagmirrorsets, imagecontentsourcepolicies, images.config.openshift.io]\n",
    )
    .unwrap();
    state.display().to_string()
}

/// The same rules as the machine-config-operator writes them for nodes.
fn registries_conf(rules: &[Rule<'_>]) -> String {
    let mut text = String::new();
    for rule in rules {
        let source = rule.source;
        writeln!(text, "[[registry]]\nprefix = \"\"\nlocation = \"{source}\"\nblocked = {}", rule.never).unwrap();
        for mirror in rule.mirrors {
            writeln!(text, "[[registry.mirror]]\nlocation = \"{mirror}\"\npull-from-mirror = \"digest-only\"").unwrap();
        }
    }
    text
}

#[test]
fn the_next_mirror_answers_where_the_first_is_down_and_the_source_is_never_asked() {
    let (source, mut down, up) =
        (Registry::start(Options::default()), Registry::start(Options::default()), Registry::start(Options::default()));
    let release = Recipe::new("4.19.9", &["4.18.20"]).form(Form::List).build();
    let other = Recipe::new("4.19.10", &["4.19.9"]).build();
    up.push("mirror/release", &release);
    // The source has another release, which must not be found there.
    let only_there = source.push("ocp/release", &other);
    down.stop();
    let named = format!("{}/ocp/release@{}", source.host(), release.digest());
    let mirrors = [format!("{}/mirror", down.host()), format!("{}/mirror", up.host())];
    let mirrors = [&*mirrors[0], &*mirrors[1]];
    let scope = format!("{}/ocp", source.host());
    let rule = |never| [Rule { source: &scope, mirrors: &mirrors, never }];

    let ca = ca_bundle(&[&source, &up]);
    let skopeo = Skopeo::trusting(&[&source, &up]);
    let dir = tempfile::tempdir().unwrap();
    let never = state(dir.path(), &rule(true));
    skopeo.registries_conf(&registries_conf(&rule(true)));
    let before = source.requests().len();
    let (output, document) = info(&["--ca-file", &ca, "--state", &never, &named]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let read = &document["releases"][0];
    assert_read(read, &release);
    assert_eq!((&read["digest"], &read["verified"]), (&json!(release.digest()), &json!(true)));
    assert_eq!(read["source"], json!(format!("{}/mirror/release", up.host())));
    assert_eq!(skopeo.digest(&format!("docker://{named}")).as_deref(), Ok(release.digest()));

    let (output, document) = info(&["--ca-file", &ca, "--state", &never, &only_there]);
    assert_eq!((output.code, &document["releases"]), (1, &json!([])));
    assert!(output.stderr.contains("no connection to"), "{}", output.stderr);
    assert!(skopeo.digest(&format!("docker://{only_there}")).is_err());
    assert_eq!(source.requests().len(), before, "nobody may contact the source: {:?}", source.requests());

    // The same rules, but the source may be contacted: now it is, after the mirrors.
    let allow = state(dir.path(), &rule(false));
    skopeo.registries_conf(&registries_conf(&rule(false)));
    let (output, document) = info(&["--ca-file", &ca, "--state", &allow, &only_there]);
    assert_eq!((output.code, &document["releases"][0]["digest"]), (0, &json!(other.digest())), "{}", output.stderr);
    assert_eq!(skopeo.digest(&format!("docker://{only_there}")).as_deref(), Ok(other.digest()));
    source.eventually_asked(&format!("GET /v2/ocp/release/manifests/{} 200", other.digest()));
    up.eventually_asked(&format!("GET /v2/mirror/release/manifests/{} 404", other.digest()));
}

#[test]
fn the_longest_source_decides_as_it_does_for_skopeo() {
    let (source, general, special) =
        (Registry::start(Options::default()), Registry::start(Options::default()), Registry::start(Options::default()));
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let decoy = Recipe::new("4.19.8", &["4.18.20"]).build();
    special.push("exact", &release);
    general.push("all/ocp/release", &decoy);
    let (host, long) = (source.host(), format!("{}/ocp/release", source.host()));
    let (to_all, to_exact) = (format!("{}/all", general.host()), format!("{}/exact", special.host()));
    let rules = [
        Rule { source: &host, mirrors: &[&to_all], never: true },
        Rule { source: &long, mirrors: &[&to_exact], never: true },
    ];
    let all = [&source, &general, &special];
    let (ca, skopeo, dir) = (ca_bundle(&all), Skopeo::trusting(&all), tempfile::tempdir().unwrap());
    let state = state(dir.path(), &rules);
    skopeo.registries_conf(&registries_conf(&rules));
    for (digest, found) in [(release.digest(), true), (decoy.digest(), false)] {
        let named = format!("{long}@{digest}");
        let (output, _) = info(&["--ca-file", &ca, "--state", &state, &named]);
        assert_eq!(output.code, i32::from(!found), "{}", output.stderr);
        assert_eq!(skopeo.digest(&format!("docker://{named}")).is_ok(), found);
    }
    assert_eq!((source.requests(), general.requests().len()), (vec![], decoy.image.blobs.len() * 2 + 1), "pushes only");
}

#[test]
fn a_cluster_whose_rules_are_not_known_is_not_asked_around() {
    let source = Registry::start(Options::default());
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    let pullspec = source.push("ocp/release", &release);
    let (ca, pushed, dir) = (ca_bundle(&[&source]), source.requests().len(), tempfile::tempdir().unwrap());
    let output =
        crate::run::airgate(&["release", "info", "--ca-file", &ca, "--state", dir.path().to_str().unwrap(), &pullspec]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("imagedigestmirrorsets"), "{}", output.stderr);
    assert_eq!(source.requests().len(), pushed);
}

#[test]
fn what_a_mirroring_tool_copied_reads_the_same() {
    let (source, mirror) = (Registry::start(Options::default()), Registry::start(Options::default()));
    let skopeo = Skopeo::trusting(&[&source, &mirror]);
    let ca = ca_bundle(&[&source, &mirror]);
    for (form, options) in [
        (Form::Docker, &["--preserve-digests"][..]),
        (Form::List, &["--all", "--preserve-digests"]),
        (Form::Oci, &["--all"]),
    ] {
        let release = Recipe::new("4.19.9", &["4.18.20"]).form(form).build();
        let from = source.push("ocp/release", &release);
        // A tool names its copy by tag; the digest stays.
        let to = format!("{}/copied/release:4.19.9", mirror.host());
        skopeo.copy(options, &format!("docker://{from}"), &format!("docker://{to}")).unwrap();
        let (output, document) =
            info(&["--ca-file", &ca, &format!("{}/copied/release@{}", mirror.host(), release.digest())]);
        assert_eq!(output.code, 0, "{form:?}: {}", output.stderr);
        assert_read(&document["releases"][0], &release);
        assert_eq!(document["releases"][0]["shards"], json!(release.shards));
    }
}
