//! One reading of the state and release directories.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::catalog;
use crate::cluster::Snapshot;
use crate::files::stamp;
use crate::problem::Problem;
use crate::release::Catalog;
use crate::signatures::{self, FromFiles};
use crate::state::{self, State};

#[derive(Debug)]
pub(super) struct Files {
    state_directory: Option<PathBuf>,
    pub release_directories: Arc<Vec<PathBuf>>,
    key_file: Option<PathBuf>,
    pub signatures: FromFiles,
    pub state: Option<Arc<State>>,
    pub snapshot: Arc<Snapshot>,
    pub catalog: Arc<Catalog>,
    catalog_problems: Arc<Vec<Problem>>,
    /// Remembers archives; only readings take turns at it, whoever asks for facts never meets it.
    reader: Arc<Mutex<catalog::Reader>>,
    /// All of them, the state's first.
    pub problems: Arc<Vec<Problem>>,
    pub read_at: Timestamp,
    seen: Fingerprints,
}

/// Taken before the reading: what changes while it is read is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprints {
    state: u64,
    releases: u64,
    keys: Option<[u64; 5]>,
}

/// What a site has beside its cluster: directories of releases, and the keys of release signatures.
#[derive(Clone, Debug, Default)]
pub struct OnSite {
    pub releases: Vec<PathBuf>,
    pub keys: Option<PathBuf>,
}

impl From<Vec<PathBuf>> for OnSite {
    fn from(releases: Vec<PathBuf>) -> Self {
        Self { releases, keys: None }
    }
}

impl Files {
    pub fn read(state_directory: Option<PathBuf>, on_site: OnSite) -> Self {
        let nothing = Self {
            state_directory,
            release_directories: Arc::new(on_site.releases),
            key_file: on_site.keys,
            ..Self::given(Catalog::default())
        };
        let seen = nothing.fingerprints();
        nothing.reread(seen, None)
    }

    pub fn given(catalog: Catalog) -> Self {
        Self {
            state_directory: None,
            release_directories: Arc::default(),
            key_file: None,
            signatures: FromFiles::default(),
            state: None,
            snapshot: Arc::new(Snapshot::nothing("no state directory was given")),
            catalog: Arc::new(catalog),
            catalog_problems: Arc::default(),
            reader: Arc::default(),
            problems: Arc::default(),
            read_at: Timestamp::now(),
            seen: Fingerprints { state: 0, releases: 0, keys: None },
        }
    }

    /// A new reading of what changed; `None` where nothing did.
    pub fn changed(&self) -> Option<Self> {
        let seen = self.fingerprints();
        (seen != self.seen).then(|| self.reread(seen, Some(self.seen)))
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            state: self.state_directory.as_deref().map_or(0, state::fingerprint),
            releases: if self.release_directories.is_empty() {
                0
            } else {
                catalog::fingerprint(&self.release_directories)
            },
            keys: self.key_file.as_deref().and_then(stamp::of_file),
        }
    }

    /// Reads what is not as it was `before`.
    fn reread(&self, seen: Fingerprints, before: Option<Fingerprints>) -> Self {
        let now = Timestamp::now();
        let (state, releases) = (
            before.is_none_or(|before| before.state != seen.state),
            before.is_none_or(|before| before.releases != seen.releases),
        );
        let mut signatures = self.signatures.clone();
        if before.is_none_or(|before| before.keys != seen.keys) {
            signatures.keys = self.key_file.as_deref().map(|file| Arc::new(signatures::read_key_file(file)));
        }
        let (state, snapshot) = match &self.state_directory {
            Some(directory) if state => {
                let read = State::load(directory, now);
                let snapshot = Arc::new(read.snapshot());
                (Some(Arc::new(read)), snapshot)
            }
            _ => (self.state.clone(), self.snapshot.clone()),
        };
        let (catalog, catalog_problems) = if releases && !self.release_directories.is_empty() {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let (catalog, problems) = reader.load(&self.release_directories, now);
            (signatures.found, signatures.looked) = (reader.signatures(), true);
            (Arc::new(catalog), Arc::new(problems))
        } else {
            (self.catalog.clone(), self.catalog_problems.clone())
        };
        let keys = signatures.keys.as_deref().and_then(|keys| keys.as_ref().err());
        let keys = keys.map(|missing| {
            Problem::new(self.key_file.iter().map(|file| file.display().to_string()).collect::<String>(), &*missing.why)
        });
        let problems = state.iter().flat_map(|state| state.problems()).chain(&*catalog_problems).cloned();
        let problems = problems.chain(keys).collect();
        Self {
            state_directory: self.state_directory.clone(),
            release_directories: self.release_directories.clone(),
            key_file: self.key_file.clone(),
            signatures,
            state,
            snapshot,
            catalog,
            catalog_problems,
            reader: self.reader.clone(),
            problems: Arc::new(problems),
            read_at: now,
            seen,
        }
    }
}
