//! Who makes the serving certificate and tells the API server its CA.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};
use serde_json::{Value, json};

use super::rights::{cluster_role_binding, role_ref, rule, subjects};
use super::{Document, Flavor, NAME, Options, named};

const FILE: &str = "certificates";
/// Where the key pair is, whoever makes it.
pub(super) const SECRET: &str = "airgate-tls";
/// The role of the one that keeps certificates.
const KEEPER: &str = "airgate-certificates";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Certificates {
    /// OpenShift's service CA.
    ServiceCa,
    /// cert-manager, with a CA of airgate's own
    CertManager,
    /// airgate itself: nothing else needs to be installed
    Keeper,
}

impl Certificates {
    /// The one that a flavour has without installing anything.
    #[must_use]
    pub fn of(flavor: Flavor) -> Self {
        if flavor.on_openshift() { Self::ServiceCa } else { Self::Keeper }
    }

    /// What is asked to put the CA into the webhook configuration; the keeper does so unasked.
    pub(super) fn ca_annotation(self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let (key, value) = match self {
            Self::ServiceCa => ("service.beta.openshift.io/inject-cabundle", "true".to_owned()),
            Self::CertManager => ("cert-manager.io/inject-ca-from", format!("{namespace}/{NAME}")),
            Self::Keeper => return None,
        };
        Some(BTreeMap::from([(key.to_owned(), value)]))
    }
}

pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    match options.certificates {
        // An annotation of the Service asks for it.
        Certificates::ServiceCa => Ok(vec![]),
        Certificates::CertManager => cert_manager(options),
        Certificates::Keeper => Ok(vec![keeper_secret(options)?]),
    }
}

/// A CA first, so that the bundle in the webhook configuration stays when the serving certificate changes.
fn cert_manager(options: &Options) -> anyhow::Result<Vec<Document>> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "cert-manager.io/v1", "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": options.namespace}})
    };
    let key = json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"});
    let ca_key = json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"});
    let issuer = |name: &str| json!({"kind": "Issuer", "name": name});
    let host = format!("{NAME}.{}.svc", options.namespace);
    Ok(vec![
        Document::new(FILE, object("Issuer", "airgate-self-signed", json!({"selfSigned": {}})))?,
        Document::new(
            FILE,
            object(
                "Certificate",
                "airgate-ca",
                json!({
                    "commonName": "airgate-ca", "isCA": true, "secretName": "airgate-ca", "privateKey": ca_key,
                    "duration": "87600h", "issuerRef": issuer("airgate-self-signed"),
                }),
            ),
        )?
        .saying(
            "Ten years, and a key that stays: API servers trust the certificates of before and after a renewal alike.",
        ),
        Document::new(FILE, object("Issuer", "airgate-ca", json!({"ca": {"secretName": "airgate-ca"}})))?,
        Document::new(
            FILE,
            object(
                "Certificate",
                NAME,
                json!({
                    "commonName": host, "dnsNames": [host, format!("{host}.cluster.local")], "secretName": SECRET,
                    "privateKey": key, "usages": ["server auth"], "duration": "2160h", "renewBefore": "720h",
                    "issuerRef": issuer("airgate-ca"),
                }),
            ),
        )?,
    ])
}

/// The Secret is there from the start: a right to create one cannot be limited to a name.
fn keeper_secret(options: &Options) -> anyhow::Result<Document> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": SECRET, "namespace": options.namespace}});
    Ok(Document::new(FILE, secret)?.saying(
        "airgate puts its key pair in here. It has no data of its own, so that applying it again takes nothing away.",
    ))
}

/// What the keeper may do: read and change its Secret and the one webhook configuration.
pub(super) fn rights(options: &Options) -> anyhow::Result<Vec<Document>> {
    if options.certificates != Certificates::Keeper {
        return Ok(vec![]);
    }
    let by_name = |rule: PolicyRule, name: &str| PolicyRule { resource_names: Some(vec![name.into()]), ..rule };
    let of_secret = by_name(rule("", "secrets", &["get", "patch"]), SECRET);
    let of_webhooks = rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", &["get", "patch"]);
    let metadata = || named(KEEPER, Some(&options.namespace));
    let (binding, subjects) = (role_ref("Role", KEEPER), Some(subjects(options)));
    let rules = Some(vec![by_name(of_webhooks, NAME)]);
    let cluster_role = ClusterRole { metadata: named(KEEPER, None), rules, ..ClusterRole::default() };
    Ok(vec![
        Document::new(FILE, Role { metadata: metadata(), rules: Some(vec![of_secret]) })?,
        Document::new(FILE, RoleBinding { metadata: metadata(), role_ref: binding, subjects })?,
        Document::new(FILE, cluster_role)?,
        Document::new(FILE, cluster_role_binding(KEEPER, options))?,
    ])
}

impl fmt::Display for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServiceCa => "service-ca",
            Self::CertManager => "cert-manager",
            Self::Keeper => "keeper",
        })
    }
}
