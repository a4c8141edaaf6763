//! The keeper's loop: read, publish, decide, write, and again.

use std::convert::Infallible;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use super::material::{Change, Material};
use super::rotation::{self, Action, Own, State, Trust};
use super::store::{Configuration, OtherKeeper, Secret, Store, StoreError};
use super::{CONFIGURATION, KeeperStatus, Kept, SECRET, Timing};
use crate::metrics::Metrics;
use crate::tls::keypair::Raw;

/// Of one look: each step is seen by the next reading. A start over and all that follows it are four.
const STEPS: usize = 8;

/// Keeps the Secret and the bundles; see the invariants of the module.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct CertificateKeeper {
    store: Store,
    names: Vec<String>,
    timing: Timing,
    pair: watch::Sender<Option<Arc<Raw>>>,
    shared: Arc<ArcSwap<KeeperStatus>>,
    status: KeeperStatus,
    /// The good content that the Secret had last.
    remembered: Option<(State, Change)>,
    useless_since: Option<Timestamp>,
    ca_not_after: Gauge,
    blocked: Gauge,
}

/// What came of one step.
enum Step {
    /// Nothing to do, or nothing that could be done now.
    Done,
    /// Something was written, by us or by another replica: look again.
    Again,
}

impl CertificateKeeper {
    #[must_use]
    pub fn new(client: Client, namespace: &str, timing: Timing, metrics: &Metrics) -> (Self, Kept) {
        let (pair, pair_seen) = watch::channel(None);
        let secret = format!("{namespace}/{SECRET}");
        let ca_bundle = "not read yet".to_owned();
        let status = KeeperStatus { secret: secret.clone(), ca_bundle, ..KeeperStatus::default() };
        let shared = Arc::new(ArcSwap::from_pointee(status.clone()));
        let name = format!("Secret {secret}");
        let kept = Kept { name, pair: pair_seen, status: shared.clone() };
        let keeper = Self {
            store: Store::new(client, namespace.to_owned()),
            names: super::names(namespace),
            timing,
            pair,
            shared,
            status,
            remembered: None,
            useless_since: None,
            ca_not_after: metrics.ca_not_after.clone(),
            blocked: metrics.certificate_keeper_blocked.clone(),
        };
        (keeper, kept)
    }

    /// Looks for ever.
    pub async fn run(mut self) -> Infallible {
        loop {
            self.look().await;
            tokio::time::sleep(self.timing.poll).await;
        }
    }

    async fn look(&mut self) {
        let mut unwritable = false;
        for _ in 0..STEPS {
            match self.step(&mut unwritable).await {
                Ok(Step::Again) => {}
                Ok(Step::Done) => return,
                Err(why) => return self.failed(why),
            }
        }
    }

