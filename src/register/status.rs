//! What the registrar shows of itself: `/statusz`, metrics.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

use crate::metrics::Metrics;

/// How far the configuration is what it should be, as this replica sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Something must happen before it is registered.
    #[default]
    Waiting,
    /// It is registered, and entries that should fail closed do not yet.
    Soft,
    /// It is registered as it should be, but no caBundle vouches for this server: guarded steps fail.
    Untrusted,
    /// Something of it differs and is about to be mended.
    Drifted,
    Registered,
    /// A person keeps it away, or its namespace is being deleted.
    Unregistered,
    /// The API server cannot be asked, or does not allow it.
    Failing,
}

const STATES: [State; 7] = [
    State::Waiting,
    State::Soft,
    State::Untrusted,
    State::Drifted,
    State::Registered,
    State::Unregistered,
    State::Failing,
];

/// What a write is.
const WRITES: [&str; 3] = ["apply", "replace", "delete"];

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Soft => "soft",
            Self::Untrusted => "untrusted",
            Self::Drifted => "drifted",
            Self::Registered => "registered",
            Self::Unregistered => "unregistered",
            Self::Failing => "failing",
        }
    }
}

/// For `/statusz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub state: State,
    pub namespace: String,
    /// This replica, as it stands in the Lease.
    pub identity: String,
    /// Whether this replica writes.
    pub leader: bool,
    /// Who does; null where nobody has the Lease.
    pub holder: Option<String>,
    pub waiting_for: Vec<String>,
    /// Entries that should fail closed and have failurePolicy Ignore for now.
    pub soft: Vec<String>,
    /// What went wrong last, until something goes right.
    pub trouble: Option<String>,
    pub last_write: Option<Timestamp>,
    /// Why.
    pub last_reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabel {
    what: &'static str,
}

/// The same as numbers.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    state: Family<StateLabel, Gauge>,
    leader: Gauge,
    writes: Family<WriteLabel, Counter>,
}

impl Counts {
    pub fn new(metrics: &Metrics) -> Self {
        let counts = Self::idle(metrics);
        counts.show(&Status::default());
        counts
    }

    /// Of a server that registers nothing: the same metrics, in no state.
    pub fn idle(metrics: &Metrics) -> Self {
        let counts = Self::default();
        for state in STATES {
            drop(counts.state.get_or_create(&StateLabel { state: state.as_str() }));
        }
        for what in WRITES {
            drop(counts.writes.get_or_create(&WriteLabel { what }));
        }
        let (state, leader, writes) = (counts.state.clone(), counts.leader.clone(), counts.writes.clone());
        metrics.register(|registry| {
            registry.register(
                "registration_state",
                "1 for the state of the webhook configuration, 0 for all others",
                state,
            );
            registry.register("registration_leader", "Whether this replica keeps the webhook configuration", leader);
            registry.register("registration_writes", "Writes of the webhook configuration", writes);
        });
        counts
    }

    pub fn show(&self, status: &Status) {
        for state in STATES {
            let gauge = self.state.get_or_create(&StateLabel { state: state.as_str() });
            gauge.set(i64::from(state == status.state));
        }
        self.leader.set(i64::from(status.leader));
    }

    pub fn wrote(&self, what: &'static str) {
        self.writes.get_or_create(&WriteLabel { what }).inc();
    }
}
