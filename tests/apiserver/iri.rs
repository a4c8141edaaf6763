//! Removing a release from the InternalReleaseImage, in every way in which it can leave.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::api::{IMAGE, IMAGES, VERSION};
use crate::guard::{Guard, IDENTITY, Site};
use crate::kubectl::Kubectl;
use crate::objects::{Release, cluster_version, internal_release_image};
use crate::step::Step;

const MCO: &str = "system:serviceaccount:openshift-machine-config-operator:machine-config-controller";
const FINALIZER: &str = r#"["internalreleaseimage.machineconfiguration.openshift.io/finalizer"]"#;
const CVO: &str = "system:serviceaccount:openshift-cluster-version:default";

/// Leaves these bundles of the InternalReleaseImage, as an edit of spec.releases.
fn keep(guard: &Guard, releases: &[&Release]) -> Kubectl {
    let spec = &internal_release_image(releases)["spec"];
    let patch = json!({"spec": spec}).to_string();
    guard.testbed.command(["patch", "internalreleaseimage/cluster", "--type=merge", "-p", &patch])
}

fn check(guard: &Guard, command: Kubectl) -> Step {
    guard.step(IMAGE, command)
}

fn kubectl<const N: usize>(guard: &Guard, args: [&str; N]) -> Step {
    check(guard, guard.testbed.command(args))
}

/// Moves the cluster on: it runs the listed release, came from the current one, and pools followed.
fn upgraded(guard: &Guard) {
    let site = Site::new();
    guard.set_version(&cluster_version(&[site.listed.history("Completed"), site.current.history("Completed")]));
    let configs = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
    for pool in ["master", "worker"] {
        let rendered = format!("rendered-{pool}-1");
        guard.set(configs, &rendered, &crate::objects::rendered_machine_config(&rendered, &site.listed));
    }
    guard.synced();
}

#[test]
fn the_running_release_stays_whoever_drops_it_from_the_spec() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, keep(&guard, &[&site.listed])).transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "internalreleaseimage.airgate.io" denied the request: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12, which this cluster needs.
      why:   ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: the cluster runs it, MachineConfigPool master runs it (and 1 more).
      works: leave ocp-release-bundle-4.18.12-x86_64 in spec.releases until the cluster has moved on:
             oc get clusterversion version -o yaml; oc get machineconfigpools
      rule:  release-in-use (airgate policies explain release-in-use); in an emergency: airgate override --help
    audit: internalreleaseimage.airgate.io bundle-change: pass (facts: ClusterVersion from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: internalreleaseimage.airgate.io release-in-use: deny: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12, which this cluster needs: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: the cluster runs it, MachineConfigPool master runs it (and 1 more) (facts: MachineConfigNodes from watch, N s old; ClusterVersion from watch, N s old; MachineConfigPools from watch, N s old; rendered MachineConfigs from watch, N s old)
    "#);
}

