//! A kubelet's part: processes with exactly the arguments, environment, files and identity that a Deployment asks for.
//! Without a container each has an address of its own for its ports, and its directories stand elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use base64::Engine as _;
use serde_json::{Value, json};

use super::stored;
use super::walk::http_get;
use crate::server::{eventually, random};
use crate::testbed::Testbed;

/// The pods of one Deployment.
pub struct Pods<'a> {
    testbed: &'a Testbed,
    namespace: &'static str,
    running: Vec<Child>,
    /// Where each volume of what runs is, and what the pod says of it.
    volumes: Vec<(PathBuf, Value)>,
    generation: u32,
}

impl<'a> Pods<'a> {
    pub fn of(testbed: &'a Testbed, namespace: &'static str) -> Self {
        Self { testbed, namespace, running: vec![], volumes: vec![], generation: 0 }
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        stored(self.testbed, self.namespace, &format!("{kind}/{name}"))
    }

    /// Replaces what runs by what the Deployment says now, waits until all of it is ready, lets the Service lead there,
    /// and writes the status that the controllers of a cluster would. What runs is this build, whatever image is asked for.
    pub fn roll_out(&mut self, image: &str) {
        let deployment = self.object("deployment", "airgate").expect("a Deployment airgate");
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["spec"]["containers"][0]["image"], image);
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        self.stop();
        self.generation += 1;
        let addresses: Vec<_> = (0..replicas).map(|replica| self.start(pod, replica)).collect();
        self.route(pod, &addresses);
        let status = json!({"observedGeneration": deployment["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]});
        let patch = json!({"status": status}).to_string();
        let args = ["patch", "deployment/airgate", "-n", self.namespace, "--subresource=status", "--type=merge", "-p"];
        self.testbed.command(args).args([patch]).run().success();
    }

    /// One pod, until its probes say that it is ready; the address of its ports.
    fn start(&mut self, pod: &Value, replica: u64) -> String {
        let container = &pod["spec"]["containers"][0];
        let [_, _, _, _, _, a, b, c] = random().to_be_bytes();
        let address = format!("127.{}.{b}.{c}", a.clamp(1, 76));
        let dir = self.testbed.dir().join(format!("{}-{}-{replica}", self.namespace, self.generation));
        let mounts = self.mount(pod, &dir);
        // Longer paths first: one can lie in another.
        let here = |text: &str| {
            let text = mounts.iter().fold(text.to_owned(), |text, (path, dir)| text.replace(path, dir));
            ["[::]", "0.0.0.0", "127.0.0.1"].iter().fold(text, |text, any| text.replace(any, &address))
        };
        let words = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().map(|word| here(word.as_str().expect("a word"))).collect()
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_airgate"));
        command.env_clear().current_dir("/");
        // The image's entry point is airgate; a command in the pod would be in its place.
        let entry = words(&container["command"]);
        command.args(entry.iter().skip(1)).args(words(&container["args"]));
        for (variable, port) in [("LISTEN", 8443), ("HEALTH_LISTEN", 8081), ("ADMIN_LISTEN", 8080)] {
            command.env(format!("AIRGATE_{variable}"), format!("{address}:{port}"));
        }
        // What a pod has at a fixed place: its account's token and its namespace.
        command.env("AIRGATE_KUBECONFIG", self.kubeconfig(pod, &dir)).env("AIRGATE_NAMESPACE", self.namespace);
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => self.namespace.to_owned(),
                Some("metadata.name") => format!("airgate-{replica}"),
                Some("status.podIP") => address.clone(),
                Some("spec.nodeName") => "master-0".to_owned(),
                Some(field) => panic!("this kubelet does not know the field {field}"),
                None => here(variable["value"].as_str().expect("a value")),
            };
            command.env(variable["name"].as_str().expect("a name"), value);
        }
        let log = dir.join("log");
        let mut child = self.testbed.spawn(&mut command, &log);
        let probe = &container["readinessProbe"]["httpGet"];
        let (port, path) = (port_of(pod, &probe["port"]), probe["path"].as_str().expect("a readiness probe by HTTP"));
        eventually("a pod is ready", || {
            let ended = child.try_wait().expect("wait for a pod");
            assert!(ended.is_none(), "{command:?} ended: {}", fs::read_to_string(&log).unwrap_or_default());
            http_get(&format!("{address}:{port}"), path).is_some_and(|(code, _)| code == 200).then_some(())
        });
        self.running.push(child);
        address
    }

