//! The rows of docs/availability.md.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::Scenario;
use super::calls::{CALLS, Fate, Stream};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/availability.md");
const BEGIN: &str = "<!-- made by tests/apiserver/availability -->";

/// The rows in their order.
const ORDER: [&str; 13] = [
    "rolling restart of two replicas",
    "SIGTERM to one of two replicas under load",
    "five certificate rotations, each with a new CA",
    "restart of the API server",
    "etcd stopped for 5 s",
    "watches resumed after etcd was compacted: 410 Gone",
    "the replica that is called is cut off from the API server",
    "packets between that replica and the API server vanish for 25 s",
    "the replica that is called is cut off from its callers",
    "registry stopped",
    "registry accepts connections and never answers",
    "disk full: log, cache and temporary files",
    "the clock jumps a day forward, a day back, ten years forward",
];

/// Scenarios of several tests write the same file.
static WRITING: Mutex<()> = Mutex::new(());

pub struct Row {
    name: String,
    /// All; judged, refused for want of a fact, failed, wrong, without an API server.
    counts: [u64; 6],
}

impl Row {
    pub fn of(name: &str, stream: &Stream) -> Self {
        let of = |fate| stream.of(fate);
        let parts = [Fate::Judged, Fate::Cautious, Fate::Failed, Fate::Wrong, Fate::Away].map(of);
        let [judged, cautious, failed, wrong, away] = parts;
        let counts = [parts.iter().sum(), judged, cautious, failed, wrong, away];
        Self { name: name.to_owned(), counts }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let name = cells.next()?.to_owned();
        let counts: Vec<u64> = cells.map(|cell| cell.replace(',', "").parse().ok()).collect::<Option<_>>()?;
        Some(Self { name, counts: counts.try_into().ok()? })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.name)?;
        for count in self.counts {
            let (thousands, rest) = (count / 1000, count % 1000);
            if thousands > 0 { write!(f, " {thousands},{rest:03} |")? } else { write!(f, " {rest} |")? }
        }
        Ok(())
    }
}

/// Writes the row where it is asked for; else the page must have one that this scenario could have made.
pub fn keep(scenario: &Scenario, row: &Row) {
    assert!(ORDER.contains(&row.name.as_str()), "{} has no place in the table", row.name);
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(PAGE).expect("docs/availability.md");
    let (head, table) = text.split_once(BEGIN).expect("where the table begins");
    let (table, tail) = table.split_once("<!-- end -->").expect("where the table ends");
    let mut lines: Vec<String> = table.trim().lines().map(ToOwned::to_owned).collect();
    let documented = lines.iter_mut().find(|line| Row::parse(line).is_some_and(|known| known.name == row.name));
    if std::env::var_os("AIRGATE_WRITE").is_some() {
        match documented {
            Some(line) => *line = row.to_string(),
            None => lines.push(row.to_string()),
        }
        let place = |line: &String| Row::parse(line).and_then(|row| ORDER.iter().position(|name| *name == row.name));
        // The heading has no place and stays first.
        lines.retain(|line| place(line).is_some() || Row::parse(line).is_none());
        lines.sort_by_key(place);
        let text = format!("{head}{BEGIN}\n{}\n<!-- end -->{tail}", lines.join("\n"));
        std::fs::write(PAGE, text).expect("write docs/availability.md");
        return;
    }
    let hint = "AIRGATE_WRITE=1 cargo test --test apiserver availability writes docs/availability.md anew";
    let Some(line) = documented else { panic!("no row {}: {hint}", row.name) };
    let [calls, judged, cautious, failed, wrong, away] = Row::parse(line).expect("a row").counts;
    assert!(
        calls >= CALLS && calls == judged + cautious + failed + wrong + away && wrong == 0,
        "{line}: calls are missing or wrong: {hint}"
    );
    for (may, count) in [(&scenario.cautious, cautious), (&scenario.failed, failed), (&scenario.away, away)] {
        assert!(may.contains(&count), "{line}: {count} cannot be, only {may:?}: {hint}");
    }
}
