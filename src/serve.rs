//! The one place that wires the process: configuration, facts, engine, ports, tasks.
//!
//! A task that ends takes the process with it: a guard that looks healthy but no longer follows the
//! cluster would be worse than one that restarts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answer::Response;
use crate::cluster::Snapshot;
use crate::config::ConfigFile;
use crate::engine::{self, Judged};
use crate::events::{Events, Recorder};
use crate::facts::Facts;
use crate::http::server::{Addresses, Bound, Parts, ServerSettings};
use crate::http::tasks::Tasks;
use crate::http::{Admit, Answer, StatusCode};
use crate::metrics::{Metrics, Outcome};
use crate::readiness::Readiness;
use crate::review::BadInput;
use crate::settings::Settings;
use crate::shutdown::Signal;
use crate::tls::{self, MinVersion, TlsSettings, self_signed};
use crate::verdict::{self, Verdict};
use crate::watch::{self, Timing};

/// How often the state and release directories are looked at.
const FILES_POLL: Duration = Duration::from_secs(1);

/// A server that has bound its ports and started to follow its facts, but does not answer yet.
#[expect(missing_debug_implementations, reason = "an engine and tasks have nothing to show")]
pub struct Server {
    bound: Bound,
    admit: Guard,
    readiness: Readiness,
    facts: Facts,
    tasks: Tasks,
}

impl Server {
    /// # Errors
    /// The configuration names no TLS or no cluster, a port is taken, a certificate cannot be used.
    pub async fn bind(config: &ConfigFile) -> Result<Self> {
        tls::install_provider();
        let metrics = Metrics::new();
        let readiness = Readiness::new();
        let mut tasks = Tasks::new();
        let bound = Bound::bind(server_settings(config)?, metrics.clone()).await?;
        let (facts, recorder) = facts(config, &readiness, &mut tasks).await?;
        // The first random bytes of a process cost tens of milliseconds: not in the first handshake.
        tls::warm_up();
        let events = Events::new(&metrics, recorder.as_ref());
        if let Some(recorder) = recorder {
            tasks.spawn("the Event recorder", recorder.run());
        }
        let admit =
            Guard { facts: facts.clone(), settings: config.settings(), metrics, events, live: LiveReads::default() };
        Ok(Self { bound, admit, readiness, facts, tasks })
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
        let Self { bound, admit, readiness, facts, tasks } = self;
        let addresses = bound.addresses();
        tracing::info!(webhook = %addresses.webhook, health = %addresses.health, admin = %addresses.admin, "listening");
        let settings = serde_json::to_value(&admit.settings)?;
        let statusz = Arc::new(move || {
            let mut status = facts.status(Timestamp::now());
            status["settings"] = settings.clone();
            status
        });
        crate::http::server::run(bound, Parts { admit, readiness, statusz, tasks, signals }).await?;
        Ok(())
    }
}

