//! Takes a changed certificate, client CA or TLS profile into use without a restart.
//!
//! The files (or what the certificate keeper published) are read once a second and compared by content: a kubelet that moves a symlink, a `cp` over the
//! file and a file system whose time stamps are coarse all look the same, and no event can be missed. A new
//! generation is checked as a whole (pair, client CA, configuration) before it is swapped in for new
//! connections; one that is not in order changes nothing but the [`TlsStatus`]. Nothing here ever ends the
//! process once it has started.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::ServerConfig;

use super::keypair::{self, KeyPair, KeyPairError, Leaf, Raw};
use super::profile::Followed;
use super::{Source, TlsError, TlsSettings, probe, server_config, without_certificate};
use crate::metrics::Metrics;
use crate::readiness::Condition;

/// How often the files are looked at, unless a test is in a hurry.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why the files in place cannot be served with.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Pair(#[from] KeyPairError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0} holds no certificate yet; what keeps one from it is certificateKeeper.error on /statusz")]
    NotYet(String),
    #[error("the task that reads the certificate files was cancelled")]
    Cancelled,
}

/// What is served with now, and what is wrong with the files, if anything. Shown by `/statusz`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsStatus {
    /// The directory, or the Secret that airgate keeps.
    pub from: String,
    /// `None` before there is a first one.
    #[serde(flatten)]
    pub leaf: Option<Leaf>,
    pub loaded_at: Timestamp,
    /// 1 for the first pair, one more for each change, of the client CA and the TLS profile too.
    pub generation: u64,
    /// What is negotiated.
    pub tls: Followed,
    /// Why the files that are in place now are not in use.
    pub error: Option<String>,
    pub error_since: Option<Timestamp>,
}

/// What new connections are accepted with; clones share it.
#[derive(Debug, Clone)]
pub struct LiveTls {
    config: Arc<ArcSwap<ServerConfig>>,
    status: Arc<ArcSwap<TlsStatus>>,
}

/// Keeps a [`LiveTls`] up to date with the files.
#[derive(Debug)]
pub struct Reloader {
    settings: Arc<TlsSettings>,
    live: LiveTls,
    metrics: Metrics,
    in_use: Content,
    /// The content looked at last, whether it was any good or not: judged and reported once.
    seen: Content,
    /// Of readiness: what is served is what is stored.
    condition: Option<Condition>,
}

/// Identifies the content of all the files together.
type Content = [u8; 32];

struct Generation {
    content: Content,
    config: ServerConfig,
    leaf: Leaf,
    followed: Followed,
}

impl TlsStatus {
    fn new(settings: &TlsSettings, leaf: Option<Leaf>, generation: u64, tls: Followed) -> Self {
        let from = settings.source.name().display().to_string();
        Self { from, leaf, loaded_at: Timestamp::now(), generation, tls, error: None, error_since: None }
    }
}

impl LiveTls {
    fn new(config: ServerConfig, status: TlsStatus) -> Self {
        Self { config: Arc::new(ArcSwap::from_pointee(config)), status: Arc::new(ArcSwap::from_pointee(status)) }
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    pub fn status(&self) -> Arc<TlsStatus> {
        self.status.load_full()
    }
}

impl Reloader {
    /// Loads the files for the first time; here they must be in order.
    ///
    /// # Errors
    /// When they are not.
    pub async fn start(settings: TlsSettings, metrics: Metrics) -> Result<Self, LoadError> {
        let settings = Arc::new(settings);
        if let Source::Kept { name, pair } = &settings.source
            && pair.borrow().is_none()
        {
            let not_yet = LoadError::NotYet(name.clone()).to_string();
            let nothing = TlsStatus::new(&settings, None, 0, Followed::clone(&settings.profile.get()));
            let status = TlsStatus { error: Some(not_yet), error_since: Some(nothing.loaded_at), ..nothing };
            let live = LiveTls::new(without_certificate()?, status);
            return Ok(Self { settings, live, metrics, in_use: [0; 32], seen: [0; 32], condition: None });
        }
        let of_task = settings.clone();
        let first = tokio::task::spawn_blocking(move || {
            super::warm_up();
            if let Source::Directory(dir) = &of_task.source {
                // `load` waits a moment for a pair that is just being written; from here on the next poll does.
                KeyPair::load(dir)?;
            }
            Files::read(&of_task)?.check(&of_task)
        })
        .await
        .map_err(|_| LoadError::Cancelled)??;
        let status = TlsStatus::new(&settings, Some(first.leaf), 1, first.followed);
        report(&metrics, &status);
        let live = LiveTls::new(first.config, status);
        Ok(Self { settings, live, metrics, in_use: first.content, seen: first.content, condition: None })
    }

