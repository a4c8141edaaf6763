//! `airgate check`: the verdict on a request before it is sent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::output::{Colour, Format, line, note, paint};
use super::request::{Input, PatchArgs, UpgradeArgs, read};
use super::source::{SourceArgs, Sources, now};
use crate::action::{Action, NoReview, Target};
use crate::answer::Response;
use crate::engine::{self, Facts};
use crate::inputs::{self, Known};
use crate::problem::Problem;
use crate::release::Attempt;
use crate::review::BadInput;
use crate::saved::Replay;
use crate::verdict::{Finding, Result as Outcome};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CheckArgs {
    #[command(subcommand)]
    form: Option<Form>,
    /// An AdmissionReview, or plain objects as `oc apply` would send them; - reads stdin
    #[arg(value_name = "FILE", required_unless_present_any = ["filename", "replay"])]
    file: Option<PathBuf>,
    /// The same, as oc spells it
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "file")]
    filename: Option<PathBuf>,
    /// The request, cluster, releases, settings and time that `airgate snapshot DIR --request FILE` saved
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "filename", "state", "kubeconfig", "config", "releases", "now"])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Judge as of this moment
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<String>,
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
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

pub(super) const EXIT_DENIED: u8 = 1;
const EXIT_BAD_INPUT: u8 = 2;
pub(super) const EXIT_UNKNOWN: u8 = 3;

pub fn run(args: CheckArgs) -> Result<ExitCode> {
    if let Some(directory) = &args.replay {
        return again(directory, args.common.output);
    }
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
    note_problems(&problems, common.output);
    let mut codes = vec![];
    let several = inputs.len() > 1;
    for input in inputs {
        let about = input.about();
        if several && common.output == Format::Text {
            line(&paint(Colour::Bold, &format!("# {about}")));
        }
        let report = input.body(&sources).map_or_else(Report::NoReview, |body| {
            let attempt = look_up(&body, &sources, facts);
            judge(&body, Facts { catalog: &sources.catalog(), attempt: attempt.as_ref(), ..facts })
        });
        report.print(common.output, &about, &problems)?;
        codes.push(report.code());
    }
    // The first of these that occurred.
    let code = [EXIT_BAD_INPUT, EXIT_DENIED, EXIT_UNKNOWN].into_iter().find(|code| codes.contains(code));
    Ok(ExitCode::from(code.unwrap_or_default()))
}

/// The verdict that a saved cluster was saved for.
fn again(directory: &Path, output: Format) -> Result<ExitCode> {
    let replay = Replay::load(directory).map_err(anyhow::Error::msg)?;
    note_problems(&replay.problems, output);
    let report = judge(&replay.request, replay.facts());
    report.print(output, &Input::Review(replay.request.clone()).about(), &replay.problems)?;
    Ok(ExitCode::from(report.code()))
}

fn note_problems(problems: &[Problem], output: Format) {
    if output == Format::Text {
        for problem in problems {
            note(&format!("note: {problem}"));
        }
    }
}

/// What came out for one request.
pub enum Report {
    Judged { outcome: Outcome, response: Response, findings: Vec<Finding> },
    Unanswerable(BadInput),
    NoReview(NoReview),
}

/// Reads the release that the verdict wants, where that could change it; the catalog has it then.
pub fn look_up(body: &[u8], sources: &Sources, facts: Facts<'_>) -> Option<Attempt> {
    let judged = engine::judge(body, facts).ok()?;
    let want = judged.verdict.wants.first().filter(|_| judged.verdict.result != Outcome::Deny)?;
    sources.look_up(want)
}

pub fn judge(body: &[u8], facts: Facts<'_>) -> Report {
    match engine::judge(body, facts) {
        Ok(mut judged) => {
            inputs::annotate(&mut judged, &Known::of(facts.cluster, facts.catalog, facts.settings), facts.now);
            Report::Judged {
                outcome: judged.verdict.result,
                response: judged.response,
                findings: judged.verdict.findings,
            }
        }
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

    pub fn print(&self, format: Format, about: &str, problems: &[Problem]) -> Result<()> {
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
