//! Printing: colour on a terminal only, `NO_COLOR` honoured, a closed pipe is no error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Copy, Debug)]
pub enum Colour {
    Red,
    Yellow,
    Green,
    Bold,
}

/// The text in colour where a person sees it.
pub fn paint(colour: Colour, text: &str) -> String {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let code = match colour {
        Colour::Red => "31",
        Colour::Yellow => "33",
        Colour::Green => "32",
        Colour::Bold => "1",
    };
    if wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// What a line met that could not be written; see [`finish`].
static FAILED: OnceLock<String> = OnceLock::new();

/// One line or block on stdout.
pub fn line(text: &str) {
    keep(writeln!(std::io::stdout(), "{text}"));
}

/// Whether everything printed has arrived.
///
/// # Errors
/// Why it has not: a full disk, not a closed pipe.
pub fn finish() -> Result<(), String> {
    keep(std::io::stdout().flush());
    FAILED.get().map_or(Ok(()), |failure| Err(format!("the output could not be written: {failure}")))
}

fn keep(result: std::io::Result<()>) {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(FAILED.set(error.to_string())),
        // Whoever closed the pipe does not want the rest.
        _ => {}
    }
}

pub fn error(text: &str) {
    drop(writeln!(std::io::stderr(), "error: {text}"));
}

pub fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
