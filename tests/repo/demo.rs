//! The demo: what it shows came back over HTTPS, so editing a file changes it.

use super::run::airgate;

#[test]
fn six_steps_and_an_edited_file_changes_the_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("site");
    let dir = dir.to_str().unwrap();
    let first = airgate(&["demo", "--dir", dir]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(first.stdout.matches("\n$ o").count(), 6, "{}", first.stdout);
    assert_eq!(first.stdout.matches("denied the request").count(), 5, "{}", first.stdout);
    assert!(first.stdout.contains("4.21.9 cannot go straight to 4.23.1"), "{}", first.stdout);
    assert!(!first.stdout.contains('\x1b'), "no colour where no terminal is");

    let catalog = format!("{dir}/releases/catalog.yaml");
    let text = std::fs::read_to_string(&catalog).unwrap();
    std::fs::write(&catalog, text.replace("previous: [4.22.2,", "previous: [4.21.9, 4.22.2,")).unwrap();
    let second = airgate(&["demo", "--dir", dir]);
    assert_eq!(second.stdout.matches("denied the request").count(), 3, "{}", second.stdout);
    assert!(!second.stdout.contains("cannot go straight to 4.23.1"), "{}", second.stdout);
}
