use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::catalog;
use crate::engine::Facts;
use crate::files::document::from_yaml;
use crate::release::Catalog;
use crate::settings::{Retain, Settings};
use crate::state::State;

const NOW: &str = "2026-12-01T06:00:00Z";
const V4_22_3: &str =
    "registry.example:5000/ocp/release@sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81";

/// The sample site, to be changed.
struct Site {
    documents: Vec<(String, Value)>,
    absent: Vec<String>,
    catalog: Catalog,
    settings: Settings,
    problems: Vec<crate::problem::Problem>,
}

impl Site {
    fn sample() -> Self {
        let directory = Path::new("policies/sample/state");
        let mut files: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let document = |file: &std::path::PathBuf| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            from_yaml(&std::fs::read_to_string(file).unwrap()).unwrap().into_iter().map(move |d| (name.clone(), d))
        };
        let documents = files.iter().flat_map(document).collect();
        let (catalog, problems) = catalog::load(&["policies/sample/releases".into()], NOW.parse().unwrap());
        Self { documents, absent: vec![], catalog, settings: Settings::default(), problems }
    }

    fn object(&mut self, name: &str) -> &mut Value {
        &mut self.documents.iter_mut().find(|(file, _)| file == name).unwrap().1
    }

    fn without(mut self, name: &str) -> Self {
        self.documents.retain(|(file, _)| file != name);
        self
    }

    fn absent(mut self, resource: &str) -> Self {
        self.absent.push(resource.into());
        self.documents.retain(|(file, _)| file != resource && Some(&**file) != resource.strip_suffix('s'));
        self
    }

    fn cluster(&self) -> crate::cluster::Snapshot {
        let documents = self.documents.iter().map(|(_, document)| document.clone()).collect();
        State::from_documents("a test", documents, &self.absent, NOW.parse().unwrap()).snapshot()
    }

    fn status(&self) -> Status {
        let now: Timestamp = NOW.parse().unwrap();
        let cluster = self.cluster();
        Status::of(Facts::of(&cluster, &self.catalog, &self.settings, now), &self.problems)
    }

    /// The screen without colours; nothing on it is too wide but what is there to be copied.
    fn screen(&self) -> String {
        let coloured = screen(&self.status());
        let parts =
            coloured.split('\x1b').map(|part| part.strip_prefix('[').map_or(part, |p| p.split_once('m').unwrap().1));
        let text: String = parts.collect();
        for line in text.lines() {
            let copied = line.starts_with("      ") && ["oc ", "airgate ", "registry"].iter().any(|c| line.contains(c));
            assert!(copied || line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line, line.trim_end(), "blanks at the end");
        }
        text
    }

    /// Without the facts, of which more are read as policies come: a snapshot is about the rest.
    fn shown(&self) -> String {
        let screen = self.screen();
        screen.split_once("\n\nFACTS").map_or(screen.clone(), |(shown, _)| shown.to_owned())
    }

    fn check(&self, parts: &[&str]) {
        // As one line: where a text is wrapped is not the point.
        let text = self.screen().split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            match part.strip_prefix('!') {
                Some(part) => assert!(!text.contains(part), "{part:?} should not be on\n{}", self.screen()),
                None => assert!(text.contains(part), "{part:?} is not on\n{}", self.screen()),
            }
        }
    }
}

