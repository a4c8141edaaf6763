//! How long a caller waits for an answer, and by when we must therefore have given it. Pure.
//!
//! Kubernetes appends `?timeout=10s` to the URL of a webhook and hangs up after that time; the value is
//! a Go duration. An answer that arrives later is worth nothing, so the work is bounded by it.

use std::time::Duration;

/// Part of the caller's time that is kept back for the way home (encoding, network, the caller's own
/// decoding): a tenth of it, and never more than [`MARGIN_MAX`].
const MARGIN_FRACTION: u32 = 10;
const MARGIN_MAX: Duration = Duration::from_millis(500);

/// A `?timeout=` that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read the query parameter timeout={0:?}: send a positive Go duration with units, such as 10s, 500ms or 1m30s"
)]
pub struct BadTimeout(String);

/// When the work of one request must stop, counted from its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// For the engine: it is told to have answered by then.
    pub work: Duration,
    /// For the edge: it answers in the engine's place from then on. A little later than `work`, so that
    /// the engine's own, better informed, answer wins when it keeps its deadline.
    pub answer: Duration,
}

impl Budget {
    /// The budget of a request with this query string: the caller's patience or our own limit,
    /// whichever is shorter, less the margin.
    pub fn of(query: Option<&str>, own: Duration) -> Result<Self, BadTimeout> {
        let asked = requested(query.unwrap_or_default())?;
        let patience = asked.map_or(own, |asked| asked.min(own));
        let margin = (patience / MARGIN_FRACTION).min(MARGIN_MAX);
        Ok(Self { work: patience.saturating_sub(margin), answer: patience.saturating_sub(margin / 2) })
    }
}

/// The value of `timeout` in a query string, if there is one.
fn requested(query: &str) -> Result<Option<Duration>, BadTimeout> {
    let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("timeout="));
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match parse_go_duration(value) {
        Some(duration) if !duration.is_zero() => Ok(Some(duration)),
        // Shown back to the caller, so no more of it than a duration could need.
        _ => Err(BadTimeout(value.chars().take(32).collect())),
    }
}

/// Go's `time.ParseDuration` for the values that make sense here: one or more decimal numbers, each with
/// a unit, without a minus sign. `None` for everything else, overflow included.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total = total.checked_add(in_unit(number, unit_nanos(unit)?)?)?;
        rest = tail;
    }
    Some(total)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

/// `number` (digits with at most one point, at least one digit) times `unit`, in integers as Go does it.
fn in_unit(number: &str, unit: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut scale = unit;
    for digit in fraction.bytes() {
        scale /= 10; // digits below a nanosecond are cut off
        nanos = nanos.checked_add(u64::from(digit - b'0') * scale)?;
    }
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("5s", Some(ms(5_000))),
            ("10s", Some(ms(10_000))),
            ("+5s", Some(ms(5_000))),
            ("500ms", Some(ms(500))),
            ("1m30s", Some(ms(90_000))),
            ("1h0m0.5s", Some(ms(3_600_500))),
            ("1.5s", Some(ms(1_500))),
            (".5s", Some(ms(500))),
            ("5.s", Some(ms(5_000))),
            ("100us", Some(Duration::from_micros(100))),
            ("100µs", Some(Duration::from_micros(100))),
            ("7ns", Some(Duration::from_nanos(7))),
            ("0.0000000019s", Some(Duration::from_nanos(1))),
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("", None),
            ("5", None),
            ("s", None),
            (".s", None),
            ("1..5s", None),
            ("1.5.5s", None),
            ("-5s", None),
            ("5 s", None),
            ("5S", None),
            ("5d", None),
            ("5s ", None),
            ("1e3s", None),
            ("99999999999999999999s", None),
            ("9999999999h", None),
            ("18446744073s18446744073s", Some(Duration::from_secs(36_893_488_146))),
        ] {
            assert_eq!(parse_go_duration(text), expected, "{text:?}");
        }
    }

    #[test]
    fn budgets() {
        let own = Duration::from_secs(10);
        let ms = Duration::from_millis;
        for (query, work, answer) in [
            (None, 9_500, 9_750),
            (Some(""), 9_500, 9_750),
            (Some("timeout=30s"), 9_500, 9_750),
            (Some("timeout=10s"), 9_500, 9_750),
            (Some("timeout=5s"), 4_500, 4_750),
            (Some("timeout=1s"), 900, 950),
            (Some("dryRun=All&timeout=200ms"), 180, 190),
            (Some("xtimeout=1s"), 9_500, 9_750),
        ] {
            let budget = Budget::of(query, own).unwrap();
            assert_eq!((budget.work, budget.answer), (ms(work), ms(answer)), "{query:?}");
        }
    }

    #[test]
    fn a_bad_timeout_is_shown_and_explained() {
        for query in ["timeout=5", "timeout=", "timeout=0s", "timeout=-1s"] {
            let text = Budget::of(Some(query), Duration::from_secs(10)).unwrap_err().to_string();
            assert!(text.contains("such as 10s"), "{text}");
        }
        let long = format!("timeout={}", "9".repeat(5_000));
        assert!(Budget::of(Some(&long), Duration::from_secs(10)).unwrap_err().to_string().len() < 200);
    }
}
