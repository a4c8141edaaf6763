//! `airgate override`: shows what an override of one step would open, prints the command that sets it, or sets it.
//!
//! Invariants: nothing is printed or set that the engine would not accept; nothing is written without `--apply`,
//! but by `--clear`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::check::{CommonArgs, EXIT_DENIED, EXIT_UNKNOWN};
use super::output::{Colour, Format, line, note, paint};
use super::request::PatchArgs;
use super::source::{Sources, now};
use crate::action::opening::{self, Opening, Refusal, Wanted};
use crate::action::upgrade::UpgradeFlags;
use crate::action::{Action, NoReview, Stored, Target};
use crate::breakglass::{ANNOTATION, in_force};
use crate::cluster::Missing;
use crate::engine::Facts;
use crate::policies::{POLICIES, by_id};
use crate::problem::Problem;
use crate::text::shell_word;
use crate::verdict::Result as Outcome;
use crate::watch::WriteError;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub struct OverrideArgs {
    #[command(subcommand)]
    form: Option<Form>,
    /// Remove the override from this object, at once where there is an API server
    #[arg(long, value_name = "RESOURCE/NAME", value_parser = Target::parse)]
    clear: Option<Target>,
    #[command(flatten)]
    common: CommonArgs,
}

const HELP: &str = "\
An override lets one step that airgate denies happen, for at most 24 hours, on record: its use is a warning to whoever
acts, an audit annotation, a metric and an Event. It never opens a malformed value, such as an image named by a tag.
Describe the step that was denied; --apply sets the override, then do the step as before:

  airgate override upgrade --to-image REGISTRY/REPOSITORY@sha256:DIGEST --reason 'support case 0123'
  airgate override delete internalreleaseimage/cluster --policy release-in-use --reason WHY --expires 2h --apply
  airgate override --clear clusterversion/version

It exits 0 when it shows or has set an override that opens the step, 1 where none is needed or would open it, 2 on usage
or bad input, 3 where the stored object is not known.";

#[derive(Debug, Subcommand)]
enum Form {
    /// For what `oc adm upgrade` sends
    Upgrade {
        #[command(flatten)]
        flags: UpgradeArgs,
        #[command(flatten)]
        options: Options,
    },
    /// For what `oc patch RESOURCE NAME -p PATCH` sends
    Patch {
        #[command(flatten)]
        patch: PatchArgs,
        #[command(flatten)]
        options: Options,
    },
    /// For what `oc delete RESOURCE NAME` sends
    Delete {
        /// RESOURCE/NAME
        #[arg(value_parser = Target::parse)]
        target: Target,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Debug, Args)]
struct UpgradeArgs {
    #[command(flatten)]
    target: UpgradeTarget,
    /// As in a request with force: true, which needs an override all the same
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "what")]
struct UpgradeTarget {
    /// The upgrade to this release image, by digest
    #[arg(long, value_name = "PULLSPEC")]
    to_image: Option<String>,
    /// The upgrade to this version
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// The migration to the multi-architecture payload of the current version
    #[arg(long)]
    to_multi_arch: bool,
}

#[derive(Debug, Args)]
struct Options {
    /// Open this policy only (several: again, or comma-separated) [default: exactly those that deny]
    #[arg(long = "policy", value_name = "ID", value_delimiter = ',')]
    policies: Vec<String>,
    /// Why, for whoever reads the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Until when: a duration such as 90m, or an RFC 3339 time; at most 24 hours ahead
    #[arg(long, value_name = "DURATION|RFC3339", default_value = "1h")]
    expires: String,
    /// Set it, and judge the step again with it
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: OverrideArgs) -> Result<ExitCode> {
    match (args.form, args.clear) {
        (None, Some(target)) => clear(&target, &args.common),
        (None, None) => bail!("describe the step: airgate override upgrade|patch|delete, or --clear RESOURCE/NAME"),
        (Some(Form::Upgrade { flags, options }), _) => {
            let UpgradeTarget { to_image, to, to_multi_arch } = flags.target;
            let flags = UpgradeFlags { to_image, to, to_multi_arch, clear: false, force: flags.force };
            open(&Action::Upgrade(flags), &options)
        }
        (Some(Form::Patch { patch, options }), _) => open(&patch.action()?, &options),
        (Some(Form::Delete { target, options }), _) => open(&Action::Delete(target), &options),
    }
}

/// Between a read and a write the CVO may write its status.
const ATTEMPTS: usize = 5;

