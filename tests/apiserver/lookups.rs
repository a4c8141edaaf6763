//! Releases that airgate reads from the site's registry, as the cluster's own objects say how: mirrors, pull
//! secret, CA. A real docker-registry stands behind.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::guard::Guard;
use crate::images::{Form, Recipe, Release as Image};
use crate::real::{Options, Registry, auth};
use crate::server::eventually;
use crate::skopeo::Skopeo;
use crate::testbed::Testbed;

pub const SOURCE: &str = "quay.example/openshift-release-dev/ocp-release";
const MIRROR: &str = "mirror/openshift/release-images";

/// A guard whose cluster has one mirror registry, which wants a password; the source must not be contacted.
pub struct Mirrored {
    pub registry: Registry,
    /// Between airgate and the registry; what airgate calls the mirror.
    pub gate: Gate,
    pub guard: Guard,
}

impl Mirrored {
    pub fn start(images: &[&Image]) -> Self {
        let registry = Registry::start(Options { login: Some(("reader", "s3cret-of-the-test")), read_only: false });
        for image in images {
            registry.push(MIRROR, image);
        }
        let testbed = Testbed::start();
        testbed.install_crds(&crate::crds::CrdSet::preferred());
        let mut guard = Guard::install(testbed);
        guard.cache = true;
        let gate = Gate::before(&registry.host());
        let mirrored = Self { registry, gate, guard };
        mirrored.describe_registry();
        mirrored
    }

    fn describe_registry(&self) {
        let (registry, testbed) = (&self.registry, &self.guard.testbed);
        let host = self.gate.host();
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let auths = json!({"auths": {&host: auth(registry.login().expect("a login"))}});
        let ca = std::fs::read_to_string(registry.ca_file()).expect("a CA");
        let mirror = json!({"source": SOURCE, "mirrors": [format!("{host}/{MIRROR}")], "mirrorSourcePolicy": "NeverContactSource"});
        for object in [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "openshift-config", "name": "pull-secret"},
                "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64(auths.to_string())}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "openshift-config", "name": "mirror-ca"},
                "data": {host.replace(':', ".."): ca}}),
            json!({"apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
                "spec": {"additionalTrustedCA": {"name": "mirror-ca"}}}),
            json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "release"},
                "spec": {"imageDigestMirrors": [mirror]}}),
        ] {
            testbed.command(["apply", "-f", "-"]).stdin(object.to_string()).run().success();
        }
    }

    /// `oc adm upgrade --allow-explicit-upgrade --to-image` of an image by its source's name.
    fn upgrade(&self, digest: &str) -> crate::kubectl::Output {
        let image = format!("{SOURCE}@{digest}");
        let target =
            json!({"spec": {"desiredUpdate": {"architecture": "", "version": "", "image": image, "force": false}}});
        let patch = target.to_string();
        self.guard.testbed.kubectl(["patch", "clusterversion/version", "--type=merge", "-p", &patch])
    }

    fn normal(&self, text: &str) -> String {
        self.guard.normal(&text.replace(&self.gate.host(), "MIRROR"))
    }

    fn catalog(&self) -> Vec<Value> {
        self.guard.statusz()["catalog"]["fromRegistries"].as_array().cloned().unwrap_or_default()
    }

    fn start_guard(&mut self) {
        self.guard.run();
        self.guard.reset();
        self.guard.register();
    }

    fn restart(&mut self) {
        self.guard.kill();
        self.guard.run();
    }
}

/// A port before another, which lets nothing through while it is shut.
pub struct Gate {
    port: u16,
    open: Arc<(Mutex<bool>, Condvar)>,
}

/// Copies what comes, and holds it while the gate is shut.
fn pass(mut from: TcpStream, mut to: TcpStream, (open, changed): &(Mutex<bool>, Condvar)) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        drop(changed.wait_while(open.lock().expect("the gate"), |open| !*open));
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