/// Facts from files or from the API server, with the tasks that keep them fresh.
async fn facts(config: &ConfigFile, readiness: &Readiness, tasks: &mut Tasks) -> Result<(Facts, Option<Recorder>)> {
    let (facts, recorder) = if let Some(state) = &config.state {
        (Facts::from_state(state.clone(), config.releases.clone()), None)
    } else {
        let client = watch::connect(config.kubeconfig.as_deref()).await?;
        let recorder = Recorder::new(client.clone());
        let (facts, mut watches) = Facts::live(client, config.releases.clone(), Timing::default());
        tasks.spawn("the watches", async move { watches.ended().await });
        (facts, Some(recorder))
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
    Ok((facts, recorder))
}

fn server_settings(config: &ConfigFile) -> Result<ServerSettings> {
    let dir: PathBuf = match (&config.tls_dir, &config.self_signed) {
        (None, None) => bail!(
            "no certificate: give --tls-dir DIR with tls.crt and tls.key, or --self-signed DIR to have them made; airgate never serves plain HTTP"
        ),
        (Some(dir), _) => dir.clone(),
        (None, Some(dir)) => {
            self_signed::ensure(dir, &[])?;
            dir.clone()
        }
    };
    let mut settings = ServerSettings::new(TlsSettings {
        dir,
        client_ca: config.client_ca.clone(),
        min_version: MinVersion::default(),
    });
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

/// The engine behind the edge.
struct Guard {
    facts: Facts,
    settings: Settings,
    metrics: Metrics,
    events: Events,
    live: LiveReads,
}

/// Live reads, one at a time: whoever waits for one shares the next with all who wait. However many reviews come,
/// the API server is asked no more often than it answers.
#[derive(Default)]
struct LiveReads(tokio::sync::Mutex<Option<(Instant, Arc<Snapshot>)>>);

impl LiveReads {
    /// Facts read after this was called.
    async fn read(&self, facts: &Facts, deadline: Instant) -> Arc<Snapshot> {
        let asked = Instant::now();
        let Ok(mut last) = tokio::time::timeout_at(deadline, self.0.lock()).await else {
            return Arc::new(Snapshot::nothing("the live read before this irreversible step was not done in time"));
        };
        match &*last {
            Some((started, snapshot)) if *started >= asked => Arc::clone(snapshot),
            _ => {
                let started = Instant::now();
                let snapshot = Arc::new(facts.refresh_for_irreversible(deadline).await);
                *last = Some((started, Arc::clone(&snapshot)));
                snapshot
            }
        }
    }
}

impl Admit for Guard {
    async fn admit(&self, body: Bytes, deadline: Instant) -> Answer {
        let started = std::time::Instant::now();
        let now = Timestamp::now();
        let result = match self.judge(&body, &self.facts.snapshot(), now) {
            // What cannot be undone is allowed on live facts only.
            Ok(judged) if judged.verdict.irreversible && judged.verdict.allowed() => {
                let live = self.live.read(&self.facts, deadline).await;
                self.judge(&body, &live, now)
            }
            Ok(judged) => match self.asked(&judged.verdict, deadline).await {
                Some(cluster) => self.judge(&body, &cluster, now),
                None => Ok(judged),
            },
            result => result,
        };
        match result {
            Ok(judged) => {
                self.metrics.review(judged.kind, outcome(judged.verdict.result), started.elapsed());
                self.record(&judged);
                answer(judged.response)
            }
            Err(bad) => {
                self.metrics.review("other", Outcome::BadInput, started.elapsed());
                tracing::warn!(reason = %bad.message, "a request that cannot be judged");
                bad_input(&bad)
            }
        }
    }
}

impl Guard {
    /// The facts with what the nodes' registries say, where a verdict hangs on it: not where another policy refuses anyway.
    async fn asked(&self, verdict: &Verdict, deadline: Instant) -> Option<Snapshot> {
        let (policy, question) = verdict.question.as_ref()?;
        if verdict.denials.iter().any(|denial| denial.policy != *policy) {
            return None;
        }
        let answers = self.facts.ask_node_registries(question, deadline).await?;
        Some(Snapshot { node_registries: Some(answers), ..Snapshot::clone(&self.facts.snapshot()) })
    }

    fn judge(&self, body: &[u8], cluster: &Snapshot, now: Timestamp) -> Result<Judged, BadInput> {
        let catalog = self.facts.catalog();
        engine::judge(body, engine::Facts { cluster, catalog: &catalog, settings: &self.settings, now })
    }

    /// After the answer is decided: one log line for what matters, one record of each override.
    fn record(&self, judged: &Judged) {
        if let Some(resource) = &judged.unguarded {
            tracing::debug!(resource, "allowed: no policy guards this resource");
            return;
        }
        for denial in &judged.verdict.denials {
            let what = &*denial.text.what;
            tracing::info!(policy = denial.policy, kind = judged.kind, dry_run = judged.dry_run, what, "denied");
        }
        // A dry run leaves no trace of an override: nothing was done.
        if !judged.dry_run {
            for used in &judged.verdict.overrides {
                self.events.override_used(judged, used);
            }
        }
    }
}

fn outcome(result: verdict::Result) -> Outcome {
    match result {
        verdict::Result::Allow => Outcome::Allow,
        verdict::Result::Warn => Outcome::Warn,
        verdict::Result::Deny => Outcome::Deny,
        verdict::Result::Unknown => Outcome::Unknown,
    }
}

fn answer(response: Response) -> Answer {
    match serde_json::to_vec(&response.into_review()) {
        Ok(body) => Answer { status: StatusCode::OK, body: body.into() },
        Err(error) => Answer { status: StatusCode::INTERNAL_SERVER_ERROR, body: error.to_string().into() },
    }
}

/// With a uid it is a review that refuses; without one there is nothing to answer but a transport status.
fn bad_input(bad: &BadInput) -> Answer {
    match &bad.uid {
        Some(uid) => answer(Response::to_bad_input(uid, bad)),
        None => {
            let body = serde_json::json!({"error": crate::text::shown(&bad.message)});
            Answer { status: StatusCode::BAD_REQUEST, body: body.to_string().into() }
        }
    }
}