fn open(action: &Action, options: &Options) -> Result<ExitCode> {
    let now = now(options.common.now.as_deref())?;
    ensure!(!options.apply || options.common.now.is_none(), "--apply goes by the clock: leave --now out");
    ensure!(!options.reason.trim().is_empty(), "--reason is empty: say why, for whoever reads the audit log");
    if let Some(unknown) = options.policies.iter().find(|id| by_id(id).is_none()) {
        let known: Vec<_> = POLICIES.iter().map(|policy| policy.id).collect();
        bail!("there is no policy {unknown:?}; there are {}", known.join(", "));
    }
    let expires = expiry(&options.expires, now)?;
    let wanted = Wanted { policies: &options.policies, reason: &options.reason, expires };
    let sources = Sources::read(&options.common.source)?;
    let (snapshot, catalog, problems) = (sources.snapshot(), sources.catalog(), sources.problems());
    let signatures = sources.signatures();
    let facts = Facts { signatures: &signatures, ..Facts::of(&snapshot, &catalog, &sources.settings, now) };
    if options.common.output == Format::Text {
        for problem in problems.iter() {
            note(&format!("note: {problem}"));
        }
    }
    let target = action.target()?;
    // As `airgate check` does: a release that a registry has changes what is denied, and so what is to be opened.
    let wants = match opening::verdict(action, sources.stored(&target), facts) {
        Ok(verdict) if verdict.result != Outcome::Deny => verdict.wants,
        _ => vec![],
    };
    let attempt = wants.first().and_then(|want| sources.look_up(want));
    let catalog = sources.catalog();
    let facts = Facts { catalog: &catalog, attempt: attempt.as_ref(), ..facts };
    let report = |opening| Report { action, target: &target, expires, opening, applied: None, problems: &problems };
    for _ in 0..ATTEMPTS {
        let stored = sources.stored(&target);
        let opening = match Opening::of(action, &stored, wanted, facts) {
            Ok(opening) => opening,
            Err(refusal) => return refused(&refusal, &target, options.common.output),
        };
        let (Stored::Found(object, _), true, true) = (stored, options.apply, opening.opens) else {
            return report(opening).print(options.common.output);
        };
        match sources.annotate(&target, &object, Some(&opening.annotation)) {
            None => bail!(
                "--apply writes to an API server, and files are read here: leave --state out, or give --kubeconfig"
            ),
            Some(Err(WriteError::Conflict)) => {}
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(warnings)) => {
                let verdict = opening::verdict(action, sources.stored(&target), facts)?;
                let denied: Vec<String> = verdict.denials.iter().map(|denial| denial.text.block("")).collect();
                let applied = Applied { verified: verdict.allowed(), warnings, denied };
                return Report { applied: Some(applied), ..report(opening) }.print(options.common.output);
            }
        }
    }
    bail!("{target} changed each of the {ATTEMPTS} times that the override was to be written: try again")
}

/// A time, or so long from now; bounded as the engine bounds it.
fn expiry(text: &str, now: Timestamp) -> Result<Timestamp> {
    let expires = match (text.parse::<Timestamp>(), text.parse::<SignedDuration>()) {
        (Ok(time), _) => time,
        (_, Ok(duration)) => now.checked_add(duration).context("--expires")?,
        _ => bail!("--expires {text} is neither a duration such as 90m nor an RFC 3339 time"),
    };
    // Whole seconds read better, and never later than asked for.
    let expires = Timestamp::from_second(expires.as_second())?;
    ensure!(
        in_force(expires, now),
        "--expires {text}: an override is for now and for at most 24 hours, not until {expires}"
    );
    Ok(expires)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    #[serde(skip)]
    action: &'a Action,
    #[serde(serialize_with = "serialize_target")]
    target: &'a Target,
    expires: Timestamp,
    #[serde(flatten)]
    opening: Opening,
    /// What came of `--apply`.
    applied: Option<Applied>,
    /// What could not be read.
    problems: &'a [Problem],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Applied {
    /// Judged again on what is stored now, the step is allowed.
    verified: bool,
    /// What the API server said when it stored the annotation.
    warnings: Vec<String>,
    denied: Vec<String>,
}

fn serialize_target<S: serde::Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&named(target))
}

