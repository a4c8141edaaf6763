//! A world as plain data: what the cluster is, which releases are known, what is set and what is asked.
//!
//! Texts stay texts: the model reads them itself and shares no parser with the engine.

use std::collections::BTreeMap;

/// 2026-12-01, a moment in the life of every world.
pub const NOW: &str = "2026-12-01T12:00:00Z";

/// A fact as airgate has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    Yes(T),
    /// Known from a watch that has been silent for more than five minutes.
    Stale(T),
    Absent,
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    pub version: String,
    pub image: String,
    pub architecture: String,
    pub force: bool,
    pub mode: String,
    pub accept_risks: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Release {
    pub version: String,
    pub image: String,
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryEntry {
    pub state: String,
    pub version: String,
    pub image: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditional {
    pub release: Release,
    /// The status of its condition Recommended.
    pub recommended: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterVersion {
    pub name: String,
    pub terminating: bool,
    /// The annotation `airgate.io/override`.
    pub annotation: String,
    pub target: Target,
    pub channel: String,
    pub upstream: String,
    pub desired: Release,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
    pub available: Vec<Release>,
    pub conditional: Vec<Conditional>,
    /// Status of the condition, "" where there is none.
    pub release_accepted: String,
    pub retrieved_updates: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    pub name: String,
    pub image: String,
    /// The type of its one condition that is True; "" where it has no conditions.
    pub state: String,
}

/// An InternalReleaseImage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Iri {
    pub v1alpha1: bool,
    pub terminating: bool,
    pub annotation: String,
    pub spec: Vec<String>,
    pub status: Vec<Bundle>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    pub name: String,
    /// Names of rendered configurations.
    pub spec: String,
    pub status: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogEntry {
    pub digest: String,
    pub version: String,
    pub previous: Option<Vec<String>>,
    pub architecture: Option<String>,
    pub shards: Vec<String>,
    /// Read and hashed, rather than somebody's word in a file.
    pub verified: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retain {
    InUse,
    Rollback,
    History,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Off,
    Audit,
    Warn,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnknown {
    Allow,
    Warn,
    Deny,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The mode of the whole server.
    pub audit: bool,
    pub retain: Retain,
    pub override_groups: Vec<String>,
    pub policies: BTreeMap<&'static str, (Option<Mode>, Option<OnUnknown>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Secret,
    Crd,
    MachineConfig,
}

/// An object of another kind, as far as some rule looks at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thing {
    pub kind: Kind,
    pub name: String,
    pub namespace: String,
    pub terminating: bool,
    pub annotation: String,
    /// Of a Secret: its keys, and what they hold.
    pub data: BTreeMap<String, String>,
    /// Of a MachineConfig.
    pub os_image: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    CreateCv(ClusterVersion),
    UpdateCv(ClusterVersion, ClusterVersion),
    DeleteCv(ClusterVersion),
    CreateIri(Iri),
    UpdateIri(Iri, Iri),
    DeleteIri(Iri),
    Create(Thing),
    Update(Thing, Thing),
    Delete(Thing),
}

#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub cluster_version: Seen<ClusterVersion>,
    /// The InternalReleaseImage, by whether it is on its way out.
    pub iri: Seen<bool>,
    /// Per MachineConfigNode the bundles that it lists.
    pub nodes: Seen<Vec<Vec<Bundle>>>,
    pub pools: Seen<Vec<Pool>>,
    /// Rendered configurations by name, with the release they are annotated with.
    pub rendered: Seen<BTreeMap<String, Option<String>>>,
    /// Whether Infrastructure says that the control plane is hosted elsewhere.
    pub hosted: Seen<bool>,
    pub catalog: Vec<CatalogEntry>,
    pub settings: Settings,
    pub request: Request,
    pub user: String,
    pub groups: Vec<String>,
    pub dry_run: bool,
}

impl<T> Seen<T> {
    /// The value, however old.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Yes(value) | Self::Stale(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }
}
