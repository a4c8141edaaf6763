//! The client for the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("kubeconfig {} is not usable: {source}", file.display())]
    Kubeconfig { file: PathBuf, source: KubeconfigError },
    #[error("no --kubeconfig, no --state, and not in a cluster: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    #[error("no client for the API server: {0}")]
    Client(#[from] kube::Error),
}

/// From a kubeconfig file, or with the service account of the pod. Sends nothing yet.
///
/// # Errors
/// Where the file or the service account cannot be used.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let wrong = |source| ConnectError::Kubeconfig { file: file.to_owned(), source };
            let kubeconfig = Kubeconfig::read_from(file).map_err(wrong)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(wrong)?
        }
        None => Config::incluster()?,
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    // Retries are ours: they are counted and shown.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}