    /// Readiness waits on this from now on: not ready until what is served is what is stored.
    pub fn guard(&mut self, condition: Condition) {
        let served = self.served();
        match (&self.live.status().leaf, &served) {
            (Some(stored), Some(served)) if stored.fingerprint == *served => condition.fulfil(),
            (None, _) => {
                condition.wait_for(LoadError::NotYet(self.settings.source.name().display().to_string()).to_string());
            }
            (Some(stored), served) => condition.wait_for(differ(&stored.fingerprint, served.as_deref())),
        }
        self.condition = Some(condition);
    }

    /// The fingerprint of what a client is shown, by a handshake.
    fn served(&self) -> Option<String> {
        probe::shown(&self.live.config())
    }

    pub fn live(&self) -> LiveTls {
        self.live.clone()
    }

    /// Looks at the files for ever.
    pub async fn run(mut self, interval: Duration) -> Infallible {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.poll().await;
        }
    }

    async fn poll(&mut self) {
        let settings = self.settings.clone();
        let (in_use, seen) = (self.in_use, self.seen);
        let looked = tokio::task::spawn_blocking(move || {
            let files = Files::read(&settings)?;
            let content = files.content();
            let changed = content != in_use && content != seen;
            Ok((content, changed.then(|| files.check(&settings))))
        })
        .await
        .unwrap_or(Err(LoadError::Cancelled));
        match looked {
            Ok((content, None)) if content == self.in_use => {
                self.seen = content;
                self.clear_error();
                self.name_profile();
            }
            // The bad files of the last time, still there and already reported.
            Ok((_, None)) => {}
            Ok((content, Some(Ok(generation)))) => {
                self.seen = content;
                self.take(generation);
            }
            Ok((content, Some(Err(error)))) => {
                self.seen = content;
                self.refuse(&error);
            }
            Err(error) => {
                // Whatever comes back after this is judged again, the bad files of before included.
                self.seen = self.in_use;
                self.refuse(&error);
            }
        }
    }

    fn take(&mut self, new: Generation) {
        let before = self.live.status();
        let stored = new.leaf.fingerprint.clone();
        let status = TlsStatus::new(&self.settings, Some(new.leaf), before.generation + 1, new.followed);
        if let Some(condition) = &self.condition {
            condition.wait_for(differ(&stored, before.leaf.as_ref().map(|leaf| &*leaf.fingerprint)));
        }
        // A whole new configuration also forgets the sessions of the old one: nobody resumes past a client
        // CA that was taken away.
        self.live.config.store(Arc::new(new.config));
        self.in_use = new.content;
        if before.leaf.is_some() {
            self.metrics.tls_reloads.inc();
        }
        report(&self.metrics, &status);
        self.live.status.store(Arc::new(status));
        if let Some(condition) = &self.condition {
            match self.served() {
                Some(served) if served == stored => condition.fulfil(),
                served => condition.wait_for(differ(&stored, served.as_deref())),
            }
        }
    }

    /// What is in use stays in use, and keeps the server ready: a bad Secret reaches every replica at once.
    fn refuse(&self, error: &LoadError) {
        let before = self.live.status();
        let text = error.to_string();
        if before.error.as_ref() == Some(&text) {
            return;
        }
        let now = Timestamp::now();
        let error_since = before.error_since.or(Some(now));
        match &before.leaf {
            // Still nothing there is no refusal.
            None if matches!(error, LoadError::NotYet(_)) => {}
            None => {
                self.metrics.tls_reload_failures.inc();
                self.metrics.certificate_refused.set(1);
                tracing::error!(error = text, "the certificate that is stored cannot be served with");
            }
            Some(leaf) => {
                self.metrics.tls_reload_failures.inc();
                self.metrics.certificate_refused.set(1);
                tracing::error!(
                    error = text,
                    in_use = leaf.fingerprint,
                    "changed certificate files refused, the certificate before stays in use"
                );
            }
        }
        if let (None, Some(condition)) = (&before.leaf, &self.condition) {
            condition.wait_for(&*text);
        }
        self.live.status.store(Arc::new(TlsStatus { error: Some(text), error_since, ..(*before).clone() }));
    }

    /// Another reason for the same parameters is no other configuration.
    fn name_profile(&self) {
        let (before, tls) = (self.live.status(), self.settings.profile.get());
        if before.tls != *tls {
            self.live.status.store(Arc::new(TlsStatus { tls: Followed::clone(&tls), ..(*before).clone() }));
        }
    }

