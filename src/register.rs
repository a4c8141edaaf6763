//! `airgate serve --register`: keeps the webhook configuration as `airgate manifests` prints it.
//!
//! Decisions are in [`plan`] and [`lease`], both pure; this file looks, asks them, and writes. It looks every two
//! seconds. Only the replica that holds the Lease writes; each shows what it sees. An orderly end gives up the
//! Lease and leaves the configuration: a rolling restart is no reason to open the cluster.

pub mod api;
pub mod lease;
pub mod plan;
pub mod status;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde_json::Value;

use crate::manifests::{Options, registered};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::tls::reload::LiveTls;
use crate::tls::vouch::vouches;
use api::{Failure, MANAGER, Site};
use lease::{Elector, Move};
use plan::{Home, Inputs, Plan, Step, plan};
use status::{Counts, State, Status};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// After a write: what it led to is looked at sooner.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How often a shutdown is looked for in between.
const TICK: Duration = Duration::from_millis(100);
/// More writes than these within a minute are a fight with somebody, and are left to wait.
const WRITES_A_MINUTE: usize = 20;

/// What it keeps registered, and for whom.
#[expect(missing_debug_implementations, reason = "a client has nothing to show")]
pub struct Registrar {
    site: Site,
    options: Options,
    /// What is to be stored. It brings a CA bundle only where the process made the CA at its start; else somebody
    /// injects one, and it is never touched.
    printed: Value,
    tls: LiveTls,
    readiness: Readiness,
    elector: Elector,
    shared: Arc<ArcSwap<Status>>,
    status: Status,
    counts: Counts,
    writes: VecDeque<Instant>,
}

impl Registrar {
    /// `options` as for `airgate manifests`.
    ///
    /// # Errors
    /// Where the configuration cannot be written as JSON.
    pub fn new(
        site: Site,
        options: Options,
        tls: LiveTls,
        readiness: Readiness,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let mut printed = registered(&options)?;
        // An object to apply names its kind.
        printed["apiVersion"] = "admissionregistration.k8s.io/v1".into();
        printed["kind"] = "ValidatingWebhookConfiguration".into();
        let elector = Elector::new(identity());
        let status = Status {
            namespace: options.namespace.clone(),
            identity: elector.me().to_owned(),
            waiting_for: vec![NOT_READY.into()],
            ..Status::default()
        };
        let shared = Arc::new(ArcSwap::from_pointee(status.clone()));
        let (counts, writes) = (Counts::new(metrics), VecDeque::new());
        Ok(Self { site, options, printed, tls, readiness, elector, shared, status, counts, writes })
    }

    /// For `/statusz`, at any time.
    pub fn status(&self) -> Arc<ArcSwap<Status>> {
        self.shared.clone()
    }

    /// Looks and mends for ever.
    pub async fn run(mut self) -> Infallible {
        loop {
            let pause = if self.readiness.is_ready() {
                match self.round().await {
                    Ok(true) => LOOK_AGAIN,
                    Ok(false) => LOOK,
                    Err(trouble) => {
                        self.failed(trouble);
                        LOOK
                    }
                }
            } else {
                self.step_back().await;
                if self.readiness.is_draining() {
                    // Nothing is left to do, and the process ends when it is ready to.
                    return std::future::pending().await;
                }
                TICK
            };
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.readiness.is_draining() {
                tokio::time::sleep(TICK).await;
            }
        }
    }

    /// Not ready, or on the way out: another replica need not wait.
    async fn step_back(&mut self) {
        let namespace = &self.options.namespace;
        if let Some(record) = self.elector.release(Timestamp::now()) {
            // Where this does not get through, the Lease runs out.
            if let Ok(Some((stored, version))) = self.site.lease(namespace).await
                && stored.holder == self.elector.me()
                && self.site.replace_lease(namespace, &record, version).await.is_ok()
            {
                tracing::info!(%namespace, "gave up the Lease; the webhook configuration stays");
            }
        }
        let waiting_for = vec![NOT_READY.to_owned()];
        self.show(Status { state: State::Waiting, leader: false, waiting_for, ..self.status.clone() });
    }

    /// One look; whether something was written.
    async fn round(&mut self) -> Result<bool, String> {
        let namespace = self.options.namespace.clone();
        let stored = self.site.namespace(&namespace).await;
        let home = api::home(stored.map_err(|why| trouble(&format!("namespace {namespace}"), &why))?.as_ref());
        // A namespace that is on its way out takes no new Lease, and has nobody else to agree with.
        let leader = home == Home::Leaving || self.lead(&home).await.map_err(|why| trouble("Lease airgate", &why))?;
        let current = self.site.configuration().await.map_err(|why| trouble(CONFIGURATION, &why))?;
        let plan = self.plan(&home, current.as_ref());
        let step = plan.step.clone();
        let wrote = leader && step != Step::Nothing && self.carry_out(&step, current.as_ref()).await?;
        let state = state(&home, &plan, current.is_some());
        let Plan { waiting: mut waiting_for, soft, .. } = plan;
        if !leader && step != Step::Nothing {
            let holder = self.elector.holder().unwrap_or("nobody");
            waiting_for.push(format!("{}, which holds the Lease airgate, to write it", crate::text::shown(holder)));
        }
        self.show(Status { state, leader, waiting_for, soft, trouble: None, ..self.status.clone() });
        Ok(wrote)
    }

