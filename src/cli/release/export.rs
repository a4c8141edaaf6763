//! `airgate release export`: releases as the catalog file that `--releases` reads.

use anyhow::Result;
use serde::Serialize;

use super::Format;
use crate::catalog::{Finding, Outcome};
use crate::cli::output::line;
use crate::problem::Problem;
use crate::release::{Catalog, Release};

#[derive(Serialize)]
struct Document {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    releases: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    digest: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Vec<String>>,
}

pub fn print(read: Vec<(&str, Outcome)>, format: Format) -> Result<Vec<Problem>> {
    let mut releases: Vec<Release> = vec![];
    let mut problems = vec![];
    for (_, outcome) in read {
        releases.extend(outcome.findings.iter().filter_map(Finding::release));
        problems.extend(outcome.problems);
        let unnamed = outcome.findings.iter().filter_map(|finding| Some((finding, finding.note()?)));
        problems.extend(unnamed.map(|(finding, note)| Problem::new(&*finding.source.name, note)));
    }
    let catalog = Catalog::new(releases);
    problems.extend(catalog.remarks().iter().map(|remark| Problem::new("the releases together", remark)));
    let mut releases: Vec<&Release> = catalog.releases().collect();
    releases.sort_by(|one, other| one.version.cmp(&other.version).then(one.digest.cmp(&other.digest)));
    let document = Document {
        api_version: "airgate.io/v1alpha1",
        kind: "ReleaseCatalog",
        releases: releases.into_iter().map(entry).collect(),
    };
    if !document.releases.is_empty() {
        match format {
            Format::Json => line(&serde_json::to_string_pretty(&document)?),
            Format::Yaml | Format::Text => line(serde_saphyr::to_string(&document)?.trim_end()),
        }
    }
    Ok(problems)
}

fn entry(release: &Release) -> Entry {
    Entry {
        digest: release.digest.to_string(),
        version: release.version.to_string(),
        previous: release.previous.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
        architecture: release.architecture.clone(),
        shards: release.shards.iter().map(ToString::to_string).collect(),
        components: release
            .components
            .as_ref()
            .map(|all| all.iter().map(|component| component.image.clone()).collect()),
    }
}
