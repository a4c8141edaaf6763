//! Requests about what an InternalReleaseImage depends on, and about MachineConfigs.

use super::{annotation, malformed_image};
use crate::generate::releases::{digest, image};
use crate::generate::tape::Tape;
use crate::world::{Kind, Request, Thing};

/// Who asks: seldom the platform, and then mostly somebody whom a rule leaves alone.
pub fn user(tape: &mut Tape, request: &Request) -> String {
    let mco = |name: &str| format!("system:serviceaccount:openshift-machine-config-operator:{name}");
    if !matches!(request, Request::Create(_) | Request::Update(..) | Request::Delete(_)) || tape.chance(70) {
        return "admin".to_owned();
    }
    match tape.below(10) {
        0 => mco("machine-config-controller"),
        1 => mco("machine-config-operator"),
        2 => mco("machine-os-builder"),
        3 => "system:serviceaccount:kube-system:namespace-controller".to_owned(),
        4 => "system:serviceaccount:kube-system:generic-garbage-collector".to_owned(),
        5 => "system:serviceaccount:openshift-cluster-version:default".to_owned(),
        6 => "system:serviceaccount:openshift-cluster-version:cluster-version-operator".to_owned(),
        7 => "system:admin".to_owned(),
        8 => "system:serviceaccount:default:machine-config-operator".to_owned(),
        _ => mco("machine-config-controller2"),
    }
}

pub fn request(tape: &mut Tape) -> Request {
    match tape.below(3) {
        0 => secret(tape),
        1 => crd(tape),
        _ => machine_config(tape),
    }
}

fn overridden(tape: &mut Tape, name: &str) -> String {
    let target = *tape.pick(&["delete", "delete", name]);
    annotation(tape, "bundle-support", name, &[target])
}

fn secret(tape: &mut Tape) -> Request {
    let name = *tape.pick(&["internal-release-image-tls", "internal-release-image-registry-auth", "other"]);
    let namespace = *tape.pick(&["openshift-machine-config-operator", "openshift-machine-config-operator", "default"]);
    let mut old = Thing { kind: Kind::Secret, terminating: tape.chance(5), ..Thing::default() };
    (old.name, old.namespace, old.annotation) = (name.to_owned(), namespace.to_owned(), overridden(tape, name));
    for key in ["tls.crt", "tls.key"] {
        old.data.insert(key.to_owned(), (*tape.pick(&["eA==", "eQ==", ""])).to_owned());
    }
    let mut new = old.clone();
    match tape.below(6) {
        0 => {
            new.data.remove("tls.key");
        }
        1 => {
            new.data.insert("tls.crt".to_owned(), String::new());
        }
        2 => {
            new.data.insert("tls.crt".to_owned(), "bmV3".to_owned());
        }
        3 => return Request::Create(new),
        4 => new.annotation = overridden(tape, name),
        _ => return Request::Delete(old),
    }
    Request::Update(old, new)
}

fn crd(tape: &mut Tape) -> Request {
    let resource = *tape.pick(&["internalreleaseimages", "machineconfignodes", "machineconfigpools"]);
    let name = format!("{resource}.machineconfiguration.openshift.io");
    let annotation = overridden(tape, &name);
    let old = Thing { kind: Kind::Crd, name, annotation, terminating: tape.chance(5), ..Thing::default() };
    if tape.chance(80) { Request::Delete(old) } else { Request::Update(old.clone(), old) }
}

fn machine_config(tape: &mut Tape) -> Request {
    let mut os_image = || match tape.percent() {
        ..30 => String::new(),
        30..60 => image(tape, &digest('a')),
        60..80 => "registry.example:5000/ocp/rhcos:1".to_owned(),
        _ => malformed_image(tape, &digest('b')),
    };
    let (before, after) = (os_image(), os_image());
    let name = (*tape.pick(&["99-site", "99-site", "rendered-worker-1", "99-rendered"])).to_owned();
    let old = Thing { kind: Kind::MachineConfig, name, os_image: before, ..Thing::default() };
    let new = Thing { os_image: if tape.chance(20) { old.os_image.clone() } else { after }, ..old.clone() };
    match tape.percent() {
        ..40 => Request::Create(new),
        40..90 => Request::Update(old, new),
        _ => Request::Delete(old),
    }
}