    /// Takes, renews or waits for the Lease; whether this replica may write now.
    async fn lead(&mut self, home: &Home) -> Result<bool, Failure> {
        if *home == Home::Absent {
            return Ok(false);
        }
        let namespace = &self.options.namespace;
        let (stored, version) = self.site.lease(namespace).await?.unzip();
        let now = Instant::now();
        let (record, outcome) = match self.elector.look(stored.as_ref(), now, Timestamp::now()) {
            Move::Nothing => return Ok(self.elector.holds(now)),
            Move::Create(record) => {
                let outcome = self.site.create_lease(namespace, &record).await;
                (record, outcome)
            }
            Move::Replace(record) => {
                let outcome = self.site.replace_lease(namespace, &record, version.flatten()).await;
                (record, outcome)
            }
        };
        match outcome {
            Ok(()) => self.elector.moved(record, now),
            // Another replica was quicker: the next look says who.
            Err(Failure::Conflict | Failure::Absent) => {}
            Err(failure) => return Err(failure),
        }
        Ok(self.elector.holds(Instant::now()))
    }

    fn plan(&self, home: &Home, current: Option<&Value>) -> Plan {
        let namespace = &self.options.namespace;
        let (tls, host) = (self.tls.config(), self.options.endpoint.host(namespace));
        let vouches = |ca: &[u8]| vouches(&tls, ca, &host);
        plan(&Inputs { home, namespace, current, printed: &self.printed, vouches: &vouches })
    }

    async fn carry_out(&mut self, step: &Step, current: Option<&Value>) -> Result<bool, String> {
        let now = Instant::now();
        while self.writes.front().is_some_and(|first| now.duration_since(*first) > Duration::from_mins(1)) {
            self.writes.pop_front();
        }
        let others = current.map(|current| plan::others(current, MANAGER).join(", ")).unwrap_or_default();
        if self.writes.len() >= WRITES_A_MINUTE {
            return Err(format!(
                "{CONFIGURATION} was changed back {WRITES_A_MINUTE} times within a minute: who else writes it ({others}) must stop, or airgate serve must run without --register"
            ));
        }
        self.writes.push_back(now);
        let (what, why, outcome) = match step {
            Step::Nothing => return Ok(false),
            Step::Apply { object, why } => ("apply", why.join("; "), self.site.apply(object).await.map(drop)),
            Step::Replace { webhooks, version, why } => {
                ("replace", why.join("; "), self.site.replace_webhooks(webhooks, version).await.map(drop))
            }
            Step::Delete { uid, why } => ("delete", why.clone(), self.site.delete_configuration(uid).await),
        };
        match outcome {
            Ok(()) => {
                self.counts.wrote(what);
                tracing::info!(what, %why, also_written_by = %others, "{CONFIGURATION} written");
                self.status.last_write = Some(Timestamp::now());
                self.status.last_reason = Some(format!("{what}: {why}"));
                Ok(true)
            }
            // It is not what it was when it was read: look again.
            Err(Failure::Conflict | Failure::Absent) => Ok(true),
            Err(failure) => Err(trouble(&format!("{what} {CONFIGURATION}"), &failure)),
        }
    }

    fn failed(&mut self, trouble: String) {
        let leader = self.elector.holds(Instant::now());
        let (trouble, waiting_for) = (Some(trouble), vec![]);
        self.show(Status { state: State::Failing, leader, trouble, waiting_for, ..self.status.clone() });
    }

    /// Publishes what it knows, and logs what is news.
    fn show(&mut self, status: Status) {
        let status = Status { holder: self.elector.holder().map(ToOwned::to_owned), ..status };
        if status != self.status {
            if let Some(trouble) = status.trouble.as_ref().filter(|_| status.trouble != self.status.trouble) {
                tracing::warn!(%trouble, "the webhook configuration cannot be kept");
            }
            if status.waiting_for != self.status.waiting_for || status.state != self.status.state {
                let (state, waiting_for) = (status.state.as_str(), status.waiting_for.join("; "));
                tracing::info!(state, %waiting_for, leader = status.leader, "registration");
            }
            self.counts.show(&status);
            self.shared.store(Arc::new(status.clone()));
            self.status = status;
        }
    }
}

const NOT_READY: &str = "this replica to be ready";
const CONFIGURATION: &str = "validatingwebhookconfiguration airgate";

fn trouble(what: &str, failure: &Failure) -> String {
    match failure {
        Failure::Denied(_) => {
            format!("{what}: {failure}; the rights that it needs: airgate manifests --register --only rights")
        }
        _ => format!("{what}: {failure}"),
    }
}

fn state(home: &Home, plan: &Plan, stored: bool) -> State {
    match home {
        Home::Absent => State::Waiting,
        // It is there still, and to go.
        Home::Leaving | Home::Unregistered(_) if stored => State::Drifted,
        Home::Leaving | Home::Unregistered(_) => State::Unregistered,
        Home::There { .. } if !stored => State::Waiting,
        Home::There { .. } if plan.step != Step::Nothing => State::Drifted,
        Home::There { .. } if !plan.soft.is_empty() => State::Soft,
        Home::There { .. } if !plan.waiting.is_empty() => State::Untrusted,
        Home::There { .. } => State::Registered,
    }
}

/// One process, never two: the pod's name and something of its own.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("airgate");
    let mut random = [0_u8; 4];
    // Without it the process number is left, which is what tells two on one machine apart.
    let _unspecified = aws_lc_rs::rand::fill(&mut random);
    format!("{host}_{:08x}_{}", u32::from_be_bytes(random), std::process::id())
}