#[test]
fn the_running_release_stays_however_its_object_is_deleted() {
    let guard = Guard::shared();
    assert_snapshot!(kubectl(&guard, ["delete", "internalreleaseimage/cluster"]).transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "internalreleaseimage.airgate.io" denied the request: InternalReleaseImage cluster still holds 4.18.12, which this cluster needs.
      why:   ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: the cluster runs it, MachineConfigPool master runs it (and 1 more).
      works: keep the InternalReleaseImage; see what still uses it:
             oc get clusterversion version -o yaml; oc get machineconfigpools
      rule:  release-in-use (airgate policies explain release-in-use); in an emergency: airgate override --help
    audit: internalreleaseimage.airgate.io release-in-use: deny: InternalReleaseImage cluster still holds 4.18.12, which this cluster needs: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: the cluster runs it, MachineConfigPool master runs it (and 1 more) (facts: MachineConfigNodes from watch, N s old; ClusterVersion from watch, N s old; MachineConfigPools from watch, N s old; rendered MachineConfigs from watch, N s old)
    "#);
    for args in [
        &["delete", "internalreleaseimages", "--all"][..],
        &["delete", "--raw", IMAGES],
        &["delete", "internalreleaseimage/cluster", "--dry-run=server"],
        &["delete", "internalreleaseimage/cluster", "--cascade=foreground"],
        &["delete", "internalreleaseimage/cluster", "--force", "--grace-period=0"],
    ] {
        let step = check(&guard, guard.testbed.command(args.iter().copied()));
        assert_eq!((step.code, step.changed), (Some(403), false), "{}", step.transcript());
        assert!(step.output.stderr.contains("still holds 4.18.12, which this cluster needs"), "{}", step.transcript());
        assert_eq!(step.policies(), ["release-in-use: deny"], "{}", step.transcript());
    }
}

#[test]
fn a_release_that_nothing_needs_may_go_after_a_look_at_the_cluster_as_it_is() {
    let (guard, site) = (Guard::shared(), Site::new());
    let seen = guard.testbed.audit_events().len();
    assert_snapshot!(check(&guard, keep(&guard, &[&site.current])).transcript(), @"
    exit 0, HTTP 200, stored
    internalreleaseimage.machineconfiguration.openshift.io/cluster patched
    audit: internalreleaseimage.airgate.io bundle-change: pass (facts: ClusterVersion from live read, N s old; MachineConfigNodes from watch, N s old)
    audit: internalreleaseimage.airgate.io release-in-use: pass (facts: MachineConfigNodes from watch, N s old; ClusterVersion from live read, N s old; MachineConfigPools from live read, N s old; rendered MachineConfigs from live read, N s old; CatalogSources from watch, N s old; ClusterCatalogs from watch, N s old)
    ");
    let asked: Vec<String> = guard.testbed.audit_events()[seen..]
        .iter()
        .filter(|event| event["user"]["username"] == IDENTITY && event["verb"] != "watch")
        .map(|event| format!("{} {}", event["verb"], event["objectRef"]["resource"]).replace('"', ""))
        .collect();
    for read in ["list clusterversions", "list machineconfigpools", "list machineconfigs"] {
        assert!(asked.iter().any(|done| done == read), "{read} is not among {asked:?}");
    }
}

#[test]
fn a_release_of_the_past_stays_unless_only_what_is_in_use_is_retained() {
    let mut guard = Guard::shared();
    let site = Site::new();
    upgraded(&guard);
    assert_snapshot!(check(&guard, keep(&guard, &[&site.listed])).transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "internalreleaseimage.airgate.io" denied the request: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12, which a rollback would need.
      why:   ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: a rollback would go to it.
      works: once no rollback is wanted: set retain: in-use in airgate's configuration; for this one time: airgate override --help
      rule:  release-in-use (airgate policies explain release-in-use); in an emergency: airgate override --help
    audit: internalreleaseimage.airgate.io bundle-change: pass (facts: ClusterVersion from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: internalreleaseimage.airgate.io release-in-use: deny: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12, which a rollback would need: ocp-release-bundle-4.18.12-x86_64 holds 4.18.12: a rollback would go to it (facts: MachineConfigNodes from watch, N s old; ClusterVersion from watch, N s old; MachineConfigPools from watch, N s old; rendered MachineConfigs from watch, N s old)
    "#);
    guard.configure(Some(json!({"retain": "in-use"})));
    assert_snapshot!(check(&guard, keep(&guard, &[&site.listed])).transcript(), @"
    exit 0, HTTP 200, stored
    Warning: release-in-use: 4.18.12 leaves the cluster with ocp-release-bundle-4.18.12-x86_64: nothing runs it any more, but a rollback would go to it
    internalreleaseimage.machineconfiguration.openshift.io/cluster patched
    audit: internalreleaseimage.airgate.io bundle-change: pass (facts: ClusterVersion from live read, N s old; MachineConfigNodes from watch, N s old)
    audit: internalreleaseimage.airgate.io release-in-use: warn: 4.18.12 leaves the cluster with ocp-release-bundle-4.18.12-x86_64: nothing runs it any more, but a rollback would go to it (facts: MachineConfigNodes from watch, N s old; ClusterVersion from live read, N s old; MachineConfigPools from live read, N s old; rendered MachineConfigs from live read, N s old; CatalogSources from watch, N s old; ClusterCatalogs from watch, N s old)
    ");
    let all = kubectl(&guard, ["delete", "internalreleaseimage/cluster"]);
    assert_eq!((all.code, all.changed), (Some(403), false), "{}", all.transcript());
}

#[test]
fn a_release_that_an_update_was_asked_for_stays() {
    let (guard, site) = (Guard::shared(), Site::new());
    let target = json!({"spec": {"desiredUpdate": {"image": site.listed.image}}});
    guard.api.merge(VERSION, &target).success();
    guard.synced();
    let step = check(&guard, keep(&guard, &[&site.current]));
    assert_eq!((step.code, step.changed), (Some(403), false), "{}", step.transcript());
    assert!(step.output.stderr.contains("4.18.20"), "{}", step.transcript());
}

#[test]
fn what_is_going_already_may_go() {
    let (guard, site) = (Guard::shared(), Site::new());
    // Nothing needs the next release yet, so an object with it alone may be deleted.
    guard.reset_to(&[&site.listed]);
    empower_operators(&guard);
    assert_eq!(finalizers(&guard, FINALIZER).code, Some(200));
    assert_eq!(kubectl(&guard, ["delete", "internalreleaseimage/cluster", "--wait=false"]).code, Some(200));
    upgraded(&guard);

    let reviews = guard.reviews();
    for step in [
        kubectl(&guard, ["delete", "internalreleaseimage/cluster", "--wait=false"]),
        kubectl(&guard, ["delete", "internalreleaseimages", "--all", "--wait=false"]),
        check(&guard, keep(&guard, &[&site.current])),
        finalizers(&guard, "[]"),
    ] {
        assert_eq!((step.code, &step.audit[..]), (Some(200), &[][..]), "{}", step.transcript());
    }
    assert_eq!(guard.api.get(IMAGE), None);
    assert_eq!(guard.reviews(), reviews);
}

fn override_of(bundle: &str) -> String {
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    json!({"policy": "release-in-use", "from": "cluster", "target": bundle, "reason": "a test", "expires": soon})
        .to_string()
}

/// MCO's controller adds and removes its finalizer.
fn finalizers(guard: &Guard, finalizers: &str) -> Step {
    let patch = format!(r#"{{"metadata": {{"finalizers": {finalizers}}}}}"#);
    let args = ["patch", "internalreleaseimage/cluster", "--type=merge", "-p", &patch];
    check(guard, guard.testbed.command(args).impersonate(MCO, &["system:serviceaccounts"]))
}

/// The platform gives its operators at least these rights.
fn empower_operators(guard: &Guard) {
    for (name, user) in [("mco", MCO), ("cvo", CVO)] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        guard.testbed.put(&binding);
    }
}

#[test]
fn the_operators_of_the_platform_are_not_asked_about() {
    let guard = Guard::shared();
    empower_operators(&guard);
    let reviews = guard.reviews();
    let status = |path: &str, object: &str, user: &str, status: Value| {
        let patch = json!({"status": status}).to_string();
        let args = ["patch", object, "--subresource=status", "--type=merge", "-p", &patch];
        guard.step(path, guard.testbed.command(args).impersonate(user, &["system:serviceaccounts"]))
    };
    let site = Site::new();
    for step in [
        finalizers(&guard, FINALIZER),
        finalizers(&guard, "null"),
        status(IMAGE, "internalreleaseimage/cluster", MCO, internal_release_image(&[&site.listed])["status"].clone()),
        status(VERSION, "clusterversion/version", CVO, json!({"desired": site.unlisted.update()})),
        status(
            VERSION,
            "clusterversion/version",
            CVO,
            json!({"observedGeneration": 7, "availableUpdates": [site.listed.update()]}),
        ),
    ] {
        assert_eq!((step.code, step.changed, &step.audit[..]), (Some(200), true, &[][..]), "{}", step.transcript());
    }
    assert_eq!(guard.reviews(), reviews);
}

#[test]
fn an_override_opens_one_removal_and_leaves_an_event() {
    let (guard, site) = (Guard::shared(), Site::new());
    let annotation = format!("airgate.io/override={}", override_of(&site.current.bundle()));
    let set = kubectl(&guard, ["annotate", "internalreleaseimage/cluster", &annotation]);
    assert_eq!((set.code, set.policies()), (Some(200), vec!["override: set".to_owned()]), "{}", set.transcript());
    assert!(set.audit[0].starts_with("override.airgate.io override: set by admin"), "{}", set.transcript());

    let other = kubectl(&guard, ["delete", "internalreleaseimage/cluster", "--dry-run=server"]);
    assert_eq!(other.code, Some(200), "{}", other.transcript());
    let used = check(&guard, keep(&guard, &[&site.listed]));
    assert_eq!((used.code, used.changed), (Some(200), true), "{}", used.transcript());
    assert!(
        used.output.stderr.starts_with("Warning: override of release-in-use used by admin (a test)"),
        "{used:?}",
        used = used.output
    );
    let event = crate::server::eventually("an Event tells of the override", || {
        let args = [
            "get",
            "events",
            "-n",
            "default",
            "--field-selector=reason=OverrideUsed",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        let text = guard.testbed.kubectl(args).success();
        (!text.is_empty()).then_some(text)
    });
    assert!(
        event.contains("admin used the override of release-in-use for cluster -> ocp-release-bundle-4.18.12-x86_64"),
        "{event}"
    );
}
