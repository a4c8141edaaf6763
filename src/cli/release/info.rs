//! `airgate release info`: a block a release, or the documented JSON.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::Format;
use super::signature::{Signature, Signed};
use crate::catalog::{Finding, Outcome, Standing};
use crate::cli::output::{Colour, line, paint};
use crate::problem::Problem;
use crate::text;

#[derive(Serialize)]
struct Document<'a> {
    releases: Vec<Shown<'a>>,
    problems: &'a [Problem],
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
    /// Of the top object; null where this copy cannot prove it.
    digest: Option<String>,
    version: String,
    architecture: Option<String>,
    previous: Option<Vec<String>>,
    shards: Vec<String>,
    components: Option<Vec<String>>,
    source: String,
    verified: bool,
    signature: Signature,
    notes: Vec<String>,
}

pub fn print(read: Vec<(&str, Outcome)>, signed: &Signed, format: Format) -> Result<Vec<Problem>> {
    let mut releases = vec![];
    let mut problems: Vec<Problem> = vec![];
    for (reference, outcome) in read {
        releases.extend(outcome.findings.iter().map(|finding| shown(reference, finding, signed)));
        for problem in outcome.problems {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    let document = Document { releases, problems: &problems };
    match format {
        Format::Json => line(&serde_json::to_string_pretty(&document)?),
        Format::Yaml => line(serde_saphyr::to_string(&document)?.trim_end()),
        Format::Text => {
            for release in &document.releases {
                line(&block(release));
            }
        }
    }
    Ok(problems)
}

fn shown<'a>(reference: &'a str, finding: &Finding, signed: &Signed) -> Shown<'a> {
    let digest = match finding.standing {
        Standing::Named(digest) | Standing::Shard(digest) => Some(digest.to_string()),
        Standing::Converted { .. } | Standing::NoManifest => None,
    };
    let mut notes: Vec<String> = finding.note().into_iter().collect();
    if finding.unread > 0 {
        let images = text::counted(finding.unread, "image");
        notes.push(format!("{images} of the manifest list not in this copy, and so not compared with the others"));
    }
    Shown {
        reference,
        digest,
        version: finding.version.to_string(),
        architecture: finding.architecture.clone(),
        previous: finding.previous.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
        shards: finding.shards.iter().map(ToString::to_string).collect(),
        components: finding
            .components
            .as_ref()
            .map(|all| all.iter().map(|component| component.image.clone()).collect()),
        source: finding.source.name.to_string(),
        verified: finding.source.verified,
        signature: signed.of(finding),
        notes,
    }
}

/// One release for a person.
fn block(release: &Shown<'_>) -> String {
    let proof = if release.verified { "verified" } else { "not verified" };
    let previous = match release.previous.as_deref() {
        None => "not said".to_owned(),
        Some([]) => "none: it can be reached from no version".to_owned(),
        Some(all) => format!("{} ({})", all.join(", "), all.len()),
    };
    let rows = [
        ("digest", release.digest.clone().unwrap_or_else(|| "unknown".into())),
        ("architecture", release.architecture.clone().unwrap_or_else(|| "unknown".into())),
        ("previous", previous),
        ("shards", release.shards.join(" ")),
        ("components", release.components.as_ref().map_or_else(|| "not said".into(), |all| all.len().to_string())),
        ("source", format!("{} ({proof})", text::shown(&release.source))),
        ("signature", format!("{} ({})", release.signature.status, release.signature.note)),
        ("note", release.notes.join("; ")),
    ];
    let mut block = format!("{}  {}", paint(Colour::Bold, &release.version), text::shown(release.reference));
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a String cannot fail.
        let _ = write!(block, "\n  {:14}{value}", format!("{name}:"));
    }
    block
}
