//! Releases and the catalog of them: what a release says about itself, keyed by digest.
//!
//! A [`Catalog`] is built once from all sources and never changes; readers share it.

pub mod completeness;
pub mod path;

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;

use crate::pullspec::Digest;
use crate::version::Version;

/// What one source says about one release. A `None` means that the source does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of the top object: the manifest list for a multi release.
    pub digest: Digest,
    pub version: Version,
    /// The versions that may go straight to this one.
    pub previous: Option<Vec<Version>>,
    /// In Go's names: `amd64`, `arm64`, ..., or `multi`.
    pub architecture: Option<String>,
    /// The children of a manifest list, one an architecture.
    pub shards: Vec<Digest>,
    /// The images it is made of; empty where the images of a list differ in them.
    pub components: Option<Arc<[Component]>>,
    pub source: Source,
}

/// One of the images that a release is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// As image-references has it; empty in a catalog file, which names images only.
    pub name: String,
    /// A pullspec by digest.
    pub image: String,
}

/// Where a release was read, and how much that proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// For a person: a file, later a registry or an archive.
    pub name: Arc<str>,
    pub read_at: Timestamp,
    /// Whether every byte was hashed against the digest; a catalog file is somebody's word.
    pub verified: bool,
}

impl Release {
    #[must_use]
    pub fn multi(&self) -> bool {
        self.architecture.as_deref() == Some("multi") || !self.shards.is_empty()
    }

    /// Whether both are known and this is for one architecture only.
    #[must_use]
    pub fn single_architecture(&self) -> Option<&str> {
        self.architecture.as_deref().filter(|_| !self.multi())
    }

    /// `None` where the release does not say which versions it can be reached from.
    #[must_use]
    pub fn lists(&self, version: &Version) -> Option<bool> {
        self.previous.as_ref().map(|previous| previous.contains(version))
    }

    fn contradicts(&self, other: &Self) -> bool {
        let set = |release: &Self| {
            release.previous.clone().map(|mut previous| {
                previous.sort();
                previous.dedup();
                previous
            })
        };
        fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.zip(b).is_some_and(|(a, b)| a != b)
        }
        self.version != other.version
            || differ(set(self), set(other))
            || differ(self.architecture.as_ref(), other.architecture.as_ref())
    }

    /// Fills what this source left open from another that agrees with it.
    fn complete_from(&mut self, other: Self) {
        self.previous = self.previous.take().or(other.previous);
        self.architecture = self.architecture.take().or(other.architecture);
        self.components = self.components.take().or(other.components);
        for shard in other.shards {
            if !self.shards.contains(&shard) {
                self.shards.push(shard);
            }
        }
    }
}

/// By what it says and whether that was proved, not by where and when it was read.
impl Hash for Release {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { digest, version, previous, architecture, shards, components, source } = self;
        (digest, version, previous, architecture, shards, components, source.verified).hash(state);
    }
}

impl Hash for Catalog {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries().for_each(|release| release.hash(state));
    }
}

/// What reading a release from registries came to, where it did not end in a [`Release`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub digest: Digest,
    pub end: AttemptEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Why not, for a person: which places were asked and what each answered.
    Failed(Arc<str>),
    /// Not ended: the place it is being read from.
    Reading(Arc<str>),
    /// One image of a multi release, without the manifest list by which a cluster names that release.
    Shard { version: Version, source: Source },
}

/// The answer to "what is this digest?".
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    Release(&'a Release),
    /// Two sources of equal rank state different things of this digest.
    Contradiction(&'a Source, &'a Source),
    Missing,
}

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Several only where sources contradict each other.
    by_digest: HashMap<Digest, Vec<Release>>,
    list_of_shard: HashMap<Digest, Digest>,
    /// What a file says and the payload itself denies, with where the payload was read.
    overruled: Vec<(Release, Source)>,
    /// Read because a request named them, and nothing else speaks for them: they answer for their own digest only.
    hearsay: HashSet<Digest>,
    remarks: Vec<String>,
}

impl Catalog {
    /// Merges what all sources say: verified beats unverified, agreement completes, disagreement of
    /// equals makes the digest unknown.
    #[must_use]
    pub fn new(releases: impl IntoIterator<Item = Release>) -> Self {
        Self::default().with(releases)
    }

    /// The same with more releases, merged by the same rules.
    #[must_use]
    pub fn with(mut self, releases: impl IntoIterator<Item = Release>) -> Self {
        for release in releases {
            self.add(release);
        }
        self.list_of_shard.clear();
        let heeded = self.by_digest.values().flatten().filter(|release| !self.hearsay.contains(&release.digest));
        for release in heeded {
            for shard in &release.shards {
                // A shard of two lists (they share a payload) belongs to the first: always the same one.
                let list = self.list_of_shard.entry(*shard).or_insert(release.digest);
                *list = release.digest.min(*list);
            }
        }
        self.remarks = self.remark();
        self
    }

