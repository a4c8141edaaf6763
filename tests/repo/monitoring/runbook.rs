//! Every alert has its section, where its runbook_url says, and the binary prints it.

use std::fs;
use std::path::Path;

use super::{FLAVORS, alerts, rules, text};
use crate::run::airgate;

/// What a Markdown viewer makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn headings(markdown: &str) -> Vec<&str> {
    markdown.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

#[test]
fn every_alert_has_its_section() {
    let rules = rules(FLAVORS[0]);
    let mut names = vec![];
    for alert in alerts(&rules) {
        let name = text(alert, "/alert");
        names.push(name);
        let (file, part) = text(alert, "/annotations/runbook_url").split_once('#').unwrap();
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let of_anchor: Vec<_> = headings(&page).into_iter().filter(|heading| anchor(heading) == part).collect();
        assert_eq!(of_anchor, [name], "{file}#{part}");

        let printed = airgate(&["runbook", name]);
        assert_eq!(printed.code, 0, "{}", printed.stderr);
        let section = &printed.stdout;
        assert!(section.starts_with(&format!("## {name}\n")), "{section}");
        assert_eq!(section.matches("\n## ").count(), 0, "one section only: {section}");
        assert!(page.contains(section.trim_end()), "{section}");
        assert!(section.contains("\n    "), "{name}: no command to type");
        assert!(section.contains("Ends "), "{name}: when does it end?");
        let flowing = section.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flowing.contains("Still works: ") || flowing.contains("Nothing is wrong"), "{name}: what still works?");
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md")).unwrap();
    for heading in headings(&page).into_iter().filter(|heading| heading.starts_with("Airgate")) {
        assert!(names.contains(&heading), "the runbook knows {heading}, which nothing raises");
    }
}

#[test]
fn what_a_person_sees_leads_to_its_section() {
    let why = r#"Error from server (InternalError): failed calling webhook "clusterversion.airgate.io": Post "https://x": EOF"#;
    for (words, heading) in [
        (vec!["airgatedown"], "AirgateDown"),
        (vec!["locked", "out"], "Locked out?"),
        (vec![why], r#"`failed calling webhook "clusterversion.airgate.io"` (or `internalreleaseimage.airgate.io`)"#),
        (
            vec!["context deadline exceeded"],
            r#"`failed calling webhook "clusterversion.airgate.io"` (or `internalreleaseimage.airgate.io`)"#,
        ),
        (vec!["airgate unregister"], "Locked out?"),
    ] {
        let printed = airgate(&[&["runbook"], &words[..]].concat());
        assert_eq!((printed.code, printed.stdout.lines().next()), (0, Some(&*format!("## {heading}"))), "{words:?}");
    }
    let unknown = airgate(&["runbook", "no such thing"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("AirgateDown"), "{}", unknown.stderr);
}

#[test]
fn links_within_the_runbook_lead_somewhere() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md")).unwrap();
    let anchors: Vec<_> = headings(&page).into_iter().map(anchor).collect();
    let links: Vec<_> = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(!links.is_empty());
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "#{link} is none of {anchors:#?}");
    }
}

#[test]
fn what_nobody_knows_is_named_with_what_there_is() {
    let unknown = airgate(&["runbook", "KubePodCrashLooping"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("KubePodCrashLooping") && unknown.stderr.contains("AirgateDown"),
        "{}",
        unknown.stderr
    );
    assert_eq!(airgate(&["runbook", "airgatedown"]).stdout, airgate(&["runbook", "AirgateDown"]).stdout);
    assert!(airgate(&["runbook"]).stdout.starts_with("# Runbook\n"));
}
