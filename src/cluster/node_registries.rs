//! What the registries of the control-plane nodes say of one release image, and what to ask them.
//!
//! A MachineConfigNode is written on change only, and by today's daemon often not at all: the node's own registry is
//! the only witness of what is there now. The core says what should be asked and reads the answers; who asks is an edge.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use jiff::Timestamp;

use crate::pullspec::Digest;

/// Answers about one release image. A node that is not named here was not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistries {
    pub digest: Digest,
    /// By the node's name.
    pub answers: BTreeMap<String, RegistryAnswer>,
    pub as_of: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegistryAnswer {
    Holds,
    /// It answers, and does not have the manifest.
    Absent,
    /// Why it could not be asked, for a person.
    Unknown(String),
}

/// What to ask the registries of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryQuestion {
    pub digest: Digest,
    /// The name that the registry's certificate has to be for: `api-int.DOMAIN`.
    pub host: String,
    /// Name and address of each node.
    pub nodes: Vec<(String, String)>,
}

/// By what was said, not by when.
impl Hash for NodeRegistries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.digest, &self.answers).hash(state);
    }
}

impl NodeRegistries {
    /// What a node's registry said of this release image.
    #[must_use]
    pub fn answer(&self, digest: Digest, node: &str) -> Option<&RegistryAnswer> {
        self.answers.get(node).filter(|_| self.digest == digest)
    }
}
