//! Texts that a person reads in a terminal: cleaned, bounded, one shape for all of them.

use std::borrow::Cow;
use std::fmt::Write;

/// A warning is dropped by the client when it has a control character and cut when it is long.
pub const WARNING_MAX: usize = 250;
/// The API server passes more on, but nobody reads more at 3 a.m.
pub const WARNINGS_MAX: usize = 10;
/// The longest message of a denial: more is not read, and a terminal at 3 a.m. scrolls it away.
pub const MESSAGE_MAX: usize = 1200;
/// What airgate shows of one string that came from outside; a CRD-valid pullspec fits whole.
const SHOWN_MAX: usize = 460;

/// A string from outside as it may be shown: control and direction-changing characters replaced, bounded.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
    };
    if text.len() <= SHOWN_MAX && !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let mut clean: String = text.chars().take(SHOWN_MAX).map(|c| if hostile(c) { '\u{FFFD}' } else { c }).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        clean.push_str("...");
    }
    Cow::Owned(clean)
}

/// What a finding says: what, why, and what works instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// One sentence with the object and both versions, no trailing stop.
    pub what: String,
    pub why: String,
    /// What works instead: sentences, and commands on lines of their own.
    pub works: Vec<String>,
}

impl Text {
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), works: vec![] }
    }

    #[must_use]
    pub fn works(mut self, line: impl Into<String>) -> Self {
        self.works.push(line.into());
        self
    }

    /// Several lines, as a denial shows them; `footer` is lines that are ready to be shown.
    #[must_use]
    pub fn block(&self, footer: &str) -> String {
        self.fitted(footer, usize::MAX, usize::MAX)
    }

    /// The same with prose and commands cut. A command is cut last: half a digest is worth nothing.
    fn fitted(&self, footer: &str, prose: usize, command: usize) -> String {
        // Writing to a String cannot fail.
        let mut block = format!("{}.", cut(&self.what, prose));
        if !self.why.is_empty() {
            let _ = write!(block, "\n  why:   {}.", cut(&self.why, prose));
        }
        for (index, line) in self.works.iter().enumerate() {
            let label = if index == 0 { "works:" } else { "      " };
            let _ = write!(block, "\n  {label} {}", cut(line, command));
        }
        block.push_str(footer);
        block
    }

    /// One line, as a warning shows it.
    #[must_use]
    pub fn line(&self) -> String {
        if self.why.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, self.why) }
    }
}

/// One message out of all that refuses, each a text and its footer: whole if it fits, else the first whole and
/// the others as one sentence, else with prose cut too.
#[must_use]
pub fn message(refusals: &[(&Text, &str)]) -> String {
    let fits = |message: &String| message.chars().count() <= MESSAGE_MAX;
    let join = |prose: usize, command: usize, brief: bool| {
        let blocks = refusals.iter().enumerate().map(|(index, (text, footer))| {
            if brief && index > 0 {
                format!("{}.{footer}", cut(&text.what, prose))
            } else {
                text.fitted(footer, prose, command)
            }
        });
        blocks.collect::<Vec<_>>().join("\n")
    };
    let tries = [
        (usize::MAX, usize::MAX, false),
        (usize::MAX, usize::MAX, true),
        (240, usize::MAX, true),
        (120, usize::MAX, true),
        (120, 240, true),
    ];
    let found = tries.into_iter().map(|(prose, command, brief)| join(prose, command, brief)).find(fits);
    found.unwrap_or_else(|| cut(&join(120, 120, true), MESSAGE_MAX).into_owned())
}

/// At most `most` characters, the last three saying that there were more.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(most - 3).chain("...".chars()).collect())
}

/// Warnings as they may be sent: one printable line each, no two alike, at most ten, the last one saying how to
/// see the rest.
#[must_use]
pub fn warnings(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for text in texts {
        let line = warning(&text);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.len() > WARNINGS_MAX {
        let rest = lines.len() - (WARNINGS_MAX - 1);
        lines.truncate(WARNINGS_MAX - 1);
        lines.push(format!("{rest} more warnings: airgate check upgrade or airgate check -o json shows them all"));
    }
    lines
}

fn warning(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&shown(&one_line), WARNING_MAX).into_owned()
}

/// A word as any POSIX shell takes it unchanged.
#[must_use]
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// `1 release`, `3 releases`.
#[must_use]
pub fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// An age as a person says it.
#[must_use]
pub fn age(seconds: i64) -> String {
    match seconds.max(0) {
        0..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_commands_longer_than_its_prose() {
        let command = format!("oc adm upgrade --to-image {}@sha256:{}", "r".repeat(200), "a".repeat(64));
        let text = |length: usize| Text::new("w".repeat(length), "y".repeat(length)).works(command.clone());
        for (lengths, whole_command) in
            [(&[10][..], true), (&[300, 300], true), (&[900, 10, 10], true), (&[5000; 5], true), (&[9; 90], false)]
        {
            let texts: Vec<Text> = lengths.iter().map(|length| text(*length)).collect();
            let message = message(&texts.iter().map(|text| (text, "\n  rule:  some-policy")).collect::<Vec<_>>());
            assert!(message.chars().count() <= MESSAGE_MAX, "{lengths:?}: {}", message.chars().count());
            assert!(message.contains(&command) || !whole_command, "{lengths:?}: {message}");
        }
    }

    #[test]
    fn hostile_characters_never_reach_a_terminal() {
        assert_eq!(shown("4.19.9\x1b[31m\n\u{202E}x"), "4.19.9\u{FFFD}[31m\u{FFFD}\u{FFFD}x");
        assert!(matches!(shown("4.19.9"), Cow::Borrowed(_)));
        assert_eq!(shown(&"x".repeat(5000)).len(), SHOWN_MAX + 3);
    }

    #[test]
    fn warnings_are_short_single_lines_without_repeats() {
        let many = warnings((0..30).map(|n| format!("warning {n}\nline\ttwo {}", "y".repeat(400))));
        assert_eq!(many.len(), WARNINGS_MAX);
        assert!(many.iter().all(|w| w.chars().count() <= WARNING_MAX && !w.contains(char::is_control)), "{many:?}");
        assert!(many[9].starts_with("21 more warnings"), "{}", many[9]);
        assert_eq!(warnings(["a".into(), "a".into()]), ["a"]);
    }
}
