//! The tasks that must live as long as the process: when one ends, the process must not go on without it,
//! looking healthy.

use std::collections::HashMap;
use std::fmt;

use tokio::task::{Id, JoinSet};

/// Named tasks; dropping it stops them.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<String>,
    names: HashMap<Id, String>,
}

/// Which task ended, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub task: String,
    pub how: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.task, self.how)
    }
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `task`, which is expected never to end; its output, if it does, says why.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output: fmt::Display> + Send + 'static) {
        let handle = self.set.spawn(async move { task.await.to_string() });
        self.names.insert(handle.id(), name.into());
    }

    /// The first task that ends; waits for ever when there is none. Cancel safe.
    pub async fn ended(&mut self) -> Ended {
        let (id, how) = match self.set.join_next_with_id().await {
            None => return std::future::pending().await,
            Some(Ok((id, why))) => (id, format!("ended: {why}")),
            Some(Err(error)) => (error.id(), if error.is_panic() { "panicked" } else { "was cancelled" }.to_owned()),
        };
        Ended { task: self.names.remove(&id).unwrap_or_default(), how }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn says_which_task_ended_and_how() {
        let mut tasks = Tasks::new();
        tasks.spawn("the one that stays", std::future::pending::<String>());
        tasks.spawn("the watch", async { "connection lost" });
        assert_eq!(tasks.ended().await.to_string(), "the watch ended: connection lost");
        tasks.spawn("the broken one", async { if true { panic!("for the test") } else { "" } });
        assert_eq!(tasks.ended().await.to_string(), "the broken one panicked");
    }
}
