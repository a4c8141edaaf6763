//! Every policy case, through `airgate test` as an administrator runs it.

use std::process::Command;

use airgate::cases::embedded;

#[test]
fn all_cases_pass() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output =
        Command::new(env!("CARGO_BIN_EXE_airgate")).arg("test").arg(format!("{root}/policies")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(" passed, 0 failed"), "{text}");
}

/// Fewer would leave a verdict without an example: every policy shows what it allows and what it refuses, and one
/// that rests on facts what it makes of a missing one.
#[test]
fn every_policy_has_cases_of_every_verdict() {
    for policy in airgate::policies::POLICIES {
        let outcomes: Vec<String> = embedded::files()
            .filter(|(owner, _, _)| *owner == policy.id)
            .flat_map(|(_, name, file)| file.unwrap_or_else(|fault| panic!("{name}: {fault}")).cases)
            .flat_map(|case| case.expect.policies.get(policy.id).cloned().into_iter().chain([case.expect.outcome]))
            .collect();
        let decides_alone = ["digest-only", "clusterversion-singleton"].contains(&policy.id);
        let wanted: &[&str] = match policy.id {
            "bundle-change" => &["allow", "warn", "unknown"],
            _ if decides_alone => &["allow", "deny"],
            _ => &["allow", "deny", "unknown"],
        };
        for outcome in wanted {
            assert!(outcomes.iter().any(|found| found == outcome), "{} has no case with outcome {outcome}", policy.id);
        }
    }
}
