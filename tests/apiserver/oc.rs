//! What `oc adm upgrade` sends, body by body as recorded from a real oc, and what comes of it.
//!
//! `oc` prints of a refusal the message that kubectl prints, after its own prefix.

use std::sync::MutexGuard;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::api::VERSION;
use crate::guard::{Guard, Site};
use crate::objects::cluster_version;

/// oc's merge patch for this desiredUpdate, and what followed.
fn check(guard: &Guard, desired: Value) -> String {
    check_spec(guard, json!({"desiredUpdate": desired}))
}

fn check_spec(guard: &Guard, spec: Value) -> String {
    let body = json!({"spec": spec}).to_string();
    guard
        .step(VERSION, guard.testbed.command(["patch", "clusterversion/version", "--type=merge", "-p", &body]))
        .transcript()
}

/// The body of `--to-image PULLSPEC --allow-explicit-upgrade`.
fn to_image(image: &str, force: bool) -> Value {
    json!({"architecture": "", "version": "", "image": image, "force": force})
}

/// The body of `--to VERSION`, with the image that oc found for it.
fn to(version: &str, image: &str) -> Value {
    json!({"architecture": "", "version": version, "image": image, "force": false})
}

/// A site on which an update to the listed release was asked for.
fn with_a_target() -> MutexGuard<'static, Guard> {
    let guard = Guard::shared();
    let target = to_image(&Site::new().listed.image, false);
    guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": target}})).success();
    guard
}

fn offering(update: Value, field: &str) -> MutexGuard<'static, Guard> {
    let (guard, site) = (Guard::shared(), Site::new());
    let mut version = cluster_version(&[site.current.history("Completed")]);
    version["status"][field] = json!([update]);
    guard.set_version(&version);
    guard
}

#[test]
fn a_listed_target_is_stored() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to_image(&site.listed.image, false)), @"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    ");
    assert_snapshot!(check(&guard, to_image(&site.listed.image, false)), @r##"
    exit 0, HTTP 200, nothing stored
    clusterversion.config.openshift.io/version patched (no change)
    "##);
}

#[test]
fn an_unlisted_target_is_refused_with_the_stone_to_step_on() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to_image(&site.unlisted.image, false)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: 4.18.12 cannot go straight to 4.19.9.
      why:   4.19.9 says which versions it can be reached from; of 4.18 these are 4.18.19, 4.18.20 (read from RELEASES/catalog.json N s ago, not verified against the image).
      works: go to 4.18.20 first, it is on this site and 4.18.12 is on its list:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.19.9 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.19.9 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: deny: 4.18.12 cannot go straight to 4.19.9: 4.19.9 says which versions it can be reached from; of 4.18 these are 4.18.19, 4.18.20 (read from RELEASES/catalog.json N s ago, not verified against the image) (facts: release 4.19.9 (unverified) from RELEASES/catalog.json, N s old)
    "#);
    assert_snapshot!(check(&guard, to_image(&site.unlisted.image, true)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: 4.18.12 cannot go straight to 4.19.9.
      why:   4.19.9 says which versions it can be reached from; of 4.18 these are 4.18.19, 4.18.20 (read from RELEASES/catalog.json N s ago, not verified against the image); force does not change that.
      works: go to 4.18.20 first, it is on this site and 4.18.12 is on its list:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.19.9 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.19.9 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: deny: 4.18.12 cannot go straight to 4.19.9: 4.19.9 says which versions it can be reached from; of 4.18 these are 4.18.19, 4.18.20 (read from RELEASES/catalog.json N s ago, not verified against the image); force does not change that (facts: release 4.19.9 (unverified) from RELEASES/catalog.json, N s old)
    "#);
}

#[test]
fn a_release_that_nobody_knows_is_refused_with_what_would_make_it_known() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to_image(&site.unknown.image, false)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: whether 4.18.12 may go to registry.example:5000/ocp/release@sha256:9999999999999999999999999999999999999999999999999999999999999999 cannot be judged.
      why:   no release source on this site knows that digest and it could not be read: no registry may be asked for it: every source is blocked and has no mirror, so which versions it can be reached from is not known.
      works: mend what those places answer (airgate release info PULLSPEC asks them again); or put what it says below --releases, from where its registry can be reached: airgate release export PULLSPEC > DIRECTORY/release.yaml
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: unknown: whether 4.18.12 may go to registry.example:5000/ocp/release@sha256:9999999999999999999999999999999999999999999999999999999999999999 cannot be judged: no release source on this site knows that digest and it could not be read: no registry may be asked for it: every source is blocked and has no mirror, so which versions it can be reached from is not known
    "#);
}