    /// One reading and one write at most. `unwritable` is whether a bundle could not be written during this look.
    async fn step(&mut self, unwritable: &mut bool) -> Result<Step, String> {
        // The configuration first: if another replica changes it after that, our bundle, which may be older than
        // its, meets a conflict.
        let read = self.store.configuration().await;
        let secret = self.store.secret().await.map_err(|error| self.unreadable(&error))?;
        let now = secret.now;
        let material = Material::parse(secret.data.clone(), secret.annotation.as_deref(), &self.names);
        let trust = match &read {
            Ok(configuration) => configuration.trust(material.bundle.as_deref()),
            Err(StoreError::NotFound) => Trust::Absent,
            Err(_) => Trust::OutOfReach,
        };
        let bundles_error = match &read {
            Ok(_) | Err(StoreError::NotFound) => None,
            Err(error) => Some(bundles_failed(error)),
        };
        let trust = if *unwritable && trust != Trust::Holds { Trust::OutOfReach } else { trust };
        self.publish(&material, trust, now);
        if let Some(later) = &material.later {
            return Err(format!("the Secret {}: {later}", self.status.secret));
        }
        if let Some(other) = secret.other_keeper {
            return Err(self.kept_by(other));
        }
        let state = material.state();
        let remembers = self.remembered.as_ref().is_some_and(|(before, _)| before.helps(&self.timing, now));
        let own = Own { remembers, useless_since: self.useless_since };
        let action = rotation::next(&state, trust, own, &self.timing, now);
        let (names, timing) = (&self.names, &self.timing);
        let change = match action {
            Action::Wait => None,
            Action::WriteBundle => {
                let (Ok(configuration), Some(bundle)) = (&read, &material.bundle) else { return Ok(Step::Done) };
                return Ok(self.write_bundle(configuration, bundle, unwritable).await);
            }
            Action::Restore => self.remembered.clone().map(|(_, change)| Ok(change)),
            Action::StartOver => Some(Material::start_over(names, timing, now)),
            Action::AddNext if material.is_full() => {
                return Err(format!(
                    "the Secret {} holds so many CAs that the next one has no place in it: leave those that are in use in its ca.crt",
                    self.status.secret
                ));
            }
            Action::AddNext => Some(material.add_next(timing, now)),
            Action::NoteTrusted => Some(Ok(material.note_trusted(Some(now)))),
            Action::NoteUntrusted => Some(Ok(material.note_trusted(None))),
            Action::Promote => Some(material.issue(true, names, timing, now)),
            Action::IssueLeaf => Some(material.issue(false, names, timing, now)),
            Action::DropRetired => {
                let settle = SignedDuration::try_from(timing.settle).unwrap_or(SignedDuration::ZERO);
                Some(Ok(material.drop_retired(now.checked_sub(settle).unwrap_or(now))))
            }
        };
        let Some(change) = change else {
            // Keeps what a look could not do, and forgets it once there is nothing.
            if !*unwritable {
                let immutable = secret.immutable.then(|| self.immutable());
                self.settled(bundles_error.or(immutable), &material);
            }
            return Ok(Step::Done);
        };
        let change = change.map_err(|error| format!("no certificate could be made: {error}"))?;
        if secret.immutable {
            return Err(self.immutable());
        }
        self.write(&secret, change, action).await
    }

    async fn write(&mut self, secret: &Secret, change: Change, action: Action) -> Result<Step, String> {
        match self.store.change(secret, change).await {
            Ok(()) => {
                let step = described(action);
                tracing::info!(secret = self.status.secret, "{step}");
                self.status.last_step = Some(step.to_owned());
                self.status.last_step_at = Some(secret.now);
                Ok(Step::Again)
            }
            // Another replica was first: what it wrote is read next.
            Err(StoreError::Conflict) => Ok(Step::Again),
            Err(error) => {
                Err(format!("the Secret {} could not be written ({error}){}", self.status.secret, self.rights(&error)))
            }
        }
    }

    async fn write_bundle(&mut self, read: &Configuration, bundle: &[u8], unwritable: &mut bool) -> Step {
        match self.store.write_bundle(read, bundle).await {
            Ok(()) => {
                tracing::info!("the CA bundle was written into every webhook of the configuration {CONFIGURATION}");
            }
            Err(StoreError::Conflict | StoreError::NotFound) => {}
            Err(error) => {
                *unwritable = true;
                self.failed(bundles_failed(&error));
            }
        }
        Step::Again
    }

    /// Hands on what is stored, and remembers it while it is good.
    fn publish(&mut self, material: &Material, trust: Trust, now: Timestamp) {
        let shown = material.shown();
        self.status.ca = shown.signer;
        self.status.next = shown.next;
        self.status.retiring = shown.retiring;
        self.status.next_trusted_since = shown.trusted_since;
        self.status.checked_at = Some(now);
        self.status.ca_bundle = match trust {
            Trust::Absent => {
                format!("there is no webhook configuration {CONFIGURATION}, or no webhook in it: waiting for it")
            }
            Trust::OutOfReach => "not known".to_owned(),
            Trust::Empty => "in no webhook yet".to_owned(),
            Trust::Differs => "not in every webhook yet".to_owned(),
            Trust::Holds => "in every webhook".to_owned(),
        };
        self.ca_not_after.set(self.status.ca.as_ref().map_or(0, |ca| ca.not_after.as_second()));
        if let Some(raw) = &material.raw {
            self.pair.send_if_modified(|pair| pair.replace(Arc::clone(raw)).as_ref() != Some(raw));
        }
        let state = material.state();
        let helps = state.helps(&self.timing, now);
        if helps && state.leaf.is_some() && (state.signer.is_some() || state.next.is_some()) {
            self.remembered = Some((state, material.restore()));
        }
        self.useless_since = (!helps).then(|| self.useless_since.unwrap_or(now));
        self.shared.store(Arc::new(self.status.clone()));
    }

