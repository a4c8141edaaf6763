//! The catalog: what is known of a digest.

use super::texts::same_version;
use crate::world::CatalogEntry;

/// What the sources together say of a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    Release(Release),
    /// "Only sources of equal rank that both state a value and differ make a digest Unknown."
    Contradiction,
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub digest: String,
    pub version: String,
    pub previous: Option<Vec<String>>,
    /// `multi` too where only its children say so.
    pub architecture: Option<String>,
}

pub fn look_up(catalog: &[CatalogEntry], digest: &str) -> Known {
    let all: Vec<_> = catalog.iter().filter(|entry| entry.digest == digest).collect();
    // "A payload read and hashed beats a catalog file."
    let verified: Vec<_> = all.iter().copied().filter(|entry| entry.verified).collect();
    let best = if verified.is_empty() { all } else { verified };
    let Some(first) = best.first() else { return Known::Missing };
    let same_set = |a: &Vec<String>, b: &Vec<String>| {
        let within = |a: &[String], b: &[String]| a.iter().all(|x| b.iter().any(|y| same_version(x, y)));
        within(a, b) && within(b, a)
    };
    for a in &best {
        for b in &best {
            let previous_differ = a.previous.iter().zip(&b.previous).any(|(a, b)| !same_set(a, b));
            let architecture_differs = a.architecture.iter().zip(&b.architecture).any(|(a, b)| a != b);
            if !same_version(&a.version, &b.version) || previous_differ || architecture_differs {
                return Known::Contradiction;
            }
        }
    }
    let has_children = best.iter().any(|entry| !entry.shards.is_empty());
    let architecture = best.iter().find_map(|entry| entry.architecture.clone());
    Known::Release(Release {
        digest: digest.to_owned(),
        version: first.version.clone(),
        previous: best.iter().find_map(|entry| entry.previous.clone()),
        architecture: if has_children { Some("multi".to_owned()) } else { architecture },
    })
}

/// The manifest list that a digest is a child of.
pub fn list_of<'a>(catalog: &'a [CatalogEntry], digest: &str) -> Option<&'a str> {
    let list = catalog.iter().find(|entry| entry.shards.iter().any(|shard| shard == digest))?;
    Some(&list.digest)
}

/// Q9: "digests are compared, hosts never, and a manifest list and its children are one release."
pub fn one_release(catalog: &[CatalogEntry], a: &str, b: &str) -> bool {
    list_of(catalog, a).unwrap_or(a) == list_of(catalog, b).unwrap_or(b)
}

/// Every payload of a version, children of lists left out.
pub fn of_version(catalog: &[CatalogEntry], version: &str) -> Vec<Release> {
    let mut found: Vec<Release> = vec![];
    for entry in catalog {
        if list_of(catalog, &entry.digest).is_some() || found.iter().any(|release| release.digest == entry.digest) {
            continue;
        }
        if let Known::Release(release) = look_up(catalog, &entry.digest)
            && same_version(&release.version, version)
        {
            found.push(release);
        }
    }
    found
}

impl Release {
    pub fn multi(&self) -> bool {
        self.architecture.as_deref() == Some("multi")
    }
}
