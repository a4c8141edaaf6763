//! Where a command gets the cluster and the releases from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::action::{Stored, Target};
use crate::cluster::Snapshot;
use crate::config::ConfigFile;
use crate::facts::{Facts, OnSite};
use crate::fetch::{self, Lookups};
use crate::manifests::Flavor;
use crate::policy::Want;
use crate::problem::Problem;
use crate::register::api::{Failure, Site, home, namespaces_of};
use crate::register::plan::Home;
use crate::release::{Attempt, Catalog};
use crate::saved::Objects;
use crate::settings::Settings;
use crate::signature::Signatures;
use crate::signatures::FromFiles;
use crate::status::Registration;
use crate::watch::{self, WriteError};

/// Flags that say where facts come from.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArgs {
    /// Configuration file (kind: Config) [env: AIRGATE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read the cluster from files: what `oc get -o yaml` prints, a must-gather, an inspect tree [env: AIRGATE_STATE]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Read the cluster through this kubeconfig [env: AIRGATE_KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Directory of releases (layouts, archives, mirrored trees, catalog files); may be given several times [env: AIRGATE_RELEASES, comma-separated]
    #[arg(long, value_name = "DIR")]
    pub releases: Vec<PathBuf>,
    /// Public keys of release signatures, for a cluster without the ConfigMap release-verification [env: AIRGATE_RELEASE_KEYS]
    #[arg(long, value_name = "FILE")]
    pub release_keys: Option<PathBuf>,
}

impl SourceArgs {
    /// The configuration: these flags over the environment over the file.
    pub fn merged_config(&self) -> Result<ConfigFile> {
        let file = self.config.clone().or_else(|| path_from_environment("AIRGATE_CONFIG"));
        let mut config = file.as_deref().map(ConfigFile::load).transpose()?.unwrap_or_default();
        let flags = (self.state.clone(), self.kubeconfig.clone());
        (config.state, config.kubeconfig) =
            one_of(("state", "kubeconfig"), flags, (config.state.take(), config.kubeconfig.take()))?;
        if !self.releases.is_empty() {
            config.releases.clone_from(&self.releases);
        } else if let Some(releases) = environment("AIRGATE_RELEASES") {
            config.releases = releases.split(',').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
        }
        let keys = self.release_keys.clone().or_else(|| path_from_environment("AIRGATE_RELEASE_KEYS"));
        config.release_keys = keys.or(config.release_keys);
        Ok(config)
    }
}

/// An environment variable; an empty one counts as unset.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn path_from_environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

type Pair = (Option<PathBuf>, Option<PathBuf>);

/// Two settings that exclude each other: the first level that has one of them decides, and having both is an error.
pub fn one_of(names: (&str, &str), flags: Pair, file: Pair) -> Result<Pair> {
    let variable = |name: &str| format!("AIRGATE_{}", name.replace('-', "_").to_uppercase());
    let variables = (variable(names.0), variable(names.1));
    let environment = (path_from_environment(&variables.0), path_from_environment(&variables.1));
    let levels = [
        (format!("--{} and --{}", names.0, names.1), flags),
        (format!("{} and {}", variables.0, variables.1), environment),
        (format!("the keys for {} and {} in the config file", names.0, names.1), file),
    ];
    match levels.into_iter().find(|(_, pair)| pair.0.is_some() || pair.1.is_some()) {
        Some((which, (Some(_), Some(_)))) => bail!("{which} exclude each other: give one of them"),
        Some((_, pair)) => Ok(pair),
        None => Ok((None, None)),
    }
}

