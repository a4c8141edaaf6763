//! Wires `--register`: for which namespace, with whose CA.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use serde_json::Value;

use crate::certificates::Kept;
use crate::config::ConfigFile;
use crate::files::read_named_text;
use crate::http::tasks::Tasks;
use crate::manifests::{Endpoint, Options};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::register::api::Site;
use crate::register::status::{Counts, Status};
use crate::register::{OwnCa, Registrar};
use crate::tls::reload::LiveTls;
use crate::tls::self_signed;

pub(super) type Shown = Arc<ArcSwap<Status>>;

/// Where a pod's service account says which namespace it is in.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Starts the registrar where the configuration asks for it.
pub(super) async fn start(
    config: &ConfigFile,
    tls: LiveTls,
    kept: Option<Kept>,
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
    let client = crate::watch::connect(config.kubeconfig.as_deref()).await?;
    let endpoint = config.register_url.as_deref().map_or(Ok(Endpoint::Service), Endpoint::url);
    let options = Options {
        namespace: namespace(config),
        mode: config.mode,
        endpoint: endpoint.context("--register-url")?,
        ..Options::of(config.flavor)
    };
    let own_ca: Option<OwnCa> = match kept {
        Some(kept) => Some(Arc::new(move || kept.bundle().map(|bundle| bundle.to_vec()))),
        None => config.self_signed.as_deref().map(own_ca).transpose()?,
    };
    let registrar = Registrar::new(Site(client), options, own_ca, tls, readiness.clone(), metrics);
    let shown = registrar.status();
    tasks.spawn("the registration", async move { match registrar.run().await {} });
    Ok(Some(shown))
}

/// For `/statusz`.
pub(super) fn json(shown: &Shown) -> Value {
    serde_json::to_value(&**shown.load()).unwrap_or_default()
}

/// As configured, as the pod's service account says, as the flavour has it.
pub(super) fn namespace(config: &ConfigFile) -> String {
    let of_pod = || std::fs::read_to_string(POD_NAMESPACE).ok();
    let named = config.namespace.clone().or_else(|| of_pod().map(|text| text.trim().to_owned()));
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| config.flavor.namespace().to_owned())
}

/// A CA that was made at the start stays as it is.
fn own_ca(dir: &Path) -> Result<OwnCa> {
    let file = dir.join(self_signed::CA);
    let text = read_named_text(&file, 1 << 20).with_context(|| file.display().to_string())?;
    Ok(Arc::new(move || Some(text.clone().into_bytes())))
}
