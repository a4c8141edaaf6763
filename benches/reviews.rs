//! One review without a network: decoded, judged, and both with the answer encoded.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops where it fails, and reports")]

mod support;

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use airgate::catalog;
use airgate::engine::{self, Facts};
use airgate::release::Catalog;
use airgate::review::Review;
use airgate::settings::Settings;
use airgate::state::State;
use airgate::verdict;
use criterion::{Criterion, Throughput};
use jiff::Timestamp;
use support::{CHANGES, SIZES};

const STEPS: [&str; 3] = ["decode", "evaluate", "whole"];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .without_plots()
        .configure_from_args();
    let bodies = bodies();
    reviews(&mut criterion, &bodies);
    criterion.final_summary();
    table(&bodies);
}

struct Body {
    name: String,
    text: String,
    allowed: bool,
}

fn bodies() -> Vec<Body> {
    let mut bodies = vec![];
    for size in SIZES {
        for change in CHANGES {
            let name = format!("{} {}", size.name, change.name);
            bodies.push(Body { name, text: support::update(size, change), allowed: change.name != "denied" });
        }
    }
    let name = "InternalReleaseImage deleted".into();
    bodies.push(Body { name, text: support::delete(), allowed: false });
    bodies
}

fn reviews(criterion: &mut Criterion, bodies: &[Body]) {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let state = State::from_documents("the cluster", support::cluster(), &[], now);
    assert!(state.problems().is_empty(), "{:?}", state.problems());
    let (cluster, settings) = (state.snapshot(), Settings::default());
    let catalog = Catalog::new(catalog::from_documents(&[support::catalog()], "releases.yaml", now).unwrap());
    let facts = Facts::of(&cluster, &catalog, &settings, now);

    for Body { name, text, allowed } in bodies {
        let body = text.as_bytes();
        let verdict = engine::judge(body, facts).unwrap().verdict;
        assert_eq!(verdict.allowed(), *allowed, "{name}: {verdict:#?}");

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(STEPS[0], |bench| bench.iter(|| Review::decode(black_box(body), &cluster).unwrap()));
        let review = Review::decode(body, &cluster).unwrap();
        group.bench_function(STEPS[1], |bench| {
            bench.iter(|| verdict::judge(&facts.context(black_box(&review))));
        });
        group.bench_function(STEPS[2], |bench| {
            bench.iter(|| {
                let judged = engine::judge(black_box(body), facts).unwrap();
                serde_json::to_vec(&judged.response.into_review()).unwrap()
            });
        });
        group.finish();
    }
}

/// What criterion measured last of each, as Markdown for docs/performance.md.
fn table(bodies: &[Body]) {
    println!("\n| review | bytes | decode us | evaluate us | whole us |\n|---|---|---|---|---|");
    for Body { name, text, .. } in bodies {
        let medians = STEPS.map(|step| median(name, step).map_or("-".into(), |micros| format!("{micros:.1}")));
        println!("| {name} | {} | {} |", text.len(), medians.join(" | "));
    }
}

/// In microseconds.
fn median(group: &str, step: &str) -> Option<f64> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let text = fs::read(format!("{target}/criterion/{group}/{step}/new/estimates.json")).ok()?;
    let estimates: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(estimates["median"]["point_estimate"].as_f64()? / 1000.0)
}
