//! How far a long piece of work has come, on a terminal only.

use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// What is done sooner needs no line.
const PATIENCE: Duration = Duration::from_millis(500);
/// As often as a person can read.
const EVERY: Duration = Duration::from_millis(100);

/// A line on stderr that is overwritten, and gone at the end.
#[derive(Debug)]
pub struct Progress<'a> {
    what: &'a str,
    total: usize,
    done: Cell<usize>,
    /// When the line may next be written; `None` where nobody would see it.
    due: Cell<Option<Instant>>,
    written: Cell<bool>,
}

impl<'a> Progress<'a> {
    /// `what` was done of how many, as in "images asked for".
    pub fn new(what: &'a str, total: usize) -> Self {
        let due = stderr().is_terminal().then(|| Instant::now() + PATIENCE);
        Self { what, total, done: Cell::new(0), due: Cell::new(due), written: Cell::new(false) }
    }

    pub fn step(&self) {
        self.done.set(self.done.get() + 1);
        let now = Instant::now();
        if self.due.get().is_some_and(|due| now >= due) {
            self.due.set(Some(now + EVERY));
            self.written.set(true);
            // Who cannot be told how far it is can still be told what came of it.
            drop(write!(stderr(), "\r\x1b[K{} of {} {}", self.done.get(), self.total, self.what));
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.written.get() {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}