    fn clear_error(&self) {
        let before = self.live.status();
        if before.error.is_some() && before.leaf.is_some() {
            tracing::info!("the certificate files are those in use again");
            self.metrics.certificate_refused.set(0);
            self.live.status.store(Arc::new(TlsStatus { error: None, error_since: None, ..(*before).clone() }));
        }
    }
}

fn differ(stored: &str, served: Option<&str>) -> String {
    let served = served.unwrap_or("none");
    format!("the certificate that is served (SHA-256 {served}) to be the one that is stored ({stored})")
}

fn report(metrics: &Metrics, status: &TlsStatus) {
    let Some(Leaf { fingerprint, not_after, .. }) = &status.leaf else { return };
    metrics.certificate_not_after.set(not_after.as_second());
    metrics.certificate_refused.set(0);
    let (generation, tls) = (status.generation, &status.tls.profile);
    if *not_after < status.loaded_at {
        tracing::warn!(%fingerprint, %not_after, generation, "serving with an expired certificate: clients will refuse it, renew it");
    } else {
        tracing::info!(%fingerprint, %not_after, generation, tls, "serving certificate in use");
    }
}

/// Everything that the configuration is made of, as it lies on disk.
struct Files {
    pair: Arc<Raw>,
    client_ca: Option<Vec<u8>>,
    /// Not from a file, but it makes a new configuration as those do.
    followed: Arc<Followed>,
}

impl Files {
    fn read(settings: &TlsSettings) -> Result<Self, LoadError> {
        let pair = match &settings.source {
            Source::Directory(dir) => Arc::new(Raw::read(dir)?),
            Source::Kept { name, pair } => pair.borrow().clone().ok_or_else(|| LoadError::NotYet(name.clone()))?,
        };
        let client_ca = settings.client_ca.as_deref().map(keypair::read_bounded).transpose()?;
        Ok(Self { pair, client_ca, followed: settings.profile.get() })
    }

    fn content(&self) -> Content {
        let mut bytes = self.pair.digest().to_vec();
        bytes.extend_from_slice(&keypair::sha256(self.client_ca.as_deref().unwrap_or_default()));
        bytes.extend_from_slice(format!("{:?}", self.followed.parameters).as_bytes());
        keypair::sha256(&bytes)
    }

