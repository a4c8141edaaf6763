//! Reading releases from a registry, from disk and from an archive: how long a look-up takes, and how long it must.
//!
//! Prints Markdown for docs/performance.md. Needs docker-registry and skopeo, as tests/registry does, whose harness it
//! shares.
#![expect(clippy::print_stdout, reason = "a report")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "the harness stops where it fails")]

#[path = "lookups/archive.rs"]
mod archive;
#[path = "lookups/delay.rs"]
mod delay;
#[expect(dead_code, reason = "the tests of the reader use the rest")]
#[path = "../tests/registry/images.rs"]
mod images;
#[expect(dead_code, reason = "the tests of the reader use the rest")]
#[path = "../tests/registry/push.rs"]
mod push;
#[expect(dead_code, reason = "the tests of the reader use the rest")]
#[path = "../tests/registry/real.rs"]
mod real;
#[path = "support/report.rs"]
mod report;
#[path = "../tests/apiserver/server.rs"]
mod server;
#[expect(dead_code, reason = "the tests of the reader use the rest")]
#[path = "../tests/registry/skopeo.rs"]
mod skopeo;
#[expect(dead_code, reason = "one function of it is enough here")]
#[path = "support/mod.rs"]
mod support;
#[expect(dead_code, reason = "the library's own tests use the rest")]
#[path = "../src/payload/testing.rs"]
mod testing;

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use airgate::catalog;
use airgate::fetch::cache::{Bounds, Cache};
use airgate::pullspec::{Digest, Repository};
use airgate::registry::{Access, Presence, Read, Registry as Reader};
use airgate::release::Catalog;
use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, stream};
use images::{Recipe, Release};
use jiff::Timestamp;
use real::{Options, Registry};
use report::{machine, median};
use skopeo::Skopeo;

const ROUND_TRIPS: [u64; 3] = [0, 3, 20];
const RUNS: usize = 15;
/// Of skopeo, of completeness and of the archive.
const FEW_RUNS: usize = 7;
/// As `airgate serve` and `release missing` ask for components.
const AT_ONCE: usize = 16;
const COMPONENTS_AT_MS: [u64; 2] = [0, 3];
/// TCP and TLS 1.3 one each, then the manifest, then configuration and layer together.
const COLD_ROUND_TRIPS: u32 = 4;
const LOOKUPS: u32 = 5_000_000;
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    println!("{}\n", machine()?);
    let site = Site::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let read = runtime.block_on(site.look_ups())?;
    runtime.block_on(site.completeness())?;
    site.on_this_machine(&read)
}

/// A registry with a release and its components.
struct Site {
    registry: Registry,
    release: Release,
    digest: Digest,
    scratch: tempfile::TempDir,
}

impl Site {
    fn start() -> Result<Self> {
        let registry = Registry::start(Options::default());
        let release = Recipe::real("4.19.9", &["4.18.20", "4.19.8"]).build();
        registry.push("ocp/release", &release);
        registry.push_images("ocp/art", release.components.iter().map(|component| &component.image));
        let digest = Digest::parse(release.digest()).context("a digest")?;
        Ok(Self { registry, release, digest, scratch: tempfile::tempdir()? })
    }

    /// The registry behind so much network.
    fn place(&self, round_trip: Duration, path: &str) -> Result<Repository> {
        let host = self.registry.host();
        let (_, port) = host.rsplit_once(':').context("a registry without a port")?;
        let place = format!("127.0.0.1:{}/{path}", delay::before(port.parse()?, round_trip)?);
        Repository::parse(&place).map_err(|why| anyhow!("{place}: {why}"))
    }

    /// A reader without a connection.
    fn reader(&self) -> Result<Reader> {
        let access = Access::default().ca("ca.crt", &fs::read(self.registry.ca_file())?).map_err(anyhow::Error::msg)?;
        Reader::new(access).map_err(anyhow::Error::msg)
    }

    async fn look_ups(&self) -> Result<Read> {
        let layer = self.release.image.blobs[&self.release.payload].len();
        let all: usize = self.release.image.blobs.values().map(Vec::len).sum();
        let mut moving = vec![];
        let mut last = None;
        println!(
            "A release of {} components and {} manifests, its top layer {:.1} MB of {:.1} MB in all; median of {RUNS} look-ups \
             and {FEW_RUNS} copies by skopeo (least to most), ms:\n",
            self.release.components.len(),
            self.release.recipe.manifests,
            mega(layer as u64),
            mega(all as u64),
        );
        println!(
            "| round trip | cold look-up | minimum | over an open connection | minimum | skopeo copy to dir: |\n|---|---|---|---|---|---|"
        );
        for nominal in ROUND_TRIPS.map(Duration::from_millis) {
            let real = delay::measured(nominal)?;
            let place = self.place(nominal, "ocp/release")?;
            if moving.is_empty() {
                moving = self.moving(&place).await?;
            }
            let (mut cold, mut open, mut copies) = (vec![], vec![], vec![]);
            for _ in 0..RUNS {
                let reader = self.reader()?;
                for times in [&mut cold, &mut open] {
                    let start = Instant::now();
                    let read = reader.release(std::slice::from_ref(&place), self.digest, soon()).await;
                    times.push(ms(start.elapsed()));
                    let read = read.map_err(|unread| anyhow!("{unread}"))?;
                    ensure!(
                        read.payload.components.len() == self.release.components.len(),
                        "a release was read in part"
                    );
                    last = Some(read);
                }
            }
            for run in 0..FEW_RUNS {
                copies.push(self.copy(&place, &format!("{}-{run}", nominal.as_millis()))?);
            }
            let minimum = |trips: u32| ms(real * trips) + median(moving.clone());
            println!(
                "| {} ms (measured {:.2}) | {} | {:.1} | {} | {:.1} | {} |",
                nominal.as_millis(),
                ms(real),
                spread(&cold),
                minimum(COLD_ROUND_TRIPS),
                spread(&open),
                minimum(2),
                spread(&copies),
            );
        }
        println!("\nMoving the layer, without delay and over an open connection: {} ms.\n", spread(&moving));
        last.context("nothing was read")
    }

