//! Takes a changed certificate into use without a restart.
//!
//! The files are read once a second and compared by content: a kubelet that moves a symlink, a `cp` over the
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
use super::{TlsError, TlsSettings, server_config};
use crate::metrics::Metrics;

/// How often the files are looked at, unless a test is in a hurry.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why the files in place cannot be served with.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Pair(#[from] KeyPairError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the task that reads the certificate files was cancelled")]
    Cancelled,
}

/// What is served with now, and what is wrong with the files, if anything. Shown by `/statusz`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsStatus {
    #[serde(flatten)]
    pub leaf: Leaf,
    pub loaded_at: Timestamp,
    /// 1 for the pair of the start, one more for each change.
    pub generation: u64,
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
}

/// Identifies the content of all the files together.
type Content = [u8; 32];

struct Generation {
    content: Content,
    config: ServerConfig,
    leaf: Leaf,
}

impl LiveTls {
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
        let of_task = settings.clone();
        let first = tokio::task::spawn_blocking(move || {
            super::warm_up();
            // `load` waits a moment for a pair that is just being written; from here on the next poll does.
            KeyPair::load(&of_task.dir)?;
            Files::read(&of_task)?.check(&of_task)
        })
        .await
        .map_err(|_| LoadError::Cancelled)??;
        let status =
            TlsStatus { leaf: first.leaf, loaded_at: Timestamp::now(), generation: 1, error: None, error_since: None };
        report(&metrics, &status);
        let live = LiveTls {
            config: Arc::new(ArcSwap::from_pointee(first.config)),
            status: Arc::new(ArcSwap::from_pointee(status)),
        };
        Ok(Self { settings, live, metrics, in_use: first.content, seen: first.content })
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
        let status = TlsStatus {
            leaf: new.leaf,
            loaded_at: Timestamp::now(),
            generation: before.generation + 1,
            error: None,
            error_since: None,
        };
        // A whole new configuration also forgets the sessions of the old one: nobody resumes past a client
        // CA that was taken away.
        self.live.config.store(Arc::new(new.config));
        self.in_use = new.content;
        self.metrics.tls_reloads.inc();
        report(&self.metrics, &status);
        self.live.status.store(Arc::new(status));
    }

    fn refuse(&self, error: &LoadError) {
        let before = self.live.status();
        let text = error.to_string();
        if before.error.as_ref() == Some(&text) {
            return;
        }
        self.metrics.tls_reload_failures.inc();
        tracing::error!(
            error = text,
            in_use = before.leaf.fingerprint,
            "changed certificate files refused, the certificate before stays in use"
        );
        let now = Timestamp::now();
        let error_since = before.error_since.or(Some(now));
        self.live.status.store(Arc::new(TlsStatus { error: Some(text), error_since, ..(*before).clone() }));
    }

    fn clear_error(&self) {
        let before = self.live.status();
        if before.error.is_some() {
            tracing::info!("the certificate files are those in use again");
            self.live.status.store(Arc::new(TlsStatus { error: None, error_since: None, ..(*before).clone() }));
        }
    }
}

fn report(metrics: &Metrics, status: &TlsStatus) {
    metrics.certificate_not_after.set(status.leaf.not_after.as_second());
    let Leaf { fingerprint, not_after, .. } = &status.leaf;
    let generation = status.generation;
    if status.leaf.is_expired(status.loaded_at) {
        tracing::warn!(%fingerprint, %not_after, generation, "serving with an expired certificate: clients will refuse it, renew it");
    } else {
        tracing::info!(%fingerprint, %not_after, generation, "serving certificate in use");
    }
}

/// Everything that the configuration is made of, as it lies on disk.
struct Files {
    pair: Raw,
    client_ca: Option<Vec<u8>>,
}

impl Files {
    fn read(settings: &TlsSettings) -> Result<Self, LoadError> {
        Ok(Self {
            pair: Raw::read(&settings.dir)?,
            client_ca: settings.client_ca.as_deref().map(keypair::read_bounded).transpose()?,
        })
    }

    fn content(&self) -> Content {
        let mut bytes = self.pair.digest().to_vec();
        bytes.extend_from_slice(self.client_ca.as_deref().unwrap_or_default());
        keypair::sha256(&bytes)
    }

    fn check(&self, settings: &TlsSettings) -> Result<Generation, LoadError> {
        let pair = self.pair.parse(&settings.dir)?;
        let config = server_config(settings, &pair, self.client_ca.as_deref())?;
        Ok(Generation { content: self.content(), config, leaf: pair.leaf().clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{MinVersion, self_signed};
    use std::fs;
    use std::path::Path;

    async fn started(dir: &Path) -> Reloader {
        self_signed::ensure(dir, &[]).unwrap();
        let settings = TlsSettings { dir: dir.to_owned(), client_ca: None, min_version: MinVersion::default() };
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
        assert_ne!(status.leaf.fingerprint, first.leaf.fingerprint);
        assert_eq!(reloader.metrics.certificate_not_after.get(), status.leaf.not_after.as_second());
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
            let settings =
                TlsSettings { dir: dir.path().to_owned(), client_ca: Some(file), min_version: MinVersion::default() };
            let text = Reloader::start(settings, Metrics::new()).await.unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains("client-ca.crt"), "{text}");
        }
    }
}
