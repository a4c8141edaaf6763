//! Walking through a page: each command in its order, in one shell's directory and with one shell's variables.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::page::Page;

/// What a test knows of a command, found by how it begins.
pub enum Then<'a> {
    /// A variable that a person sets to what the site has: here it is this.
    Set(String),
    /// The test does something first, such as what a kubelet would do.
    After(&'a dyn Fn(&Walk)),
    /// It leads to what the test then looks for.
    Leads(&'a dyn Fn(&Walk)),
    /// The test does something first, and looks afterwards.
    Both(&'a dyn Fn(&Walk), &'a dyn Fn(&Walk)),
    /// It does not end by itself; the test waits until this holds.
    Serves(&'a dyn Fn(&Walk) -> bool),
    /// It ends with this code.
    Exits(i32),
    /// It has words in capitals for what differs; this is run in its place, and ends with this code.
    As(String, i32),
    /// It is not run, for this reason.
    NotRun(&'static str),
}

/// A person at a terminal.
pub struct Walk<'a> {
    /// Where the commands run.
    pub dir: PathBuf,
    /// For every command, beside what the page sets.
    pub environment: BTreeMap<String, String>,
    spawn: &'a Spawn<'a>,
    serving: Vec<Child>,
}

/// Starts a process that ends at the latest with the test.
pub type Spawn<'a> = dyn Fn(&mut Command, &Path) -> Child + 'a;

/// `oc` as far as kubectl is it. What only oc knows is done as a recording of a real oc has it: `adm upgrade` is one merge
/// patch, `whoami` is what the API server says of the token.
const OC: &str = r#"#!/bin/bash
case "$1 $2" in
  "adm upgrade")
    shift 2
    force=false dry=
    while (($#)); do
      case "$1" in
        --clear) exec kubectl patch clusterversion/version --type=merge -p '{"spec":{"desiredUpdate":null}}' ;;
        --allow-explicit-upgrade) ;;
        --to-image) image=$2; shift ;;
        --to-image=*) image=${1#*=} ;;
        --force) force=true ;;
        --dry-run) dry=--dry-run=server ;; # of this test alone
        *) echo "this oc does not know adm upgrade $1" >&2; exit 64 ;;
      esac
      shift
    done
    body='{"architecture":"","version":"","image":"'$image'","force":'$force'}'
    exec kubectl patch clusterversion/version --type=merge -p '{"spec":{"desiredUpdate":'"$body"'}}' $dry ;;
  whoami*)
    shift
    exec kubectl auth whoami -o 'jsonpath={.status.userInfo.username}{"\n"}' "$@" ;;
esac
exec kubectl "$@"
"#;

