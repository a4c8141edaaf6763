//! The signatures as they are known now: built when what they are made of changes, else only handed out.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::cluster::{Fact, Snapshot};
use crate::objects::release_config_map::ReleaseConfigMap;
use crate::signature::Signatures;
use crate::signatures::{FromFiles, Verifier};

#[derive(Debug)]
pub(super) struct Current {
    built: ArcSwap<Built>,
    verifier: Mutex<Verifier>,
}

#[derive(Debug)]
struct Built {
    /// Nothing was built yet.
    first: bool,
    maps: Fact<Arc<[Arc<ReleaseConfigMap>]>>,
    verification: Fact<Arc<ReleaseConfigMap>>,
    files: FromFiles,
    signatures: Arc<Signatures>,
}

impl Current {
    pub fn new() -> Self {
        let Snapshot { release_signatures: maps, release_verification: verification, .. } = Snapshot::nothing("");
        let signatures = Arc::new(Signatures::nothing("signatures have not been read yet"));
        let built = Built { first: true, maps, verification, files: FromFiles::default(), signatures };
        Self { built: ArcSwap::from_pointee(built), verifier: Mutex::default() }
    }

    /// Never waits but for the first time: while somebody verifies what is new, the others have what was known before.
    pub fn of(&self, cluster: &Snapshot, files: &FromFiles) -> Arc<Signatures> {
        let built = self.built.load();
        if built.is_of(cluster, files) {
            return built.signatures.clone();
        }
        let mut verifier = match self.verifier.try_lock() {
            Ok(verifier) => verifier,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if built.first => {
                self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::WouldBlock) => return built.signatures.clone(),
        };
        let signatures = Arc::new(verifier.signatures(cluster, files, Timestamp::now()));
        self.built.store(Arc::new(Built {
            first: false,
            maps: cluster.release_signatures.clone(),
            verification: cluster.release_verification.clone(),
            files: files.clone(),
            signatures: signatures.clone(),
        }));
        signatures
    }
}

impl Built {
    fn is_of(&self, cluster: &Snapshot, files: &FromFiles) -> bool {
        same(&self.maps, &cluster.release_signatures)
            && same(&self.verification, &cluster.release_verification)
            && Arc::ptr_eq(&self.files.found, &files.found)
            && match (&self.files.keys, &files.keys) {
                (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            }
    }
}

/// Whether both are one value; equal ones that were read twice count as two.
fn same<T: ?Sized>(one: &Fact<Arc<T>>, other: &Fact<Arc<T>>) -> bool {
    match (one, other) {
        (Fact::Known(one, _), Fact::Known(other, _)) => Arc::ptr_eq(one, other),
        (Fact::Absent(_), Fact::Absent(_)) => true,
        (Fact::Unknown(one), Fact::Unknown(other)) => one == other,
        _ => false,
    }
}
