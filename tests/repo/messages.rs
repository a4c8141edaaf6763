//! What a person is shown, over every case there is.

use airgate::cases::{embedded, situation};
use airgate::engine::Judged;

/// Every case that is judged, by file and name.
fn judged() -> Vec<(String, Judged)> {
    let files = embedded::files().map(|(_, name, file)| (name, file.unwrap()));
    let judge = |(name, file): (String, airgate::cases::CaseFile)| {
        let judge = |case: &airgate::cases::Case| {
            let judged = situation(&file, case).unwrap().judge().ok()?;
            Some((format!("{name}: {}", case.name), judged))
        };
        file.cases.iter().filter_map(judge).collect::<Vec<_>>()
    };
    files.flat_map(judge).collect()
}

#[test]
fn denials_are_short_whole_and_say_what_works_instead() {
    let mut denials = 0;
    for (case, judged) in judged() {
        let Some(status) = &judged.response.status else { continue };
        let message = &status.message;
        denials += 1;
        assert!(message.chars().count() <= 1200, "{case}: {} characters:\n{message}", message.chars().count());
        let hidden = message.contains(|c: char| c.is_control() && c != '\n');
        assert!(!hidden, "{case}: control characters in {message:?}");
        let json_dump =
            message.contains("{\"") || message.contains("\":") || message.contains("Some(") || message.contains("None");
        assert!(!json_dump, "{case}: a dump instead of a sentence:\n{message}");
        for part in ["why: ", "works: "] {
            assert!(message.contains(part), "{case} lacks {part:?}:\n{message}");
        }
        assert!(
            message.contains("rule:  ") || message.contains("airgate.io/override cannot be read"),
            "{case}:\n{message}"
        );
        let details = status.details.as_ref().unwrap();
        assert!(!details.kind.is_empty() && !details.causes.is_empty(), "{case}: kubectl prints only these of a 422");
        assert!(
            status.code != 422 || details.causes[0].message == *message,
            "{case}: the first cause holds the whole text"
        );
    }
    assert!(denials > 200, "only {denials} denials");
}

#[test]
fn warnings_reach_the_terminal() {
    let mut warnings = 0;
    for (case, judged) in judged() {
        assert!(judged.response.warnings.len() <= 10, "{case}");
        for warning in &judged.response.warnings {
            warnings += 1;
            let one_short_line =
                !warning.is_empty() && warning.chars().count() <= 250 && !warning.contains(char::is_control);
            assert!(one_short_line, "{case}: {warning:?} would be dropped or cut");
        }
    }
    assert!(warnings > 50, "only {warnings} warnings");
}

#[test]
fn audit_annotations_have_plain_names() {
    for (case, judged) in judged() {
        for key in judged.response.audit_annotations.keys() {
            let plain = key.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(plain, "{case}: the API server drops {key:?} silently");
        }
    }
}
