//! `airgate status` of a live cluster, with the rights that are printed for airgate.

use std::process::Command;

use serde_json::{Value, json};

use crate::api::VERSION;
use crate::guard::{Guard, Site};

fn status(guard: &Guard, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airgate"));
    command.arg("status").args(args).arg("--kubeconfig").arg(guard.kubeconfig());
    let output = command.arg("--releases").arg(guard.releases()).env_remove("AIRGATE_STATE").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_cluster_is_shown_as_it_is_and_the_printed_commands_work() {
    let (guard, site) = (Guard::shared(), Site::new());
    let text = status(&guard, &[]);
    for part in ["runs 4.18.12, Completed", "4.18.20 possible", "4.19.9 through 4.18.20"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let shown: Value = serde_json::from_str(&status(&guard, &["-o", "json"])).unwrap();
    let bundle = &shown["bundles"]["bundles"][1];
    assert_eq!((&bundle["name"], &bundle["inUse"]), (&json!(site.listed.bundle()), &json!("no")));
    assert_eq!((&bundle["ready"], &bundle["removal"]["outcome"]), (&json!("yes"), &json!("allow")));
    assert_eq!(shown["facts"][0]["source"], "live read");

    // The command that removes a bundle, run with kubectl in the place of oc.
    let command = bundle["remove"].as_str().unwrap().strip_prefix("oc ").unwrap();
    let (words, patch) = command.split_once(" -p ").unwrap();
    let args = words.split(' ').chain(["-p", patch.trim_matches('\'')]);
    guard.testbed.kubectl(args).success();
    let shown: Value = serde_json::from_str(&status(&guard, &["-o", "json"])).unwrap();
    assert_eq!(shown["bundles"]["bundles"][1]["inSpec"], false, "the node still lists it: {}", shown["bundles"]);

    // Asked for by the command that is printed for the next step.
    let image = shown["upgrades"]["targets"][0]["command"].as_str().unwrap().rsplit(' ').next().unwrap();
    guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": {"image": image}}})).success();
    let shown: Value = serde_json::from_str(&status(&guard, &["-o", "json"])).unwrap();
    let pending = &shown["cluster"]["pending"];
    assert_eq!((&pending["image"], &pending["seen"]), (&json!(image), &json!(false)), "no CVO is at work here");
}
