//! One reading of the state and release directories.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::catalog;
use crate::cluster::Snapshot;
use crate::problem::Problem;
use crate::release::Catalog;
use crate::state::{self, State};

#[derive(Debug)]
pub(super) struct Files {
    state_directory: Option<PathBuf>,
    pub release_directories: Arc<Vec<PathBuf>>,
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
}

impl Files {
    pub fn read(state_directory: Option<PathBuf>, release_directories: Vec<PathBuf>) -> Self {
        let nothing = Self {
            state_directory,
            release_directories: Arc::new(release_directories),
            ..Self::given(Catalog::default())
        };
        let seen = nothing.fingerprints();
        nothing.reread(seen, true, true)
    }

    pub fn given(catalog: Catalog) -> Self {
        Self {
            state_directory: None,
            release_directories: Arc::default(),
            state: None,
            snapshot: Arc::new(Snapshot::nothing("no state directory was given")),
            catalog: Arc::new(catalog),
            catalog_problems: Arc::default(),
            reader: Arc::default(),
            problems: Arc::default(),
            read_at: Timestamp::now(),
            seen: Fingerprints { state: 0, releases: 0 },
        }
    }

    /// A new reading of what changed; `None` where nothing did.
    pub fn changed(&self) -> Option<Self> {
        let seen = self.fingerprints();
        (seen != self.seen)
            .then(|| self.reread(seen, seen.state != self.seen.state, seen.releases != self.seen.releases))
    }

    fn fingerprints(&self) -> Fingerprints {
        Fingerprints {
            state: self.state_directory.as_deref().map_or(0, state::fingerprint),
            releases: if self.release_directories.is_empty() {
                0
            } else {
                catalog::fingerprint(&self.release_directories)
            },
        }
    }

    fn reread(&self, seen: Fingerprints, state: bool, releases: bool) -> Self {
        let now = Timestamp::now();
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
            (Arc::new(catalog), Arc::new(problems))
        } else {
            (self.catalog.clone(), self.catalog_problems.clone())
        };
        let problems = state.iter().flat_map(|state| state.problems()).chain(&*catalog_problems).cloned().collect();
        Self {
            state_directory: self.state_directory.clone(),
            release_directories: self.release_directories.clone(),
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
