//! Running the built binary as a person would.

use std::io::Write;
use std::process::{Command, Stdio};

pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// `airgate ARGS` in the repository's root, with an environment of its own.
pub fn airgate(args: &[&str]) -> Output {
    airgate_with(args, &[], "")
}

pub fn airgate_with_stdin(args: &[&str], stdin: &str) -> Output {
    airgate_with(args, &[], stdin)
}

pub fn airgate_with(args: &[&str], environment: &[(&str, &str)], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_airgate"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its stdin closes it.
    let _closed = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
