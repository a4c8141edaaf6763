//! Release signatures from files beside the cluster, as text; those of the cluster are among its objects.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::{Missing, Snapshot};
use crate::pullspec::Digest;
use crate::signature::{Found, Signatures};
use crate::signatures::{FromFiles, Verifier};

/// Everything that signatures rest on beside the cluster.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Proofs {
    read_at: Timestamp,
    /// Whether there were release directories to look in.
    looked: bool,
    found: Vec<SavedFound>,
    keys: Option<SavedKeys>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SavedFound {
    digest: String,
    place: String,
    signature: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum SavedKeys {
    Keys(Vec<(String, String)>),
    Missing { why: String, remedy: String },
}

impl Proofs {
    pub fn of(files: &FromFiles, read_at: Timestamp) -> Self {
        let found = |found: &Found| SavedFound {
            digest: found.digest.to_string(),
            place: found.place.to_string(),
            signature: STANDARD.encode(&found.bytes),
        };
        let keys = files.keys.as_ref().map(|keys| match &**keys {
            Ok(keys) => SavedKeys::Keys(keys.iter().map(|(name, key)| (name.clone(), STANDARD.encode(key))).collect()),
            Err(Missing { why, remedy }) => SavedKeys::Missing { why: why.clone(), remedy: remedy.clone() },
        });
        Self { read_at, looked: files.looked, found: files.found.iter().map(found).collect(), keys }
    }

    /// What somebody has edited into what it cannot be is left out.
    pub fn files(&self) -> FromFiles {
        let found = |saved: &SavedFound| {
            let bytes = STANDARD.decode(&saved.signature).ok()?.into();
            Some(Found {
                digest: Digest::parse(&saved.digest)?,
                bytes,
                place: Arc::from(&*saved.place),
                in_cluster: false,
            })
        };
        let decoded = |(name, key): &(String, String)| Some((name.clone(), STANDARD.decode(key).ok()?));
        let keys = self.keys.as_ref().map(|keys| match keys {
            SavedKeys::Keys(keys) => Ok(keys.iter().filter_map(decoded).collect()),
            SavedKeys::Missing { why, remedy } => Err(Missing { why: why.clone(), remedy: remedy.clone() }),
        });
        FromFiles {
            found: self.found.iter().filter_map(found).collect(),
            looked: self.looked,
            keys: keys.map(Arc::new),
        }
    }

    /// Verified anew.
    pub fn signatures(&self, cluster: &Snapshot) -> Signatures {
        Verifier::default().signatures(cluster, &self.files(), self.read_at)
    }
}
