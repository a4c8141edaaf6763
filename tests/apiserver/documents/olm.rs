//! docs/olm.md, on OLM's own CRDs. What OLM does is played: it gives out what the bundle asks for, and nothing else.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use super::in_cluster::{IMAGES, nothing_is_left};
use super::kubelet::Pods;
use super::page::Page;
use super::walk::{Then, Walk};
use super::{cluster, operators, person, release_in, stored};
use crate::deploy::install_crds_of_others;
use crate::guard::IDENTITY;
use crate::server::eventually;
use crate::testbed::Testbed;

const NAMESPACE: &str = "openshift-airgate";
const CSV: &str = "airgate.v0.1.0";
const PLAN: &str = "install-x7k2p";

/// The Operator Lifecycle Manager, of the one namespace.
struct Olm<'a> {
    testbed: &'a Testbed,
    /// The bundle as it was mirrored.
    bundle: PathBuf,
}

impl Olm<'_> {
    fn get(&self, object: &str) -> Value {
        stored(self.testbed, NAMESPACE, object).unwrap_or_else(|| panic!("no {object}"))
    }

    fn apply(&self, mut object: Value) {
        if !object["kind"].as_str().expect("a kind").starts_with("Cluster") || object["kind"] == "ClusterServiceVersion"
        {
            object["metadata"]["namespace"] = json!(NAMESPACE);
        }
        self.testbed.command(["apply", "--server-side", "-f", "-"]).stdin(object.to_string()).run().success();
    }

    /// A plan for what the Subscription asks for, which waits for an approval.
    fn plan(&self) {
        let subscription = self.get("subscription/airgate");
        assert_eq!(
            (&subscription["spec"]["name"], &subscription["spec"]["channel"]),
            (&json!("airgate"), &json!("stable"))
        );
        assert_eq!(subscription["spec"]["installPlanApproval"], "Manual");
        self.apply(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": PLAN},
            "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": [CSV]}}),
        );
    }

    /// Everything of the bundle, once the plan is approved.
    fn install(&self) {
        let plan = self.get(&format!("installplan/{PLAN}"));
        assert_eq!(plan["spec"]["approved"], true);
        for file in fs::read_dir(self.bundle.join("manifests")).expect("a bundle") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("a manifest");
            from_yaml(&text).expect("YAML").into_iter().for_each(|object| self.apply(object));
        }
        let install = &self.get(&format!("clusterserviceversion/{CSV}"))["spec"]["install"]["spec"];
        self.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "airgate"}}));
        for (permissions, role) in [("permissions", "Role"), ("clusterPermissions", "ClusterRole")] {
            for permission in install[permissions].as_array().expect("permissions") {
                self.grant(role, permission);
            }
        }
        for deployment in install["deployments"].as_array().expect("deployments") {
            self.deploy(deployment);
        }
    }

    fn grant(&self, role: &str, permission: &Value) {
        let group = "rbac.authorization.k8s.io";
        let object =
            |kind: String| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": CSV}});
        let (mut rules, mut binding) = (object(role.to_owned()), object(format!("{role}Binding")));
        rules["rules"] = permission["rules"].clone();
        binding["roleRef"] = json!({"apiGroup": group, "kind": role, "name": CSV});
        let account = &permission["serviceAccountName"];
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
        self.apply(rules);
        self.apply(binding);
    }

    /// With what the Subscription adds to every container.
    fn deploy(&self, deployment: &Value) {
        let subscription = self.get("subscription/airgate");
        let config = &subscription["spec"]["config"];
        let mut spec = deployment["spec"].clone();
        let pod = &mut spec["template"]["spec"];
        let add = |list: &mut Value, more: &Value| {
            list.as_array_mut().expect("a list").extend(more.as_array().cloned().unwrap_or_default());
        };
        add(&mut pod["volumes"], &config["volumes"]);
        for container in pod["containers"].as_array_mut().expect("containers") {
            add(&mut container["env"], &config["env"]);
            add(&mut container["env"], &json!([{"name": "OPERATOR_CONDITION_NAME", "value": CSV}]));
            add(&mut container["volumeMounts"], &config["volumeMounts"]);
        }
        self.apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
            "metadata": {"name": deployment["name"], "labels": deployment["label"]}}));
    }

    /// What goes with the ClusterServiceVersion; the namespace stays.
    fn uninstall(&self) {
        for (kind, name) in [
            ("deployment", "airgate"),
            ("service", "airgate"),
            ("role", CSV),
            ("rolebinding", CSV),
            ("clusterrole", CSV),
            ("clusterrolebinding", CSV),
        ] {
            self.testbed.kubectl(["delete", kind, name, "-n", NAMESPACE]).success();
        }
    }
}