    fn check(&self, settings: &TlsSettings) -> Result<Generation, LoadError> {
        let pair = self.pair.parse(&settings.source.name())?;
        let config = server_config(settings, &self.followed.parameters, &pair, self.client_ca.as_deref())?;
        let (leaf, followed) = (pair.leaf().clone(), Followed::clone(&self.followed));
        Ok(Generation { content: self.content(), config, leaf, followed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::self_signed;
    use std::fs;
    use std::path::Path;

    async fn started(dir: &Path) -> Reloader {
        self_signed::ensure(dir, &[]).unwrap();
        let settings = TlsSettings::new(Source::Directory(dir.to_owned()), None);
        Reloader::start(settings, Metrics::new()).await.unwrap()
    }

    #[tokio::test]
    async fn a_bad_pair_is_reported_once_and_the_good_one_stays() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut reloader = started(dir.path()).await;
        let live = reloader.live();
        let first = live.status();
        assert_eq!((first.generation, &first.error), (1, &None));
        let old_key = fs::read(dir.path().join("tls.key")).unwrap();

        // An administrator's two steps: for a moment the pair does not fit.
        self_signed::ensure(other.path(), &[]).unwrap();
        fs::copy(other.path().join("tls.key"), dir.path().join("tls.key")).unwrap();
        for _ in 0..3 {
            reloader.poll().await;
        }
        let status = live.status();
        assert_eq!((status.generation, &status.leaf), (1, &first.leaf));
        assert!(status.error.as_ref().unwrap().contains("does not belong to"), "{status:?}");
        assert_eq!(reloader.metrics.tls_reload_failures.get(), 1);

        // Taken back: in order again.
        fs::write(dir.path().join("tls.key"), old_key).unwrap();
        reloader.poll().await;
        assert_eq!(live.status().error, None);

        // A missing file, then both steps done.
        fs::remove_file(dir.path().join("tls.crt")).unwrap();
        reloader.poll().await;
        reloader.poll().await;
        assert!(live.status().error.as_ref().unwrap().contains("cannot read"), "{:?}", live.status());
        assert_eq!(reloader.metrics.tls_reload_failures.get(), 2);
        fs::copy(other.path().join("tls.key"), dir.path().join("tls.key")).unwrap();
        fs::copy(other.path().join("tls.crt"), dir.path().join("tls.crt")).unwrap();
        reloader.poll().await;
        let status = live.status();
        assert_eq!((status.generation, &status.error), (2, &None));
        let (leaf, first) = (status.leaf.as_ref().unwrap(), first.leaf.as_ref().unwrap());
        assert_ne!(leaf.fingerprint, first.fingerprint);
        assert_eq!(reloader.metrics.certificate_not_after.get(), leaf.not_after.as_second());
    }

    #[tokio::test]
    async fn a_client_ca_that_is_named_must_be_there_and_be_one() {
        let dir = tempfile::tempdir().unwrap();
        self_signed::ensure(dir.path(), &[]).unwrap();
        for (content, expected) in [(None, "cannot read"), (Some(""), "holds no certificate")] {
            let file = dir.path().join("client-ca.crt");
            if let Some(content) = content {
                fs::write(&file, content).unwrap();
            }
            let settings = TlsSettings::new(Source::Directory(dir.path().to_owned()), Some(file));
            let text = Reloader::start(settings, Metrics::new()).await.unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains("client-ca.crt"), "{text}");
        }
    }

    #[tokio::test]
    async fn ready_once_what_is_stored_is_served_and_never_unready_by_a_bad_pair() {
        let raw = |name: &str| {
            let dir = tempfile::tempdir().unwrap();
            self_signed::ensure(dir.path(), &[name.to_owned()]).unwrap();
            Arc::new(Raw::read(dir.path()).unwrap())
        };
        let bad = || Arc::new(Raw::new(b"half".to_vec(), b"written".to_vec()));
        let (kept, pair) = tokio::sync::watch::channel(None);
        let source = Source::Kept { name: "Secret ns/airgate-tls".to_owned(), pair };
        let mut reloader = Reloader::start(TlsSettings::new(source, None), Metrics::new()).await.unwrap();
        let readiness = crate::readiness::Readiness::new();
        reloader.guard(readiness.condition("certificate", "the test"));
        let waiting = || readiness.report().waiting.join("; ");
        assert_eq!(
            waiting(),
            "certificate: Secret ns/airgate-tls holds no certificate yet; what keeps one from it is certificateKeeper.error on /statusz"
        );
        reloader.poll().await;
        assert_eq!((reloader.metrics.certificate_refused.get(), reloader.metrics.tls_reload_failures.get()), (0, 0));

        kept.send_replace(Some(bad()));
        reloader.poll().await;
        assert!(waiting().contains("Secret ns/airgate-tls/tls.crt"), "{}", waiting());
        assert_eq!(reloader.metrics.certificate_refused.get(), 1);

        for (name, generation) in [("one.example", 1), ("two.example", 2)] {
            kept.send_replace(Some(raw(name)));
            reloader.poll().await;
            assert!(readiness.is_ready(), "{}", waiting());
            let status = reloader.live().status();
            assert_eq!((status.generation, &status.error), (generation, &None));
            assert_eq!(reloader.served(), status.leaf.as_ref().map(|leaf| leaf.fingerprint.clone()));
            assert!(status.leaf.as_ref().unwrap().names.contains(&name.to_owned()));
            assert_eq!(reloader.metrics.certificate_refused.get(), 0);
        }
        assert_eq!(reloader.metrics.tls_reloads.get(), 1, "the first is no reload");

        kept.send_replace(Some(bad()));
        reloader.poll().await;
        assert!(readiness.is_ready(), "{}", waiting());
        assert_eq!(reloader.metrics.certificate_refused.get(), 1);

        // A good one that is not served, however that came about.
        let other = TlsStatus {
            leaf: Some(raw("x.example").parse(Path::new("x")).unwrap().leaf().clone()),
            ..(*reloader.live().status()).clone()
        };
        let stored = other.leaf.as_ref().unwrap().fingerprint.clone();
        reloader.live.status.store(Arc::new(other));
        reloader.guard(readiness.condition("certificate", "the test"));
        let served = reloader.served().unwrap();
        assert!(waiting().contains(&stored) && waiting().contains(&served), "{}", waiting());
    }

    #[tokio::test]
    async fn a_profile_is_a_new_configuration_and_its_name_alone_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut reloader = started(dir.path()).await;
        let profile = reloader.settings.profile.clone();
        assert!(profile.set(Followed::defaults("for another reason")));
        reloader.poll().await;
        let status = reloader.live().status();
        assert_eq!((status.generation, &*status.tls.profile), (1, "for another reason"));
        let mut modern = Followed::defaults("Modern");
        modern.parameters.min_version = crate::tls::MinVersion::Tls13;
        assert!(profile.set(modern.clone()) && !profile.set(modern));
        reloader.poll().await;
        let status = reloader.live().status();
        assert_eq!((status.generation, &*status.tls.profile), (2, "Modern"));
    }
}
