use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Days after the beginning.
fn day(days: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "some days in seconds")]
    let seconds = (days * DAY as f64) as i64;
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn ca(from: f64) -> Ca {
    Ca { not_before: day(from), not_after: day(from + 1095.0) }
}

fn leaf(from: f64) -> Leaf {
    Leaf { not_before: day(from), not_after: day(from + 90.0) }
}

const FRESH: Own = Own { remembers: false, useless_since: None };

fn good() -> State {
    State { signer: Some(ca(0.0)), leaf: Some(leaf(0.0)), ..State::default() }
}

/// With the next CA since day 730, and a leaf of day 720.
fn overlap(trusted_since: Option<f64>) -> State {
    State { next: Some(ca(730.0)), leaf: Some(leaf(720.0)), trusted_since: trusted_since.map(day), ..good() }
}

/// One day in ten minutes.
const TEN_MINUTES: f64 = 1.0 / 144.0;

#[test]
fn over_time() {
    use Action::*;
    let retiring = |until: f64| vec![Retiring { leaves_until: day(until) }];
    for (name, state, trust, at, expected) in [
        ("all is well", good(), Trust::Holds, 1.0, Wait),
        ("nobody is registered yet", good(), Trust::Absent, 1.0, Wait),
        ("registered without a bundle", good(), Trust::Empty, 1.0, WriteBundle),
        ("somebody wrote another bundle", good(), Trust::Differs, 1.0, WriteBundle),
        ("the configuration cannot be read", good(), Trust::OutOfReach, 1.0, Wait),
        ("a day before the renewal", good(), Trust::Holds, 59.0, Wait),
        ("two thirds of the leaf's life", good(), Trust::Holds, 60.0, IssueLeaf),
        ("the same without a configuration", good(), Trust::Absent, 60.0, IssueLeaf),
        ("the same where it cannot be reached", good(), Trust::OutOfReach, 60.0, IssueLeaf),
        ("the bundle comes first", good(), Trust::Differs, 60.0, WriteBundle),
        ("the leaf is gone", State { leaf: None, ..good() }, Trust::Holds, 1.0, IssueLeaf),
        ("the leaf has expired", good(), Trust::Holds, 90.0, IssueLeaf),
        ("the leaf is not valid yet", State { leaf: Some(leaf(5.0)), ..good() }, Trust::Holds, 1.0, IssueLeaf),
        ("two thirds of the CA's life", State { leaf: Some(leaf(729.0)), ..good() }, Trust::Holds, 730.0, AddNext),
        ("the CA's key is gone", State { signer: None, ..good() }, Trust::Holds, 1.0, AddNext),
        ("the next CA is not everywhere", overlap(None), Trust::Differs, 731.0, WriteBundle),
        ("it is everywhere", overlap(None), Trust::Holds, 731.0, NoteTrusted),
        ("for a moment only", overlap(Some(731.0)), Trust::Holds, 731.0 + TEN_MINUTES / 2.0, Wait),
        ("for long enough", overlap(Some(731.0)), Trust::Holds, 731.0 + TEN_MINUTES, Promote),
        ("it was taken out again", overlap(Some(731.0)), Trust::Differs, 732.0, NoteUntrusted),
        ("the configuration was deleted", overlap(Some(731.0)), Trust::Absent, 732.0, NoteUntrusted),
        ("it cannot be read just then", overlap(Some(731.0)), Trust::OutOfReach, 732.0, Wait),
        ("a leaf is renewed while it waits", overlap(None), Trust::OutOfReach, 785.0, IssueLeaf),
        ("nobody ever trusted it, the CA ends", overlap(None), Trust::OutOfReach, 1095.0, Promote),
        ("both ended", overlap(None), Trust::Absent, 2000.0, StartOver),
        (
            "trust in what is not there",
            State { next: None, ..overlap(Some(731.0)) },
            Trust::Holds,
            732.0,
            NoteUntrusted,
        ),
        ("a leaf of the old CA may be served", State { retiring: retiring(30.0), ..good() }, Trust::Holds, 30.0, Wait),
        ("it has expired everywhere", State { retiring: retiring(30.0), ..good() }, Trust::Holds, 30.1, DropRetired),
        (
            "the next one has ended, too",
            State { next: Some(ca(-500.0)), ..overlap(None) },
            Trust::OutOfReach,
            735.0,
            AddNext,
        ),
        ("nothing, nobody is registered", State::default(), Trust::Absent, 1.0, StartOver),
        ("nothing, no bundle", State::default(), Trust::Empty, 1.0, StartOver),
    ] {
        assert_eq!(next(&state, trust, FRESH, &Timing::default(), day(at)), expected, "{name}");
    }
}

#[test]
fn a_ca_that_ends_soon_issues_no_leaf_after_leaf() {
    // Nobody trusts the next CA for a year; the leaf ends with the CA.
    let leaf = Leaf { not_before: day(1050.0), not_after: day(1095.0) };
    let state = State { leaf: Some(leaf), ..overlap(None) };
    for at in [1066.0, 1080.0, 1094.9] {
        assert_eq!(next(&state, Trust::OutOfReach, FRESH, &Timing::default(), day(at)), Action::Wait, "{at}");
    }
}

#[test]
fn who_remembers_puts_it_back_and_the_others_let_him() {
    let timing = Timing::default();
    let (nothing, now) = (State::default(), day(1.0));
    let own = |remembers, seconds: Option<i64>| Own {
        remembers,
        useless_since: seconds.map(|seconds| now - SignedDuration::from_secs(seconds)),
    };
    for (trust, own, expected) in [
        (Trust::Differs, own(true, Some(0)), Action::Restore),
        (Trust::Absent, own(true, None), Action::Restore),
        (Trust::Differs, own(false, Some(0)), Action::Wait),
        (Trust::Differs, own(false, Some(8)), Action::Wait),
        (Trust::Differs, own(false, Some(9)), Action::StartOver),
        (Trust::OutOfReach, own(false, Some(8)), Action::Wait),
        (Trust::OutOfReach, own(false, Some(9)), Action::StartOver),
        (Trust::Absent, own(false, Some(0)), Action::StartOver),
    ] {
        assert_eq!(next(&nothing, trust, own, &timing, now), expected, "{trust:?} {own:?}");
    }
}

#[test]
fn a_certificate_that_outlives_what_is_issued_is_none_of_its_own() {
    let leaf = Some(Leaf { not_before: day(0.0), not_after: day(3_000.0) });
    let state = State { signer: Some(ca(0.0)), leaf, ..State::default() };
    let own = Own { remembers: true, useless_since: None };
    assert_eq!(next(&state, Trust::Holds, own, &Timing::default(), day(1.0)), Action::IssueLeaf);
}
