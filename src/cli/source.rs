//! Where a command gets the cluster and the releases from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::action::{Stored, Target};
use crate::cluster::Snapshot;
use crate::config::ConfigFile;
use crate::facts::Facts;
use crate::problem::Problem;
use crate::release::Catalog;
use crate::settings::Settings;
use crate::watch;

/// Flags that say where facts come from.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArgs {
    /// Configuration file (kind: Config)
    #[arg(long, env = "AIRGATE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read the cluster from files: what `oc get -o yaml` prints, a must-gather, an inspect tree
    #[arg(long, env = "AIRGATE_STATE", value_name = "DIR", conflicts_with = "kubeconfig")]
    pub state: Option<PathBuf>,
    /// Read the cluster through this kubeconfig
    #[arg(long, env = "AIRGATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Directory of releases (OCI layouts, archives, mirrored trees, catalog files); may be given several times
    #[arg(long, env = "AIRGATE_RELEASES", value_name = "DIR", value_delimiter = ',')]
    pub releases: Vec<PathBuf>,
}

impl SourceArgs {
    /// The configuration with these flags over it.
    pub fn merged_config(&self) -> Result<ConfigFile> {
        let mut config = self.config.as_deref().map(ConfigFile::load).transpose()?.unwrap_or_default();
        // The two exclude each other: a flag for one silences the file's other.
        if self.state.is_some() || self.kubeconfig.is_some() {
            config.state.clone_from(&self.state);
            config.kubeconfig.clone_from(&self.kubeconfig);
        }
        if config.state.is_some() && config.kubeconfig.is_some() {
            bail!("state and kubeconfig exclude each other: give one of them");
        }
        if !self.releases.is_empty() {
            config.releases.clone_from(&self.releases);
        }
        Ok(config)
    }
}

/// Everything a command judges by, read once.
pub struct Sources {
    facts: Facts,
    runtime: Runtime,
    pub settings: Settings,
}

/// For everything a command reads from an API server.
const READ_LIMIT: Duration = Duration::from_secs(30);

impl Sources {
    pub fn read(args: &SourceArgs) -> Result<Self> {
        let config = args.merged_config()?;
        let settings = config.settings();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let facts = match (config.state, config.kubeconfig.or_else(default_kubeconfig)) {
            (Some(directory), _) => Facts::from_state(directory, config.releases),
            (None, Some(kubeconfig)) => runtime.block_on(async {
                let client = watch::connect(Some(&kubeconfig)).await?;
                anyhow::Ok(Facts::once(client, config.releases, Instant::now() + READ_LIMIT).await)
            })?,
            (None, None) => {
                let nothing = Snapshot::nothing("no cluster was given: name one with --state DIR or --kubeconfig FILE");
                let (catalog, _) = crate::catalog::load(&config.releases, Timestamp::now());
                Facts::given(nothing, catalog)
            }
        };
        Ok(Self { facts, runtime, settings })
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.facts.snapshot()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.facts.catalog()
    }

    pub fn problems(&self) -> Arc<Vec<Problem>> {
        self.facts.problems()
    }

    /// The stored form of an object.
    pub fn stored(&self, target: &Target) -> Stored {
        let deadline = Instant::now() + READ_LIMIT;
        // A deadline needs the runtime's clock.
        self.runtime.block_on(self.facts.object(&target.resource, None, &target.name, deadline))
    }
}

/// Where oc would look: the first file of $KUBECONFIG, else ~/.kube/config, that exists.
fn default_kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = || Some(vec![PathBuf::from(std::env::var_os("HOME")?).join(".kube/config")]);
    let candidates = named.map(|value| std::env::split_paths(&value).collect()).or_else(home)?;
    candidates.into_iter().find(|path| path.exists())
}

/// `--now`, else the clock.
pub fn now(flag: Option<&str>) -> Result<Timestamp> {
    match flag {
        None => Ok(Timestamp::now()),
        Some(text) => {
            text.parse().map_err(|e| anyhow!("{e}")).with_context(|| format!("--now {text} is no RFC 3339 time"))
        }
    }
}
