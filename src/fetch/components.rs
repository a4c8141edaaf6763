//! Looking for the component images of releases, in the background: by HEAD, so many at once, what was found remembered.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::flights::Scope;
use super::registries::Registries;
use crate::policy::Want;
use crate::pullspec::Digest;
use crate::registry;
use crate::release::completeness::{Checked, Checks, Completeness, Presence, Verdict, Wanted, wanted};

/// Questions at the same time.
const AT_ONCE: usize = 16;
/// For one image; a registry that is slower than this is not one to upgrade from.
const PATIENCE: Duration = Duration::from_secs(10);
/// After what a release is looked at again: mirrors are cleaned up too.
const COMPLETE_FOR: Duration = Duration::from_hours(1);
/// The same where something is missing: somebody may be mirroring it right now.
const INCOMPLETE_FOR: Duration = Duration::from_mins(2);
/// Releases and images remembered.
const RELEASES: usize = 64;
const IMAGES: usize = 64 * 1024;

/// What was found, and what is still to be looked for.
#[derive(Debug, Default)]
pub struct Components {
    checks: ArcSwap<Checks>,
    asked: Mutex<BTreeSet<Digest>>,
    wake: Notify,
}

impl Components {
    #[must_use]
    pub fn checks(&self) -> Arc<Checks> {
        self.checks.load_full()
    }

    /// Has the components of a release looked for soon, if they were not a moment ago.
    pub fn look_for(&self, digest: Digest) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() < RELEASES && asked.insert(digest) {
            self.wake.notify_one();
        }
    }

    /// Looks for ever, one release at a time. What nobody asked for is looked for on mirrors only.
    pub async fn run(&self, registries: &Registries) -> String {
        let mut looked: HashMap<Digest, (Instant, Scope)> = HashMap::new();
        let mut found: HashMap<Digest, Instant> = HashMap::new();
        loop {
            let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
            let ahead = super::ahead::named(&registries.facts.snapshot());
            let asked = asked.into_iter().map(|digest| (digest, Scope::All));
            for (digest, scope) in asked.chain(ahead.into_iter().map(|want| (want.digest, Scope::MirrorsOnly))) {
                if looked
                    .get(&digest)
                    .is_some_and(|(until, by)| *until > Instant::now() && (*by == Scope::All || *by == scope))
                {
                    continue;
                }
                let Some(checked) = look(registries, digest, scope, &mut found).await else { continue };
                let good_for = if checked.found.verdict() == Verdict::Complete { COMPLETE_FOR } else { INCOMPLETE_FOR };
                looked.insert(digest, (Instant::now() + good_for, scope));
                self.publish(digest, checked);
            }
            looked.retain(|_, (until, _)| *until > Instant::now());
            found.retain(|_, until| *until > Instant::now());
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(super::ahead::EVERY) => {}
            }
        }
    }

    fn publish(&self, digest: Digest, checked: Checked) {
        let mut checks = Checks::clone(&self.checks.load());
        if checks.len() >= RELEASES && !checks.contains_key(&digest) {
            let oldest = checks.iter().min_by_key(|(_, checked)| checked.at).map(|(digest, _)| *digest);
            oldest.map(|digest| checks.remove(&digest));
        }
        checks.insert(digest, Arc::new(checked));
        self.checks.store(Arc::new(checks));
    }
}

/// `None` for a release that is not known, or of which nobody says what it is made of.
async fn look(
    registries: &Registries,
    digest: Digest,
    scope: Scope,
    found: &mut HashMap<Digest, Instant>,
) -> Option<Checked> {
    let catalog = registries.facts.catalog();
    let components = catalog.get(digest)?.components.clone().filter(|components| !components.is_empty())?;
    let registry = registries.access.registry(&registries.facts.snapshot()).await;
    let known: HashSet<Digest> = found.keys().copied().collect();
    let answers: Vec<(Wanted, Presence)> = stream::iter(wanted(&components))
        .map(|image| {
            let (registry, known) = (&registry, known.contains(&image.digest));
            async move {
                let presence = match registry {
                    _ if known => Presence::Present,
                    Ok(registry) => ask(registries, registry, &image, scope).await,
                    Err(why) => Presence::Unknown(why.clone()),
                };
                (image, presence)
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let until = Instant::now() + COMPLETE_FOR;
    for (image, _) in answers.iter().filter(|(_, presence)| *presence == Presence::Present) {
        if found.len() < IMAGES {
            found.entry(image.digest).or_insert(until);
        }
    }
    Some(Checked { found: Completeness::of(answers), at: Timestamp::now() })
}

async fn ask(registries: &Registries, registry: &registry::Registry, image: &Wanted, scope: Scope) -> Presence {
    let want = Want { digest: image.digest, repository: Some(image.repository.clone()) };
    let places = match registries.places(&want, scope) {
        Ok(places) if places.is_empty() => return Presence::Unknown(format!("{} has no mirror", image.repository)),
        Ok(places) => places,
        Err(why) => return Presence::Unknown(why),
    };
    match registry.present(&places, image.digest, Instant::now() + PATIENCE).await {
        registry::Presence::Found(_) => Presence::Present,
        registry::Presence::Absent => {
            let places: Vec<_> = places.iter().map(ToString::to_string).collect();
            Presence::Absent(format!("not in {}", places.join(", ")))
        }
        registry::Presence::Unknown(why) => Presence::Unknown(why),
    }
}
