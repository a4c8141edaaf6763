//! Whether every image that a release is made of is where nodes would pull it from.
//!
//! Who asks the registries, and how, is not known here: this says what to ask and what the answers mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Component;
use crate::pullspec::{Digest, Pullspec, Repository};

/// An image to ask for. Components that share one are asked for once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of the components that are this image; empty where nobody says.
    pub names: Vec<String>,
    /// As the release names it: its source, whatever mirrors there are.
    pub repository: Repository,
    pub digest: Digest,
}

impl Wanted {
    #[must_use]
    pub fn pullspec(&self) -> String {
        format!("{}@{}", self.repository, self.digest)
    }
}

/// What came of asking all places where nodes look for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// One of them has it.
    Present,
    /// Each of them answered that it has it not; the text says which.
    Absent(String),
    /// None has it and not all could be asked; the text says why.
    Unknown(String),
}

/// An image that is not known to be there, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub image: Wanted,
    pub why: String,
}

/// What of a release is there, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Images, of which several components may share one.
    pub present: usize,
    pub absent: Vec<Gap>,
    pub unknown: Vec<Gap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Complete,
    /// Something is missing, whatever else could not be asked.
    Missing,
    /// Nothing is known to be missing, and not everything is known to be there.
    Unknown,
}

/// What was found of one release, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub found: Completeness,
    pub at: Timestamp,
}

/// By the release's digest.
pub type Checks = BTreeMap<Digest, Arc<Checked>>;

/// The images of these components, each once, in the order of their names.
#[must_use]
pub fn wanted(components: &[Component]) -> Vec<Wanted> {
    let mut by_image: BTreeMap<&str, Wanted> = BTreeMap::new();
    for component in components {
        // Whoever read the release refused components that are named otherwise.
        let Ok(spec) = Pullspec::parse(&component.image) else { continue };
        let Ok(repository) = Repository::parse(spec.repository) else { continue };
        let new = Wanted { names: vec![], repository, digest: spec.digest };
        let names = &mut by_image.entry(&component.image).or_insert(new).names;
        if !component.name.is_empty() {
            names.push(component.name.clone());
        }
    }
    let mut wanted: Vec<_> = by_image.into_values().collect();
    wanted.sort_by(|one, other| one.names.cmp(&other.names));
    wanted
}

impl Completeness {
    #[must_use]
    pub fn of(answers: impl IntoIterator<Item = (Wanted, Presence)>) -> Self {
        let mut found = Self::default();
        for (image, presence) in answers {
            match presence {
                Presence::Present => found.present += 1,
                Presence::Absent(why) => found.absent.push(Gap { image, why }),
                Presence::Unknown(why) => found.unknown.push(Gap { image, why }),
            }
        }
        found
    }

    /// All images that were asked for.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.present + self.absent.len() + self.unknown.len()
    }

    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.absent.as_slice(), self.unknown.as_slice()) {
            // Nothing asked is nothing known.
            ([], []) if self.present > 0 => Verdict::Complete,
            ([], _) => Verdict::Unknown,
            _ => Verdict::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, letter: char) -> Component {
        Component { name: name.into(), image: format!("quay.io/ocp/art@sha256:{}", letter.to_string().repeat(64)) }
    }

    #[test]
    fn an_image_is_asked_for_once_and_named_by_all_its_components() {
        let components = [component("cli", 'b'), component("console", 'a'), component("cli-artifacts", 'b')];
        let wanted = wanted(&components);
        let shown: Vec<_> = wanted.iter().map(|image| (image.names.join(","), image.pullspec())).collect();
        assert_eq!(
            shown,
            [
                ("cli,cli-artifacts".to_owned(), components[0].image.clone()),
                ("console".to_owned(), components[1].image.clone())
            ]
        );
        assert_eq!(super::wanted(&[component("", 'a'), component("", 'b')]).len(), 2, "a catalog file names none");
    }

    #[test]
    fn missing_beats_unknown_beats_complete() {
        let (absent, unknown) = (Presence::Absent("no".into()), Presence::Unknown("who knows".into()));
        for (answers, verdict) in [
            (&[][..], Verdict::Unknown),
            (&[&Presence::Present, &Presence::Present], Verdict::Complete),
            (&[&Presence::Present, &unknown], Verdict::Unknown),
            (&[&Presence::Present, &absent], Verdict::Missing),
            (&[&unknown, &absent], Verdict::Missing),
        ] {
            let images = wanted(&[component("cli", 'a'), component("console", 'b')]);
            let found = Completeness::of(images.into_iter().zip(answers.iter().map(|answer| (*answer).clone())));
            assert_eq!((found.verdict(), found.asked()), (verdict, answers.len()), "{answers:?}");
        }
    }
}
