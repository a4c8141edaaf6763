//! The one place that wires the process: configuration, facts, engine, ports, tasks.
//!
//! A task that ends takes the process with it: a guard that looks healthy but no longer follows the
//! cluster would be worse than one that restarts.

mod guard;
mod registration;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;

use crate::certificates::Kept;
use crate::config::ConfigFile;
use crate::events::{Events, Recorder};
use crate::facts::Facts;
use crate::fetch::status::Counts;
use crate::fetch::{self, Lookups};
use crate::http::server::{Addresses, Bound, Parts, ServerSettings};
use crate::http::tasks::Tasks;
use crate::inputs;
use crate::metrics::Metrics;
use crate::patrol::Patrol;
use crate::readiness::Readiness;
use crate::settings::ServerMode;
use crate::shutdown::Signal;
use crate::tls::{LiveProfile, Source, TlsSettings};
use crate::watch::{self, Timing};
use guard::{Guard, LiveReads};

/// How often the state and release directories are looked at.
const FILES_POLL: Duration = Duration::from_secs(1);

/// A server that has bound its ports and started to follow its facts, but does not answer yet.
#[expect(missing_debug_implementations, reason = "an engine and tasks have nothing to show")]
pub struct Server {
    bound: Bound,
    admit: Guard,
    readiness: Readiness,
    facts: Facts,
    patrol: Patrol,
    kept: Option<Kept>,
    /// What keeps the webhook configuration shows; `None` where nobody does.
    registration: Option<registration::Shown>,
    tasks: Tasks,
}

impl Server {
    /// # Errors
    /// The configuration names no TLS or no cluster, a port is taken, a certificate cannot be used.
    pub async fn bind(config: &ConfigFile) -> Result<Self> {
        crate::tls::install_provider();
        let metrics = Metrics::new();
        let readiness = Readiness::new();
        let mut tasks = Tasks::new();
        let (source, kept) = tls::source(config, &metrics, &mut tasks).await?;
        let settings = server_settings(config, source)?;
        let profile = settings.tls.profile.clone();
        let bound = Bound::bind(settings, metrics.clone()).await?;
        let (facts, recorder, lookups) = facts(config, &readiness, &metrics, &mut tasks).await?;
        observe(config.settings().mode, &readiness, &facts, &metrics);
        // The first random bytes of a process cost tens of milliseconds: not in the first handshake.
        crate::tls::warm_up();
        follow_profile(&facts, profile, &mut tasks);
        let events = Events::new(&metrics, recorder.as_ref());
        if let Some(recorder) = recorder {
            tasks.spawn("the Event recorder", recorder.run());
        }
        let patrol = Patrol::new(facts.clone(), config.settings(), &metrics, events.clone(), lookups.clone());
        tasks.spawn("the audit", patrol.clone().run());
        let admit = Guard {
            facts: facts.clone(),
            settings: config.settings(),
            metrics,
            events,
            live: LiveReads::default(),
            lookups: lookups.clone(),
            inputs: inputs::Cache::default(),
        };
        let registration = registration::start(config, bound.tls(), &readiness, &admit.metrics, &mut tasks).await?;
        Ok(Self { bound, admit, readiness, facts, patrol, kept, registration, tasks })
    }

    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.bound.addresses()
    }

    /// Answers until a signal has led to an orderly end.
    ///
    /// # Errors
    /// A task ended without which nothing works, or a second signal came.
    pub async fn run(self, signals: mpsc::Receiver<Signal>) -> Result<()> {
        let Self { bound, admit, readiness, facts, patrol, kept, registration, tasks } = self;
        let addresses = bound.addresses();
        tracing::info!(webhook = %addresses.webhook, health = %addresses.health, admin = %addresses.admin, "listening");
        let settings = serde_json::to_value(&admit.settings)?;
        let lookups = admit.lookups.clone();
        let statusz = Arc::new(move || {
            let mut status = facts.status(Timestamp::now());
            status["settings"] = settings.clone();
            status["audit"] = patrol.status();
            status["certificateKeeper"] = json!(kept.as_ref().map(|kept| (*kept.status()).clone()));
            status["registration"] = json!(registration.as_ref().map(registration::json));
            status["lookups"] = lookups.as_ref().map(|lookups| lookups.status()).into();
            status
        });
        crate::http::server::run(bound, Parts { admit, readiness, statusz, tasks, signals }).await?;
        Ok(())
    }
}

