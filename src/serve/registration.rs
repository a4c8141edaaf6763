//! Wires `--register`: for which namespace, with whose CA.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use serde_json::Value;

use crate::config::ConfigFile;
use crate::files::read_named_text;
use crate::http::tasks::Tasks;
use crate::manifests::{Certificates, Endpoint, Flavor, Options};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::register::Registrar;
use crate::register::api::Site;
use crate::register::status::{Counts, Status};
use crate::tls::reload::LiveTls;
use crate::tls::self_signed;

use super::tls::NAMESPACE_FILE;

pub(super) type Shown = Arc<ArcSwap<Status>>;

/// Starts the registrar where the configuration asks for it.
pub(super) async fn start(
    config: &ConfigFile,
    tls: LiveTls,
    readiness: &Readiness,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> Result<Option<Shown>> {
    if !config.register {
        if config.register_url.is_some() {
            bail!("--register-url says how, and nothing says that: add --register, or leave it out");
        }
        Counts::idle(metrics);
        return Ok(None);
    }
    if config.state.is_some() {
        bail!("--register writes to an API server, and the facts come from files: leave --state out, or --register");
    }
    if config.keep_certificates && config.register_url.is_some() {
        bail!(
            "--register-url with --keep-certificates: the certificate that is kept is for the Service alone, so no call by another name would succeed; give --tls-dir with a certificate for that host"
        );
    }
    let client = crate::watch::connect(config.kubeconfig.as_deref()).await?;
    let endpoint = config.register_url.as_deref().map_or(Ok(Endpoint::Service), Endpoint::url);
    let options = Options {
        namespace: super::tls::namespace(config, Path::new(NAMESPACE_FILE)).context("--register")?,
        mode: config.mode,
        endpoint: endpoint.context("--register-url")?,
        certificates: injector(config),
        // One that was made at the start stays as it is. The keeper's changes, and the keeper writes it.
        ca_bundle: config.self_signed.as_deref().map(ca_of).transpose()?,
        ..Options::of(config.flavor)
    };
    let registrar = Registrar::new(Site(client), options, tls, readiness.clone(), metrics)?;
    let shown = registrar.status();
    tasks.spawn("the registration", async move { match registrar.run().await {} });
    Ok(Some(shown))
}

/// For `/statusz`.
pub(super) fn json(shown: &Shown) -> Value {
    serde_json::to_value(&**shown.load()).unwrap_or_default()
}

/// Who is asked to put the CA into the configuration; the keeper does so unasked.
fn injector(config: &ConfigFile) -> Certificates {
    match (config.keep_certificates, config.flavor) {
        (true, _) => Certificates::Keeper,
        (false, Flavor::Kubernetes) => Certificates::CertManager,
        (false, Flavor::Openshift | Flavor::Payload | Flavor::Olm) => Certificates::ServiceCa,
    }
}

fn ca_of(dir: &Path) -> Result<Vec<u8>> {
    let file = dir.join(self_signed::CA);
    let text = read_named_text(&file, 1 << 20).with_context(|| file.display().to_string())?;
    Ok(text.into_bytes())
}
