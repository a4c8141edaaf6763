//! The pods: two on different control-plane nodes, of which one answers through every drain and roll-out.
//!
//! docs/deploy.md gives the reasons, number by number.

use serde_json::{Value, json};

use super::certificates::{Certificates, SECRET};
use super::config::{CONFIG, TRUSTED_CA, TRUSTED_CA_KEY, fingerprint};
use super::service::{HEALTH, HEALTH_PORT, WEBHOOK, WEBHOOK_PORT};
use super::{Document, Flavor, NAME, Options, selector};

const FILE: &str = "deployment";
const RELEASES: &str = "airgate-releases";
/// In the image, which has nothing else but the binary.
const CONFIG_DIR: &str = "/etc/airgate/config";
const RELEASES_DIR: &str = "/etc/airgate/releases";
const TLS_DIR: &str = "/etc/airgate/tls";
const TRUSTED_CA_DIR: &str = "/etc/airgate/trusted-ca";
const CACHE_DIR: &str = "/var/cache/airgate";
/// The cache holds 1 GiB at most; a pod that has more than this is evicted.
const CACHE_LIMIT: &str = "2Gi";
/// More than a drain takes, see [`crate::shutdown::Drain`].
const GRACE_SECONDS: i64 = 30;
/// The image's own, where no security context constraint assigns one.
const USER: i64 = 65532;
/// How long a pod stays bound to a node that is gone.
const GONE_SECONDS: i64 = 30;

pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![];
    if !options.single_node {
        documents
            .push(Document::new(FILE, disruption_budget(options))?.saying(
                "Never both at once; and a pod that does not get ready never keeps a node from being drained.",
            ));
    }
    let single = options.single_node;
    // Two replicas: one leaves before the next comes, since on two nodes there is no third place.
    // One replica: the next one comes first.
    let (surge, unavailable) = if single { (1, 0) } else { (0, 1) };
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": options.namespace},
        "spec": {
            "replicas": if single { 1 } else { 2 },
            "revisionHistoryLimit": 3,
            "minReadySeconds": 5,
            "selector": {"matchLabels": selector()},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {"metadata": {"labels": selector(), "annotations": annotations(options)}, "spec": pod(options)},
        },
    });
    documents.push(Document::new(FILE, deployment)?);
    Ok(documents)
}

fn disruption_budget(options: &Options) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": options.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector()}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}})
}

fn annotations(options: &Options) -> Value {
    let mut annotations = json!({});
    if options.flavor.on_openshift() {
        annotations = json!({
            "openshift.io/required-scc": "restricted-v2",
            "target.workload.openshift.io/management": r#"{"effect": "PreferredDuringScheduling"}"#,
        });
    }
    // In a payload the config file is the administrator's from the first day on.
    if options.flavor != Flavor::Payload {
        annotations["airgate.io/config"] = json!(fingerprint(options.mode));
    }
    annotations
}

fn pod(options: &Options) -> Value {
    let mut security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    if !options.flavor.on_openshift() {
        security["runAsUser"] = json!(USER);
        security["runAsGroup"] = json!(USER);
        security["fsGroup"] = json!(USER);
    }
    let mut pod = json!({
        "serviceAccountName": NAME,
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": tolerations(),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": security,
        "containers": [container(options)],
        "volumes": volumes(options),
    });
    if !options.single_node {
        pod["affinity"] = json!({"podAntiAffinity": apart(options)});
    }
    pod
}

/// On different nodes; where there are any, in what single nodes install as it is: a payload, an operator.
fn apart(options: &Options) -> Value {
    let term = json!({"labelSelector": {"matchLabels": selector()}, "topologyKey": "kubernetes.io/hostname"});
    if matches!(options.flavor, Flavor::Payload | Flavor::Olm) {
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]})
    } else {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
    }
}