#[test]
fn a_tag_is_refused_forced_or_not() {
    let guard = Guard::shared();
    assert_snapshot!(check(&guard, to_image("registry.example:5000/ocp/release:4.18.20", false)), @r#"
    exit 1, HTTP 422, nothing stored
    The ClusterVersion "version" is invalid: spec.desiredUpdate.image: "registry.example:5000/ocp/release:4.18.20" is no pullspec by digest.
      why:   it names a tag, and a tag can be moved to another image.
      works: find the digest: oc image info registry.example:5000/ocp/release:4.18.20 | grep Digest, then
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:DIGEST
      rule:  digest-only (airgate policies explain digest-only)
    audit: clusterversion.airgate.io digest-only: deny: "registry.example:5000/ocp/release:4.18.20" is no pullspec by digest: it names a tag, and a tag can be moved to another image
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass
    "#);
    assert_snapshot!(check(&guard, to_image("registry.example:5000/ocp/release:4.18.20", true)), @r#"
    exit 1, HTTP 422, nothing stored
    The ClusterVersion "version" is invalid: spec.desiredUpdate.image: "registry.example:5000/ocp/release:4.18.20" is no pullspec by digest.
      why:   it names a tag, and a tag can be moved to another image.
      works: find the digest: oc image info registry.example:5000/ocp/release:4.18.20 | grep Digest, then
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:DIGEST
      rule:  digest-only (airgate policies explain digest-only)
    audit: clusterversion.airgate.io digest-only: deny: "registry.example:5000/ocp/release:4.18.20" is no pullspec by digest: it names a tag, and a tag can be moved to another image
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass
    "#);
    let beside = Site::new().listed.image.replace("@sha256", ":4.18.20@sha256");
    assert_snapshot!(check(&guard, to_image(&beside, true)), @r#"
    exit 1, HTTP 422, nothing stored
    The ClusterVersion "version" is invalid: spec.desiredUpdate.image: "registry.example:5000/ocp/release:4.18.20@sha256:2222222222222222222222222222222222222222222222222222222222222222" is no pullspec by digest.
      why:   it has a tag beside the digest.
      works: the same pullspec without the tag:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  digest-only (airgate policies explain digest-only)
    audit: clusterversion.airgate.io digest-only: deny: "registry.example:5000/ocp/release:4.18.20@sha256:2222222222222222222222222222222222222222222222222222222222222222" is no pullspec by digest: it has a tag beside the digest
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    "#);
}

#[test]
fn force_alone_is_nothing_without_a_target_and_a_step_with_one() {
    let guard = Guard::shared();
    assert_snapshot!(check(&guard, json!({"force": true})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    drop(guard);
    let guard = with_a_target();
    assert_snapshot!(check(&guard, json!({"force": true})), @"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    ");
    assert_snapshot!(check(&guard, json!({"force": false})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
}

#[test]
fn the_same_release_from_another_registry_is_no_upgrade() {
    let guard = Guard::shared();
    let elsewhere = Site::new().current.image.replace("registry.example:5000/ocp", "mirror.example/other");
    assert_snapshot!(check(&guard, to_image(&elsewhere, false)), @"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.12 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: pass
    ");
}

#[test]
fn an_update_is_cancelled_in_both_forms() {
    let guard = with_a_target();
    assert_snapshot!(check(&guard, Value::Null), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    drop(guard);
    let guard = with_a_target();
    let empties = json!({"architecture": "", "version": "", "image": "", "force": false,
        "acceptRisks": [{"name": "RiskA"}]});
    assert_snapshot!(check(&guard, empties), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
}

#[test]
fn a_version_alone_must_be_on_offer() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to(site.listed.version, "")), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: 4.18.20 is asked for by version alone, and the update service does not offer it here.
      why:   the CVO looks a version up in status.availableUpdates and nowhere else: it would do nothing now, and start unasked should the service ever offer it.
      works: 4.18.20 is on this site and 4.18.12 may go there; ask by image:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: deny: 4.18.20 is asked for by version alone, and the update service does not offer it here: the CVO looks a version up in status.availableUpdates and nowhere else: it would do nothing now, and start unasked should the service ever offer it (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    "#);
    drop(guard);
    let guard = offering(site.listed.update(), "availableUpdates");
    assert_snapshot!(check(&guard, to(site.listed.version, "")), @"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    ");
}

#[test]
fn an_offered_update_passes_where_its_payload_is_not_known() {
    let site = Site::new();
    let guard = offering(site.unknown.update(), "availableUpdates");
    assert_snapshot!(check(&guard, to(site.unknown.version, &site.unknown.image)), @"
    exit 0, HTTP 200, stored
    Warning: upgrade-path: judged by status.availableUpdates alone, which offers 4.20.1 for this digest: no release source on this site knows that digest
    clusterversion.config.openshift.io/version patched
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: warn: judged by status.availableUpdates alone, which offers 4.20.1 for this digest: no release source on this site knows that digest
    ");
}

#[test]
fn a_version_and_an_image_must_belong_together() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to("4.18.19", &site.listed.image)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: the image is 4.18.20, not 4.18.19.
      why:   RELEASES/catalog.json says so, and the CVO refuses a payload whose version differs.
      works: leave the version out:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  release-identity (airgate policies explain release-identity); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: deny: the image is 4.18.20, not 4.18.19: RELEASES/catalog.json says so, and the CVO refuses a payload whose version differs (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    "#);
    drop(guard);
    // A merge patch of the image alone leaves the version that was stored before it.
    let guard = Guard::shared();
    guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": {"version": site.current.version}}})).success();
    assert_snapshot!(check(&guard, json!({"image": site.listed.image})), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: the image is 4.18.20, not 4.18.12.
      why:   RELEASES/catalog.json says so; spec.desiredUpdate.version 4.18.12 is the one stored earlier, and a merge patch that sets only the image keeps it.
      works: drop the stored version in the same step:
             oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  release-identity (airgate policies explain release-identity); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: unknown, allowed: whether every component image of 4.18.20 is on this site is not known: they have not been looked for yet
    audit: clusterversion.airgate.io release-identity: deny: the image is 4.18.20, not 4.18.12: RELEASES/catalog.json says so; spec.desiredUpdate.version 4.18.12 is the one stored earlier, and a merge patch that sets only the image keeps it (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    audit: clusterversion.airgate.io release-ready: pass (facts: InternalReleaseImage from watch, N s old; Nodes from watch, N s old; MachineConfigNodes from watch, N s old)
    audit: clusterversion.airgate.io upgrade-path: pass (facts: release 4.18.20 (unverified) from RELEASES/catalog.json, N s old)
    "#);
}

#[test]
fn a_migration_to_multi_needs_a_payload() {
    let (guard, site) = (Guard::shared(), Site::new());
    let body = |version: &str| json!({"architecture": "Multi", "version": version, "image": "", "force": false});
    assert_snapshot!(check(&guard, body(site.current.version)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: whether the cluster can move to multi cannot be judged.
      why:   neither a release source on this site nor status.availableUpdates knows a multi payload of 4.18.12.
      works: mirror the multi payload of 4.18.12, then: put what it says below --releases, from where its registry can be reached: airgate release export PULLSPEC > DIRECTORY/release.yaml
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: unknown: whether the cluster can move to multi cannot be judged: neither a release source on this site nor status.availableUpdates knows a multi payload of 4.18.12
    "#);
    assert_snapshot!(check(&guard, body(site.listed.version)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: 4.18.20 with architecture Multi is two steps at once.
      why:   the cluster runs 4.18.12 for one architecture, and the CVO would ignore the version.
      works: migrate first, then upgrade: oc adm upgrade --to-multi-arch
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: deny: 4.18.20 with architecture Multi is two steps at once: the cluster runs 4.18.12 for one architecture, and the CVO would ignore the version
    "#);
}

#[test]
fn going_back_to_the_release_before_is_refused_across_a_minor() {
    let (guard, site) = (Guard::shared(), Site::new());
    assert_snapshot!(check(&guard, to(site.before.version, &site.before.image)), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: whether 4.18.12 may go to registry.example:5000/ocp/release@sha256:7777777777777777777777777777777777777777777777777777777777777777 cannot be judged.
      why:   no release source on this site knows that digest and it could not be read: no registry may be asked for it: every source is blocked and has no mirror, so which versions it can be reached from is not known.
      works: mend what those places answer (airgate release info PULLSPEC asks them again); or put what it says below --releases, from where its registry can be reached: airgate release export PULLSPEC > DIRECTORY/release.yaml
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    audit: clusterversion.airgate.io digest-only: pass
    audit: clusterversion.airgate.io release-complete: pass
    audit: clusterversion.airgate.io release-identity: pass
    audit: clusterversion.airgate.io release-ready: pass
    audit: clusterversion.airgate.io upgrade-path: unknown: whether 4.18.12 may go to registry.example:5000/ocp/release@sha256:7777777777777777777777777777777777777777777777777777777777777777 cannot be judged: no release source on this site knows that digest and it could not be read: no registry may be asked for it: every source is blocked and has no mirror, so which versions it can be reached from is not known
    "#);
}

#[test]
fn what_names_no_target_never_reaches_airgate() {
    let guard = Guard::shared();
    let reviews = guard.reviews();
    assert_snapshot!(check_spec(&guard, json!({"channel": "stable-4.19"})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    assert_snapshot!(check_spec(&guard, json!({"channel": ""})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    assert_snapshot!(check(&guard, json!({"acceptRisks": [{"name": "RiskA"}, {"name": "RiskB"}]})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    assert_snapshot!(check(&guard, json!({"acceptRisks": null})), @r##"
    exit 0, HTTP 200, stored
    clusterversion.config.openshift.io/version patched
    "##);
    assert_snapshot!(check(&guard, json!({})), @r##"
    exit 0, HTTP 200, nothing stored
    clusterversion.config.openshift.io/version patched (no change)
    "##);
    assert_eq!(guard.reviews(), reviews);
}
