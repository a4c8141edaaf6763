//! Every policy case, through `airgate test` as an administrator runs it.

use std::process::Command;

#[test]
fn all_cases_pass() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output =
        Command::new(env!("CARGO_BIN_EXE_airgate")).arg("test").arg(format!("{root}/policies")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(" passed, 0 failed"), "{text}");
}
