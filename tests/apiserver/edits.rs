//! Edits that must never leave the API server, since a cluster without airgate must be able to make them; and
//! beside them those that must.

use serde_json::{Value, json};

use crate::conditions::{OVERRIDE, Proof};
use crate::objects::{Release, cluster_version, internal_release_image};

impl Proof {
    /// Stores the object and tells which webhooks are asked about each edit of it.
    fn check_edits<const N: usize>(&mut self, collection: &str, object: Value, edits: [(Value, &[&str]); N]) {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        self.store(collection, &path, &object).unwrap();
        for (patch, expected) in edits {
            self.recorder.take();
            let subresource = if patch["status"].is_null() { "" } else { "/status" };
            self.api.merge(&format!("{path}{subresource}?dryRun=All"), &patch).success();
            let asked: Vec<String> = self.recorder.take().into_iter().map(|(webhook, _)| webhook).collect();
            assert_eq!(asked, expected, "{patch} of {object:#}");
        }
    }

    pub fn named_edits(&mut self) {
        let (old, new) = (Release::new("4.18.12", '1'), Release::new("4.18.20", '2'));
        let cluster_version = |desired: Value| {
            let mut version = cluster_version(&[old.history("Completed")]);
            version["spec"]["desiredUpdate"] = desired;
            version
        };
        let desired = |update: Value| json!({"spec": {"desiredUpdate": update}});
        let step: &[&str] = &["clusterversion.airgate.io"];
        let record: &[&str] = &[OVERRIDE];
        let annotate = |text: Value| json!({"metadata": {"annotations": {"airgate.io/override": text}}});
        let versions = "/apis/config.openshift.io/v1/clusterversions";
        let target = json!({"version": "", "image": new.image, "architecture": "", "force": true});
        self.check_edits(versions, cluster_version(target), [
            (desired(Value::Null), &[]),
            (desired(json!({"version": null, "image": null, "architecture": null, "force": null})), &[]),
            (desired(json!({"version": "", "image": "", "architecture": "", "force": false})), &[]),
            (desired(json!({"acceptRisks": [{"name": "RiskA"}]})), &[]),
            (desired(json!({"image": null, "acceptRisks": [{"name": "RiskA"}]})), &[]),
            (desired(json!({"force": false})), &[]),
            (desired(json!({"force": null})), &[]),
            (json!({"spec": {"channel": "stable-4.19"}}), &[]),
            (json!({"spec": {"upstream": "https://updates.example/graph"}}), &[]),
            (json!({"spec": {"capabilities": {"baselineCapabilitySet": "None"}}}), &[]),
            (json!({"spec": {"overrides": [{"group": "apps", "kind": "Deployment", "namespace": "ns", "name": "n",
                "unmanaged": true}]}}), &[]),
            (json!({"metadata": {"labels": {"a": "b"}}}), &[]),
            (json!({"metadata": {"annotations": {"a": "b"}}}), &[]),
            (json!({"metadata": {"finalizers": ["test.example/stays"]}}), &[]),
            (json!({"status": {"desired": new.update(), "history": [new.history("Completed")]}}), &[]),
            (annotate(json!("{}")), record),
            (desired(json!({"version": "4.18.20"})), step),
            (desired(json!({"image": old.image})), step),
            (desired(json!({"mode": "Preflight"})), step),
        ]);
        let mut forced = annotate(json!("{}"));
        forced["spec"] = desired(json!({"image": new.image}))["spec"].clone();
        self.check_edits(
            versions,
            cluster_version(Value::Null),
            [
                (desired(json!({})), &[]),
                (desired(json!({"acceptRisks": [{"name": "RiskA"}]})), &[]),
                (desired(json!({"version": "", "image": "", "architecture": "", "force": false})), &[]),
                (desired(json!({"force": true})), &[]),
                (annotate(json!("")), &[]),
                (annotate(json!("{}")), record),
                (forced, step),
                (desired(json!({"image": new.image})), step),
                (desired(json!({"version": "4.18.12", "architecture": "Multi"})), step),
            ],
        );
        let images = "/apis/machineconfiguration.openshift.io/v1/internalreleaseimages";
        let releases = |releases: &[&Release]| json!({"spec": internal_release_image(releases)["spec"]});
        let third = Release::new("4.19.9", '3');
        let drops: &[&str] = &["internalreleaseimage.airgate.io"];
        let adds: &[&str] = &["internalreleaseimage-additions.airgate.io"];
        let mut added_with_override = annotate(json!("{}"));
        added_with_override["spec"] = releases(&[&old, &new, &third])["spec"].clone();
        let holds = internal_release_image(&[&old, &new]);
        self.check_edits(
            images,
            holds.clone(),
            [
                (releases(&[&old, &new, &third]), adds),
                (added_with_override, adds),
                (releases(&[&third, &new, &old]), adds),
                (releases(&[&new, &old]), &[]),
                (json!({"metadata": {"labels": {"a": "b"}}}), &[]),
                (json!({"metadata": {"finalizers": ["test.example/stays"]}}), &[]),
                (json!({"status": {"releases": internal_release_image(&[&third])["status"]["releases"]}}), &[]),
                (annotate(json!("{}")), record),
                (releases(&[&old]), drops),
                (releases(&[&old, &third]), drops),
            ],
        );
        self.recorder.take();
        self.api.delete("/apis/machineconfiguration.openshift.io/v1/internalreleaseimages/cluster");
        self.recorder.take();
        self.api.create(&format!("{images}?dryRun=All"), &holds).success();
        let asked: Vec<String> = self.recorder.take().into_iter().map(|(webhook, _)| webhook).collect();
        assert_eq!(asked, adds, "CREATE");
        let mut going = holds;
        going["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z".into();
        self.check_edits(images, going, [(releases(&[&third]), &[]), (json!({"metadata": {"finalizers": null}}), &[])]);
        self.mirror_edits();
    }

    fn mirror_edits(&mut self) {
        let metadata = |name: &str| json!({"name": name});
        let unguarded = [
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"annotations": {"a": "b"}}}),
            json!({"metadata": {"finalizers": ["test.example/stays"]}}),
        ];
        let rule = json!({"source": "quay.io/ocp", "mirrors": ["mirror.example.test/ocp"]});
        for (group, kind, resource, field, webhook) in [
            (
                "config.openshift.io/v1",
                "ImageDigestMirrorSet",
                "imagedigestmirrorsets",
                "imageDigestMirrors",
                "imagedigestmirrorset.airgate.io",
            ),
            (
                "config.openshift.io/v1",
                "ImageTagMirrorSet",
                "imagetagmirrorsets",
                "imageTagMirrors",
                "imagetagmirrorset.airgate.io",
            ),
            (
                "operator.openshift.io/v1alpha1",
                "ImageContentSourcePolicy",
                "imagecontentsourcepolicies",
                "repositoryDigestMirrors",
                "imagecontentsourcepolicy.airgate.io",
            ),
        ] {
            let object = json!({"apiVersion": group, "kind": kind, "metadata": metadata("a"), "spec": {field: [rule]}});
            let asked: &[&str] = &[webhook];
            let [labels, annotations, finalizers] = unguarded.clone();
            self.check_edits(
                &format!("/apis/{group}/{resource}"),
                object,
                [
                    (labels, &[]),
                    (annotations, &[]),
                    (finalizers, &[]),
                    (json!({"spec": {field: [rule]}}), &[]),
                    (json!({"metadata": {"annotations": {"airgate.io/override": "{}"}}}), &[OVERRIDE]),
                    (json!({"spec": {field: []}}), asked),
                    (json!({"spec": {field: [rule, {"source": "quay.io", "mirrors": ["a.example.test"]}]}}), asked),
                ],
            );
        }
        let registries = json!({"blockedRegistries": ["a.example.test"], "insecureRegistries": ["b.example.test"]});
        let config = json!({"apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": metadata("cluster"),
            "spec": {"registrySources": registries, "additionalTrustedCA": {"name": "ca"}}});
        let asked: &[&str] = &["imageconfig.airgate.io"];
        let edit = |registries: Value| json!({"spec": {"registrySources": registries}});
        let [labels, annotations, finalizers] = unguarded;
        self.check_edits(
            "/apis/config.openshift.io/v1/images",
            config,
            [
                (labels, &[]),
                (annotations, &[]),
                (finalizers, &[]),
                (edit(registries), &[]),
                (json!({"spec": {"externalRegistryHostnames": ["r.example.test"]}}), &[]),
                (edit(json!({"containerRuntimeSearchRegistries": ["r.example.test"]})), &[]),
                (edit(json!({"blockedRegistries": null})), asked),
                (edit(json!({"insecureRegistries": ["a.example.test"]})), asked),
                (json!({"spec": {"additionalTrustedCA": null}}), asked),
            ],
        );
    }
}
