//! What each watch says about itself, for `/statusz`, metrics and readiness.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::resource::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not listed yet.
    Starting,
    Watching,
    /// The cluster does not have the resource; looked for again and again.
    Absent,
    /// 403; tried again and again.
    Denied,
    /// Anything else; tried again and again, with the facts of before where there are any.
    Failing,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchStatus {
    /// `clusterversions.config.openshift.io`, with namespace and selector where it has one
    pub resource: String,
    /// The API version in use.
    pub version: Option<&'static str>,
    pub state: State,
    /// Listed once, absent or denied: nothing to wait for. Stays so.
    pub ready: bool,
    pub objects: usize,
    /// How far it has followed the cluster: the newest object or bookmark seen.
    pub resource_version: Option<String>,
    /// Objects that could not be read, with the field; while there is one the fact is unknown.
    pub bad_objects: BTreeMap<String, String>,
    /// Complete lists, the first one included.
    pub lists: u64,
    pub events: u64,
    pub bookmarks: u64,
    pub errors: u64,
    /// Events that carried an object that could not be read.
    pub bad_events: u64,
    pub last_event: Option<Timestamp>,
    /// The last list, event or bookmark.
    pub last_heard: Option<Timestamp>,
    /// The current trouble, gone when it is over.
    pub trouble: Option<String>,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
}

impl WatchStatus {
    pub(super) fn new(resource: &Resource) -> Self {
        Self {
            resource: resource.selected(),
            version: None,
            state: State::Starting,
            ready: false,
            objects: 0,
            resource_version: None,
            bad_objects: BTreeMap::new(),
            lists: 0,
            events: 0,
            bookmarks: 0,
            errors: 0,
            bad_events: 0,
            last_event: None,
            last_heard: None,
            trouble: None,
            last_error: None,
            last_error_at: None,
        }
    }
}
