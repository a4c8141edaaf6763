//! From the first signal to the exit: unready, answer the last calls, finish, go.
//!
//! A pod that is deleted gets SIGTERM while every node still routes to it, so the first thing to do is
//! nothing: say unready and go on serving for a while, asking each client to come back on another
//! connection. Only then the sockets close. The order is a [`Phase`] that everybody watches, driven by
//! [`drive`], which takes its signals from a channel and can therefore be run in a test.

use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::readiness::Readiness;

/// How far the way out has been gone; only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    /// Unready, still accepting; every answer asks the client to go elsewhere next time.
    Draining,
    /// No new connections; requests that are being answered are finished.
    Stopping,
    /// A second signal: drop everything.
    Aborted,
}

/// How long the phases last.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    /// Serving on after the signal, until every node's routing has noticed.
    pub keep_serving: Duration,
    /// For requests that are still being answered after that.
    pub finish: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        // `finish` covers the longest request (10 s) and some; both together stay below the 30 s that
        // a pod is given by default.
        Self { keep_serving: Duration::from_secs(5), finish: Duration::from_secs(15) }
    }
}

/// The side that moves the phase on.
#[derive(Debug, Clone)]
pub struct Controller {
    phase: watch::Sender<Phase>,
}

/// The side that watches it; clones watch the same.
#[derive(Debug, Clone)]
pub struct Shutdown {
    phase: watch::Receiver<Phase>,
}

pub fn channel() -> (Controller, Shutdown) {
    let (sender, receiver) = watch::channel(Phase::Running);
    (Controller { phase: sender }, Shutdown { phase: receiver })
}

impl Controller {
    /// Moves on to `phase`; never back.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let moves = *current < phase;
            if moves {
                *current = phase;
            }
            moves
        });
    }
}

impl Shutdown {
    /// A controller that is gone counts as `Aborted`: nobody is left who could ever end a wait.
    pub fn phase(&self) -> Phase {
        match self.phase.has_changed() {
            Ok(_) => *self.phase.borrow(),
            Err(_) => Phase::Aborted,
        }
    }

    /// Returns once `phase` or a later one is reached.
    pub async fn reached(&mut self, phase: Phase) {
        // `wait_for` fails only when the controller is gone.
        let _gone = self.phase.wait_for(|current| *current >= phase).await;
    }
}

/// A request to stop, by the name of the signal.
pub type Signal = &'static str;

/// SIGTERM and SIGINT as a channel. Must be called within a runtime.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn signals() -> io::Result<mpsc::Receiver<Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                Some(()) = terminate.recv() => "SIGTERM",
                Some(()) = interrupt.recv() => "SIGINT",
                else => return,
            };
            if sender.send(name).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Waits for a signal and leads the way out up to `Stopping`; then it only listens for a second signal.
/// Ends by itself only after that one, so whoever runs it drops it when the work is done. Without anybody
/// who could send a signal it waits for ever.
pub async fn drive(mut signals: mpsc::Receiver<Signal>, controller: Controller, readiness: Readiness, drain: Drain) {
    let Some(signal) = signals.recv().await else {
        return std::future::pending().await;
    };
    readiness.start_draining();
    controller.advance(Phase::Draining);
    tracing::info!(
        signal,
        keep_serving_seconds = drain.keep_serving.as_secs_f64(),
        "stopping: unready, answering what still arrives; a second signal stops at once"
    );
    let on_the_way = async {
        tokio::time::sleep(drain.keep_serving).await;
        controller.advance(Phase::Stopping);
        std::future::pending::<()>().await;
    };
    let second = async {
        match signals.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = on_the_way => {}
        signal = second => {
            tracing::warn!(signal, "second signal: stopping at once, requests being answered are dropped");
            controller.advance(Phase::Aborted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Drain = Drain { keep_serving: Duration::from_millis(20), finish: Duration::from_secs(15) };

    #[tokio::test]
    async fn a_signal_drains_then_stops() {
        let (sender, receiver) = mpsc::channel(2);
        let (controller, mut shutdown) = channel();
        let readiness = Readiness::new();
        let driver = tokio::spawn(drive(receiver, controller, readiness.clone(), DRAIN));
        assert_eq!(shutdown.phase(), Phase::Running);

        let told = tokio::time::Instant::now();
        sender.send("SIGTERM").await.unwrap();
        shutdown.reached(Phase::Draining).await;
        assert!(!readiness.is_ready(), "unready before anybody is told to drain");
        shutdown.reached(Phase::Stopping).await;
        assert!(told.elapsed() >= DRAIN.keep_serving);

        sender.send("SIGTERM").await.unwrap();
        shutdown.reached(Phase::Aborted).await;
        driver.await.unwrap();
    }

    #[tokio::test]
    async fn a_second_signal_during_the_drain_aborts() {
        let (sender, receiver) = mpsc::channel(2);
        let (controller, mut shutdown) = channel();
        let hour = Duration::from_hours(1);
        let drain = Drain { keep_serving: hour, finish: hour };
        tokio::spawn(drive(receiver, controller, Readiness::new(), drain));
        sender.send("SIGINT").await.unwrap();
        shutdown.reached(Phase::Draining).await;
        sender.send("SIGINT").await.unwrap();
        shutdown.reached(Phase::Aborted).await;
        assert_eq!(shutdown.phase(), Phase::Aborted);
    }

    #[tokio::test]
    async fn without_a_controller_it_is_over() {
        let (controller, mut shutdown) = channel();
        drop(controller);
        shutdown.reached(Phase::Stopping).await;
        assert_eq!(shutdown.phase(), Phase::Aborted);
    }

    #[tokio::test]
    async fn real_signals_arrive_by_name() {
        let mut signals = signals().unwrap();
        for name in ["TERM", "INT"] {
            let pid = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
            assert_eq!(signals.recv().await, Some(if name == "TERM" { "SIGTERM" } else { "SIGINT" }));
        }
    }

    #[test]
    fn phases_never_go_back() {
        let (controller, shutdown) = channel();
        controller.advance(Phase::Stopping);
        controller.advance(Phase::Draining);
        assert_eq!(shutdown.phase(), Phase::Stopping);
    }
}