    /// Nothing is to be done: what is left to complain about.
    fn settled(&mut self, trouble: Option<String>, material: &Material) {
        let faults = (!material.faults.is_empty() && !material.is_empty())
            .then(|| format!("the Secret {}: {}", self.status.secret, material.faults.join("; ")));
        match trouble.or(faults) {
            Some(why) => self.failed(why),
            None => {
                if self.status.error.take().is_some() {
                    tracing::info!("the certificate keeper can do its work again");
                }
                self.status.error_since = None;
                self.blocked.set(0);
                self.shared.store(Arc::new(self.status.clone()));
            }
        }
    }

    fn failed(&mut self, why: String) {
        if self.status.error.as_ref() != Some(&why) {
            tracing::error!("{why}");
        }
        self.status.error = Some(why);
        self.blocked.set(1);
        self.status.error_since = self.status.error_since.or_else(|| Some(Timestamp::now()));
        self.shared.store(Arc::new(self.status.clone()));
    }

    fn unreadable(&self, error: &StoreError) -> String {
        let (secret, namespace) = (&self.status.secret, &self.store.namespace);
        match error {
            StoreError::NotFound => format!(
                "there is no Secret {secret}; what was read before stays in use; make it: oc create secret generic {SECRET} -n {namespace}"
            ),
            error => format!("the Secret {secret} could not be read ({error}){}", self.rights(error)),
        }
    }

    fn immutable(&self) -> String {
        let (secret, namespace) = (&self.status.secret, &self.store.namespace);
        format!(
            "the Secret {secret} is immutable: nothing in it can be renewed; what it holds stays in use; make it anew, and airgate fills it as it was: oc delete secret {SECRET} -n {namespace} && oc create secret generic {SECRET} -n {namespace}"
        )
    }

    fn kept_by(&self, other: OtherKeeper) -> String {
        let (secret, namespace, name) = (&self.status.secret, &self.store.namespace, other.name());
        let dismissal = other.dismissal(namespace);
        format!(
            "{name} keeps the Secret {secret}: airgate serves what it holds, and writes neither it nor the CA bundles; apply the manifests with --certificates {name}, as before; or, for airgate to keep it: {dismissal} && oc delete secret {SECRET} -n {namespace} && oc create secret generic {SECRET} -n {namespace}"
        )
    }

    fn rights(&self, error: &StoreError) -> String {
        let namespace = &self.store.namespace;
        missing(error, &format!("secrets/{SECRET} in {namespace}"))
    }
}

fn bundles_failed(error: &StoreError) -> String {
    let of = format!("validatingwebhookconfigurations.admissionregistration.k8s.io/{CONFIGURATION}");
    let rights = missing(error, &of);
    format!("the CA bundles of the webhook configuration {CONFIGURATION} could not be kept ({error}){rights}")
}

/// What to grant, where a right is what was missing.
fn missing(error: &StoreError, of: &str) -> String {
    match error {
        StoreError::Denied(_) => format!("; airgate's service account needs get, patch on {of}"),
        _ => String::new(),
    }
}

fn described(action: Action) -> &'static str {
    match action {
        Action::Wait | Action::WriteBundle => "nothing",
        Action::StartOver => "made a new CA and a serving certificate of it",
        Action::Restore => "put back the CA and the certificate that the Secret had before",
        Action::AddNext => "added the next CA to the bundle",
        Action::NoteTrusted => "noted that every webhook trusts the next CA",
        Action::NoteUntrusted => "noted that some webhook does not trust the next CA",
        Action::Promote => "issued a serving certificate of the next CA, which signs from now on",
        Action::IssueLeaf => "issued a serving certificate",
        Action::DropRetired => "took CAs out of the bundle whose certificates have all expired",
    }
}

#[cfg(test)]
mod tests;
