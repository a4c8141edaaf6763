//! `airgate release missing`: which images of a release nodes would not find.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::Serialize;

use super::online::Online;
use super::resolve::{self, Resolved};
use super::{RefArgs, Site};
use crate::catalog::Finding;
use crate::cli::output::{self, Colour, line, paint};
use crate::cli::progress::Progress;
use crate::problem::Problem;
use crate::release::completeness::{Completeness, Gap, Presence, Verdict, Wanted, wanted};
use crate::text;

pub const EXIT_STATUS: &str = "\
An image is there when one of the places where nodes look for it answers that it has it: the mirrors that the cluster's \
IDMS and ICSP name for its source, and the source itself unless nodes may not contact it. Without --state or --kubeconfig \
no mirrors are known, and the sources alone are asked.

Exit status:
  0  every image of every release is there
  1  an image is missing: each of its places answered that it has it not
  2  usage or bad input
  3  nothing is known to be missing, but not everything could be asked";

const EXIT_MISSING: u8 = 1;
const EXIT_UNKNOWN: u8 = 3;
/// Questions at a time, over all registries.
const AT_ONCE: usize = 16;

#[derive(Debug, Args)]
pub struct MissingArgs {
    #[command(flatten)]
    refs: RefArgs,
    /// list prints what is missing as SOURCE@DIGEST a line, imageset as an ImageSetConfiguration for oc-mirror v2
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Yaml,
    List,
    Imageset,
}

#[derive(Serialize)]
struct Document<'a> {
    releases: Vec<Shown<'a>>,
    /// What a mirroring tool should fetch.
    mirror: BTreeSet<String>,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
    version: String,
    digest: Option<String>,
    /// `complete`, `missing` or `unknown`.
    outcome: &'static str,
    /// Images that were asked for; several components may share one.
    images: usize,
    present: usize,
    missing: Vec<ShownGap>,
    unknown: Vec<ShownGap>,
}

#[derive(Serialize)]
struct ShownGap {
    components: Vec<String>,
    image: String,
    why: String,
}

pub fn run(args: &MissingArgs) -> Result<ExitCode> {
    let site = args.refs.site()?;
    let resolved = resolve::all(&site, &args.refs.refs, Timestamp::now())?;
    let mut document = Document { releases: vec![], mirror: BTreeSet::new(), problems: vec![] };
    let mut verdicts = vec![];
    for resolved in resolved {
        if resolved.absent {
            let (repository, digest) = resolved.pullspec.as_ref().map_or((None, None), |(r, d)| (Some(r), Some(d)));
            document.mirror.extend(repository.zip(digest).map(|(repository, digest)| format!("{repository}@{digest}")));
            verdicts.push(Verdict::Missing);
        } else if resolved.outcome.findings.is_empty() || !resolved.outcome.problems.is_empty() {
            verdicts.push(Verdict::Unknown);
        }
        for finding in &resolved.outcome.findings {
            match images(&resolved, finding) {
                Ok(images) => {
                    let found = ask(&site, images)?;
                    verdicts.push(found.verdict());
                    document.mirror.extend(found.absent.iter().map(|gap| gap.image.pullspec()));
                    document.releases.push(shown(resolved.reference, finding, found));
                }
                Err(why) => {
                    verdicts.push(Verdict::Unknown);
                    document.problems.push(Problem::new(resolved.reference, why));
                }
            }
        }
        document.problems.extend(resolved.outcome.problems);
    }
    print(&document, args.output, site.online()?)?;
    for problem in &document.problems {
        output::error(&problem.to_string());
    }
    Ok(ExitCode::from(if verdicts.contains(&Verdict::Missing) {
        EXIT_MISSING
    } else if verdicts.contains(&Verdict::Unknown) {
        EXIT_UNKNOWN
    } else {
        0
    }))
}