/// Facts from files or from the API server, with the tasks that keep them fresh.
async fn facts(
    config: &ConfigFile,
    readiness: &Readiness,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> Result<(Facts, Option<Recorder>, Option<Lookups>)> {
    let (facts, recorder, lookups) = if let Some(state) = &config.state {
        // Nothing is looked up without a cluster; the metrics are the same ones.
        metrics.register(|registry| Counts::default().register(registry));
        (Facts::from_state(state.clone(), config.on_site()), None, None)
    } else {
        let client = watch::connect(config.kubeconfig.as_deref()).await?;
        let recorder = Recorder::new(client.clone());
        let (facts, mut watches) = Facts::live(client.clone(), config.on_site(), Timing::default());
        tasks.spawn("the watches", async move { watches.ended().await });
        let lookups = fetch::lookups(client, facts.clone(), config.cache_dir.as_deref()).map_err(|why| anyhow!(why))?;
        metrics.register(|registry| lookups.counts.register(registry));
        let (loading, ahead) = (lookups.clone(), fetch::ahead::run(facts.clone(), lookups.clone()));
        let looking = lookups.clone();
        tasks.spawn("the search for components", async move { looking.source.components.run(&looking.source).await });
        tasks.spawn("the reader of releases ahead", async move {
            loading.source.load_cache().await;
            ahead.await
        });
        (facts, Some(recorder), Some(lookups))
    };
    let condition = readiness.condition("facts", "the first list of every watched resource");
    let (polled, waiting) = (facts.clone(), facts.clone());
    tasks.spawn("the file poller", async move { polled.poll_files(FILES_POLL).await });
    tokio::spawn(async move {
        loop {
            let ready = waiting.ready();
            if ready.ready {
                return condition.fulfil();
            }
            condition.wait_for(format!("the first list of {}", ready.waiting_for.join(", ")));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    Ok((facts, recorder, lookups))
}

/// What of the whole process an alert can rest on.
fn observe(mode: ServerMode, readiness: &Readiness, facts: &Facts, metrics: &Metrics) {
    let readiness = readiness.clone();
    let help = "1 while reviews may be sent here, 0 while /readyz says what is missing";
    metrics.observe("ready", help, move || readiness.is_ready().into());
    let modes = [("enforce", ServerMode::Enforce), ("audit", ServerMode::Audit)];
    let help = "1 for the mode that the server is in, 0 for the other";
    let of_mode = move || modes.map(|(name, other)| (name, (other == mode).into())).to_vec();
    metrics.observe_each("mode", help, "mode", of_mode);
    facts.observe(metrics);
}

/// What files say of TLS is not followed live: there is nobody to watch.
fn follow_profile(facts: &Facts, profile: LiveProfile, tasks: &mut Tasks) {
    if facts.watches().is_some() {
        let facts = facts.clone();
        tasks.spawn("the TLS profile", async move { match tls::follow(facts, profile).await {} });
    }
}

fn server_settings(config: &ConfigFile, source: Source) -> Result<ServerSettings> {
    let mut settings = ServerSettings::new(TlsSettings::new(source, config.client_ca.clone()));
    let ports = [
        ("listen", &config.listen, &mut settings.listen),
        ("health-listen", &config.health_listen, &mut settings.health_listen),
        ("admin-listen", &config.admin_listen, &mut settings.admin_listen),
    ];
    for (name, wanted, address) in ports {
        if let Some(text) = wanted {
            *address = text.parse::<SocketAddr>().with_context(|| {
                format!("--{name} {text} is no address with a port, such as [::]:8443 or 127.0.0.1:8443")
            })?;
        }
    }
    Ok(settings)
}
