//! Printing: colour on a terminal only, `NO_COLOR` honoured, a closed pipe is no error.

use std::io::{IsTerminal, Write};

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

/// One line or block on stdout.
pub fn line(text: &str) {
    // Whoever closed the pipe does not want the rest.
    drop(writeln!(std::io::stdout(), "{text}"));
}

pub fn error(text: &str) {
    drop(writeln!(std::io::stderr(), "error: {text}"));
}

pub fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
