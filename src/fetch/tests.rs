//! Flights over a source that the test holds in its hand.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::*;
use crate::pullspec::Repository;
use crate::release::Source as ReadFrom;
use crate::version::Version;

#[derive(Debug, Default)]
struct Hand {
    asked: AtomicUsize,
    /// Digests that are there; any other is not.
    there: HashSet<Digest>,
    /// Of these only one image of a multi release.
    shards: HashSet<Digest>,
    /// Not answered before this.
    go: Notify,
    held: bool,
    /// Registries that the cluster does not know never answer.
    slow_strangers: bool,
    only_at_source: bool,
    published: Mutex<Vec<Digest>>,
}

impl Source for Hand {
    fn names(&self, _: &Want, _: Scope) -> Arc<str> {
        "mirror.example/ocp".into()
    }

    async fn read(&self, want: &Want, scope: Scope, _: Instant) -> Result<Finding, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.slow_strangers && want.repository.is_some() {
            std::future::pending::<()>().await;
        }
        if self.held {
            self.go.notified().await;
        }
        let standing = if self.shards.contains(&want.digest) {
            Standing::Shard(want.digest)
        } else if self.there.contains(&want.digest) && !(self.only_at_source && scope == Scope::MirrorsOnly) {
            Standing::Named(want.digest)
        } else {
            return Err("mirror.example/ocp: not found".into());
        };
        Ok(Finding {
            standing,
            version: Version::parse("4.19.9").unwrap(),
            previous: Some(vec![]),
            architecture: Some("amd64".into()),
            shards: vec![],
            components: None,
            source: ReadFrom { name: "mirror.example/ocp".into(), read_at: Timestamp::UNIX_EPOCH, verified: true },
            unread: 0,
        })
    }

    fn familiar(&self, want: &Want) -> bool {
        want.repository.is_none()
    }

    fn publish(&self, release: Release) {
        self.published.lock().unwrap().push(release.digest);
    }
}

const SHORT: Timing = Timing {
    flight: Duration::from_millis(300),
    failed_for: Duration::from_mins(10),
    repeat: Duration::from_millis(20),
};

fn want(letter: char) -> Want {
    Want { digest: crate::release::tests::digest(letter), repository: None }
}

fn flights(hand: Hand) -> Arc<Flights<Hand>> {
    Arc::new(Flights::new(hand, limits(100, Duration::from_secs(1)), SHORT, Counts::default()))
}

fn limits(most: u32, every: Duration) -> [Limit; 2] {
    [Limit::new(most, every), Limit::new(most, every)]
}

