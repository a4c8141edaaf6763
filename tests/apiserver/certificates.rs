//! airgate keeps its certificates itself: two replicas on one Secret, with exactly the rights that takes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use airgate::files::document::from_yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::{Value, json};

use crate::api::{Api, IMAGE, IMAGES, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, IDENTITY, Site, http_get};
use crate::objects::{cluster_version, internal_release_image};
use crate::rights::added_are_used;
use crate::server::{eventually, free_port, poll};
use crate::testbed::Testbed;

const NAMESPACE: &str = "openshift-airgate";
const SECRET: &str = "/api/v1/namespaces/openshift-airgate/secrets/airgate-tls";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/airgate";
/// A CA lives ten minutes and has a successor after six seconds; a certificate lives a minute and is renewed after
/// five; a CA is used a second after everybody trusts it.
const TIMING: &str = "600,6,60,5,1,0.2";

/// In the namespace of these tests.
const KEEPER: [&str; 2] = ["--flavor=openshift", "--certificates=keeper"];

/// One process of airgate.
struct Replica {
    process: Child,
    webhook: u16,
    health: u16,
    admin: u16,
    log: PathBuf,
}

impl Replica {
    fn start(guard: &Guard, name: &str, timing: &str) -> Self {
        Self::start_with(guard, name, timing, &[])
    }

