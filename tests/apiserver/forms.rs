//! The same step by every way in which it can reach the API server gets the same verdict.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::VERSION;
use crate::guard::{Guard, Site};
use crate::kubectl::Kubectl;
use crate::objects::cluster_version;
use crate::step::Step;

/// What a step asks for and what must come of it: HTTP code, stored or not, and what each policy says.
struct Verdict {
    image: String,
    code: i64,
    policies: [&'static str; 3],
    says: &'static str,
}

fn verdicts() -> [Verdict; 4] {
    let site = Site::new();
    [
        Verdict {
            image: site.listed.image,
            code: 200,
            policies: ["digest-only: pass", "release-identity: pass", "upgrade-path: pass"],
            says: "",
        },
        Verdict {
            image: site.unlisted.image,
            code: 403,
            policies: ["digest-only: pass", "release-identity: pass", "upgrade-path: deny"],
            says: "4.18.12 cannot go straight to 4.19.9",
        },
        Verdict {
            image: "registry.example:5000/ocp/release:4.18.20".to_owned(),
            code: 422,
            policies: ["digest-only: deny", "release-identity: pass", "upgrade-path: pass"],
            says: "is no pullspec by digest",
        },
        Verdict {
            image: site.unknown.image,
            code: 403,
            policies: ["digest-only: pass", "release-identity: pass", "upgrade-path: unknown"],
            says: "cannot be judged",
        },
    ]
}

/// What an editor was given, all of it.
const EDITOR_SAW: &str = "editor-saw";

/// Each verdict, by this way of asking for the image; `dry` where nothing may be stored either way.
fn check(dry: bool, ask: impl Fn(&Guard, &str) -> Kubectl) {
    let guard = Guard::shared();
    for verdict in verdicts() {
        let step = guard.step(VERSION, ask(&guard, &verdict.image));
        let what = step.transcript();
        assert_eq!(step.code, Some(verdict.code), "{what}");
        assert_eq!(step.changed, verdict.code == 200 && !dry, "{what}");
        assert_eq!(step.output.code == 0, verdict.code == 200, "{what}");
        // Of those that this is about; a further policy may have its say.
        let about = |line: &String| {
            verdict.policies.iter().any(|expected| expected.split(':').next() == line.split(':').next())
        };
        let policies: Vec<String> = step.policies().into_iter().filter(about).collect();
        assert_eq!(policies, verdict.policies, "{what}");
        let editor = guard.testbed.dir().join(EDITOR_SAW);
        let in_editor = fs::read_to_string(&editor).unwrap_or_default();
        assert!(step.output.stderr.contains(verdict.says) || in_editor.contains(verdict.says), "{what}\n{in_editor}");
        drop(fs::remove_file(editor));
        guard.reset();
    }
}

fn merge_patch(image: &str) -> String {
    json!({"spec": {"desiredUpdate": {"image": image}}}).to_string()
}

/// The stored object with this image asked for.
fn whole(guard: &Guard, image: &str) -> Value {
    let mut object = guard.api.get(VERSION).expect("a ClusterVersion");
    object["spec"]["desiredUpdate"] = json!({"image": image});
    object["metadata"]["managedFields"].take();
    object
}

/// What somebody keeps in Git.
fn manifest(image: &str) -> Value {
    let site = Site::new();
    let mut object = cluster_version(&[site.current.history("Completed")]);
    object["spec"]["desiredUpdate"] = json!({"image": image});
    object.as_object_mut().expect("an object").remove("status");
    object
}

#[test]
fn by_merge_patch() {
    check(false, |guard, image| {
        guard.testbed.command(["patch", "clusterversion/version", "--type=merge", "-p", &merge_patch(image)])
    });
}

#[test]
fn by_json_patch() {
    check(false, |guard, image| {
        let patch = json!([{"op": "add", "path": "/spec/desiredUpdate", "value": {"image": image}}]).to_string();
        guard.testbed.command(["patch", "clusterversion/version", "--type=json", "-p", &patch])
    });
}

#[test]
fn by_replace() {
    check(false, |guard, image| guard.testbed.command(["replace", "-f", "-"]).stdin(whole(guard, image).to_string()));
}

#[test]
fn by_server_side_apply() {
    check(false, |guard, image| {
        let args = ["apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", "-"];
        guard.testbed.command(args).stdin(manifest(image).to_string())
    });
}

#[test]
fn by_client_side_apply() {
    check(false, |guard, image| guard.testbed.command(["apply", "-f", "-"]).stdin(manifest(image).to_string()));
}

#[test]
fn by_edit() {
    check(false, |guard, image| {
        let dir = guard.testbed.dir();
        let edited = dir.join("edited.json");
        fs::write(&edited, whole(guard, image).to_string()).expect("write the edited object");
        // An object that is invalid (422) comes back into the editor with the reason as a comment, and is not
        // sent again as it is; the terminal says no more than that it is invalid.
        let script = dir.join("editor.sh");
        let text = format!("cat \"$1\" >> '{}'\ncp '{}' \"$1\"\n", dir.join(EDITOR_SAW).display(), edited.display());
        fs::write(&script, text).expect("write the editor");
        let editor = format!("sh {}", script.display());
        let path = std::env::var("PATH").expect("a search path");
        let edit = guard.testbed.command(["edit", "clusterversion/version"]);
        edit.env("EDITOR", &editor).env("PATH", &path)
    });
}

#[test]
fn by_dry_run_with_the_verdict_of_the_real_thing() {
    check(true, |guard, image| {
        let args = ["patch", "clusterversion/version", "--type=merge", "--dry-run=server", "-p", &merge_patch(image)];
        guard.testbed.command(args)
    });
}

#[test]
fn by_another_identity() {
    check(false, |guard, image| {
        let args = ["patch", "clusterversion/version", "--type=merge", "-p", &merge_patch(image)];
        let gitops = "system:serviceaccount:openshift-gitops:argocd-application-controller";
        guard.testbed.command(args).impersonate(gitops, &["system:masters"])
    });
}

#[test]
fn by_a_request_that_forges_the_status_it_is_judged_by() {
    check(false, |guard, image| {
        let site = Site::new();
        // On 4.18.20 every one of these would be judged differently.
        let status = json!({"desired": site.listed.update(), "history": [site.listed.history("Completed")],
            "availableUpdates": [{"version": site.unlisted.version, "image": image}]});
        let patch = json!({"spec": {"desiredUpdate": {"image": image}}, "status": status}).to_string();
        guard.testbed.command(["patch", "clusterversion/version", "--type=merge", "-p", &patch])
    });
}

/// The object is neither deleted nor made anew, by whatever way somebody tries.
fn check_stays<const N: usize>(guard: &Guard, args: [&str; N], stdin: Option<String>) -> Step {
    let mut command = guard.testbed.command(args);
    if let Some(stdin) = stdin {
        command = command.stdin(stdin);
    }
    let step = guard.step(VERSION, command);
    assert_eq!((step.code, step.changed), (Some(403), false), "{}", step.transcript());
    assert_eq!(step.policies(), ["clusterversion-singleton: deny"], "{}", step.transcript());
    step
}

#[test]
fn the_cluster_version_outlives_replace_by_force_and_every_delete() {
    let guard = Guard::shared();
    for image in verdicts().map(|verdict| verdict.image) {
        let object = Some(manifest(&image).to_string());
        check_stays(&guard, ["replace", "--force", "-f", "-"], object);
    }
    check_stays(&guard, ["delete", "clusterversions", "--all"], None);
    check_stays(&guard, ["delete", "--raw", Path::new(VERSION).parent().unwrap().to_str().unwrap()], None);
    check_stays(&guard, ["delete", "clusterversion/version", "--dry-run=server"], None);
    insta::assert_snapshot!(check_stays(&guard, ["delete", "clusterversion/version"], None).transcript(), @r##"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: ClusterVersion version must not be deleted.
      why:   its status.history is the only record of the releases that nodes may still run.
      works: change it in place: oc edit clusterversion version, or oc replace without --force
             to cancel an update that was asked for: oc adm upgrade --clear
      rule:  clusterversion-singleton (airgate policies explain clusterversion-singleton); in an emergency: airgate override --help
    audit: clusterversion.airgate.io clusterversion-singleton: deny: ClusterVersion version must not be deleted: its status.history is the only record of the releases that nodes may still run
    "##);
}

#[test]
fn a_cluster_version_is_not_made_with_a_target() {
    let guard = Guard::shared();
    guard.without_webhooks(|guard| drop(guard.api.delete(VERSION).success()));
    guard.register_by(|guard| {
        let target = manifest(&Site::new().listed.image);
        guard.api.create("/apis/config.openshift.io/v1/clusterversions?dryRun=All", &target).code == 403
    });
    let create = |object: Value| guard.testbed.command(["create", "-f", "-"]).stdin(object.to_string());
    let step = guard.step(VERSION, create(manifest(&Site::new().listed.image)));
    insta::assert_snapshot!(step.transcript(), @r##"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): error when creating "STDIN": admission webhook "clusterversion.airgate.io" denied the request: ClusterVersion version must not be created with an update target.
      why:   a new object has no status, so no current version to judge the target by.
      works: drop spec.desiredUpdate from the manifest and try again; once the CVO has written the status,
             ask for the update: oc adm upgrade --allow-explicit-upgrade --to-image PULLSPEC
      rule:  clusterversion-singleton (airgate policies explain clusterversion-singleton); in an emergency: airgate override --help
    audit: clusterversion.airgate.io clusterversion-singleton: deny: ClusterVersion version must not be created with an update target: a new object has no status, so no current version to judge the target by
    audit: clusterversion.airgate.io digest-only: pass
    "##);
    let mut empty = manifest("");
    empty["spec"]["desiredUpdate"]["version"] = json!("");
    assert_eq!(guard.step(VERSION, create(empty.clone())).code, Some(201));
    guard.testbed.kubectl(["delete", "clusterversion/version"]).failure();
    // The CVO follows one object only, so others may come and go.
    empty["metadata"]["name"] = json!("another");
    empty["spec"]["desiredUpdate"] = json!({"image": Site::new().unlisted.image});
    assert_eq!(guard.step(VERSION, create(empty)).code, Some(201));
    guard.testbed.kubectl(["delete", "clusterversion/another"]).success();
}