impl Gate {
    fn before(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let open = Arc::new((Mutex::new(true), Condvar::new()));
        let (gate, target) = (Arc::clone(&open), target.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (gate, target) = (Arc::clone(&gate), target.clone());
                thread::spawn(move || {
                    let Ok(server) = TcpStream::connect(target) else { return };
                    let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
                    let back = Arc::clone(&gate);
                    let back = thread::spawn(move || pass(server, client, &back));
                    pass(from, to, &gate);
                    let _ = back.join();
                });
            }
        });
        Self { port, open }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn set(&self, open: bool) {
        *self.open.0.lock().expect("the gate") = open;
        self.open.1.notify_all();
    }
}

/// The client waits by itself, and the step is judged in the end.
#[test]
fn while_a_slow_registry_is_read_the_client_asks_again() {
    let listed = Recipe::new("4.18.20", &["4.18.11", "4.18.12"]).build();
    let next = Recipe::new("4.18.21", &["4.18.12", "4.18.20"]).build();
    let mut site = Mirrored::start(&[&listed, &next]);
    site.start_guard();
    // A connection stands when the registry goes slow: what cannot even be reached fails sooner.
    site.upgrade(listed.digest()).success();
    site.gate.set(false);
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| site.upgrade(next.digest()));
        eventually("the client was told to ask again", || {
            let reading = site.guard.metric(r#"airgate_reviews_total{kind="ClusterVersion",outcome="reading"}"#);
            (reading? >= 1).then_some(())
        });
        site.gate.set(true);
        upgrade.join().expect("kubectl").success();
    });
    // A dry run waits once, and is told what is missing.
    site.gate.set(false);
    let nowhere = format!("{SOURCE}@sha256:{}", "d".repeat(64));
    let answer = site.guard.dry_run(&json!({"spec": {"desiredUpdate": {"image": nowhere}}}));
    assert_eq!(answer.code, 403, "{answer:?}");
    assert!(answer.body["message"].as_str().unwrap().contains("still being read from"), "{answer:?}");
    site.gate.set(true);
}

/// The CA of the mirror is in the mounted bundle alone, where OpenShift puts it after the pod has started.
#[test]
fn a_bundle_of_cas_that_is_mounted_is_trusted_once_it_is_there() {
    let listed = Recipe::new("4.18.20", &["4.18.11", "4.18.12"]).build();
    let mut site = Mirrored::start(&[&listed]);
    let nothing = json!({"spec": {"additionalTrustedCA": {"name": ""}}}).to_string();
    site.guard
        .testbed
        .kubectl(["patch", "images.config.openshift.io/cluster", "--type=merge", "-p", &nothing])
        .success();
    let bundle = site.guard.testbed.dir().join("ca-bundle.crt");
    site.guard.ca_bundle = Some(bundle.clone());
    site.start_guard();
    let refused = site.upgrade(listed.digest());
    assert!(refused.code != 0 && refused.stderr.contains("certificate"), "{refused:?}");
    std::fs::copy(site.registry.ca_file(), bundle).expect("fill the bundle");
    eventually("the registry is trusted", || (site.upgrade(listed.digest()).code == 0).then_some(()));
}