impl<'a> Walk<'a> {
    /// With these programs before those of the machine, in a directory of its own below this one.
    pub fn with(programs: &[(&str, &Path)], dir: &Path, spawn: &'a Spawn<'a>) -> Self {
        let home = dir.join("person");
        let (bin, work) = (home.join("bin"), home.join("work"));
        for dir in [&bin, &work] {
            fs::create_dir_all(dir).expect("a directory");
        }
        for (name, program) in programs {
            symlink(program, bin.join(name)).expect("a program on the PATH");
        }
        fs::write(bin.join("oc"), OC).expect("oc on the PATH");
        fs::set_permissions(bin.join("oc"), fs::Permissions::from_mode(0o755)).expect("oc can be run");
        let path = std::env::var("PATH").expect("a PATH");
        let environment = [
            ("PATH", format!("{}:{path}", bin.display())),
            ("HOME", home.display().to_string()),
            ("TMPDIR", home.display().to_string()),
            ("KUBECACHEDIR", "/dev/null/none".to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Self { dir: work, environment, spawn, serving: vec![] }
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Runs every command of the page. What `known` has must be in it; of several entries that fit a command each counts
    /// once, in their order, and the last one from then on.
    pub fn through(&mut self, page: &Page, known: &[(&str, Then)]) {
        let mut used = vec![false; known.len()];
        for command in &page.commands {
            let place = format!("docs/{}:{}: {}", page.name, command.line, command.text);
            let fitting: Vec<_> = (0..known.len()).filter(|at| command.text.starts_with(known[*at].0)).collect();
            let then = fitting.iter().find(|at| !used[**at]).or(fitting.last()).map(|at| {
                used[*at] = true;
                &known[*at].1
            });
            if let Some((name, _)) = assignment(&command.text) {
                match then {
                    Some(Then::Set(value)) => self.set(name, value),
                    _ => panic!("{place}: the test has no value for it"),
                }
                continue;
            }
            match then {
                Some(Then::NotRun(reason)) => {
                    println!("{place}: not run: {reason}");
                    continue;
                }
                Some(Then::Serves(ready)) => {
                    self.serve(&place, &command.text, *ready);
                    continue;
                }
                Some(Then::After(act) | Then::Both(act, _)) => act(self),
                _ => {}
            }
            let (text, expected) = match then {
                Some(Then::As(text, code)) => (text, *code),
                Some(Then::Exits(code)) => (&command.text, *code),
                _ => (&command.text, 0),
            };
            let (code, out, err) = self.run(text);
            assert_eq!(code, expected, "{place}\n{err}{out}");
            if let Some(shown) = &command.shown {
                // As on a terminal, where warnings come before the result.
                let printed = err + &out;
                assert!(fits(shown, &printed), "{place}\nthe page shows:\n{shown}\nit printed:\n{printed}");
            }
            if let Some(Then::Leads(seen) | Then::Both(_, seen)) = then {
                seen(self);
            }
        }
        for ((beginning, _), used) in known.iter().zip(used) {
            assert!(used, "docs/{}: nothing begins with: {beginning}", page.name);
        }
    }

    /// Exit code, standard output, standard error.
    pub fn run(&self, text: &str) -> (i32, String, String) {
        let output = self.shell(text).output().expect("run bash");
        let text = |bytes| String::from_utf8(bytes).expect("programs print UTF-8");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    fn shell(&self, text: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", text]).current_dir(&self.dir).env_clear().envs(&self.environment);
        shell
    }

    fn serve(&mut self, place: &str, text: &str, ready: &dyn Fn(&Self) -> bool) {
        self.stop();
        let log = self.dir.join("serve.log");
        let mut child = (self.spawn)(&mut self.shell(&format!("exec {text}")), &log);
        crate::server::eventually(place, || {
            let ended = child.try_wait().expect("wait for a server");
            assert!(ended.is_none(), "{place}: ended: {}", fs::read_to_string(&log).unwrap_or_default());
            ready(self).then_some(())
        });
        self.serving.push(child);
    }

    /// Ends what serves, as Ctrl-C does.
    pub fn stop(&mut self) {
        for mut child in self.serving.drain(..) {
            let sent = Command::new("sh").args(["-c", "kill -s INT \"$0\"", &child.id().to_string()]).status();
            assert!(sent.expect("run kill").success());
            child.wait().expect("wait for a server");
        }
    }
}

/// Status and body of a GET without encryption, or `None` where nobody answers.
pub fn http_get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// `NAME=value` and nothing else.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let plain = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    (plain && !name.is_empty() && !value.contains("$(")).then_some((name, value))
}

/// Whether what was printed is what is shown, where `...` stands for any lines and `...` within a line for any text.
fn fits(shown: &str, printed: &str) -> bool {
    let shown: Vec<_> = shown.trim().lines().map(str::trim_end).collect();
    let printed: Vec<_> = printed.trim().lines().map(str::trim_end).collect();
    lines_fit(&shown, &printed)
}

fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        (["...", rest @ ..], _) => (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..])),
        ([first, shown @ ..], [line, printed @ ..]) => line_fits(first, line) && lines_fit(shown, printed),
        _ => false,
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let parts: Vec<_> = shown.split("...").collect();
    let [first, rest @ ..] = &parts[..] else { return false };
    let Some(mut left) = printed.strip_prefix(first) else { return false };
    let [between @ .., last] = rest else { return left.is_empty() };
    for part in between {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[test]
fn what_is_shown_is_compared_but_for_what_it_leaves_out() {
    assert!(fits("a\n...\nz", "a\nb\nc\nz\n"));
    assert!(fits("took ... s", "took 12 s"));
    assert!(!fits("a\nz", "a\nb\nz"));
    assert!(!fits("took ... s", "took 12 m"));
    assert!(!fits("a", "a b"));
}