    /// The same, with these digests answering for themselves and nothing else: whoever sends a review can have any
    /// image read, and what it says must not become advice to others.
    #[must_use]
    pub fn with_hearsay(self, releases: impl IntoIterator<Item = Release>) -> Self {
        let known: HashSet<Digest> = self.by_digest.keys().copied().collect();
        let releases: Vec<Release> = releases.into_iter().filter(|release| !known.contains(&release.digest)).collect();
        let hearsay = releases.iter().map(|release| release.digest).collect();
        Self { hearsay, ..self }.with(releases)
    }

    fn remark(&self) -> Vec<String> {
        let mut remarks = vec![];
        for (digest, entries) in &self.by_digest {
            if let Some(list) = self.list_of_shard.get(digest) {
                remarks.push(format!(
                    "{}: {digest} is the {} child of the manifest list {list} ({}); name releases by the list's digest",
                    entries[0].source.name,
                    entries[0].architecture.as_deref().unwrap_or("single-architecture"),
                    entries[0].version,
                ));
            }
            if let [one, other, ..] = &entries[..] {
                remarks.push(format!(
                    "{} and {} contradict each other about {digest} ({} and {}): it counts as unknown until one is removed",
                    one.source.name, other.source.name, one.version, other.version
                ));
            }
        }
        remarks.extend(self.overruled.iter().map(|(file, payload)| contradicted_file(file, payload)));
        remarks.sort();
        remarks
    }

    fn add(&mut self, release: Release) {
        let entries = self.by_digest.entry(release.digest).or_default();
        let Some(first) = entries.first_mut() else {
            entries.push(release);
            return;
        };
        let contradicts = first.contradicts(&release);
        match (first.source.verified, release.source.verified) {
            (held, new) if held == new && contradicts => entries.push(release),
            (true, false) if contradicts => self.overruled.push((release, first.source.clone())),
            (false, true) => {
                let verified = release.clone();
                let file = std::mem::replace(first, release);
                entries.truncate(1);
                if contradicts {
                    self.overruled.push((file, verified.source));
                } else {
                    entries[0].complete_from(file);
                }
            }
            _ => first.complete_from(release),
        }
    }

    #[must_use]
    pub fn lookup(&self, digest: Digest) -> Lookup<'_> {
        match self.by_digest.get(&digest).map(Vec::as_slice) {
            Some([release]) => Lookup::Release(release),
            Some([one, other, ..]) => Lookup::Contradiction(&one.source, &other.source),
            _ => Lookup::Missing,
        }
    }

    #[must_use]
    pub fn get(&self, digest: Digest) -> Option<&Release> {
        match self.lookup(digest) {
            Lookup::Release(release) => Some(release),
            _ => None,
        }
    }

    /// Everything that sources say, contradictions too, in a stable order: [`Self::new`] makes the same catalog of it.
    pub fn entries(&self) -> impl Iterator<Item = &Release> {
        let mut digests: Vec<_> = self.by_digest.iter().collect();
        digests.sort_by_key(|(digest, _)| **digest);
        let overruled = self.overruled.iter().map(|(file, _)| file);
        digests.into_iter().flat_map(|(_, entries)| entries).chain(overruled)
    }

    /// The manifest list that `digest` is a child of.
    #[must_use]
    pub fn list_of(&self, digest: Digest) -> Option<Digest> {
        self.list_of_shard.get(&digest).copied()
    }

    /// Whether two digests are one release: equal, or a manifest list and its child, or two children.
    #[must_use]
    pub fn same_release(&self, a: Digest, b: Digest) -> bool {
        let top = |digest| self.list_of(digest).unwrap_or(digest);
        top(a) == top(b)
    }

    /// Every release that is known without contradiction, children of lists left out.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.by_digest.values().filter_map(|entries| match &entries[..] {
            [release] if self.list_of(release.digest).is_none() && !self.hearsay.contains(&release.digest) => {
                Some(release)
            }
            _ => None,
        })
    }

    /// All payloads of one version, in digest order.
    #[must_use]
    pub fn of_version(&self, version: &Version) -> Vec<&Release> {
        let mut found: Vec<_> = self.releases().filter(|release| release.version == *version).collect();
        found.sort_by_key(|release| release.digest);
        found
    }

    /// The digests that some source gives this version and another contradicts, each with both sources.
    #[must_use]
    pub fn contradictions_of(&self, version: &Version) -> Vec<(Digest, &Source, &Source)> {
        let several = self.by_digest.iter().filter_map(|(digest, entries)| match &entries[..] {
            [one, other, ..] if entries.iter().any(|entry| entry.version == *version) => {
                Some((*digest, &one.source, &other.source))
            }
            _ => None,
        });
        let overruled = self.overruled.iter().filter(|(file, _)| file.version == *version);
        let overruled = overruled.map(|(file, payload)| (file.digest, &file.source, payload));
        let mut found: Vec<_> = several.chain(overruled).collect();
        found.sort_by_key(|(digest, ..)| *digest);
        found
    }

    /// Things an administrator should mend in the sources, in a stable order.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

