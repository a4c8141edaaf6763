//! Two administrators at once: both are let through, and within seconds airgate says that one undid the other.

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::api::{Api, IMAGE, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, Site};
use crate::objects::internal_release_image;
use crate::recorder::Recorder;
use crate::server::eventually;
use crate::testbed::Testbed;

/// Longer than a person with two terminals and a machine under load need.
const DELAY: Duration = Duration::from_secs(6);

/// Another webhook on the InternalReleaseImage that takes its time: until it answers nothing is stored.
fn slow_webhook(testbed: &Testbed) -> Recorder {
    let dir = testbed.dir().join("slow-tls");
    let recorder = Recorder::slow(&dir, DELAY);
    let ca = base64::engine::general_purpose::STANDARD.encode(std::fs::read(dir.join("ca.crt")).unwrap());
    testbed.put(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 20,
            "clientConfig": {"url": format!("https://127.0.0.1:{}/slow", recorder.port), "caBundle": ca},
            "rules": [{"apiGroups": ["machineconfiguration.openshift.io"], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["internalreleaseimages"], "scope": "Cluster"}]}],
    }));
    recorder
}

fn invalidated(guard: &Guard) -> Vec<Value> {
    let args = ["get", "events", "-n", "default", "--field-selector=reason=StepInvalidated", "-o", "json"];
    let events: Value = serde_json::from_str(&guard.testbed.kubectl(args).success()).unwrap();
    events["items"].as_array().unwrap().clone()
}

#[test]
fn a_removal_and_an_upgrade_that_were_judged_at_once_are_noticed_and_can_be_undone() {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let guard = Guard::start(testbed);
    let site = Site::new();
    let slow = slow_webhook(&guard.testbed);
    let drops = json!({"spec": internal_release_image(&[&site.current])["spec"]});
    let other = Api::of(&guard.testbed);
    // A configuration takes effect a moment after it is stored; this also takes the time that the other webhook does.
    eventually("the slow webhook is asked", || {
        other.merge(&format!("{IMAGE}?dryRun=All"), &json!({"metadata": {"annotations": {"a": "b"}}}));
        (!slow.take().is_empty()).then_some(())
    });
    assert!(invalidated(&guard).is_empty() && guard.statusz()["audit"]["invalidated"] == json!([]));

    let asked = guard.reviews();
    let removal = std::thread::spawn(move || other.merge(IMAGE, &drops));
    eventually("airgate has judged the removal, and it is not stored", || {
        (guard.reviews() > asked && !slow.take().is_empty()).then_some(())
    });
    let upgrade = guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": {"image": site.listed.image}}}));
    assert_eq!(upgrade.code, 200, "{upgrade:?}");
    let removal = removal.join().unwrap();
    assert_eq!(removal.code, 200, "the window is real: {removal:?}");

    let event = eventually("an Event says so", || invalidated(&guard).pop());
    assert_eq!(event["involvedObject"]["kind"], "ClusterVersion");
    assert_eq!(event["type"], "Warning");
    let message = event["message"].as_str().unwrap();
    for part in ["4.18.20", "it is the pending update target", "/spec/releases/-", "oc adm upgrade --clear"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(guard.count("airgate_invalidated_steps_total"), 1);
    assert_eq!(guard.count("airgate_invalidated_steps_standing"), 1);
    let status = guard.statusz();
    assert_eq!(status["audit"]["invalidated"][0]["release"], "4.18.20", "{:#}", status["audit"]);
    let log = std::fs::read_to_string(guard.testbed.dir().join("airgate.log")).unwrap();
    assert!(log.contains("a step was undone by another"), "{log}");

    // The command of the Event, as it stands there.
    guard.testbed.delete("validatingwebhookconfiguration/slow");
    let (_, rest) = message.split_once(" -p '").unwrap();
    let patch = rest.split_once('\'').unwrap().0;
    guard.testbed.kubectl(["patch", "internalreleaseimage", "cluster", "--type", "json", "-p", patch]).success();
    eventually("nothing stands any more", || (guard.count("airgate_invalidated_steps_standing") == 0).then_some(()));
    assert_eq!(guard.count("airgate_invalidated_steps_total"), 1);
    assert_eq!(invalidated(&guard).len(), 1, "one Event for one conflict");
}

/// What slipped past the webhooks is found by the rounds and by the command alike.
#[test]
fn what_is_stored_is_audited() {
    let guard = Guard::shared();
    let audit = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_airgate"));
        command.arg("audit").arg("--kubeconfig").arg(guard.kubeconfig()).arg("--releases").arg(guard.releases());
        // As the server is set.
        let config = guard.testbed.dir().join("airgate.config");
        if config.exists() {
            command.arg("--config").arg(config);
        }
        let output = command.args(["-o", "json"]).env_remove("AIRGATE_STATE").output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (output.status.code(), report)
    };
    // Before the update service: history names a release that nothing on this site holds.
    let (code, report) = audit();
    assert_eq!((code, report["findings"].as_array().unwrap().len()), (Some(1), 1), "{report:#}");
    assert_eq!(report["findings"][0]["about"], "4.17.30");

    guard.without_webhooks(|guard| {
        let target = json!({"spec": {"desiredUpdate": {"image": Site::new().unlisted.image}}});
        guard.api.merge(VERSION, &target).success();
    });
    let series = r#"airgate_audit_findings{policy="upgrade-path",outcome="deny"}"#;
    eventually("a round has found it", || (guard.count(series) == 1).then_some(()));
    let status = guard.statusz();
    assert_eq!(status["audit"]["findings"][0]["policy"], "upgrade-path", "{:#}", status["audit"]);
    let (code, report) = audit();
    assert_eq!(code, Some(1));
    let about = |findings: &Value| -> Vec<Value> {
        findings.as_array().unwrap().iter().map(|found| json!([found["policy"], found["about"]])).collect()
    };
    assert_eq!(about(&report["findings"]), about(&status["audit"]["findings"]), "{report:#}");
    let args = ["get", "events", "-n", "default", "--field-selector=reason=AuditFinding", "-o", "json"];
    eventually("an Event says so", || {
        let events = guard.testbed.kubectl(args).success();
        events.contains("upgrade-path (deny): 4.18.12 cannot go straight to 4.19.9").then_some(())
    });
    guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": null}})).success();
    eventually("it is gone", || (guard.count(series) == 0).then_some(()));
    guard.register();
}