    fn start_with(guard: &Guard, name: &str, timing: &str, flags: &[&str]) -> Self {
        let [webhook, health, admin] = [free_port(), free_port(), free_port()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_airgate"));
        command.arg("serve").arg("--keep-certificates").args(["--namespace", NAMESPACE]).args(flags);
        command.arg("--certificate-timing").arg(timing);
        command.arg("--kubeconfig").arg(guard.kubeconfig()).arg("--releases").arg(guard.releases());
        for (flag, port) in [("listen", webhook), ("health-listen", health), ("admin-listen", admin)] {
            command.arg(format!("--{flag}=127.0.0.1:{port}"));
        }
        let log = guard.testbed.dir().join(format!("{name}.log"));
        let process = guard.testbed.spawn(&mut command, &log);
        Self { process, webhook, health, admin, log }
    }

    fn readyz(&self) -> (u16, String) {
        http_get(self.health, "/readyz").unwrap_or_default()
    }

    fn ready(&mut self) {
        eventually("a replica is ready", || {
            if let Ok(Some(status)) = self.process.try_wait() {
                panic!("it ended with {status}: {}", fs::read_to_string(&self.log).unwrap_or_default());
            }
            (self.readyz().0 == 200).then_some(())
        });
    }

    fn statusz(&self) -> Value {
        let (_, body) = http_get(self.admin, "/statusz").unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    fn metric(&self, name: &str) -> i64 {
        let (_, body) = http_get(self.health, "/metrics").expect("metrics");
        let found = body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {name} in {body}"))
    }

    fn stop(mut self) {
        self.process.kill().expect("kill airgate");
        self.process.wait().expect("wait for airgate");
    }
}

/// A site with the manifests' rights and those of the keeper, and an empty Secret as the manifests ship it.
fn site() -> Guard {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let guard = Guard::install(testbed);
    let rights = guard.airgate(&[&["manifests", "--only", "rights"], &KEEPER[..]].concat());
    guard.testbed.command(["apply", "-f", "-"]).stdin(rights).run().success();
    guard.testbed.put(&json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "airgate", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"}}));
    make_secret(&guard);
    let site = Site::new();
    guard.set_version(&cluster_version(&[site.current.history("Completed")]));
    guard.set(IMAGES, "cluster", &internal_release_image(&[&site.current, &site.listed]));
    guard
}

fn make_secret(guard: &Guard) {
    guard.testbed.kubectl(["create", "secret", "generic", "airgate-tls", "-n", NAMESPACE]).success();
}

/// Registers the printed configuration as it is, but that its webhooks call the replicas in turns.
fn register(guard: &Guard, replicas: &[&Replica]) {
    let printed = from_yaml(&guard.airgate(&["manifests"])).expect("YAML");
    let mut configuration =
        printed.into_iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration").expect("a configuration");
    let webhooks = configuration["webhooks"].as_array_mut().expect("webhooks");
    for (webhook, replica) in webhooks.iter_mut().zip(replicas.iter().cycle()) {
        webhook["clientConfig"]["service"]["port"] = json!(replica.webhook);
        let backend = format!("127.0.0.1:{}", replica.webhook);
        guard.testbed.services.route(&format!("localhost:{}", replica.webhook), vec![backend]);
    }
    guard.testbed.command(["apply", "-f", "-"]).stdin(configuration.to_string()).run().success();
    eventually("both replicas are asked and trusted", || (calls(&guard.api) == [422, 403]).then_some(()));
}

/// A step that each replica refuses: a tag as the target, and the running release out of the bundle list.
fn calls(api: &Api) -> [u16; 2] {
    let site = Site::new();
    let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
    let drops = json!({"spec": internal_release_image(&[&site.listed])["spec"]});
    let ask = |path: &str, patch: &Value| api.merge(&format!("{path}?dryRun=All"), patch).code;
    [ask(VERSION, &tag), ask(IMAGE, &drops)]
}

fn stored(guard: &Guard, name: &str) -> Option<Vec<u8>> {
    let secret = guard.api.get(SECRET)?;
    Some(STANDARD.decode(secret["data"][name].as_str()?).expect("base64"))
}

fn trusted(api: &Api) -> Vec<u8> {
    let configuration = api.get(CONFIGURATION).expect("a configuration");
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().expect("a bundle");
    STANDARD.decode(bundle).expect("base64")
}

/// A new connection as an API server makes it: the certificate, or why it is not trusted.
fn shake(port: u16, bundle: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("airgate.openshift-airgate.svc").expect("a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    let certificate =
        connection.peer_certificates().and_then(<[_]>::first).expect("a certificate").clone().into_owned();
    connection.send_close_notify();
    let _gone = connection.write_tls(&mut stream).and_then(|_| stream.flush()).and_then(|()| stream.read(&mut [0; 64]));
    Ok(certificate)
}

fn signer(replica: &Replica) -> Option<String> {
    replica.statusz()["certificateKeeper"]["ca"]["fingerprint"].as_str().map(str::to_owned)
}

/// Counts calls, and keeps what failed, until `stop`.
fn under_load<T>(guard: &Guard, replicas: &[&Replica], act: impl FnOnce() -> T) -> (T, usize, Vec<String>) {
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (api, other) = (Api::of(&guard.testbed), Api::of(&guard.testbed));
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.webhook).collect();
    thread::scope(|scope| {
        let guarded = scope.spawn(|| {
            let mut failed = vec![];
            while !stop.load(Ordering::Relaxed) {
                let got = calls(&api);
                count.fetch_add(2, Ordering::Relaxed);
                if got != [422, 403] {
                    failed.push(format!("calls: {got:?}"));
                }
            }
            failed
        });
        // An API server keeps its connections; this one knows only new ones, and a bundle that is half a second old.
        let handshakes = scope.spawn(|| {
            let mut failed = vec![];
            while !stop.load(Ordering::Relaxed) {
                let bundle = trusted(&other);
                for _ in 0..5 {
                    for port in &ports {
                        count.fetch_add(1, Ordering::Relaxed);
                        failed.extend(shake(*port, &bundle).err());
                    }
                    poll(Duration::from_millis(100), || None::<()>);
                }
            }
            failed
        });
        let got = act();
        stop.store(true, Ordering::Relaxed);
        let mut failed = guarded.join().expect("calls");
        failed.extend(handshakes.join().expect("handshakes"));
        (got, count.load(Ordering::Relaxed), failed)
    })
}

#[test]
fn from_an_empty_secret_through_rotations_of_the_ca_without_one_failed_call() {
    let guard = site();
    let mut replicas = [Replica::start(&guard, "a", TIMING), Replica::start(&guard, "b", TIMING)];
    replicas.iter_mut().for_each(Replica::ready);
    let [a, b] = &replicas;
    let waits = a.statusz()["certificateKeeper"]["caBundle"].to_string();
    assert!(waits.contains("there is no webhook configuration airgate"), "{waits}");
    register(&guard, &[a, b]);
    let without_bundle = || {
        let mut configuration = guard.api.get(CONFIGURATION).expect("a configuration");
        for webhook in configuration["webhooks"].as_array_mut().expect("webhooks") {
            webhook["clientConfig"].as_object_mut().expect("an object").remove("caBundle");
        }
        configuration["webhooks"].clone()
    };
    let before = without_bundle();

    let (seen, count, failed) = under_load(&guard, &[a, b], || {
        let mut seen = BTreeSet::new();
        let end = std::time::Instant::now() + Duration::from_mins(4);
        while seen.len() < 5 {
            seen.extend(signer(a));
            seen.extend(signer(b));
            assert!(std::time::Instant::now() < end, "five CAs: {seen:?}");
            poll(Duration::from_millis(200), || None::<()>);
        }
        seen
    });
    assert!(failed.is_empty(), "{} of {count} calls failed: {failed:?}", failed.len());
    assert!(count > 300, "{count} calls while {} CAs signed", seen.len());

    // What is served by both is what is stored, and it is followed.
    eventually("both serve what is stored", || {
        let certificate = CertificateDer::from_pem_slice(&stored(&guard, "tls.crt")?).expect("a certificate");
        let bundle = stored(&guard, "ca.crt")?;
        [a, b]
            .into_iter()
            .all(|replica| shake(replica.webhook, &bundle).is_ok_and(|got| got == certificate))
            .then_some(())
    });
    for replica in [a, b] {
        assert_eq!(replica.metric("airgate_certificate_refused"), 0);
        assert!(
            replica.metric("airgate_ca_not_after_seconds") > replica.metric("airgate_certificate_not_after_seconds")
        );
        let status = replica.statusz();
        assert_eq!(status["certificate"]["from"], "Secret openshift-airgate/airgate-tls");
        assert_eq!(status["certificateKeeper"]["error"], Value::Null, "{status:#}");
    }
    assert_eq!(without_bundle(), before, "nothing but the bundles was written");
    let managed = guard.api.get(CONFIGURATION).expect("a configuration")["metadata"]["managedFields"].to_string();
    assert!(managed.contains("airgate-certificates"), "{managed}");
    check_rights(&guard);
    check_secrecy(&guard, &[a, b]);
}

/// Each right was used, and nothing more was asked for.
fn check_rights(guard: &Guard) {
    let events = guard.testbed.audit_events();
    for event in events.iter().filter(|event| event["user"]["username"] == IDENTITY) {
        assert_ne!(event["responseStatus"]["code"], 403, "{event:#}");
    }
    added_are_used(guard, &KEEPER);
}

/// No key, and no part of one, is where others read.
fn check_secrecy(guard: &Guard, replicas: &[&Replica]) {
    for name in ["tls.key", "ca.key"] {
        let key = String::from_utf8(stored(guard, name).expect("a key")).expect("PEM");
        let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
        let part = &body[body.len() / 2..body.len() / 2 + 24];
        for replica in replicas {
            let log = fs::read_to_string(&replica.log).expect("a log");
            let shown = [log, replica.statusz().to_string(), http_get(replica.health, "/metrics").expect("metrics").1];
            for text in shown {
                assert!(!text.contains(part) && !text.contains("PRIVATE KEY"), "{text}");
            }
        }
    }
}

#[test]
fn a_secret_that_is_harmed_is_mended_and_what_is_served_stays_in_use() {
    // Nothing renews by itself while this goes on.
    let guard = site();
    let timing = "100000,50000,50000,20000,1,0.2";
    let mut replicas = [Replica::start(&guard, "a", timing), Replica::start(&guard, "b", timing)];
    replicas.iter_mut().for_each(Replica::ready);
    let [a, b] = &replicas;
    register(&guard, &[a, b]);
    let (ca, leaf) = (stored(&guard, "ca.crt").unwrap(), stored(&guard, "tls.crt").unwrap());
    let encoded = |text: &str| STANDARD.encode(text);
    let back = |what: &str, name: &str, content: &[u8]| {
        eventually(what, || (stored(&guard, name).as_deref() == Some(content)).then_some(()));
    };

    let ((), count, failed) = under_load(&guard, &[a, b], || {
        // Emptied: what was there comes back, to the byte.
        guard.api.merge(SECRET, &json!({"data": null, "metadata": {"annotations": null}})).success();
        back("an emptied Secret is as before", "ca.crt", &ca);
        back("with its certificate", "tls.crt", &leaf);
        // Filled with garbage.
        let nonsense = encoded("nonsense");
        guard
            .api
            .merge(
                SECRET,
                &json!({"data": {"tls.crt": nonsense, "tls.key": nonsense, "ca.crt": nonsense,
            "ca.key": nonsense}, "metadata": {"annotations": {"airgate.io/certificates": "nonsense"}}}),
            )
            .success();
        back("garbage is as before", "ca.crt", &ca);
        // Half of it: a certificate is issued by the CA that is there.
        guard.api.merge(SECRET, &json!({"data": {"tls.key": null}})).success();
        eventually("another certificate", || {
            let now = stored(&guard, "tls.crt")?;
            (now != leaf && stored(&guard, "tls.key").is_some()).then_some(())
        });
        back("of the same CA", "ca.crt", &ca);
        // The CA's key: another CA, in the usual order.
        guard.api.merge(SECRET, &json!({"data": {"ca.key": null}})).success();
        eventually("another CA signs", || {
            let keeper = &a.statusz()["certificateKeeper"];
            (stored(&guard, "ca.key").is_some() && keeper["ca"]["fingerprint"].is_string() && keeper["next"].is_null())
                .then_some(())
        });
        let both = stored(&guard, "ca.crt").unwrap();
        assert!(
            both.starts_with(&ca) && both.len() > ca.len(),
            "the old CA is trusted as long as its certificates live"
        );
        // Immutable: nobody can renew it but by making it anew, as is said.
        guard.api.merge(SECRET, &json!({"immutable": true})).success();
        eventually("it is said that it is immutable", || {
            let error = a.statusz()["certificateKeeper"]["error"].to_string();
            (error.contains("is immutable") && a.metric("airgate_certificate_keeper_blocked") == 1).then_some(())
        });
        // Gone: nobody may make it but an administrator.
        guard.api.delete(SECRET).success();
        eventually("it is said what to do", || {
            let error = a.statusz()["certificateKeeper"]["error"].to_string();
            error.contains("oc create secret generic airgate-tls -n openshift-airgate").then_some(())
        });
        assert_eq!((a.readyz().0, b.readyz().0), (200, 200));
        make_secret(&guard);
        back("a Secret made anew is as before", "ca.crt", &both);
    });
    assert!(failed.is_empty(), "{} of {count} calls failed: {failed:?}", failed.len());
    eventually("nothing is left to complain about", || {
        [a, b].into_iter().all(|replica| replica.statusz()["certificateKeeper"]["error"].is_null()).then_some(())
    });

    // A bad pair that nobody may mend: the good one stays in use, the replica ready.
    guard.testbed.kubectl(["delete", "role/airgate-certificates", "-n", NAMESPACE]).success();
    eventually("the missing right is named", || {
        let error = a.statusz()["certificateKeeper"]["error"].to_string();
        error.contains("needs get, patch on secrets/airgate-tls in openshift-airgate").then_some(())
    });
    assert_eq!(calls(&guard.api), [422, 403]);
    let get_only = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "airgate-certificates", "namespace": NAMESPACE},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["airgate-tls"], "verbs": ["get"]}]});
    guard.testbed.command(["apply", "-f", "-"]).stdin(get_only.to_string()).run().success();
    guard.api.merge(SECRET, &json!({"data": {"tls.crt": encoded("nonsense")}})).success();
    for replica in [a, b] {
        eventually("the bad certificate is refused", || {
            (replica.metric("airgate_certificate_refused") == 1).then_some(())
        });
        assert_eq!(replica.readyz().0, 200);
        let status = replica.statusz()["certificate"].to_string();
        assert!(status.contains("Secret openshift-airgate/airgate-tls/tls.crt"), "{status}");
    }
    assert_eq!(calls(&guard.api), [422, 403]);
    // One that starts now has nothing to serve, and says so.
    let [a, b] = replicas;
    b.stop();
    let late = Replica::start(&guard, "late", timing);
    eventually("it waits", || {
        let (code, text) = late.readyz();
        (code == 503 && text.contains("certificate: ") && text.contains("tls.crt")).then_some(())
    });
    assert_eq!(a.readyz().0, 200);
}