fn contradicted_file(file: &Release, payload: &Source) -> String {
    format!(
        "{}: what it says of {} differs from the payload itself ({}); the payload counts, correct the file",
        file.source.name, file.digest, payload.name
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn digest(letter: char) -> Digest {
        Digest::parse(&format!("sha256:{}", letter.to_string().repeat(64))).unwrap()
    }

    pub fn release(version: &str, letter: char, previous: &[&str]) -> Release {
        Release {
            digest: digest(letter),
            version: Version::parse(version).unwrap(),
            previous: Some(previous.iter().map(|v| Version::parse(v).unwrap()).collect()),
            architecture: Some("amd64".into()),
            shards: vec![],
            components: None,
            source: Source { name: "a.yaml".into(), read_at: Timestamp::UNIX_EPOCH, verified: false },
        }
    }

    #[test]
    fn equals_that_disagree_are_unknown_and_named() {
        let other = Release {
            source: Source { name: "b.yaml".into(), ..release("4.1.0", 'a', &[]).source },
            ..release("4.2.0", 'a', &[])
        };
        let catalog = Catalog::new([release("4.1.0", 'a', &[]), other]);
        assert!(matches!(catalog.lookup(digest('a')), Lookup::Contradiction(..)));
        assert_eq!(catalog.releases().count(), 0);
        assert!(catalog.remarks()[0].contains("a.yaml and b.yaml"), "{:?}", catalog.remarks());
    }

    #[test]
    fn previous_is_compared_as_a_set_and_silence_is_no_contradiction() {
        let silent = Release { previous: None, architecture: None, ..release("4.2.0", 'a', &[]) };
        let turned = release("4.2.0", 'a', &["4.1.2", "4.1.1", "4.1.1"]);
        let catalog = Catalog::new([silent, release("4.2.0", 'a', &["4.1.1", "4.1.2"]), turned]);
        let Lookup::Release(found) = catalog.lookup(digest('a')) else { panic!("{catalog:?}") };
        assert_eq!(found.lists(&Version::parse("4.1.1").unwrap()), Some(true));
        assert_eq!(found.architecture.as_deref(), Some("amd64"));
    }

    #[test]
    fn a_read_payload_beats_a_file_whatever_the_order() {
        let read = || {
            let mut read = release("4.2.0", 'a', &["4.1.9"]);
            read.source.verified = true;
            read
        };
        let file = || release("4.2.1", 'a', &[]);
        for catalog in [
            Catalog::new([read(), file()]),
            Catalog::new([file(), read()]),
            Catalog::new([file(), release("4.3.0", 'a', &[]), read()]),
        ] {
            assert_eq!(catalog.get(digest('a')).unwrap().version.to_string(), "4.2.0");
            assert!(catalog.remarks().iter().any(|r| r.contains("the payload counts")), "{:?}", catalog.remarks());
        }
    }

    /// Anybody can have an image read by naming it: that must advise nobody else.
    #[test]
    fn hearsay_answers_for_its_own_digest_and_nothing_else() {
        let mut forged = release("4.2.0", 'f', &["4.1.1"]);
        forged.shards = vec![digest('a')];
        let catalog =
            Catalog::new([release("4.2.0", 'a', &["4.1.1"])]).with_hearsay([forged, release("9.9.9", 'a', &[])]);
        assert!(catalog.get(digest('f')).is_some());
        assert_eq!(catalog.get(digest('a')).unwrap().version.to_string(), "4.2.0");
        assert_eq!(catalog.of_version(&Version::parse("4.2.0").unwrap()).len(), 1);
        assert_eq!((catalog.releases().count(), catalog.list_of(digest('a'))), (1, None));
    }

    #[test]
    fn a_list_and_its_children_are_one_release() {
        let list = Release {
            architecture: Some("multi".into()),
            shards: vec![digest('b'), digest('c')],
            ..release("4.2.0", 'a', &[])
        };
        let catalog = Catalog::new([release("4.2.0", 'b', &[]), list]);
        assert!(catalog.same_release(digest('a'), digest('b')) && catalog.same_release(digest('b'), digest('c')));
        assert!(!catalog.same_release(digest('a'), digest('d')));
        assert_eq!(
            catalog.of_version(&Version::parse("4.2.0").unwrap()).len(),
            1,
            "the child is no release of its own"
        );
        assert!(catalog.remarks()[0].contains("child of the manifest list"));
    }
}
