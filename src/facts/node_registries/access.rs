//! With what the nodes' registries are read: the machine-config-operator's CA, and its credentials where we may see them.

use k8s_openapi::ByteString;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::json;

use crate::registry::Access;

/// Where the registry's credentials are.
pub(crate) const NAMESPACE: &str = "openshift-machine-config-operator";
pub(crate) const SECRET: &str = "internal-release-image-registry-auth";
/// The object that says which CA signs what the control plane serves to its nodes.
pub(crate) const CONTROLLER_CONFIG: &str = "machine-config-controller";

/// The user of an `htpasswd` that names none.
const USER: &str = "openshift";

#[derive(Deserialize)]
struct ControllerConfig {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "rootCAData")]
    root_ca_data: ByteString,
}

#[derive(Deserialize)]
struct Secret {
    data: Credentials,
}

#[derive(Deserialize)]
struct Credentials {
    password: ByteString,
    #[serde(default)]
    htpasswd: ByteString,
}

/// Reads both by name. Without the CA nothing that answers can be believed; without credentials it is asked as nobody,
/// which today's registry takes.
///
/// # Errors
/// Why there is no CA, for a person.
pub(super) async fn read(client: &Client, authority: &str) -> Result<Access, String> {
    let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
    let (config, secret) = tokio::join!(
        get("/apis/machineconfiguration.openshift.io/v1/controllerconfigs", CONTROLLER_CONFIG, client),
        get(&secrets, SECRET, client),
    );
    let of = format!("spec.rootCAData of ControllerConfig {CONTROLLER_CONFIG}");
    let config = config.map_err(|why| format!("{of}, the CA of the nodes' registries, could not be read: {why}"))?;
    let config: ControllerConfig = serde_json::from_str(&config).map_err(|_| format!("{of} could not be read"))?;
    let access = Access::default().host_ca(authority, &config.spec.root_ca_data.0)?;
    // The fault of a document that holds a password is not repeated.
    let Some(pull_secret) = secret.ok().and_then(|text| pull_secret(&text, authority)) else { return Ok(access) };
    access.pull_secret(&format!("Secret {NAMESPACE}/{SECRET}"), pull_secret.as_bytes())
}

fn pull_secret(secret: &str, authority: &str) -> Option<String> {
    let Credentials { password, htpasswd } = serde_json::from_str::<Secret>(secret).ok()?.data;
    let password = String::from_utf8(password.0).ok()?;
    let named = String::from_utf8(htpasswd.0).ok()?;
    let user = named.lines().next().and_then(|line| line.split_once(':')).map_or(USER, |(user, _)| user);
    let password = password.trim_end_matches(['\r', '\n']);
    Some(json!({"auths": {authority: {"username": user, "password": password}}}).to_string())
}

async fn get(collection: &str, name: &str, client: &Client) -> Result<String, String> {
    let request = Request::new(collection).get(name, &GetParams::default()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("HTTP {}", status.code),
        _ => "the API server did not answer".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn the_user_is_the_one_of_the_htpasswd() {
        for (htpasswd, user) in [("robot:$2y$05$abc\n", "robot"), ("", "openshift"), ("nothing", "openshift")] {
            let data = json!({"password": STANDARD.encode("s3cret\n"), "htpasswd": STANDARD.encode(htpasswd)});
            let made = pull_secret(&json!({"data": data}).to_string(), "api-int.c.example:22625").unwrap();
            let expected = json!({"auths": {"api-int.c.example:22625": {"username": user, "password": "s3cret"}}});
            assert_eq!(made, expected.to_string());
        }
        for broken in ["", "{}", r#"{"data": {"password": "%"}}"#, r#"{"data": {"htpasswd": ""}}"#] {
            assert_eq!(pull_secret(broken, "h"), None, "{broken}");
        }
    }
}
