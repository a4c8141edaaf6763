//! With what the command line reads registries: the credentials that podman, skopeo and oc find, certificates, proxies.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::cli::source::{environment, path_from_environment};
use crate::registry::Access;

/// Flags that say how registries are to be talked to.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessArgs {
    /// Credentials, as `podman login` and `oc registry login` write them, or a pull secret [env: AIRGATE_AUTHFILE]
    /// [default: where podman looks: $REGISTRY_AUTH_FILE, else containers/auth.json in $XDG_RUNTIME_DIR and in
    /// ~/.config, then ~/.docker/config.json]
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// PEM bundle of CAs to trust beside the system's [env: AIRGATE_CA_FILE]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// HOST[:PORT] that may present any certificate or speak plain http; may be given several times
    /// [env: AIRGATE_INSECURE, comma-separated]
    #[arg(long, value_name = "HOST")]
    pub insecure: Vec<String>,
}

impl AccessArgs {
    /// # Errors
    /// A file that was named and cannot be used, a bad host or proxy address.
    pub fn access(&self) -> Result<Access> {
        let mut access = Access::default();
        for (file, named) in self.authfiles() {
            let bytes = match fs::read(&file) {
                Err(error) if !named && error.kind() == ErrorKind::NotFound => continue,
                bytes => bytes.with_context(|| format!("cannot read the credentials in {}", file.display()))?,
            };
            access = access.pull_secret(&file.display().to_string(), &bytes).map_err(anyhow::Error::msg)?;
        }
        if let Some(file) = self.ca_file.clone().or_else(|| path_from_environment("AIRGATE_CA_FILE")) {
            let pem = fs::read(&file).with_context(|| format!("cannot read the CAs in {}", file.display()))?;
            access = access.ca(&file.display().to_string(), &pem).map_err(anyhow::Error::msg)?;
        }
        let insecure = match environment("AIRGATE_INSECURE").filter(|_| self.insecure.is_empty()) {
            Some(hosts) => hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect(),
            None => self.insecure.clone(),
        };
        for host in insecure {
            access = access.insecure(&host).map_err(anyhow::Error::msg).context("--insecure")?;
        }
        let either =
            |upper: &str| environment(upper).or_else(|| environment(&upper.to_lowercase())).unwrap_or_default();
        access
            .proxy(&either("HTTP_PROXY"), &either("HTTPS_PROXY"), &either("NO_PROXY"))
            .map_err(|why| anyhow!("in the environment variables HTTP_PROXY and HTTPS_PROXY: {why}"))
    }

    /// The files to read, those that count first, and whether somebody named them.
    fn authfiles(&self) -> Vec<(PathBuf, bool)> {
        let named = self.authfile.clone().or_else(|| path_from_environment("AIRGATE_AUTHFILE"));
        if let Some(file) = named.or_else(|| path_from_environment("REGISTRY_AUTH_FILE")) {
            return vec![(file, true)];
        }
        let home = path_from_environment("HOME");
        let below = |directory: Option<&Path>, file: &str| directory.map(|directory| (directory.join(file), false));
        let runtime = path_from_environment("XDG_RUNTIME_DIR");
        let config = path_from_environment("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let candidates = [
            below(runtime.as_deref(), "containers/auth.json"),
            below(config.as_deref(), "containers/auth.json"),
            below(home.as_deref(), ".docker/config.json"),
        ];
        candidates.into_iter().flatten().collect()
    }
}
