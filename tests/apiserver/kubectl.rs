//! Running kubectl, whose output is what our users see.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

pub struct Kubectl {
    command: Command,
    line: Vec<String>,
    stdin: Option<String>,
}

#[derive(Debug)]
pub struct Output {
    /// The command, for messages about the rest.
    pub line: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    pub fn new(binaries: &Path, dir: &Path) -> Self {
        let mut command = Command::new(binaries.join("kubectl"));
        // Nothing of the person who runs the tests, and no discovery cache, for
        // tests change what there is to discover.
        command
            .env_clear()
            .env("HOME", dir)
            .env("TMPDIR", dir)
            .env("KUBECONFIG", dir.join("kubeconfig"))
            .env("KUBECACHEDIR", "/dev/null/none");
        Self { command, line: vec!["kubectl".to_owned()], stdin: None }
    }

    pub fn args<I: IntoIterator<Item: Into<String>>>(mut self, args: I) -> Self {
        self.line.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Acts as this user, with no group but these and system:authenticated.
    pub fn impersonate(self, user: &str, groups: &[&str]) -> Self {
        self.args([format!("--as={user}")]).args(groups.iter().map(|group| format!("--as-group={group}")))
    }

    pub fn run(mut self) -> Output {
        let mut process = self
            .command
            .args(&self.line[1..])
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        let pipe = process.stdin.take();
        let output = thread::scope(|scope| {
            // Beside the reading, or the two could wait for each other. One who
            // ends without reading it all says why itself.
            if let (Some(mut pipe), Some(text)) = (pipe, &self.stdin) {
                scope.spawn(move || pipe.write_all(text.as_bytes()));
            }
            process.wait_with_output().expect("wait for kubectl")
        });
        Output {
            line: self.line.join(" "),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("kubectl prints UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("kubectl prints UTF-8"),
        }
    }
}

impl Output {
    /// What it printed, where it must have succeeded.
    pub fn success(self) -> String {
        assert!(self.code == 0, "{}: exit {}\n{}{}", self.line, self.code, self.stdout, self.stderr);
        self.stdout
    }

    /// What it complained about, where it must have failed.
    pub fn failure(self) -> String {
        assert!(self.code != 0, "{}: succeeded\n{}{}", self.line, self.stdout, self.stderr);
        self.stderr
    }
}