fn there(letters: &str) -> HashSet<Digest> {
    letters.chars().map(crate::release::tests::digest).collect()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn reading(attempt: Option<Attempt>) -> bool {
    matches!(attempt, Some(Attempt { end: AttemptEnd::Reading(_), .. }))
}

fn why(attempt: Option<Attempt>) -> String {
    match attempt {
        Some(Attempt { end: AttemptEnd::Failed(why), .. }) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn many_who_want_the_same_read_it_once() {
    let flights = flights(Hand { there: there("a"), held: true, ..Hand::default() });
    let (one, other) = (want('a'), want('a'));
    let (first, second, ()) = tokio::join!(flights.want(&one, soon()), flights.want(&other, soon()), async {
        tokio::task::yield_now().await;
        flights.source.go.notify_waiters();
    });
    assert_eq!((first, second), (None, None));
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 1);
    assert_eq!(flights.source.published.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_first_waits_for_its_deadline_and_it_goes_on_without_anybody() {
    let flights = flights(Hand { there: there("a"), held: true, ..Hand::default() });
    let deadline = soon();
    assert!(reading(flights.want(&want('a'), deadline).await));
    assert!(Instant::now() >= deadline);
    let far = Instant::now() + Duration::from_mins(10);
    assert!(reading(flights.want(&want('a'), far).await), "the second does not wait for its own");
    flights.source.go.notify_one();
    while flights.source.published.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_reading_that_never_ends_is_given_up_and_a_failure_is_an_answer_for_a_while() {
    let timing = Timing { failed_for: Duration::from_millis(400), repeat: Duration::from_mins(10), ..SHORT };
    let flights = Arc::new(Flights::new(
        Hand { held: true, ..Hand::default() },
        limits(9, SHORT.flight),
        timing,
        Counts::default(),
    ));
    let far = Instant::now() + Duration::from_mins(10);
    assert!(why(flights.want(&want('a'), far).await).contains("was not read within"));
    assert!(why(flights.want(&want('a'), far).await).contains("was not read within"));
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 1);
    tokio::time::sleep(timing.failed_for).await;
    assert!(why(flights.want(&want('a'), far).await).contains("was not read within"));
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 2, "it is tried again");
}

#[tokio::test]
async fn what_no_place_has_is_a_failure_with_each_place() {
    let flights = flights(Hand::default());
    assert_eq!(why(flights.want(&want('a'), soon()).await), "mirror.example/ocp: not found");
}

#[tokio::test]
async fn one_image_of_a_multi_release_is_recognised() {
    let flights = flights(Hand { shards: there("a"), ..Hand::default() });
    let attempt = flights.want(&want('a'), soon()).await;
    assert!(matches!(attempt, Some(Attempt { end: AttemptEnd::Shard { .. }, .. })), "{attempt:?}");
    assert!(flights.source.published.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_only_mirrors_were_asked_for_is_asked_for_everywhere_by_a_review() {
    let hand = Hand { there: there("a"), held: true, only_at_source: true, ..Hand::default() };
    let flights = flights(hand);
    let (ahead, review, ()) = tokio::join!(
        async { flights.ahead(&want('a')).await },
        async {
            tokio::task::yield_now().await;
            flights.want(&want('a'), Instant::now() + Duration::from_mins(10)).await
        },
        async {
            while flights.source.published.lock().unwrap().is_empty() {
                flights.source.go.notify_waiters();
                tokio::task::yield_now().await;
            }
        }
    );
    assert_eq!((ahead, review), (false, None));
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn look_ups_are_limited_as_a_whole_but_not_those_ahead() {
    let flights = Arc::new(Flights::new(Hand::default(), limits(2, Duration::from_mins(1)), SHORT, Counts::default()));
    let letters = ['a', 'b', 'c'];
    let mut ends = vec![];
    for letter in letters {
        ends.push(reading(flights.want(&want(letter), soon()).await));
    }
    assert_eq!(ends, [false, false, true]);
    assert_eq!(flights.counts.limited.get(), 1);
    assert!(!flights.ahead(&want('d')).await);
    assert_eq!(flights.source.asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let timing = Timing { flight: Duration::from_millis(50), failed_for: Duration::ZERO, ..SHORT };
    let flights = Arc::new(Flights::new(
        Hand { held: true, ..Hand::default() },
        limits(1000, Duration::ZERO),
        timing,
        Counts::default(),
    ));
    for number in 0..2 * ENTRIES {
        let digest = Digest::parse(&format!("sha256:{:064x}", number + 1)).unwrap();
        flights.start(&Want { digest, repository: None });
    }
    assert_eq!(flights.lock().len(), ENTRIES);
    while flights.lock().values().any(|entry| matches!(entry, Entry::Flying { .. })) {
        tokio::time::sleep(timing.flight).await;
    }
    flights.start(&want('a'));
    assert_eq!(flights.lock().len(), 1, "what ended makes room");
}

/// Strangers have places of their own, and what one place has not says nothing of another.
#[tokio::test]
async fn a_flood_of_strangers_keeps_nobody_waiting_and_answers_for_nobody_else() {
    let flights = flights(Hand { there: there("a"), slow_strangers: true, ..Hand::default() });
    for number in 0..20 {
        let repository = Some(Repository { host: format!("host{number}.example"), path: "x/y".into() });
        flights.start(&Want { repository, ..want('a') });
    }
    let far = Instant::now() + Duration::from_mins(10);
    assert_eq!(flights.want(&want('a'), far).await, None);
}
