//! `airgate check`: the verdict on a request before it is sent.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use super::output::{Colour, Format, line, note, paint};
use super::source::{SourceArgs, Sources, now};
use crate::action::upgrade::UpgradeFlags;
use crate::action::{Action, NoReview, Patch, Target, User};
use crate::answer::Response;
use crate::engine::{self, Facts};
use crate::files::document::{from_json, from_yaml};
use crate::files::{Limits, read_named};
use crate::problem::Problem;
use crate::review::BadInput;
use crate::text::shown;
use crate::verdict::{Finding, Result as Outcome};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CheckArgs {
    #[command(subcommand)]
    form: Option<Form>,
    /// An AdmissionReview, or plain objects as `oc apply` would send them; - reads stdin
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    file: Option<PathBuf>,
    /// The same, as oc spells it
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "file")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Judge as of this moment
    #[arg(long, value_name = "RFC3339")]
    now: Option<String>,
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Form {
    /// What `oc adm upgrade` would send
    Upgrade {
        #[command(flatten)]
        flags: UpgradeArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// What `oc patch RESOURCE NAME -p PATCH` would send
    Patch {
        #[command(flatten)]
        patch: PatchArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// What `oc delete RESOURCE NAME` would send
    Delete {
        /// RESOURCE/NAME
        #[arg(value_parser = Target::parse)]
        target: Target,
        #[command(flatten)]
        common: CommonArgs,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "what")]
struct UpgradeTarget {
    /// Upgrade to this release image, by digest
    #[arg(long, value_name = "PULLSPEC")]
    to_image: Option<String>,
    /// Upgrade to this version
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Migrate to the multi-architecture payload of the current version
    #[arg(long)]
    to_multi_arch: bool,
    /// Cancel the requested upgrade
    #[arg(long)]
    clear: bool,
}

#[derive(Debug, Args)]
struct UpgradeArgs {
    #[command(flatten)]
    target: UpgradeTarget,
    /// Set force: true
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct PatchArgs {
    /// RESOURCE/NAME
    #[arg(value_parser = Target::parse)]
    target: Target,
    /// The patch, as JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: String,
    #[arg(long = "type", value_enum, default_value = "merge")]
    kind: PatchKind,
    /// Patch this subresource
    #[arg(long, value_name = "S", default_value = "")]
    subresource: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatchKind {
    Merge,
    Json,
}

/// One thing to judge.
enum Input {
    Review(Vec<u8>),
    Action(Action),
}

impl Input {
    /// The object it is about, as RESOURCE/NAME.
    fn about(&self) -> String {
        match self {
            Self::Action(action) => {
                action.target().map(|target| format!("{}/{}", target.resource, target.name)).unwrap_or_default()
            }
            Self::Review(body) => {
                let review: Value = serde_json::from_slice(body).unwrap_or_default();
                let request = &review["request"];
                let name = [
                    &request["name"],
                    &request["object"]["metadata"]["name"],
                    &request["oldObject"]["metadata"]["name"],
                ];
                let name = name.into_iter().find_map(Value::as_str).unwrap_or_default();
                format!("{}/{}", request["resource"]["resource"].as_str().unwrap_or_default(), shown(name))
            }
        }
    }
}

const EXIT_DENIED: u8 = 1;
const EXIT_BAD_INPUT: u8 = 2;
const EXIT_UNKNOWN: u8 = 3;

pub fn run(args: CheckArgs) -> Result<ExitCode> {
    let (inputs, common) = match args.form {
        None => {
            let path = args.file.or(args.filename).context("name a file, or - for stdin")?;
            (read(&path)?, args.common)
        }
        Some(Form::Upgrade { flags, common }) => (vec![Input::Action(Action::Upgrade(flags.into()))], common),
        Some(Form::Patch { patch, common }) => (vec![Input::Action(patch.action()?)], common),
        Some(Form::Delete { target, common }) => (vec![Input::Action(Action::Delete(target))], common),
    };
    let now = now(common.now.as_deref())?;
    let sources = Sources::read(&common.source)?;
    let (snapshot, catalog, problems) = (sources.snapshot(), sources.catalog(), sources.problems());
    let signatures = sources.signatures();
    let facts = Facts { signatures: &signatures, ..Facts::of(&snapshot, &catalog, &sources.settings, now) };
    if common.output == Format::Text {
        for problem in problems.iter() {
            note(&format!("note: {problem}"));
        }
    }
    let mut codes = vec![];
    let several = inputs.len() > 1;
    for input in inputs {
        let about = input.about();
        if several && common.output == Format::Text {
            line(&paint(Colour::Bold, &format!("# {about}")));
        }
        let report = judge(input, &sources, facts);
        report.print(common.output, &about, &problems)?;
        codes.push(report.code());
    }
    // The first of these that occurred.
    let code = [EXIT_BAD_INPUT, EXIT_DENIED, EXIT_UNKNOWN].into_iter().find(|code| codes.contains(code));
    Ok(ExitCode::from(code.unwrap_or_default()))
}

/// What came out for one request.
enum Report {
    Judged { outcome: Outcome, response: Response, findings: Vec<Finding> },
    Unanswerable(BadInput),
    NoReview(NoReview),
}

fn judge(input: Input, sources: &Sources, facts: Facts<'_>) -> Report {
    let body = match input {
        Input::Review(body) => body,
        Input::Action(action) => {
            let review = action.target().and_then(|target| action.review(sources.stored(&target), &User::default()));
            match review {
                Ok(review) => review.to_string().into_bytes(),
                Err(no_review) => return Report::NoReview(no_review),
            }
        }
    };
    let judged = match engine::judge(&body, facts) {
        Ok(judged) if judged.verdict.result != Outcome::Deny && !judged.verdict.wants.is_empty() => {
            let attempt = sources.look_up(&judged.verdict.wants[0]);
            engine::judge(&body, Facts { catalog: &sources.catalog(), attempt: attempt.as_ref(), ..facts })
        }
        judged => judged,
    };
    match judged {
        Ok(judged) => Report::Judged {
            outcome: judged.verdict.result,
            response: judged.response,
            findings: judged.verdict.findings,
        },
        Err(bad) => Report::Unanswerable(bad),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    object: &'a str,
    allowed: bool,
    /// `bad input` where there is nothing that could be allowed or denied.
    outcome: &'a str,
    response: Option<&'a Response>,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    problems: &'a [Problem],
}

impl Report {
    fn code(&self) -> u8 {
        match self {
            Self::Judged { outcome: Outcome::Allow | Outcome::Warn, .. } => 0,
            Self::Judged { outcome: Outcome::Deny, .. } => EXIT_DENIED,
            Self::Judged { outcome: Outcome::Unknown, .. } | Self::NoReview(NoReview::Unknown(_)) => EXIT_UNKNOWN,
            // A value of the wrong type is a denial; a review that cannot be read is not.
            Self::Unanswerable(bad) if bad.malformed_object && bad.uid.is_some() => EXIT_DENIED,
            Self::Unanswerable(_) | Self::NoReview(NoReview::Bad(_)) => EXIT_BAD_INPUT,
        }
    }

    fn print(&self, format: Format, about: &str, problems: &[Problem]) -> Result<()> {
        match format {
            Format::Json => line(&self.json(about, problems)?),
            Format::Text => self.text(),
        }
        Ok(())
    }

    fn json(&self, object: &str, problems: &[Problem]) -> Result<String> {
        let (outcome, response, findings, message) = match self {
            Self::Judged { outcome, response, findings } => {
                (outcome.as_str(), Some(response.clone()), &findings[..], None)
            }
            Self::Unanswerable(bad) => {
                let response = bad.uid.as_ref().map(|uid| Response::to_bad_input(uid, bad));
                let outcome = if self.code() == EXIT_DENIED { "deny" } else { "bad input" };
                (outcome, response, &[][..], Some(&*bad.message))
            }
            Self::NoReview(NoReview::Unknown(text)) => ("unknown", None, &[][..], Some(&**text)),
            Self::NoReview(NoReview::Bad(text)) => ("bad input", None, &[][..], Some(&**text)),
        };
        let allowed = response.as_ref().is_some_and(|response| response.allowed);
        Ok(serde_json::to_string(&Json {
            object,
            allowed,
            outcome,
            response: response.as_ref(),
            findings,
            message,
            problems,
        })?)
    }

    fn text(&self) {
        let refused = |word: &str, text: &str| line(&format!("{}: {text}", paint(Colour::Red, word)));
        match self {
            Self::Judged { outcome, response, .. } => {
                for warning in &response.warnings {
                    line(&format!("{}: {warning}", paint(Colour::Yellow, "Warning")));
                }
                let message = response.status.as_ref().map_or("", |status| &*status.message);
                match outcome {
                    Outcome::Allow | Outcome::Warn => line(&paint(Colour::Green, "allowed")),
                    Outcome::Deny => refused("denied", message),
                    Outcome::Unknown => refused("denied, because a fact is missing", message),
                }
            }
            Self::Unanswerable(bad) if self.code() == EXIT_DENIED => refused("denied", &bad.message),
            Self::Unanswerable(bad) => refused("bad input", &bad.message),
            Self::NoReview(NoReview::Unknown(text)) => refused("not known", text),
            Self::NoReview(NoReview::Bad(text)) => refused("bad input", text),
        }
    }
}

impl From<UpgradeArgs> for UpgradeFlags {
    fn from(args: UpgradeArgs) -> Self {
        let UpgradeTarget { to_image, to, to_multi_arch, clear } = args.target;
        Self { to_image, to, to_multi_arch, clear, force: args.force }
    }
}

impl PatchArgs {
    fn action(self) -> Result<Action> {
        let mut documents = from_yaml(&self.patch).map_err(|error| anyhow::anyhow!("the patch {error}"))?;
        let (Some(value), true) = (documents.pop(), documents.is_empty()) else { bail!("the patch is empty") };
        let patch = match self.kind {
            PatchKind::Merge => Patch::Merge(value),
            PatchKind::Json => {
                Patch::Json(serde_json::from_value(value).context("the patch is no JSON patch: a list of operations")?)
            }
        };
        Ok(Action::Patch { target: self.target, patch, subresource: self.subresource })
    }
}

/// Every review and object of a file; a List is its items.
fn read(path: &std::path::Path) -> Result<Vec<Input>> {
    let place = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let bytes = read_named(path, Limits::default().file_bytes).context(place)?;
    // A review goes to the engine byte for byte, faults included: the server would meet the same.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Ok(documents) = from_json(&text).or_else(|_| from_yaml(&text)) else {
        if text.trim_start().starts_with('{') && text.contains("AdmissionReview") {
            return Ok(vec![Input::Review(bytes)]);
        }
        let fault = from_yaml(&text).err().unwrap_or_default();
        bail!("{}: {fault}", path.display());
    };
    let [document] = &documents[..] else { return inputs(documents, path) };
    if document["kind"] == "AdmissionReview" && text.trim_start().starts_with('{') {
        return Ok(vec![Input::Review(bytes)]);
    }
    inputs(documents, path)
}

fn inputs(documents: Vec<Value>, path: &std::path::Path) -> Result<Vec<Input>> {
    let mut inputs = vec![];
    for document in documents {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        match &document["items"] {
            Value::Array(items) if kind.ends_with("List") => {
                inputs.extend(items.iter().cloned().map(|item| Input::Action(Action::Apply(item))));
            }
            _ if kind == "AdmissionReview" => inputs.push(Input::Review(document.to_string().into_bytes())),
            _ => inputs.push(Input::Action(Action::Apply(document))),
        }
    }
    if inputs.is_empty() {
        bail!("{}: nothing to check in it", path.display());
    }
    Ok(inputs)
}