#[test]
fn the_sample_site_on_one_screen() {
    insta::assert_snapshot!(Site::sample().shown(), @r#"
    CLUSTER
      runs 4.21.9, Completed, begun 2026-09-14
          registry.example:5000/ocp/release@sha256:6523aa08972a32d28db831a683de1a3bee21c39e79cb3e19c39edd6fc2d59dac
      no other release is asked for
      RetrievedUpdates=False (RemoteFailed): no route to the update service

    UPGRADES
      from 4.21.9, out of 6 releases on this site
      4.22.3 possible, with a warning
          release-signature: whether this release is signed cannot be judged: no
          signatures were looked for
          oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81
      4.21.12 possible, with a warning
          release-signature: whether this release is signed cannot be judged: no
          signatures were looked for
          oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:fadc51d23179355edf2c44c012450ecf19e72f45f5baa4578f616493954adb74
      4.21.7 possible as a way back
          upgrade-path: going back from 4.21.9 to 4.21.7, the release before it:
          supported within a minor version as a way out, not as a place to stay
          release-signature: whether this release is signed cannot be judged: no
          signatures were looked for
          oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:2c4561d010718b8eae013edb48ce7003907ec3ab0597a301d197bf8239f9ff10
      4.23.1 through 4.22.3; first:
          oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81
      not from here: 4.22.0
          airgate check upgrade --to-image PULLSPEC    # says why

    STILL NEEDED
      release  kept  on site  held in   for
      4.21.9   yes   yes      1 bundle  running, pool master, pool worker
      4.21.7   yes   yes      -         rollback
      kept: no bundle of it may leave the cluster (retain: history)

    BUNDLES of InternalReleaseImage cluster
      ocp-release-bundle-4.21.9-x86_64
        in use:   yes (4.21.9: the cluster runs it, MachineConfigPool master runs it
                  (and 1 more))
        ready:    yes, on 3 of 3 nodes
        removal:  denied: ocp-release-bundle-4.21.9-x86_64 holds 4.21.9, which this
                  cluster needs
        node      state
        master-0  available
        master-1  available
        master-2  available
      ocp-release-bundle-4.22.3-x86_64
        in use:   no
        ready:    yes, on 3 of 3 nodes
        removal:  allowed with a warning: release-in-use: whether CatalogSources are
                  served from what leaves is not known: a test has no
                  catalogsources; release-in-use: whether ClusterCatalogs are served
                  from what leaves is not known: a test has no clustercatalogs
          oc patch internalreleaseimage cluster --type json -p '[{"op":"test","path":"/spec/releases/1/name","value":"ocp-release-bundle-4.22.3-x86_64"},{"op":"remove","path":"/spec/releases/1"}]'
        node      state
        master-0  available
        master-1  available
        master-2  available
      the whole object
        removal:  denied: InternalReleaseImage cluster still holds 4.21.9, which
                  this cluster needs
    "#);
}

#[test]
fn the_same_facts_give_the_same_model() {
    let json = |site: Site| serde_json::to_string(&site.status()).unwrap();
    assert_eq!(json(Site::sample()), json(Site::sample()));
    let status = Site::sample().status();
    let kinds: Vec<_> = status.upgrades.targets.iter().map(|t| (&*t.version, t.kind)).collect();
    let expected = [
        ("4.22.3", Kind::Direct),
        ("4.21.12", Kind::Direct),
        ("4.21.7", Kind::Back),
        ("4.23.1", Kind::Through),
        ("4.22.0", Kind::None),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_half_done_update_and_what_its_nodes_say() {
    let mut site = Site::sample();
    let cv = site.object("clusterversion");
    cv["metadata"]["generation"] = 5.into();
    let digest = "sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";
    cv["spec"]["desiredUpdate"] =
        json!({"image": format!("registry.example:5000/ocp/release@{digest}"), "force": true});
    cv["status"]["desired"] = json!({"version": "4.22.3", "image": V4_22_3});
    let begun =
        json!({"state": "Partial", "version": "4.22.3", "image": V4_22_3, "startedTime": "2026-12-01T05:00:00Z"});
    cv["status"]["history"].as_array_mut().unwrap().insert(0, begun);
    cv["status"]["conditions"] = json!([
        {"type": "ReleaseAccepted", "status": "False", "reason": "RetrievePayload", "message": "the image has no\nsignature"},
        {"type": "Progressing", "status": "True", "reason": "", "message": "Working towards 4.22.3"},
        {"type": "Available", "status": "True", "message": "not news"},
    ]);
    let entry = json!({"policy": "upgrade-path", "from": "4.22.3", "target": digest, "reason": "case 1",
        "expires": "2026-12-01T07:00:00Z"});
    cv["metadata"]["annotations"] = json!({"airgate.io/override": entry.to_string()});
    let nodes = site.object("machineconfignodes")["items"].as_array_mut().unwrap();
    let bundle = |state: &Value| json!([{"name": "ocp-release-bundle-4.22.3-x86_64", "conditions": state}]);
    let missing = json!([{"type": "Available", "status": "False", "message": "The specified release image was not found \
        in the registry, which is a long message that has to be wrapped below itself"}]);
    nodes[0]["status"]["internalReleaseImage"]["releases"] = bundle(&missing);
    nodes[1]["status"]["internalReleaseImage"]["releases"] = bundle(&json!([{"type": "Mounted", "status": "True"}]));
    nodes[2]["status"]["conditions"] =
        json!([{"type": "InternalReleaseImageDegraded", "status": "True", "message": "no route to localhost"}]);
    insta::assert_snapshot!(site.shown(), @"
    CLUSTER
      runs 4.22.3, Partial, begun 2026-12-01, 4.21.9 was the last to be completed
          registry.example:5000/ocp/release@sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81
      asked for: the image below, with force, not yet seen by the CVO
          registry.example:5000/ocp/release@sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c
      ReleaseAccepted=False (RetrievePayload): the image has no signature
      Progressing=True: Working towards 4.22.3

    UPGRADES
      from 4.22.3, out of 6 releases on this site
      4.23.1 possible, with a warning
          override of upgrade-path used by (case 1): 4.23.1 does not list 4.21.9,
          the newest version that was completed: the update to 4.22.3 was refused,
          so nodes still run 4.21.9
          release-signature: whether this release is signed cannot be judged: no
          signatures were looked for
          oc adm upgrade --allow-explicit-upgrade --to-image registry.example:5000/ocp/release@sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c
      not from here: 4.22.0, 4.21.12, 4.21.9, 4.21.7
          airgate check upgrade --to-image PULLSPEC    # says why

    STILL NEEDED
      release  kept  on site  held in   for
      4.22.3   yes   yes      1 bundle  running
      4.23.1   yes   yes      -         pending
      4.21.9   yes   yes      1 bundle  completed 2026-09-14, pool master, pool
                                        worker
      4.21.7   yes   yes      -         history 2026-03-02
      kept: no bundle of it may leave the cluster (retain: history)

    BUNDLES of InternalReleaseImage cluster
      ocp-release-bundle-4.21.9-x86_64
        in use:   yes (4.21.9: it was the last to be completed (2026-09-14), so
                  components may still run it, MachineConfigPool master runs it (and
                  1 more))
        ready:    no, on 0 of 3 nodes (its status says Available, which is true of
                  some node)
        removal:  denied: ocp-release-bundle-4.21.9-x86_64 holds 4.21.9, which this
                  cluster needs
        node      state
        master-0  not there
        master-1  not there
        master-2  node degraded  no route to localhost
      ocp-release-bundle-4.22.3-x86_64
        in use:   yes (4.22.3: the cluster runs it)
        ready:    no, on 0 of 3 nodes (its status says Available, which is true of
                  some node)
        removal:  denied: ocp-release-bundle-4.22.3-x86_64 holds 4.22.3, which this
                  cluster needs
        node      state
        master-0  not available  The specified release image was not found in the
                                 registry, which is a long message that has to be
                                 wrapped below itself
        master-1  mounted only
        master-2  node degraded  no route to localhost
      the whole object
        removal:  denied: InternalReleaseImage cluster still holds 4.22.3 (and 1
                  more), which this cluster needs

    OVERRIDES
      clusterversion/version (in force): upgrade-path, 4.22.3 ->
        sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c
        until 2026-12-01T07:00:00Z (case 1)
          airgate override --clear clusterversion/version
    ");
}

#[test]
fn what_is_not_there_is_said_and_the_rest_is_shown() {
    Site::sample().without("clusterversion").check(&[
        "the ClusterVersion is not known; see FACTS below",
        "without a ClusterVersion no step can be judged",
        "there may be more: a test has no clusterversions",
        "in use: not known",
        "4.21.9 yes yes 1 bundle pool master, pool worker",
        "missing: ClusterVersion: a test has no clusterversions",
        "oc get clusterversions -o yaml",
    ]);
    Site::sample().absent("clusterversions").check(&[
        "there is no ClusterVersion named version: what runs is not known",
        "denied, a fact is missing",
        "known to be absent: ClusterVersion",
    ]);
    Site::sample().absent("internalreleaseimages").absent("machineconfignodes").check(&[
        "!BUNDLES",
        "4.21.9 yes yes - running",
        "known to be absent: InternalReleaseImage, MachineConfigNodes",
    ]);
    Site::sample().without("internalreleaseimage").check(&["the InternalReleaseImage is not known; see FACTS below"]);
    Site::sample()
        .without("machineconfignodes")
        .check(&["no MachineConfigNode says anything of it", "missing: MachineConfigNodes"]);
    let mut site = Site::sample();
    site.object("clusterversion")["status"] = json!({});
    site.check(&[
        "no status.desired: what runs is not known",
        "the current version is not known, so no step can be judged",
        "status.history is empty",
    ]);
}

#[test]
fn a_target_that_is_stored_already_is_judged_as_if_it_were_new() {
    let mut site = Site::sample();
    let digest = "sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";
    let image = format!("registry.example:5000/ocp/release@{digest}");
    site.object("clusterversion")["spec"]["desiredUpdate"] = json!({"image": image, "version": "4.23.1"});
    site.check(&["asked for: 4.23.1", "4.23.1 through 4.22.3; first:", "4.23.1 yes yes - pending"]);
}

#[test]
fn a_hosted_control_plane_is_told_where_to_act() {
    let mut site = Site::sample();
    site.object("infrastructure")["status"]["controlPlaneTopology"] = "External".into();
    site.check(&["act on its HostedCluster", "4.23.1 possible, with a warning upgrade-path would deny this here"]);
}

#[test]
fn release_sources_that_are_empty_or_contradict_each_other() {
    let mut site = Site::sample();
    site.catalog = Catalog::default();
    site.check(&[
        "no release source on this site has a release",
        "4.21.7 possible as a way back",
        "!4.22.3 possible",
        "4.21.9 yes no 1 bundle",
    ]);
    let (available, image) = ("4.22.3", V4_22_3);
    site.object("clusterversion")["status"]["availableUpdates"] = json!([{"version": available, "image": image}]);
    site.check(&["4.22.3 possible, with a warning"]);

    let directory = tempfile::tempdir().unwrap();
    let catalog = std::fs::read_to_string("policies/sample/releases/catalog.yaml").unwrap();
    std::fs::write(directory.path().join("one.yaml"), &catalog).unwrap();
    std::fs::write(directory.path().join("other.yaml"), catalog.replace("4.21.9, 4.21.10, 4.21.11]", "4.21.10]"))
        .unwrap();
    let mut site = Site::sample();
    (site.catalog, site.problems) = catalog::load(&[directory.path().into()], NOW.parse().unwrap());
    site.check(&["PROBLEMS", "contradict each other about sha256:fadc51d2", "!4.21.12 possible", "out of 5 releases"]);
}

#[test]
fn retain_and_mode_count() {
    let mut site = Site::sample();
    let bundle = json!({"name": "ocp-release-bundle-4.21.7-x86_64"});
    site.object("internalreleaseimage")["spec"]["releases"].as_array_mut().unwrap().push(bundle);
    site.check(&[
        "4.21.7 yes yes 1 bundle rollback",
        "denied: ocp-release-bundle-4.21.7-x86_64 holds 4.21.7, which a rollback",
    ]);
    site.settings.retain = Retain::InUse;
    site.check(&[
        "4.21.7 no yes 1 bundle rollback",
        "allowed with a warning: release-in-use: 4.21.7 leaves the cluster",
        "in use: no (4.21.7: a rollback would go to it)",
    ]);
    site.settings.mode = ServerMode::Audit;
    site.check(&["mode: audit, so nothing is denied", "release-in-use would deny this"]);
    // What removes one bundle is judged, and prints the command that removes exactly that.
    let status = site.status();
    let removable = status.bundles.bundles.iter().find(|bundle| bundle.name.contains("4.21.7")).unwrap();
    let patch = "/spec/releases/2/name\",\"value\":\"ocp-release-bundle-4.21.7-x86_64\"";
    assert!(removable.remove.as_ref().unwrap().contains(patch), "{removable:?}");
}

#[test]
fn what_the_cluster_names_and_no_source_knows_is_looked_for() {
    let mut site = Site::sample();
    let wanted = |site: &Site| {
        let cluster = site.cluster();
        let wanted = crate::status::wanted(Facts::of(&cluster, &site.catalog, &site.settings, NOW.parse().unwrap()));
        wanted.iter().map(|want| want.repository.as_ref().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert!(wanted(&site).is_empty(), "{:?}", wanted(&site));
    site.catalog = Catalog::default();
    let unknown = json!({"version": "4.21.20", "image": format!("quay.example/ocp/release@sha256:{}", "a".repeat(64))});
    site.object("clusterversion")["status"]["availableUpdates"] = json!([unknown, unknown]);
    let expected = [
        "registry.example:5000/ocp/release",
        "api-int.ocp.example:22625/openshift/release-images",
        "quay.example/ocp/release",
    ];
    assert_eq!(wanted(&site), expected, "each once");
}