    /// Writes the volumes as a kubelet does; mount paths and where they are instead.
    fn mount(&mut self, pod: &Value, dir: &Path) -> Vec<(String, String)> {
        let mut mounts = vec![];
        for mount in pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).expect("the volume of a mount");
            let place = dir.join(mount["name"].as_str().expect("a name"));
            fs::create_dir_all(&place).expect("a directory for a volume");
            if let Some(files) = self.files(volume) {
                write_volume(&place, &files);
                self.volumes.push((place.clone(), volume.clone()));
            }
            mounts.push((mount["mountPath"].as_str().expect("a path").to_owned(), place.display().to_string()));
        }
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        mounts
    }

    /// Brings the volumes up to date, as a kubelet does once a minute.
    pub fn sync(&self) {
        for (place, volume) in &self.volumes {
            write_volume(place, &self.files(volume).expect("its files"));
        }
    }

    /// What is in a volume; `None` for one that is the pod's own.
    fn files(&self, volume: &Value) -> Option<Vec<(String, Vec<u8>)>> {
        if volume["emptyDir"].is_object() {
            return None;
        }
        let sources = match volume["projected"]["sources"].as_array() {
            Some(sources) => sources.clone(),
            None => vec![volume.clone()],
        };
        Some(sources.iter().flat_map(|source| self.source(source)).collect())
    }

    fn source(&self, source: &Value) -> Vec<(String, Vec<u8>)> {
        let (kind, reference) = [("configMap", "configmap"), ("secret", "secret")]
            .into_iter()
            .find_map(|(field, kind)| source[field].is_object().then(|| (kind, &source[field])))
            .unwrap_or_else(|| panic!("this kubelet does not know the volume {source}"));
        let name = reference["name"].as_str().or(reference["secretName"].as_str()).expect("a name");
        let Some(object) = self.object(kind, name) else {
            assert!(reference["optional"] == true, "a pod would wait for {kind} {name}, which nothing makes");
            return vec![];
        };
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let data = object["data"].as_object().into_iter().flatten().map(|(key, value)| {
            let text = value.as_str().expect("a text");
            (key.clone(), if kind == "secret" { base64(text) } else { text.as_bytes().to_vec() })
        });
        match reference["items"].as_array() {
            None => data.collect(),
            Some(items) => data
                .filter_map(|(key, bytes)| {
                    let item = items.iter().find(|item| item["key"] == *key)?;
                    Some((item["path"].as_str()?.to_owned(), bytes))
                })
                .collect(),
        }
    }

    /// For the pod's service account, by a token that the API server gave out.
    fn kubeconfig(&self, pod: &Value, dir: &Path) -> PathBuf {
        let account = pod["spec"]["serviceAccountName"].as_str().expect("a service account");
        let token = self.testbed.kubectl(["create", "token", account, "-n", self.namespace]).success();
        let server = format!("https://127.0.0.1:{}", self.testbed.apiserver.port);
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "cluster", "cluster": {"server": server,
                "certificate-authority": self.testbed.dir().join("pki/apiserver.crt")}}],
            "users": [{"name": "account", "user": {"token": token.trim()}}],
            "contexts": [{"name": "pod", "context": {"cluster": "cluster", "user": "account"}}]});
        fs::create_dir_all(dir).expect("a directory");
        let path = dir.join("kubeconfig");
        fs::write(&path, config.to_string()).expect("write a kubeconfig");
        path
    }

    /// The Service selects these pods, and its port leads to one that they have.
    fn route(&self, pod: &Value, addresses: &[String]) {
        let service = self.object("service", "airgate").expect("a Service airgate");
        for (label, value) in service["spec"]["selector"].as_object().expect("a selector") {
            assert_eq!(pod["metadata"]["labels"][label], *value, "the Service does not select the pods by {label}");
        }
        for port in service["spec"]["ports"].as_array().expect("ports") {
            let to = port_of(pod, &port["targetPort"]);
            let from = format!("{}:{}", service["spec"]["clusterIP"].as_str().expect("an address"), port["port"]);
            self.testbed.services.route(&from, addresses.iter().map(|address| format!("{address}:{to}")).collect());
        }
    }

    /// Ends them as a kubelet does.
    pub fn stop(&mut self) {
        for child in &self.running {
            let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &child.id().to_string()]).status();
            assert!(sent.expect("run kill").success());
        }
        self.volumes.clear();
        for mut child in self.running.drain(..) {
            child.wait().expect("wait for a pod");
        }
    }
}

/// A port by number, or by its name in the pod.
fn port_of(pod: &Value, port: &Value) -> u64 {
    if let Some(number) = port.as_u64() {
        return number;
    }
    let ports = pod["spec"]["containers"][0]["ports"].as_array().expect("ports");
    let named =
        ports.iter().find(|known| known["name"] == *port).unwrap_or_else(|| panic!("no port {port} in the pod"));
    named["containerPort"].as_u64().expect("a number")
}

/// Files behind two links, so that all of them change at once.
fn write_volume(place: &Path, files: &[(String, Vec<u8>)]) {
    let name = format!("..{:016x}", random());
    fs::create_dir(place.join(&name)).expect("a directory for data");
    for (file, bytes) in files {
        fs::write(place.join(&name).join(file), bytes).expect("write a file");
    }
    symlink(&name, place.join("..data_tmp")).expect("a link to the data");
    fs::rename(place.join("..data_tmp"), place.join("..data")).expect("exchange the data");
    for (file, _) in files {
        if place.join(file).symlink_metadata().is_err() {
            symlink(Path::new("..data").join(file), place.join(file)).expect("a link to a file");
        }
    }
}