/// Nobody applies a configuration, and nobody injects a CA.
#[test]
fn it_registers_itself_and_fails_closed_once_its_own_ca_is_trusted() {
    let guard = site();
    let rights = guard.airgate(&["manifests", "--flavor=openshift", "--register", "--only", "rights"]);
    guard.testbed.command(["apply", "-f", "-"]).stdin(rights).run().success();
    let mut replica = Replica::start_with(&guard, "registers", TIMING, &["--register"]);
    // As the configuration that it registers has it: the Service, at its own port.
    guard.testbed.services.route("localhost:443", vec![format!("127.0.0.1:{}", replica.webhook)]);
    replica.ready();
    let registered = |replica: &Replica| replica.statusz()["registration"]["state"] == "registered";
    eventually("it is registered, by a CA that vouches", || registered(&replica).then_some(()));
    assert_eq!(calls(&guard.api), [422, 403], "and asked through the Service");
    let first = trusted(&guard.api);
    // Two writers, one object: neither undoes the other over a rotation.
    eventually("another CA signs", || {
        (replica.statusz()["certificateKeeper"]["ca"]["fingerprint"] != Value::Null && trusted(&guard.api) != first)
            .then_some(())
    });
    eventually("it is registered still", || registered(&replica).then_some(()));
    assert_eq!(calls(&guard.api), [422, 403]);
    let fail = |name: &str| {
        let configuration = guard.api.get(CONFIGURATION).expect("a configuration");
        let webhooks = configuration["webhooks"].as_array().expect("webhooks").clone();
        webhooks.iter().any(|webhook| webhook["name"] == name && webhook["failurePolicy"] == "Fail")
    };
    assert!(fail("clusterversion.airgate.io") && fail("internalreleaseimage.airgate.io"));
    replica.stop();
}
