//! What an InternalReleaseImage depends on, and the OS images of MachineConfigs, as a person meets their guards.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use crate::guard::Guard;
use crate::step::Step;

const NAMESPACE: &str = "openshift-machine-config-operator";
const SECRETS: &str = "/api/v1/namespaces/openshift-machine-config-operator/secrets";
const TLS: &str = "/api/v1/namespaces/openshift-machine-config-operator/secrets/internal-release-image-tls";
/// In base64 `c2VjcmV0LWtleQ==`.
const CONTENT: &str = "secret-key";

fn with_secret(guard: &Guard) {
    guard.testbed.kubectl(["create", "namespace", NAMESPACE]);
    guard.api.delete(TLS);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "internal-release-image-tls"},
        "stringData": {"tls.crt": "certificate", "tls.key": CONTENT}});
    if guard.api.get(TLS).is_none() {
        guard.api.create(SECRETS, &secret).success();
    }
}

fn on_secret<const N: usize>(guard: &Guard, args: [&str; N]) -> Step {
    guard.step(TLS, guard.testbed.command(args.into_iter().chain(["-n", NAMESPACE])))
}

#[test]
fn a_secret_of_the_registry_stays_and_its_contents_are_nowhere() {
    let guard = Guard::shared();
    with_secret(&guard);
    let denied = on_secret(&guard, ["delete", "secret/internal-release-image-tls"]);
    assert_snapshot!(denied.transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "secret.airgate.io" denied the request: Secret internal-release-image-tls in openshift-machine-config-operator is deleted while InternalReleaseImage cluster exists.
      why:   it is the certificate of the registry that serves the release bundles, on port 22625 of each control-plane node; nothing makes it anew.
      works: to rotate it, replace its values: oc set data secret/internal-release-image-tls -n openshift-machine-config-operator KEY=VALUE
             it can go after the InternalReleaseImage, which release-in-use guards:
             oc get internalreleaseimage cluster
      rule:  bundle-support (airgate policies explain bundle-support); in an emergency: airgate override --help
    audit: secret.airgate.io bundle-support: deny: Secret internal-release-image-tls in openshift-machine-config-operator is deleted while InternalReleaseImage cluster exists: it is the certificate of the registry that serves the release bundles, on port 22625 of each control-plane node; nothing makes it anew (facts: InternalReleaseImage from watch, N s old)
    "#);
    let patch = r#"{"data": {"tls.key": ""}}"#;
    let emptied = on_secret(&guard, ["patch", "secret/internal-release-image-tls", "--type=merge", "-p", patch]);
    assert_snapshot!(emptied.transcript(), @r#"
    exit 1, HTTP 403, nothing stored
    Error from server (Forbidden): admission webhook "secret.airgate.io" denied the request: Secret internal-release-image-tls in openshift-machine-config-operator loses the value of tls.key while InternalReleaseImage cluster exists.
      why:   it is the certificate of the registry that serves the release bundles, on port 22625 of each control-plane node; nothing makes it anew.
      works: to rotate it, give the key its new value: oc set data secret/internal-release-image-tls -n openshift-machine-config-operator tls.key=VALUE
             it can go after the InternalReleaseImage, which release-in-use guards:
             oc get internalreleaseimage cluster
      rule:  bundle-support (airgate policies explain bundle-support); in an emergency: airgate override --help
    audit: secret.airgate.io bundle-support: deny: Secret internal-release-image-tls in openshift-machine-config-operator loses the value of tls.key while InternalReleaseImage cluster exists: it is the certificate of the registry that serves the release bundles, on port 22625 of each control-plane node; nothing makes it anew (facts: InternalReleaseImage from watch, N s old)
    "#);

    let reviews = guard.reviews();
    let patch = r#"{"stringData": {"tls.crt": "another", "tls.key": "secret-key-too"}}"#;
    let rotated = on_secret(&guard, ["patch", "secret/internal-release-image-tls", "--type=merge", "-p", patch]);
    assert_eq!((rotated.code, rotated.changed), (Some(200), true), "{}", rotated.transcript());
    assert_eq!(guard.reviews(), reviews, "a rotation never leaves the API server");

    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let entry = json!({"policy": "bundle-support", "from": "internal-release-image-tls", "target": "delete",
        "reason": "a test", "expires": soon});
    let annotation = format!("airgate.io/override={entry}");
    let set = on_secret(&guard, ["annotate", "secret/internal-release-image-tls", &annotation]);
    assert_eq!((set.code, set.policies()), (Some(200), vec!["override: set".to_owned()]), "{}", set.transcript());
    let used = on_secret(&guard, ["delete", "secret/internal-release-image-tls"]);
    assert_eq!((used.code, used.changed), (Some(200), true), "{}", used.transcript());
    assert!(
        used.output.stderr.starts_with("Warning: override of bundle-support used by admin (a test)"),
        "{used:?}",
        used = used.transcript()
    );

    let log = fs::read_to_string(guard.testbed.dir().join("airgate.log")).unwrap();
    for (place, text) in [("log", log), ("status", guard.statusz().to_string()), ("answer", denied.transcript())] {
        let leaked = [CONTENT, "c2VjcmV0LWtleQ"].iter().any(|content| text.contains(content));
        assert!(!leaked, "the {place} has a Secret's contents:\n{text}");
    }
}

#[test]
fn an_os_image_by_tag_is_refused() {
    let guard = Guard::shared();
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "99-site-os", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"osImageURL": "registry.example:5000/ocp/rhcos:4.18"}});
    let path = "/apis/machineconfiguration.openshift.io/v1/machineconfigs/99-site-os";
    let apply = || guard.step(path, guard.testbed.command(["create", "-f", "-"]).stdin(config.to_string()));
    assert_snapshot!(apply().transcript(), @r#"
    exit 1, HTTP 422, nothing stored
    The MachineConfig "99-site-os" is invalid: spec.osImageURL: "registry.example:5000/ocp/rhcos:4.18" is no pullspec by digest.
      why:   it names a tag, and a tag can be moved to another image.
      works: find the digest: oc image info registry.example:5000/ocp/rhcos:4.18 | grep Digest, then
             spec.osImageURL: registry.example:5000/ocp/rhcos@sha256:DIGEST
      rule:  digest-only (airgate policies explain digest-only)
    audit: machineconfig.airgate.io digest-only: deny: "registry.example:5000/ocp/rhcos:4.18" is no pullspec by digest: it names a tag, and a tag can be moved to another image
    "#);
}