/// What the cluster's objects name is read before anybody asks, from mirrors only.
#[test]
fn what_is_offered_is_read_ahead() {
    let listed = Recipe::new("4.18.20", &["4.18.11", "4.18.12"]).build();
    let mut site = Mirrored::start(&[&listed]);
    site.start_guard();
    let mut version = crate::objects::cluster_version(&[crate::guard::Site::new().current.history("Completed")]);
    let unmirrored = format!("registry.example:5000/ocp/release@sha256:{}", "e".repeat(64));
    version["status"]["availableUpdates"] = json!([
        {"version": "4.18.21", "image": unmirrored},
        {"version": "4.18.20", "image": format!("{SOURCE}@{}", listed.digest())},
    ]);
    site.guard.set_version(&version);
    eventually("the offered release is read", || (!site.catalog().is_empty()).then_some(()));
    assert_eq!(site.catalog()[0]["version"], "4.18.20");
    assert_eq!(site.guard.metric(r#"airgate_release_lookups_total{reason="ahead",outcome="read"}"#), Some(1));
    assert_eq!(site.guard.metric(r#"airgate_release_lookups_total{reason="request",outcome="read"}"#), Some(0));
}

/// The six steps of `airgate demo`, on a real API server, answered from a registry that a mirroring tool filled.
#[test]
fn the_steps_of_the_demo_are_answered_from_a_registry_that_skopeo_filled() {
    let release = |version: &str, previous: &[&str]| Recipe::new(version, previous).build();
    let next = release("4.19.9", &["4.18.12", "4.19.8"]);
    let far = release("4.20.1", &["4.19.8", "4.19.9"]);
    let early = release("4.19.0", &["4.18.10", "4.18.11"]);
    let images = [&next, &far, &early];
    let mut source = Registry::start(Options::default());
    let mut site = Mirrored::start(&[]);
    let skopeo = Skopeo::trusting(&[&source, &site.registry]).authfile(site.registry.authfile());
    for image in images {
        source.push("ocp/release", image);
        let from = format!("docker://{}/ocp/release@{}", source.host(), image.digest());
        // A tag of some sort is what skopeo needs; the digest is what nodes ask for.
        let to = format!("docker://{}/{MIRROR}:{}", site.registry.host(), image.recipe.version);
        skopeo.copy(&["--preserve-digests"], &from, &to).expect("skopeo fills the mirror");
    }
    source.stop();
    site.start_guard();

    let image = |release: &Image, force: bool| json!({"desiredUpdate": {"architecture": "", "version": "", "image": format!("{SOURCE}@{}", release.digest()), "force": force}});
    let tag = json!({"desiredUpdate": {"architecture": "", "version": "", "image": format!("{SOURCE}:4.19.9-x86_64"), "force": true}});
    let kept = json!({"releases": [{"name": crate::guard::Site::new().listed.bundle()}]});
    let steps = [
        ("to the next minor, which lists 4.18.12", "clusterversion/version", image(&next, false)),
        ("two minors at once", "clusterversion/version", image(&far, false)),
        (
            "\"up\" to a 4.19 that was built before 4.18.12: fixes would be lost",
            "clusterversion/version",
            image(&early, false),
        ),
        ("by tag, as --force lets through", "clusterversion/version", tag),
        ("two minors at once, by force", "clusterversion/version", image(&far, true)),
        ("cleaning up: the bundle of the running release", "internalreleaseimage/cluster", kept),
    ];
    let mut transcript = String::new();
    for (number, (title, object, spec)) in steps.into_iter().enumerate() {
        site.guard.reset();
        let output =
            site.guard.testbed.kubectl(["patch", object, "--type=merge", "-p", &json!({"spec": spec}).to_string()]);
        transcript += &[&*format!("{}. {title}\n", number + 1), &output.stdout, &output.stderr, "\n"].concat();
    }
    for release in images {
        transcript = transcript.replace(release.digest(), &format!("sha256:{}", release.recipe.version));
    }
    let (transcript, path) =
        (site.normal(&transcript), concat!(env!("CARGO_MANIFEST_DIR"), "/docs/registry-steps.txt"));
    if std::env::var_os("AIRGATE_WRITE_DOCS").is_some() {
        std::fs::write(path, &transcript).expect("write docs/registry-steps.txt");
    }
    let written = std::fs::read_to_string(path).expect("docs/registry-steps.txt");
    assert_eq!(transcript, written, "write it anew: AIRGATE_WRITE_DOCS=1 cargo test --test apiserver lookups");
}

#[test]
fn an_image_by_digest_is_judged_by_what_the_mirror_holds() {
    let listed = Recipe::new("4.18.20", &["4.18.11", "4.18.12"]).build();
    let unlisted = Recipe::new("4.19.9", &["4.18.19", "4.18.20"]).form(Form::List).build();
    let mut site = Mirrored::start(&[&listed, &unlisted]);
    site.start_guard();

    let denied = site.upgrade(unlisted.digest()).failure();
    insta::assert_snapshot!(site.normal(&denied).replace(unlisted.digest(), "sha256:TARGET"), @r#"
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: 4.18.12 cannot go straight to 4.19.9.
      why:   4.19.9 says which versions it can be reached from; of 4.18 these are 4.18.19, 4.18.20 (read from MIRROR/mirror/openshift/release-images N s ago, digest verified).
      works: go to 4.18.20 first, it is on this site and 4.18.12 is on its list:
             oc adm upgrade --allow-explicit-upgrade --to-image quay.example/openshift-release-dev/ocp-release@sha256:2222222222222222222222222222222222222222222222222222222222222222
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    4.19.9 is a multi payload and the cluster is amd64.
      why:   the cluster's own release sha256:1111111111111111111111111111111111111111111111111111111111111111 is for amd64; moving to multi and to another version are two steps, and the first stays at the current version.
      works: migrate first, then upgrade: oc adm upgrade --to-multi-arch
      rule:  release-identity (airgate policies explain release-identity); in an emergency: airgate override --help
    "#);
    let child = site.upgrade(&unlisted.shards[0]).failure();
    assert!(child.contains("is the payload of one architecture"), "{child}");
    let nowhere = format!("sha256:{}", "d".repeat(64));
    let nowhere = site.upgrade(&nowhere).failure();
    insta::assert_snapshot!(site.normal(&nowhere), @r#"
    Error from server (Forbidden): admission webhook "clusterversion.airgate.io" denied the request: whether 4.18.12 may go to quay.example/openshift-release-dev/ocp-release@sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd cannot be judged.
      why:   no release source on this site knows that digest and it could not be read: no registry has it: MIRROR/mirror/openshift/release-images: MIRROR does not have it (404 MANIFEST_UNKNOWN: manifest unknown), so which versions it can be reached from is not known.
      works: mend what those places answer (airgate release info PULLSPEC asks them again); or put what it says below --releases, from where its registry can be reached: airgate release export PULLSPEC > DIRECTORY/release.yaml
      rule:  upgrade-path (airgate policies explain upgrade-path); in an emergency: airgate override --help
    "#);
    site.upgrade(listed.digest()).success();
    let asked = site.registry.requests().len();
    site.guard.reset();
    site.upgrade(listed.digest()).success();
    assert_eq!(site.registry.requests().len(), asked, "what was read once is not read again");

    // At the command line credentials, CA and mirrors come from the cluster too.
    let mut info = std::process::Command::new(env!("CARGO_BIN_EXE_airgate"));
    info.env_clear().args(["release", "info", &format!("{SOURCE}@{}", unlisted.digest()), "--kubeconfig"]);
    let info = info.arg(site.guard.testbed.kubeconfig()).output().expect("run airgate");
    let (shown, stderr) = (String::from_utf8_lossy(&info.stdout), String::from_utf8_lossy(&info.stderr));
    assert!(info.status.success() && shown.contains(unlisted.digest()), "{shown}{stderr}");
    assert!(shown.contains(&format!("{}/{MIRROR} (verified)", site.gate.host())), "{shown}");

    // The registry is gone, and airgate starts anew: the cache directory still knows.
    site.registry.stop();
    site.guard.reset();
    site.restart();
    eventually("the cache is read", || (site.catalog().len() == 2).then_some(()));
    site.guard.reset();
    site.upgrade(listed.digest()).success();
    let denied = site.upgrade(unlisted.digest()).failure();
    assert!(denied.contains("cannot go straight to 4.19.9") && denied.contains("digest verified"), "{denied}");
    let secret = site.registry.login().expect("a login").1;
    let log = std::fs::read_to_string(site.guard.testbed.dir().join("airgate.log")).expect("airgate's log");
    assert!(!log.contains(secret), "{log}");
}