/// What must be there for this release: its own image where the REF says from where, and all components.
fn images(resolved: &Resolved<'_>, finding: &Finding) -> Result<Vec<Wanted>, String> {
    let components = finding.components.as_deref().unwrap_or_default();
    if components.is_empty() {
        return Err(format!(
            "{} does not say of which images {} is made: ask for a copy of the release image instead",
            finding.source.name, finding.version
        ));
    }
    let mut images = vec![];
    if let Some((repository, digest)) = &resolved.pullspec {
        let own = |name: &str, digest| Wanted { names: vec![name.into()], repository: repository.clone(), digest };
        images.push(own("(the release image)", *digest));
        images.extend(finding.shards.iter().map(|shard| own("(the release image of one architecture)", *shard)));
    }
    images.extend(wanted(components));
    Ok(images)
}

fn ask(site: &Site<'_>, images: Vec<Wanted>) -> Result<Completeness> {
    let online = site.online()?;
    let progress = Progress::new("images asked for", images.len());
    let progress = &progress;
    let answers = stream::iter(images).map(|image| async move {
        let presence = online.ask(&image).await;
        progress.step();
        (image, presence)
    });
    let answers: Vec<(Wanted, Presence)> = site.runtime.block_on(answers.buffered(AT_ONCE).collect());
    Ok(Completeness::of(answers))
}

fn shown<'a>(reference: &'a str, finding: &Finding, found: Completeness) -> Shown<'a> {
    let gap = |gap: Gap| ShownGap { image: gap.image.pullspec(), components: gap.image.names, why: gap.why };
    Shown {
        reference,
        version: finding.version.to_string(),
        digest: finding.release().map(|release| release.digest.to_string()),
        outcome: match found.verdict() {
            Verdict::Complete => "complete",
            Verdict::Missing => "missing",
            Verdict::Unknown => "unknown",
        },
        images: found.asked(),
        present: found.present,
        missing: found.absent.into_iter().map(gap).collect(),
        unknown: found.unknown.into_iter().map(gap).collect(),
    }
}

fn print(document: &Document<'_>, format: Format, online: &Online) -> Result<()> {
    match format {
        Format::Json => line(&serde_json::to_string_pretty(&document)?),
        Format::Yaml => line(serde_saphyr::to_string(&document)?.trim_end()),
        Format::List => document.mirror.iter().for_each(|image| line(image)),
        Format::Imageset if document.mirror.is_empty() => {}
        Format::Imageset => {
            line("apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n  additionalImages:");
            document.mirror.iter().for_each(|image| line(&format!("  - name: {image}")));
        }
        Format::Text => {
            for release in &document.releases {
                line(&block(release));
            }
            if !document.mirror.is_empty() {
                line(
                    "what to mirror, one image a line: airgate release missing -o list ...; for oc-mirror v2: -o imageset",
                );
            }
            if !online.uses_mirrors() {
                line(
                    "only the sources were asked: name the cluster with --state DIR or --kubeconfig FILE to ask its mirrors",
                );
            }
        }
    }
    Ok(())
}

/// One release for a person.
fn block(release: &Shown<'_>) -> String {
    let mut block = format!("{}  {}\n  ", paint(Colour::Bold, &release.version), text::shown(release.reference));
    let images = text::counted(release.images, "image");
    // Writing to a String cannot fail.
    let _ = match (release.missing.len(), release.unknown.len()) {
        (0, 0) => write!(block, "{}: all of {images} found", paint(Colour::Green, "complete")),
        (0, unknown) => write!(
            block,
            "{}: of {images} {} found, {unknown} could not be asked for",
            paint(Colour::Yellow, "unknown"),
            release.present
        ),
        (missing, unknown) => write!(
            block,
            "{}: of {images} {} found, {missing} missing, {unknown} could not be asked for",
            paint(Colour::Red, "missing"),
            release.present
        ),
    };
    for (what, gaps) in [("missing", &release.missing), ("could not be asked for", &release.unknown)] {
        // Most have the same reason: a mirror that lacks them, a registry that is down.
        let mut by_reason: BTreeMap<&str, Vec<&ShownGap>> = BTreeMap::new();
        for gap in gaps {
            by_reason.entry(&gap.why).or_default().push(gap);
        }
        for (why, gaps) in by_reason {
            let _ = write!(block, "\n  {what}, {why}:");
            for gap in gaps {
                let _ = write!(block, "\n    {:38} {}", gap.components.join(", "), gap.image);
            }
        }
    }
    block
}
