//! What must be true before this process may be sent reviews.
//!
//! Each part that has something to wait for registers a named condition at start and fulfils it later;
//! `/readyz` answers from here and names what is missing. Draining makes it unready whatever the
//! conditions say. Only probes and start-up take the lock, a review never does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The conditions of one process; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    draining: AtomicBool,
    /// Name -> what it still waits for; `None` once fulfilled. Sorted, so that the text is stable.
    conditions: Mutex<BTreeMap<String, Option<String>>>,
}

/// One condition, held by the part that fulfils it.
#[derive(Debug, Clone)]
pub struct Condition {
    readiness: Readiness,
    name: String,
}

/// The state at one moment.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub ready: bool,
    pub draining: bool,
    /// `name: what it waits for`, in the order of the names.
    pub waiting: Vec<String>,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a condition. `waiting` completes "waiting for ...": what has to happen.
    pub fn condition(&self, name: impl Into<String>, waiting: impl Into<String>) -> Condition {
        let name = name.into();
        self.lock().insert(name.clone(), Some(waiting.into()));
        Condition { readiness: self.clone(), name }
    }

    /// From now on unready for good: the process is on its way out.
    pub fn start_draining(&self) {
        self.inner.draining.store(true, Ordering::Release);
    }

    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Acquire)
    }

    pub fn is_ready(&self) -> bool {
        self.report().ready
    }

    pub fn report(&self) -> Report {
        let waiting: Vec<String> =
            self.lock().iter().filter_map(|(name, waiting)| Some(format!("{name}: {}", waiting.as_ref()?))).collect();
        let draining = self.is_draining();
        Report { ready: waiting.is_empty() && !draining, draining, waiting }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        // A panic elsewhere must not turn every later probe into one as well: the map is always whole.
        self.inner.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condition {
    pub fn fulfil(&self) {
        self.readiness.lock().insert(self.name.clone(), None);
    }

    /// Takes it back, or says more precisely what is awaited.
    pub fn wait_for(&self, waiting: impl Into<String>) {
        self.readiness.lock().insert(self.name.clone(), Some(waiting.into()));
    }
}

impl Report {
    /// The body of `/readyz`.
    pub fn text(&self) -> String {
        if self.draining {
            return "draining: this process was told to stop\n".to_owned();
        }
        if self.ready {
            return "ready\n".to_owned();
        }
        let mut text = String::from("not ready, waiting for\n");
        for line in &self.waiting {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_every_condition_is_fulfilled_and_not_draining() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready(), "nothing to wait for");
        let lists = readiness.condition("clusterversions", "the first complete list");
        let catalog = readiness.condition("catalog", "the directories to be read once");
        assert_eq!(
            readiness.report().text(),
            "not ready, waiting for\n  catalog: the directories to be read once\n  clusterversions: the first complete list\n"
        );
        catalog.fulfil();
        lists.wait_for("RBAC: list clusterversions is forbidden");
        assert_eq!(
            readiness.report().text(),
            "not ready, waiting for\n  clusterversions: RBAC: list clusterversions is forbidden\n"
        );
        lists.fulfil();
        assert_eq!(readiness.report().text(), "ready\n");
        readiness.start_draining();
        assert!(!readiness.is_ready());
        assert_eq!(readiness.report().text(), "draining: this process was told to stop\n");
    }
}