/// The failure policies of all webhooks, once it is registered.
fn policies(testbed: &Testbed) -> Option<Vec<(String, String)>> {
    let configuration = stored(testbed, NAMESPACE, "validatingwebhookconfiguration/airgate")?;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let webhooks = configuration["webhooks"].as_array()?;
    Some(webhooks.iter().map(|webhook| (text(&webhook["name"]), text(&webhook["failurePolicy"]))).collect())
}

#[test]
fn an_operator_is_installed_enforced_and_taken_away() {
    let testbed = cluster();
    install_crds_of_others(&testbed);
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    release_in(&walk.dir.join("layout"));
    let olm = Olm { testbed: &testbed, bundle: walk.dir.join("olm/bundle") };
    let pods = RefCell::new(Pods::of(&testbed, NAMESPACE));

    let plan = |_: &Walk| olm.plan();
    let first = |_: &Walk| {
        olm.install();
        operators::serving_certificate(&testbed);
        pods.borrow_mut().roll_out(IMAGES[0]);
    };
    let in_audit_mode = |walk: &Walk| {
        let all = eventually("it registers itself", || policies(&testbed));
        assert!(all.len() > 5 && all.iter().all(|(_, policy)| policy == "Ignore"), "{all:?}");
        operators::of_openshift(&testbed);
        eventually("it is asked", || {
            let (code, _, why) =
                walk.run("oc adm upgrade --allow-explicit-upgrade --to-image registry.example/a:tag --dry-run");
            (code == 0 && why.contains("digest-only would deny this")).then_some(())
        });
    };
    let again = |_: &Walk| pods.borrow_mut().roll_out(IMAGES[0]);
    let enforced = |_: &Walk| {
        let failing = ["clusterversion.airgate.io", "internalreleaseimage.airgate.io"];
        eventually("what denies fails closed", || {
            let all = policies(&testbed)?;
            let closed: Vec<_> =
                all.iter().filter(|(_, policy)| policy == "Fail").map(|(name, _)| name.as_str()).collect();
            (closed == failing).then_some(())
        });
        // By just what OLM gave it.
        let mut asked = testbed.audit_events();
        asked.retain(|event| event["user"]["username"] == IDENTITY);
        assert!(asked.len() > 20, "{asked:#?}");
        let refused: Vec<_> = asked.iter().filter(|event| event["responseStatus"]["code"] == 403).collect();
        assert!(refused.is_empty(), "needed, and not in the bundle: {refused:#?}");
    };
    let gone = |_: &Walk| {
        pods.borrow_mut().stop();
        olm.uninstall();
        assert!(policies(&testbed).is_none(), "nobody brings it back");
    };
    let end = |_: &Walk| operators::end_namespace(&testbed, NAMESPACE);
    let mirrors = "oc-mirror is not here, and what it mirrors from and to";
    walk.through(
        &Page::read("olm.md"),
        &[
            ("REGISTRY=", Then::Set("registry.example:5000".to_owned())),
            ("IMAGE=", Then::Set(IMAGES[0].to_owned())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("OPM=", Then::Set("none".to_owned())),
            ("MIRROR=", Then::Set("none".to_owned())),
            ("podman", Then::NotRun("podman is not here, and its base image has opm in it; tests/repo/olm.rs checks what goes in")),
            ("oc mirror", Then::NotRun(mirrors)),
            ("oc apply -f archive", Then::NotRun(mirrors)),
            ("oc apply -f - <<EOF\napiVersion: operators.coreos.com/v1alpha1", Then::Leads(&plan)),
            ("oc patch installplan", Then::As(format!("oc patch installplan {PLAN} -n {NAMESPACE} --type merge -p '{{\"spec\":{{\"approved\":true}}}}'"), 0)),
            ("oc rollout status", Then::Both(&first, &in_audit_mode)),
            ("oc rollout status", Then::Both(&again, &enforced)),
            ("oc patch clusterversion", Then::Exits(0)),
            ("oc patch clusterversion", Then::Exits(1)),
            ("oc delete clusterserviceversion", Then::Leads(&gone)),
            ("oc delete namespace", Then::After(&end)),
        ],
    );
    nothing_is_left(&walk, NAMESPACE);
}
