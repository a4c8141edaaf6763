//! `airgate snapshot`: a cluster as files, for `--state` elsewhere or for the same verdict again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;

use super::check;
use super::output::{Format, line, note};
use super::request::{Input, PatchArgs, UpgradeArgs, read};
use super::source::{SourceArgs, Sources, now};
use crate::action::{Action, Target};
use crate::engine::Facts;
use crate::release::Catalog;
use crate::saved::{self, Objects, Replay, Saved};
use crate::text::counted;

#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// The directory to write; it must be empty or not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Replace what `airgate snapshot` wrote to DIR before
    #[arg(long)]
    force: bool,
    /// Save this request too, and everything that its verdict rests on: an AdmissionReview or an object, as `airgate check` takes it
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// The request is to be judged as of this moment [default: now]
    #[arg(long, value_name = "RFC3339")]
    now: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(subcommand)]
    form: Option<Form>,
}

/// A request given by flags; other flags stand before it.
#[derive(Debug, Subcommand)]
enum Form {
    /// Save what `oc adm upgrade` would send
    Upgrade(UpgradeArgs),
    /// Save what `oc patch RESOURCE NAME -p PATCH` would send
    Patch(PatchArgs),
    /// Save what `oc delete RESOURCE NAME` would send
    Delete {
        /// RESOURCE/NAME
        #[arg(value_parser = Target::parse)]
        target: Target,
    },
}

/// Something is not known and could not be saved.
const EXIT_INCOMPLETE: u8 = 3;

pub fn run(args: SnapshotArgs) -> Result<ExitCode> {
    let input = match (args.form, &args.request) {
        (Some(_), Some(_)) => bail!("give --request FILE or one of upgrade, patch and delete, not both"),
        (Some(Form::Upgrade(flags)), None) => Some(Input::Action(Action::Upgrade(flags.into()))),
        (Some(Form::Patch(patch)), None) => Some(Input::Action(patch.action()?)),
        (Some(Form::Delete { target }), None) => Some(Input::Action(Action::Delete(target))),
        (None, Some(file)) => Some(only(read(file)?)?),
        (None, None) => None,
    };
    ensure!(input.is_some() || args.now.is_none(), "--now is for a request: give --request FILE too");
    let now = now(args.now.as_deref())?;
    let sources = Sources::read(&args.source)?;
    for problem in sources.problems().iter() {
        note(&format!("note: {problem}"));
    }
    let objects = sources.save()?;
    let replay = input.map(|input| replay(input, &sources, now)).transpose()?;
    saved::write(&args.directory, args.force, &objects, replay.as_ref())?;
    let complete = report(&args.directory, &objects);
    if replay.is_some() {
        verdict(&args.directory)?;
    }
    Ok(ExitCode::from(if complete { 0 } else { EXIT_INCOMPLETE }))
}

fn only(mut inputs: Vec<Input>) -> Result<Input> {
    match (inputs.pop(), inputs.len()) {
        (Some(input), 0) => Ok(input),
        (_, more) => bail!("a snapshot is of one request, and the file has {}", more + 1),
    }
}

fn replay(input: Input, sources: &Sources, now: Timestamp) -> Result<Replay> {
    let request = input.body(sources)?;
    let review: Value = serde_json::from_slice(&request)?;
    let kind = review["request"]["kind"]["kind"].as_str().unwrap_or_default();
    ensure!(kind != "Secret", "the request is about a Secret, and airgate saves no Secrets");
    let (snapshot, catalog) = (sources.snapshot(), sources.catalog());
    let signatures = sources.signatures();
    let facts = Facts { signatures: &signatures, ..Facts::of(&snapshot, &catalog, &sources.settings, now) };
    let attempt = check::look_up(&request, sources, facts);
    drop(catalog);
    Ok(Replay {
        request,
        snapshot: (*snapshot).clone(),
        attempt,
        signatures,
        signature_files: sources.signature_files(),
        catalog: Catalog::clone(&sources.catalog()),
        settings: sources.settings.clone(),
        now,
        problems: vec![],
    })
}

/// Says what was saved; whether that is everything airgate could ask for.
fn report(directory: &Path, objects: &Objects) -> bool {
    let mut complete = true;
    line(&format!("saved to {}:", directory.display()));
    for (of, saved) in objects {
        let what = match saved {
            Saved::Whole(objects) => counted(objects.len(), "object"),
            Saved::Part(objects) => {
                format!("{}, and nothing says that these are all", counted(objects.len(), "object"))
            }
            Saved::Absent => "the cluster has no such resource".into(),
            Saved::Unknown(missing) => {
                complete = false;
                format!("not saved: {}; {}", missing.why, missing.remedy)
            }
        };
        line(&format!("  {}: {what}", of.full_name()));
    }
    complete
}

/// The verdict on what was just written, read back: what is shown is what `--replay` will show.
fn verdict(directory: &Path) -> Result<()> {
    let replay = Replay::load(directory).map_err(anyhow::Error::msg)?;
    line("the verdict:");
    check::judge(&replay.request, replay.facts()).print(Format::Text, "", &replay.problems)?;
    line(&format!("the same again, anywhere: airgate check --replay {}", directory.display()));
    Ok(())
}
