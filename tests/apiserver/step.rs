//! One thing that a person does with kubectl, and everything that follows from it.

use std::fmt::Write as _;

use serde_json::Value;

use crate::guard::{Guard, IDENTITY};
use crate::kubectl::{Kubectl, Output};

pub struct Step {
    pub output: Output,
    /// Of the last write that the command sent; `None` where it sent none.
    pub code: Option<i64>,
    /// Whether the stored object differs afterwards, other than by what the API server counts up.
    pub changed: bool,
    /// `WEBHOOK POLICY: OUTCOME` of each audit annotation of airgate, in the order of their keys.
    pub audit: Vec<String>,
}

impl Guard {
    /// Runs a command that writes the object at this path.
    pub fn step(&self, path: &str, command: Kubectl) -> Step {
        let before = self.what_counts(path);
        let seen = self.testbed.audit_events().len();
        let output = command.run();
        let changed = self.what_counts(path) != before;
        let mut code = None;
        let mut audit = vec![];
        for event in &self.testbed.audit_events()[seen..] {
            // The API server writes objects of its own at any time, and airgate reads.
            let resource = event["objectRef"]["resource"].as_str().unwrap_or_default();
            if event["user"]["username"] == IDENTITY || !path.split('/').any(|part| part == resource) {
                continue;
            }
            code = event["responseStatus"]["code"].as_i64();
            for (key, value) in event["annotations"].as_object().into_iter().flatten() {
                // What the digests are is tested by itself; they differ from run to run.
                if let Some((webhook, policy)) = key.split_once("airgate.io/").filter(|(_, key)| *key != "inputs") {
                    audit.push(format!("{webhook}airgate.io {policy}: {}", self.normal(value.as_str().unwrap_or("?"))));
                }
            }
        }
        let output = Output { stdout: self.normal(&output.stdout), stderr: self.normal(&output.stderr), ..output };
        Step { output, code, changed, audit }
    }

    fn what_counts(&self, path: &str) -> Option<Value> {
        let mut object = self.api.get(path)?;
        let metadata = object["metadata"].as_object_mut()?;
        metadata.retain(|field, _| !["resourceVersion", "generation", "managedFields"].contains(&&**field));
        Some(object)
    }
}

impl Step {
    /// All of it as text, for a snapshot.
    pub fn transcript(&self) -> String {
        let mut text = format!("exit {}", self.output.code);
        if let Some(code) = self.code {
            // Writing to a String cannot fail.
            let _ = write!(text, ", HTTP {code}");
        }
        text.push_str(if self.changed { ", stored\n" } else { ", nothing stored\n" });
        for part in [&self.output.stderr, &self.output.stdout] {
            text.push_str(part);
        }
        for line in &self.audit {
            let _ = writeln!(text, "audit: {line}");
        }
        text
    }

    /// The policies that airgate judged by and what each said, such as `upgrade-path: deny`.
    pub fn policies(&self) -> Vec<String> {
        let outcome = |line: &String| {
            let (policy, text) = line.split_once(' ')?.1.split_once(": ")?;
            Some(format!("{policy}: {}", text.split([' ', ':', ',']).next()?))
        };
        self.audit.iter().filter_map(outcome).collect()
    }
}
