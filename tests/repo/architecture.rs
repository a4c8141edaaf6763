//! The invariants of ARCHITECTURE.md, held against the source.

use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The modules that lib.rs declares below a comment beginning with `section`.
fn modules(section: &str) -> Vec<String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let (_, after) = text.split_once(section).unwrap_or_else(|| panic!("lib.rs has no section {section}"));
    let names = after.lines().skip(1).take_while(|line| line.starts_with("pub mod ") || line.is_empty());
    names.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).map(str::to_owned).collect()
}

/// `foo.rs` and everything below `foo/`, as path and code without comments and tests.
fn files_of(module: &str) -> Vec<(PathBuf, String)> {
    let mut found = vec![];
    collect(&source().join(format!("{module}.rs")), &mut found);
    collect(&source().join(module), &mut found);
    assert!(!found.is_empty(), "no file of module {module}");
    found
}

fn collect(path: &Path, found: &mut Vec<(PathBuf, String)>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        found.push((path.to_owned(), code.join("\n")));
    }
}

/// The crate modules that a piece of code names.
fn used_modules(code: &str) -> Vec<String> {
    let after = code.split("crate::").skip(1);
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    after.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_core_has_no_io_no_clock_no_log_and_no_async() {
    let core = modules("// The core.");
    assert!(core.len() > 10 && core.contains(&"verdict".to_owned()), "{core:?}");
    for module in &core {
        for (path, code) in files_of(module) {
            for forbidden in [
                "tokio",
                "kube::",
                "k8s_openapi",
                "axum",
                "reqwest",
                "std::fs",
                "std::net::Tcp",
                "std::env",
                "std::io",
                "std::time",
                "tracing",
                "Timestamp::now",
                "Zoned::now",
                "println!",
                "eprintln!",
                "async ",
                ".await",
                "Mutex",
                "RwLock",
                "thread::",
            ] {
                assert!(!code.contains(forbidden), "{} is in the core and names {forbidden}", path.display());
            }
            for used in used_modules(&code) {
                let macro_or_core = core.contains(&used);
                assert!(macro_or_core, "{} is in the core and uses {used}, which is not", path.display());
            }
        }
    }
}

#[test]
fn what_stands_beside_the_core_knows_no_edge() {
    let mut inner = modules("// The core.");
    let beside = modules("// Pure too");
    inner.extend(beside.iter().cloned());
    for module in &beside {
        for (path, code) in files_of(module) {
            for used in used_modules(&code) {
                assert!(inner.contains(&used), "{} uses the edge {used}", path.display());
            }
        }
    }
}

#[test]
fn policies_are_pure_functions_over_the_context() {
    for (path, code) in files_of("policies") {
        for forbidden in ["crate::verdict", "crate::answer", "crate::breakglass::Use"] {
            assert!(
                !code.contains(forbidden),
                "{}: a policy asks, verdict decides; it names {forbidden}",
                path.display()
            );
        }
    }
}

/// The layers of the webhook port, outermost first, as ARCHITECTURE.md lists them.
#[test]
fn the_layers_stand_in_their_order() {
    let code = fs::read_to_string(source().join("http.rs")).unwrap();
    let order = ["layers::farewell", "CatchPanicLayer::custom", "layers::count_refusals", "layers::deadline"];
    let (_, router) = code.split_once("ServiceBuilder::new()").unwrap();
    let places: Vec<_> = order.iter().map(|layer| router.find(layer).unwrap_or_else(|| panic!("no {layer}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    // Of these the last added is the outermost: only what has arrived counts as in flight.
    assert!(code.find("layers::in_flight") < code.find("layers::whole_body"));
}

#[test]
fn files_stay_readable() {
    let mut found = vec![];
    collect(&source(), &mut found);
    for (path, _) in found {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 500, "{} has {lines} lines: does it still have one responsibility?", path.display());
    }
}

#[test]
fn every_policy_has_its_folder_with_a_page_and_cases() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    for policy in airgate::policies::POLICIES {
        let folder = policies.join(policy.id);
        assert!(folder.join("README.md").is_file(), "{} has no page", policy.id);
        let cases = fs::read_dir(folder.join("cases")).map(Iterator::count).unwrap_or_default();
        assert!(cases > 0, "{} has no cases", policy.id);
    }
}