fn tolerations() -> Value {
    let on = |role: &str| json!({"key": format!("node-role.kubernetes.io/{role}"), "operator": "Exists", "effect": "NoSchedule"});
    let gone = |state: &str| {
        json!({"key": format!("node.kubernetes.io/{state}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": GONE_SECONDS})
    };
    json!([on("master"), on("control-plane"), gone("not-ready"), gone("unreachable")])
}

fn container(options: &Options) -> Value {
    let mut args = vec![
        "serve".to_owned(),
        format!("--config={CONFIG_DIR}/{CONFIG}"),
        format!("--releases={RELEASES_DIR}"),
        format!("--cache-dir={CACHE_DIR}"),
    ];
    args.push(match options.certificates {
        Certificates::Keeper => "--keep-certificates".to_owned(),
        Certificates::ServiceCa | Certificates::CertManager => format!("--tls-dir={TLS_DIR}"),
    });
    if options.register {
        args.push("--register".to_owned());
        if !options.flavor.on_openshift() {
            args.push(format!("--flavor={}", options.flavor));
        }
    }
    let probe = |path: &str, period: u32, failures: u32| {
        json!({"httpGet": {"path": path, "port": HEALTH}, "periodSeconds": period, "timeoutSeconds": 3,
            "failureThreshold": failures})
    };
    json!({
        "name": NAME,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": [
            {"name": "AIRGATE_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
            {"name": "SSL_CERT_FILE", "value": format!("{TRUSTED_CA_DIR}/{TRUSTED_CA_KEY}")},
        ],
        "ports": [
            {"name": WEBHOOK, "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
            {"name": HEALTH, "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "startupProbe": probe("/livez", 1, 30),
        "readinessProbe": probe("/readyz", 5, 3),
        "livenessProbe": probe("/livez", 10, 6),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(options),
    })
}

fn mounts(options: &Options) -> Value {
    let read = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut mounts =
        vec![read("config", CONFIG_DIR), read("releases", RELEASES_DIR), read("trusted-ca", TRUSTED_CA_DIR)];
    if options.certificates != Certificates::Keeper {
        mounts.push(read("tls", TLS_DIR));
    }
    mounts.push(json!({"name": "cache", "mountPath": CACHE_DIR}));
    mounts.into()
}

fn volumes(options: &Options) -> Value {
    let mut volumes = vec![
        json!({"name": "config", "configMap": {"name": NAME}}),
        json!({"name": "releases", "configMap": {"name": RELEASES, "optional": true}}),
        // Until it is filled the key is missing, which must not keep a pod from starting.
        json!({"name": "trusted-ca", "configMap": {"name": TRUSTED_CA, "optional": true,
            "items": [{"key": TRUSTED_CA_KEY, "path": TRUSTED_CA_KEY}]}}),
    ];
    if options.certificates != Certificates::Keeper {
        // Readable by the pod's group alone.
        volumes.push(json!({"name": "tls", "secret": {"secretName": SECRET, "defaultMode": 0o440}}));
    }
    volumes.push(json!({"name": "cache", "emptyDir": {"sizeLimit": CACHE_LIMIT}}));
    volumes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shutdown::Drain;

    #[test]
    fn a_pod_is_given_the_time_that_a_drain_takes() {
        let drain = Drain::default();
        let seconds = (drain.keep_serving + drain.finish).as_secs();
        assert!(u64::try_from(GRACE_SECONDS).unwrap() >= seconds + 5, "a drain takes {seconds} s");
    }

    #[test]
    fn every_mount_has_its_volume_and_the_ports_are_those_that_serve_has() {
        for certificates in [Certificates::ServiceCa, Certificates::CertManager, Certificates::Keeper] {
            let options = Options { certificates, ..Options::of(Flavor::Openshift) };
            let names = |list: &Value| -> Vec<String> {
                list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
            };
            assert_eq!(names(&mounts(&options)), names(&volumes(&options)), "{certificates}");
        }
    }
}
