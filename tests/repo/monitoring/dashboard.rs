//! The dashboard is one that Grafana, or OpenShift's console, can show.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FLAVORS, printed, text};

fn dashboard(flavor: [&str; 3]) -> (Value, Value) {
    let is_one = |object: &Value| object["data"]["airgate.json"].is_string();
    let found: Vec<_> = printed(flavor, "ConfigMap").into_iter().filter(is_one).collect();
    let [config_map] = &found[..] else { panic!("one dashboard") };
    (config_map.clone(), serde_json::from_str(text(config_map, "/data/airgate.json")).unwrap())
}

pub fn expressions(flavor: [&str; 3]) -> Vec<String> {
    let (_, dashboard) = dashboard(flavor);
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| text(target, "/expr").to_owned()).collect()
}

#[test]
fn panels_have_an_id_and_a_place_of_their_own() {
    for flavor in FLAVORS {
        let (_, dashboard) = dashboard(flavor);
        let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel:#}");
            let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(place("w") > 0 && place("h") > 0 && place("x") + place("w") <= 24, "{panel:#}");
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(cells.insert((x, y)), "{} lies on another", panel["title"]);
                }
            }
            let targets = panel["targets"].as_array().map_or(0, Vec::len);
            assert_eq!(targets == 0, panel["type"] == "row", "{panel:#}");
        }
        assert!(ids.len() > 20, "{}", ids.len());
        assert!(!dashboard.to_string().contains("$own") && !dashboard.to_string().contains("$namespace"));
    }
}

#[test]
fn each_finds_the_dashboards_that_are_for_it() {
    let kinds = |dashboard: &Value| -> BTreeSet<String> {
        dashboard["panels"].as_array().unwrap().iter().map(|panel| text(panel, "/type").to_owned()).collect()
    };
    let [openshift, kubernetes] = FLAVORS;
    let (config_map, shown) = dashboard(openshift);
    assert_eq!(config_map["metadata"]["labels"]["console.openshift.io/dashboard"], "true");
    assert_eq!(config_map["metadata"]["namespace"], "openshift-config-managed");
    assert_eq!(kinds(&shown).into_iter().collect::<Vec<_>>(), ["graph", "row", "singlestat"]);
    let (config_map, shown) = dashboard(kubernetes);
    assert_eq!(config_map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(config_map["metadata"]["namespace"], "airgate");
    assert_eq!(kinds(&shown).into_iter().collect::<Vec<_>>(), ["row", "stat", "timeseries"]);
    assert_eq!((&shown["uid"], &shown["templating"]["list"][0]["name"]), (&"airgate".into(), &"datasource".into()));
}