    /// What the layer takes to come over an open connection, unhashed: the part of the minimum that is no round trip.
    async fn moving(&self, place: &Repository) -> Result<Vec<f64>> {
        let ca = reqwest::Certificate::from_pem(&fs::read(self.registry.ca_file())?)?;
        let client = reqwest::Client::builder()
            .tls_certs_only([ca])
            .no_proxy()
            .http2_initial_stream_window_size(4 << 20)
            .http2_initial_connection_window_size(8 << 20)
            .build()?;
        let url = format!("https://{}/v2/{}/blobs/{}", place.host, place.path, self.release.payload);
        let mut times = vec![];
        for _ in 0..=RUNS {
            let start = Instant::now();
            let mut response = client.get(&url).send().await?.error_for_status()?;
            while let Some(bytes) = response.chunk().await? {
                black_box(bytes);
            }
            times.push(ms(start.elapsed()));
        }
        // The first one opened the connection.
        times.remove(0);
        Ok(times)
    }

    fn copy(&self, place: &Repository, to: &str) -> Result<f64> {
        let skopeo = Skopeo::trusting(&[&self.registry]);
        let to = self.scratch.path().join(to);
        let (from, to) = (format!("docker://{place}@{}", self.digest), format!("dir:{}", to.display()));
        let start = Instant::now();
        skopeo.copy(&[], &from, &to).map_err(anyhow::Error::msg)?;
        Ok(ms(start.elapsed()))
    }

    async fn completeness(&self) -> Result<()> {
        let images: Option<Vec<Digest>> =
            self.release.components.iter().map(|component| Digest::parse(&component.image.top().digest)).collect();
        let images = images.context("digests of components")?;
        println!(
            "Completeness, {} components in one repository, {AT_ONCE} at a time, median of {FEW_RUNS}:\n",
            images.len()
        );
        println!("| round trip | ms | minimum |\n|---|---|---|");
        for nominal in COMPONENTS_AT_MS.map(Duration::from_millis) {
            let real = delay::measured(nominal)?;
            let places = [self.place(nominal, "ocp/art")?];
            let mut times = vec![];
            for _ in 0..FEW_RUNS {
                let reader = self.reader()?;
                let start = Instant::now();
                let found = stream::iter(&images)
                    .map(|image| reader.present(&places, *image, soon()))
                    .buffered(AT_ONCE)
                    .filter(|presence| std::future::ready(matches!(presence, Presence::Found(_))))
                    .count()
                    .await;
                times.push(ms(start.elapsed()));
                ensure!(found == images.len(), "only {found} of {} components were found", images.len());
            }
            let trips = 2 + u32::try_from(images.len().div_ceil(AT_ONCE))?;
            println!("| {} ms | {} | {:.1} |", nominal.as_millis(), spread(&times), ms(real * trips));
        }
        println!();
        Ok(())
    }

    /// What needs no registry.
    fn on_this_machine(&self, read: &Read) -> Result<()> {
        println!("Without a registry:\n\n| what | takes |\n|---|---|");
        let known = catalog::from_documents(&[support::catalog()], "catalog.json", Timestamp::now());
        let known = Catalog::new(known.map_err(anyhow::Error::msg)?);
        let digests: Vec<Digest> = known.entries().map(|release| release.digest).collect();
        ensure!(digests.iter().all(|digest| known.get(*digest).is_some()), "a release is not in its catalog");
        let mut nanoseconds = vec![];
        for _ in 0..FEW_RUNS {
            let start = Instant::now();
            for digest in digests.iter().cycle().take(LOOKUPS as usize) {
                black_box(known.lookup(black_box(*digest)));
            }
            nanoseconds.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKUPS));
        }
        println!("| look-up among {} releases in memory | {:.0} ns |", known.len(), median(nanoseconds));

        let cache = Cache::open(&self.scratch.path().join("cache"), Bounds::default()).map_err(anyhow::Error::msg)?;
        let bytes: usize = read.bytes.iter().map(|(_, bytes)| bytes.len()).sum();
        cache.store(self.digest, &read.bytes, "registry.example/ocp", Timestamp::now()).map_err(anyhow::Error::msg)?;
        let times = repeated(RUNS, || cache.load(self.digest).map(drop).context("not in the cache"))?;
        println!(
            "| one release from the disk cache, {:.1} MB, read, hashed, parsed | {} ms |",
            mega(bytes as u64),
            spread(&times)
        );

        let path = self.scratch.path().join("mirror_000001.tar");
        let written = archive::write(&path, &self.release)?;
        let times = repeated(FEW_RUNS, || {
            let outcome = catalog::read(&path, None, Timestamp::now());
            ensure!(outcome.findings.len() == 1 && outcome.problems.is_empty(), "the archive holds {outcome:?}");
            Ok(())
        })?;
        println!(
            "| index of an oc-mirror archive of {:.0} GB with {} headers, and its one release read | {} ms |",
            mega(written.bytes) / 1000.0,
            written.headers,
            spread(&times)
        );
        Ok(())
    }
}

fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + LIMIT
}

fn repeated(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let once = |_| {
        let start = Instant::now();
        work().map(|()| ms(start.elapsed()))
    };
    (0..times).map(once).collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The median, the least and the most.
fn spread(times: &[f64]) -> String {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    format!("{:.1} ({least:.1} to {most:.1})", median(times.to_vec()))
}
