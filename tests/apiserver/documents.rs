//! Install, upgrade, uninstall and recover, as the pages say: every command in them is run here, in its order, on a real
//! API server. What has no part here is played, and said where: `oc` by kubectl (`walk.rs`), kubelet by `kubelet.rs`.

mod beside;
mod certificates;
mod in_cluster;
mod kubelet;
mod olm;
mod operators;
mod page;
mod runbook;
mod walk;

use std::path::Path;

use page::Page;
use serde_json::{Value, json};
use walk::Walk;

use crate::crds::CrdSet;
use crate::objects::{Release, cluster_version, machine_config_pool, rendered_machine_config};
use crate::testbed::Testbed;
use crate::testing::{Store, V2S2, base, payload};

/// A cluster of OpenShift as far as airgate looks at it, which nobody guards yet.
fn cluster() -> Testbed {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let namespaces =
        ["openshift-config", "openshift-config-managed", "openshift-machine-config-operator", "openshift-marketplace"];
    for name in namespaces {
        testbed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    let current = Release::new("4.18.12", '1');
    testbed.put(&cluster_version(&[current.history("Completed")]));
    for pool in ["master", "worker"] {
        let rendered = format!("rendered-{pool}-1");
        testbed.put(&rendered_machine_config(&rendered, &current));
        testbed.put(&machine_config_pool(pool, &rendered, &rendered));
    }
    testbed
}

/// An administrator of it, in a copy of the repository.
fn person<'a>(testbed: &'a Testbed, spawn: &'a walk::Spawn<'a>) -> Walk<'a> {
    let kubectl = Testbed::binaries().join("kubectl");
    let programs = [("airgate", Path::new(env!("CARGO_BIN_EXE_airgate"))), ("kubectl", &kubectl)];
    let mut walk = Walk::with(&programs, testbed.dir(), spawn);
    walk.set("KUBECONFIG", testbed.kubeconfig().display().to_string());
    std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy"), walk.dir.join("deploy"))
        .expect("a copy of the repository");
    walk
}

/// What is stored in a namespace, as in `stored(&testbed, "airgate", "secret/airgate-tls")`.
fn stored(testbed: &Testbed, namespace: &str, object: &str) -> Option<Value> {
    let text = testbed.kubectl(["get", object, "-n", namespace, "-o", "json", "--ignore-not-found"]).success();
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text).expect("JSON from kubectl"))
}

/// A release image as a mirroring tool leaves it, in this directory.
fn release_in(dir: &Path) {
    let mut store = Store::default();
    let layers = [base(), payload("4.18.12", &["4.18.11"], false)];
    let image = store.image(V2S2, "amd64", &layers);
    store.layout(dir, &[(&image, "4.18.12")]);
}

/// What stands between backticks in a sentence and in no block of these pages.
const SPOKEN_OF: [(&str, Spoken); 18] = [
    ("image/build arm64", Spoken::NotRun("it needs a linker for arm64, and the page says that it was not run")),
    ("skopeo login", Spoken::NotRun("it asks a person for a password")),
    ("airgate override --help", Spoken::Runs("airgate override --help")),
    ("airgate policies explain ID", Spoken::Runs("airgate policies explain upgrade-path")),
    (
        "oc get clusteroperator service-ca",
        Spoken::NotRun("OpenShift's operators are played here, so nothing reports it"),
    ),
    ("airgate unregister", Spoken::NotRun("tests/apiserver/register.rs runs it")),
    ("airgate unregister --undo", Spoken::NotRun("tests/apiserver/register.rs runs it")),
    (
        r"airgate manifests --register --only rights \| oc apply -f -",
        Spoken::NotRun("tests/apiserver/register.rs applies them"),
    ),
    (
        "oc get pods -n openshift-service-ca",
        Spoken::NotRun("OpenShift's operators are played here, so no pod is there"),
    ),
    ("airgate runbook NAME", Spoken::Runs("airgate runbook AirgateDown")),
    ("airgate snapshot DIR --request FILE", Spoken::NotRun("tests/repo/snapshot.rs runs it")),
    ("kubectl describe certificate -n airgate", Spoken::NotRun("it is cert-manager's, which is not here")),
    ("kubectl -n airgate describe certificate", Spoken::NotRun("it is cert-manager's, which is not here")),
    (
        "oc -n openshift-airgate rollout undo deployment/airgate",
        Spoken::NotRun("it goes back to a ReplicaSet, which a deployment controller makes"),
    ),
    (
        "airgate manifests --url ... --ca-file ...",
        Spoken::NotRun("it is what install-beside.md says, and that page is run"),
    ),
    ("airgate serve --keep-certificates", Spoken::NotRun("pods run it that the manifests ask for")),
    (
        "airgate manifests --flavor kubernetes --only rights",
        Spoken::Runs("airgate manifests --flavor kubernetes --only rights"),
    ),
    ("kubectl edit", Spoken::NotRun("what comes of it is in edits.rs")),
];

enum Spoken {
    Runs(&'static str),
    NotRun(&'static str),
}

#[test]
fn what_a_sentence_says_to_run_is_run_too() {
    let pages = [
        "install.md",
        "install-openshift.md",
        "install-kubernetes.md",
        "install-beside.md",
        "certificates.md",
        "runbook.md",
    ];
    let pages = pages.map(Page::read);
    let dir = tempfile::tempdir().unwrap();
    let spawn = |_: &mut std::process::Command, _: &Path| panic!("nothing serves here");
    let programs = [("airgate", Path::new(env!("CARGO_BIN_EXE_airgate")))];
    let mut walk = Walk::with(&programs, dir.path(), &spawn);
    walk.dir = env!("CARGO_MANIFEST_DIR").into();
    let mut used = vec![];
    for (page, mention) in pages.iter().flat_map(|page| page.mentioned.iter().map(move |text| (page.name, text))) {
        if pages.iter().flat_map(|page| &page.commands).any(|command| command.text.contains(mention.as_str())) {
            continue;
        }
        let known = SPOKEN_OF.iter().find(|(text, _)| text == mention);
        let (text, spoken) =
            known.unwrap_or_else(|| panic!("docs/{page}: no block has {mention}, and no test knows it"));
        used.push(*text);
        match spoken {
            Spoken::Runs(command) => {
                let (code, _, why) = walk.run(command);
                assert_eq!(code, 0, "docs/{page}: {command}: {why}");
            }
            Spoken::NotRun(reason) => println!("docs/{page}: {mention}: not run: {reason}"),
        }
    }
    for (text, _) in SPOKEN_OF {
        assert!(used.contains(&text), "no page speaks of {text}");
    }
}
