//! One review without a network: decoded, judged, and both with the answer encoded.
#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

mod support;

use std::hint::black_box;
use std::time::Duration;

use airgate::catalog;
use airgate::engine::{self, Facts};
use airgate::release::Catalog;
use airgate::review::Review;
use airgate::settings::Settings;
use airgate::state::State;
use airgate::verdict;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use support::{CHANGES, SIZES};

fn reviews(criterion: &mut Criterion) {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let state = State::from_documents("the cluster", support::cluster(), &[], now);
    assert!(state.problems().is_empty(), "{:?}", state.problems());
    let (cluster, settings) = (state.snapshot(), Settings::default());
    let catalog = Catalog::new(catalog::from_documents(&[support::catalog()], "releases.yaml", now).unwrap());
    let facts = Facts { cluster: &cluster, catalog: &catalog, settings: &settings, now };

    let mut bodies: Vec<(String, String, bool)> = vec![];
    for size in SIZES {
        for change in CHANGES {
            let name = format!("{} {}", size.name, change.name);
            bodies.push((name, support::update(size, change), change.name != "denied"));
        }
    }
    bodies.push(("InternalReleaseImage deleted".into(), support::delete(), false));

    for (name, body, allowed) in &bodies {
        let body = body.as_bytes();
        let verdict = engine::judge(body, facts).unwrap().verdict;
        assert_eq!(verdict.allowed(), *allowed, "{name}: {verdict:#?}");

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function("decode", |bench| bench.iter(|| Review::decode(black_box(body)).unwrap()));
        let review = Review::decode(body).unwrap();
        group.bench_function("evaluate", |bench| {
            bench.iter(|| verdict::judge(black_box(&review), &cluster, &catalog, &settings, now));
        });
        group.bench_function("whole", |bench| {
            bench.iter(|| {
                let judged = engine::judge(black_box(body), facts).unwrap();
                serde_json::to_vec(&judged.response.into_review()).unwrap()
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .without_plots();
    targets = reviews
}
criterion_main!(benches);
