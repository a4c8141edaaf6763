//! The cases that come with this binary.

use super::CaseFile;

/// Policy, file name and text, in that order; written by build.rs.
const EMBEDDED: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Every embedded file: its policy, its name as a path, and what is in it.
pub fn files() -> impl Iterator<Item = (&'static str, String, Result<CaseFile, String>)> {
    EMBEDDED.iter().map(|(policy, file, text)| (*policy, format!("{policy}/cases/{file}"), CaseFile::parse(text)))
}