impl Report<'_> {
    fn print(&self, format: Format) -> Result<ExitCode> {
        match format {
            Format::Text => self.text(),
            Format::Json => line(&self.json()?),
        }
        let good = self.opening.opens && self.applied.as_ref().is_none_or(|applied| applied.verified);
        Ok(ExitCode::from(if good { 0 } else { EXIT_DENIED }))
    }

    fn json(&self) -> Result<String> {
        let mut json = serde_json::to_value(self)?;
        let commands = [("set", self.set()), ("step", self.action.command()), ("remove", remove(self.target))];
        for (key, command) in commands.into_iter().filter(|(key, _)| self.opening.opens || *key == "step") {
            json["commands"][key] = command.into();
        }
        Ok(serde_json::to_string(&json)?)
    }

    fn set(&self) -> String {
        let [kind, name] = words(self.target);
        format!("oc annotate {kind} {name} --overwrite {ANNOTATION}={}", shell_word(&self.opening.annotation))
    }

    fn text(&self) {
        let opening = &self.opening;
        for denial in &opening.denials {
            line(&format!("denied: {}", denial.message));
            let fate = if denial.opened {
                paint(Colour::Yellow, "the override opens it")
            } else {
                format!("{}: {}", paint(Colour::Red, "stays denied"), denial.why)
            };
            line(&format!("  {}: {fate}\n", denial.policy));
        }
        if !opening.opens {
            return line(&format!(
                "{}: the step would be denied all the same",
                paint(Colour::Red, "no override is set")
            ));
        }
        for entry in &opening.entries {
            line(&format!("override on {}: {}", named(self.target), entry.describe()));
        }
        for note in &opening.notes {
            line(&format!("note: {note}"));
        }
        // That it will be used is what this is about.
        for warning in opening.warnings.iter().filter(|warning| !warning.starts_with("override of ")) {
            line(&format!("the step will be answered with {}: {warning}", paint(Colour::Yellow, "Warning")));
        }
        let then = format!("then do the step before {}:\n  {}", self.expires, self.action.command());
        let [kind, name] = words(self.target);
        let by_hand = format!("oc annotate {kind} {name} {ANNOTATION}-");
        let remove = format!("to remove it:\n  {}\n  {by_hand}", remove(self.target));
        match &self.applied {
            None => {
                line(&format!(
                    "\nto set it, run this again on the cluster (--kubeconfig FILE --apply), or:\n  {}",
                    self.set()
                ));
                line(&format!("{then}\n{remove}"));
            }
            Some(applied) => {
                for warning in &applied.warnings {
                    line(&format!("{}: {warning}", paint(Colour::Yellow, "Warning")));
                }
                if applied.verified {
                    line(&format!("\n{}: with what is stored now this step is allowed", paint(Colour::Green, "set")));
                    line(&then);
                } else {
                    let still = applied.denied.join("\n");
                    line(&format!("\n{}: the step is still denied: {still}", paint(Colour::Red, "set")));
                }
                line(&remove);
            }
        }
    }
}

/// Kind and name as `oc` takes them.
fn words(target: &Target) -> [String; 2] {
    let kind =
        target.resource.find().map_or_else(|| target.resource.to_string(), |found| found.kind.to_ascii_lowercase());
    [shell_word(&kind).into_owned(), shell_word(&target.name).into_owned()]
}

fn named(target: &Target) -> String {
    words(target).join("/")
}

fn remove(target: &Target) -> String {
    format!("airgate override --clear {}", named(target))
}

fn refused(refusal: &Refusal, target: &Target, format: Format) -> Result<ExitCode> {
    let code = match refusal {
        Refusal::NoReview(NoReview::Unknown(_)) => EXIT_UNKNOWN,
        Refusal::NoReview(NoReview::Bad(text)) => bail!("{text}"),
        _ => EXIT_DENIED,
    };
    match format {
        Format::Json => {
            let refused = serde_json::json!({"target": named(target), "opens": false, "message": refusal.to_string()});
            line(&refused.to_string());
        }
        Format::Text => line(&format!("{}: {refusal}", paint(Colour::Red, "no override is set"))),
    }
    Ok(ExitCode::from(code))
}

fn clear(target: &Target, common: &CommonArgs) -> Result<ExitCode> {
    ensure!(common.now.is_none(), "--clear goes by the clock: leave --now out");
    let [kind, name] = words(target);
    let command = format!("oc annotate {kind} {name} {ANNOTATION}-");
    let sources = Sources::read(&common.source)?;
    let print = |cleared: bool, text: String| match common.output {
        Format::Json => {
            line(
                &serde_json::json!({"target": named(target), "cleared": cleared, "message": text, "command": command})
                    .to_string(),
            );
        }
        Format::Text => line(&text),
    };
    for _ in 0..ATTEMPTS {
        let object = match sources.stored(target) {
            Stored::Found(object, _) => object,
            Stored::KnownAbsent => {
                print(false, format!("{} does not exist", named(target)));
                return Ok(ExitCode::from(EXIT_UNKNOWN));
            }
            Stored::Unknown(Missing { why, remedy }) => {
                print(false, format!("{} as it is stored is not known: {why}; {remedy}", named(target)));
                return Ok(ExitCode::from(EXIT_UNKNOWN));
            }
        };
        let text = opening::annotation(&object);
        if text.is_empty() {
            print(true, format!("{} has no override", named(target)));
            return Ok(ExitCode::SUCCESS);
        }
        match sources.annotate(target, &object, None) {
            None => {
                print(false, format!("files are read here, so nothing was removed; on the cluster:\n  {command}"));
                return Ok(ExitCode::SUCCESS);
            }
            Some(Err(WriteError::Conflict)) => {}
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(_)) => {
                let was = crate::text::shown(text);
                print(true, format!("the override of {} is removed; it was:\n  {was}", named(target)));
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    bail!("{} changed each of the {ATTEMPTS} times that it was to be written: try again", named(target))
}
