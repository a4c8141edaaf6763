//! Where a command gets the cluster and the releases from.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;

use crate::action::{Stored, Target};
use crate::catalog;
use crate::cluster::{Missing, Snapshot};
use crate::config::ConfigFile;
use crate::problem::Problem;
use crate::release::Catalog;
use crate::settings::Settings;
use crate::state::State;

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
    /// Directory of release catalogs; may be given several times
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
#[derive(Debug)]
pub struct Sources {
    pub cluster: ClusterSource,
    pub catalog: Catalog,
    pub settings: Settings,
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub enum ClusterSource {
    State(Box<State>),
    None(Box<Snapshot>),
}

impl Sources {
    pub fn read(args: &SourceArgs, now: Timestamp) -> Result<Self> {
        let config = args.merged_config()?;
        let (catalog, mut problems) = catalog::load(&config.releases, now);
        let cluster = match &config.state {
            Some(directory) => {
                let state = State::load(directory, now);
                problems.extend(state.problems().iter().cloned());
                ClusterSource::State(Box::new(state))
            }
            None => ClusterSource::None(Box::new(Snapshot::nothing(
                "no cluster was given: name one with --state DIR or --kubeconfig FILE",
            ))),
        };
        Ok(Self { cluster, catalog, settings: config.settings(), problems })
    }

    pub fn snapshot(&self) -> Snapshot {
        match &self.cluster {
            ClusterSource::State(state) => state.snapshot(),
            ClusterSource::None(nothing) => (**nothing).clone(),
        }
    }

    /// The stored form of an object.
    pub fn stored(&self, target: &Target) -> Stored {
        match &self.cluster {
            ClusterSource::State(state) => state.object(&target.resource, None, &target.name),
            ClusterSource::None(_) => Stored::Unknown(Missing {
                why: "no cluster was given".into(),
                remedy: "name one with --state DIR or --kubeconfig FILE".into(),
            }),
        }
    }
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