/// Everything a command judges by, read once.
pub struct Sources {
    facts: Facts,
    /// Where there is a cluster that says how its registries are reached.
    lookups: Option<Lookups>,
    /// Where there is an API server.
    client: Option<Client>,
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
        let on_site = config.on_site();
        let kubeconfig = config.kubeconfig.or_else(default_kubeconfig);
        let (facts, client) = match cluster(config.state, kubeconfig, on_site.clone(), &runtime)? {
            Some(Cluster { facts, client }) => (facts, client),
            None => {
                let why = "no cluster was given: name one with --state DIR or --kubeconfig FILE";
                (Facts::without_cluster(why, on_site), None)
            }
        };
        let of_cluster = client.clone();
        let lookups =
            client.map(|client| fetch::lookups(client, facts.clone(), None)).transpose().map_err(|why| anyhow!(why))?;
        Ok(Self { facts, lookups, client: of_cluster, runtime, settings })
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.facts.snapshot()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.facts.catalog()
    }

    /// Reads a release that the verdict wants, as the server would; `None` where the catalog has it now or nothing can be asked.
    pub fn look_up(&self, want: &Want) -> Option<Attempt> {
        let lookups = self.lookups.as_ref()?;
        self.runtime.block_on(async { lookups.want(want, Instant::now() + READ_LIMIT).await })
    }

    pub fn signatures(&self) -> Arc<Signatures> {
        self.facts.signatures()
    }

    /// The stored webhook configuration; `None` where there is no API server to look at.
    pub fn registration(&self) -> Option<Registration> {
        let site = Site(self.client.clone()?);
        let stored = self.runtime.block_on(async {
            let stored = site.configuration().await?;
            let mut names = stored.as_ref().map(namespaces_of).unwrap_or_default();
            if names.is_empty() {
                names = [Flavor::Openshift, Flavor::Kubernetes].map(|flavor| flavor.namespace().to_owned()).to_vec();
            }
            for name in names {
                // Who may not read the namespace still sees the configuration.
                let namespace = site.namespace(&name).await.unwrap_or_default();
                if let Home::Unregistered(reason) = home(namespace.as_ref()) {
                    return Ok((stored, Some(reason)));
                }
            }
            Ok::<_, Failure>((stored, None))
        });
        Some(match stored {
            Ok((stored, unregistered)) => Registration::of(stored.as_ref(), unregistered),
            Err(why) => Registration::unknown(&why.to_string()),
        })
    }

    pub fn problems(&self) -> Arc<Vec<Problem>> {
        self.facts.problems()
    }

    pub fn signature_files(&self) -> FromFiles {
        self.facts.signature_files()
    }

    /// Every object that airgate reads, whole.
    pub fn save(&self) -> Result<Objects> {
        self.runtime.block_on(async { self.facts.save(Instant::now() + READ_LIMIT).await }).map_err(|why| anyhow!(why))
    }

    /// Sets or removes the override annotation of an object as [`Self::stored`] read it; yields the API server's warnings.
    ///
    /// # Errors
    /// `None` where there is no API server to write to.
    pub fn annotate(
        &self,
        target: &Target,
        object: &Value,
        text: Option<&str>,
    ) -> Option<Result<Vec<String>, WriteError>> {
        let resource = target.resource.find()?;
        let annotation = (crate::breakglass::ANNOTATION, text);
        self.runtime.block_on(self.facts.annotate(resource, object, annotation, READ_LIMIT))
    }

    /// The stored form of an object.
    pub fn stored(&self, target: &Target) -> Stored {
        let deadline = Instant::now() + READ_LIMIT;
        // A deadline needs the runtime's clock.
        self.runtime.block_on(self.facts.object(&target.resource, None, &target.name, deadline))
    }
}

/// A cluster that was named, read once.
pub struct Cluster {
    pub facts: Facts,
    /// Where it was read from an API server.
    pub client: Option<Client>,
}

/// The cluster that is named, with the releases in these directories; `None` where none is.
///
/// # Errors
/// Where the kubeconfig cannot be used.
pub fn cluster(
    state: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    on_site: impl Into<OnSite>,
    runtime: &Runtime,
) -> Result<Option<Cluster>> {
    Ok(match (state, kubeconfig) {
        (Some(directory), _) => Some(Cluster { facts: Facts::from_state(directory, on_site), client: None }),
        (None, Some(kubeconfig)) => runtime.block_on(async {
            let client = watch::connect(Some(&kubeconfig)).await?;
            let facts = Facts::once(client.clone(), on_site, Instant::now() + READ_LIMIT).await;
            anyhow::Ok(Some(Cluster { facts, client: Some(client) }))
        })?,
        (None, None) => None,
    })
}

/// Where oc would look: the first file of $KUBECONFIG, else ~/.kube/config, that exists.
pub fn default_kubeconfig() -> Option<PathBuf> {
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
