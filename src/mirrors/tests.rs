use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::cluster::{Fact, Provenance};

const IDMS: MirrorKind = MirrorKind::Digest;
const ITMS: MirrorKind = MirrorKind::Tag;
const ICSP: MirrorKind = MirrorKind::ContentSource;

/// `SOURCE < MIRROR, MIRROR` a line, `SOURCE ! MIRROR` with NeverContactSource.
fn set(kind: MirrorKind, name: &str, rules: &str) -> MirrorSet<'static> {
    let entry = |line: &str| {
        let never = line.contains(" ! ");
        let (source, mirrors) = line.split_once(if never { " ! " } else { " < " }).unwrap();
        let mirrors: Vec<&str> = mirrors.split(", ").filter(|mirror| !mirror.is_empty()).collect();
        let mut entry = json!({"source": source, "mirrors": mirrors});
        if never {
            entry["mirrorSourcePolicy"] = NEVER.into();
        }
        entry
    };
    let entries: Vec<Value> = rules.lines().filter(|line| !line.is_empty()).map(entry).collect();
    let field = kind.field().strip_prefix("spec.").unwrap();
    let object = json!({"metadata": {"name": name}, "spec": {field: entries}});
    MirrorSet::deserialize(object).unwrap()
}

fn config(blocked: &[&str], allowed: &[&str], insecure: &[&str]) -> ImageConfig<'static> {
    let object = json!({"metadata": {"name": "cluster"}, "spec": {"registrySources": {
        "blockedRegistries": blocked, "allowedRegistries": allowed, "insecureRegistries": insecure}}});
    ImageConfig::deserialize(object).unwrap()
}

fn rules(sets: &[(MirrorKind, &str)], config: Option<&ImageConfig<'static>>) -> MirrorRules {
    let objects: Vec<_> = sets.iter().map(|(kind, rules)| (*kind, set(*kind, "a", rules))).collect();
    let sets = objects.iter().map(|(kind, set)| (*kind, set)).collect();
    MirrorRules::new(&RuleSources { sets, image_config: config, api_int: Some("api-int.c.example") }).unwrap()
}

fn repository(text: &str) -> Repository {
    Repository::parse(text).unwrap()
}

/// `PLACE PLACE`, `blocked: ` before them where the source is, `refused` where nodes refuse it.
fn told(places: &Places) -> String {
    let listed: Vec<String> = places.places.iter().map(ToString::to_string).collect();
    let blocked = if places.source_blocked { "blocked: " } else { "" };
    format!("{blocked}{}{}", if places.refused { "refused" } else { "" }, listed.join(" "))
}

fn check(sets: &[(MirrorKind, &str)], repository_name: &str, expected: &str) {
    let found = told(&rules(sets, None).places(&repository(repository_name)));
    assert_eq!(found, expected, "{repository_name} by {sets:?}");
}

const RELEASE: &str = "quay.io/openshift-release-dev/ocp-release";

#[test]
fn the_longest_scope_at_a_segment_boundary_counts() {
    check(&[], RELEASE, RELEASE);
    for (rule, expected) in [
        ("quay.io < m.example", "m.example/openshift-release-dev/ocp-release"),
        ("quay.io < m.example:5000/q", "m.example:5000/q/openshift-release-dev/ocp-release"),
        ("quay.io/openshift-release-dev < m.example/x", "m.example/x/ocp-release"),
        ("quay.io/openshift-release-dev/ocp-release < m.example/x", "m.example/x"),
        ("*.io < m.example/x", "m.example/x/openshift-release-dev/ocp-release"),
        ("quay.io/openshift-release < m.example/x", ""),
        ("quay.io/openshift-release-dev/ocp < m.example/x", ""),
        ("quay.io/openshift-release-dev/ocp-release/x < m.example/x", ""),
        ("quay.io:443 < m.example/x", ""),
        ("*.quay.io < m.example/x", ""),
        ("operator-framework < m.example/x", ""),
        // A rewritten name without a path is no repository, and such a place finds nothing.
        ("quay.io/openshift-release-dev/ocp-release < m.example", ""),
    ] {
        check(&[(IDMS, rule)], RELEASE, format!("{expected} {RELEASE}").trim());
    }
    check(&[(IDMS, "*.example < m.local/x")], "a.b.example:5000/r", "a.b.example:5000/r");
    check(&[(IDMS, "*.example < m.local\n*.b.example < n.local")], "a.b.example/r", "n.local/r a.b.example/r");
    check(
        &[(IDMS, "quay.io < a.example\nquay.io/openshift-release-dev < b.example"), (ICSP, "*.io < c.example")],
        RELEASE,
        &format!("b.example/ocp-release {RELEASE}"),
    );
}

#[test]
fn lists_for_one_source_are_merged() {
    let both = [(IDMS, "quay.io < b.example, c.example"), (ICSP, "quay.io < a.example, b.example")];
    check(&both, "quay.io/r", "a.example/r b.example/r c.example/r quay.io/r");
    check(&[(IDMS, "quay.io < a.example, quay.io, b.example")], "quay.io/r", "a.example/r quay.io/r b.example/r");
    check(&[(IDMS, "quay.io < a.example, a.example/.")], "quay.io/r", "a.example/r quay.io/r");
    let found = rules(&[(IDMS, "quay.io < a.example, b.example"), (IDMS, "quay.io < b.example, a.example")], None);
    assert_eq!(told(&found.places(&repository("quay.io/r"))), "a.example/r b.example/r quay.io/r");
    assert!(found.remarks()[0].contains("different orders; nodes try a.example, b.example"), "{:?}", found.remarks());
}

#[test]
fn tags_and_digests_have_mirrors_of_their_own_and_share_the_scope() {
    let both = rules(&[(IDMS, "quay.io < d.example"), (ITMS, "quay.io < t.example")], None);
    let repository = repository("quay.io/ns/r");
    assert_eq!(told(&both.places(&repository)), "d.example/ns/r quay.io/ns/r");
    assert_eq!(told(&both.places_for(&repository, Pull::Tag)), "t.example/ns/r quay.io/ns/r");
    // One entry of registries.conf a scope: the longer one hides the other, and Never is of the entry.
    let hidden = rules(&[(IDMS, "quay.io < d.example"), (ITMS, "quay.io/ns ! t.example")], None);
    assert_eq!(told(&hidden.places(&repository)), "blocked: ");
    assert_eq!(hidden.places(&repository).scope.as_deref(), Some("quay.io/ns"));
    assert_eq!(told(&hidden.places_for(&repository, Pull::Tag)), "blocked: t.example/r");
}

#[test]
fn never_contact_source_of_any_rule_blocks_the_source() {
    check(&[(IDMS, "quay.io ! m.example")], "quay.io/r", "blocked: m.example/r");
    check(&[(IDMS, "quay.io ! quay.io")], "quay.io/r", "quay.io/r");
    check(&[(IDMS, "quay.io ! ")], "quay.io/r", "quay.io/r");
    // The longer entry decides alone, also about what may be contacted.
    check(&[(IDMS, "quay.io ! m.example\nquay.io/ns < n.example")], "quay.io/ns/r", "n.example/r quay.io/ns/r");
    // A mirror that has a rule of its own that forbids it.
    check(&[(IDMS, "quay.io < m.example\nm.example ! n.example")], "quay.io/r", "quay.io/r");
    let differ = rules(&[(IDMS, "quay.io ! m.example"), (ICSP, "quay.io < n.example")], None);
    assert_eq!(told(&differ.places(&repository("quay.io/r"))), "blocked: m.example/r n.example/r");
    assert!(differ.remarks()[0].contains("differ in mirrorSourcePolicy"), "{:?}", differ.remarks());
    let among = rules(&[(IDMS, "quay.io ! m.example, quay.io")], None);
    assert_eq!(told(&among.places(&repository("quay.io/r"))), "blocked: m.example/r");
    assert!(among.remarks()[0].contains("among its own mirrors"), "{:?}", among.remarks());
}

#[test]
fn registries_are_blocked_allowed_and_hidden() {
    let one = [(IDMS, "quay.io < m.example:5000/q, n.example")];
    for (blocked, allowed, insecure, expected) in [
        (&["quay.io"][..], &[][..], &[][..], "blocked: m.example:5000/q/ns/r n.example/ns/r"),
        (&["*.io"], &[], &[], "blocked: m.example:5000/q/ns/r n.example/ns/r"),
        (&["m.example:5000"], &[], &[], "n.example/ns/r quay.io/ns/r"),
        (&["*.example"], &[], &[], "quay.io/ns/r"),
        (&["m.example:5000/q/ns/r", "n.example/n"], &[], &[], "n.example/ns/r quay.io/ns/r"),
        (&["m.example"], &[], &[], "m.example:5000/q/ns/r n.example/ns/r quay.io/ns/r"),
        // An entry of its own for the longer scope hides the mirrors of the shorter one.
        (&["quay.io/ns"], &[], &[], "blocked: "),
        (&[], &[], &["quay.io/ns"], "quay.io/ns/r"),
        (&[], &[], &["quay.io"], "m.example:5000/q/ns/r n.example/ns/r quay.io/ns/r"),
        (&[], &["quay.io"], &[], "m.example:5000/q/ns/r n.example/ns/r quay.io/ns/r"),
        (&[], &["quay.io/ns/r"], &[], "m.example:5000/q/ns/r n.example/ns/r quay.io/ns/r"),
        (&[], &["m.example:5000"], &[], "refused"),
        (&["a.*.b", ""], &["*"], &["*"], "m.example:5000/q/ns/r n.example/ns/r quay.io/ns/r"),
    ] {
        let config = config(blocked, allowed, insecure);
        let found = rules(&one, Some(&config)).places(&repository("quay.io/ns/r"));
        assert_eq!(told(&found), expected, "{blocked:?} {allowed:?} {insecure:?}");
    }
    let config = config(&["m.example:5000"], &[], &[]);
    let found = rules(&one, Some(&config)).places(&repository("quay.io/r"));
    assert_eq!(found.left_out, [(repository("m.example:5000/q/r"), LeftOut::Blocked)]);
    assert_eq!(found.mirrors().map(ToString::to_string).collect::<Vec<_>>(), ["n.example/r"]);
}

#[test]
fn the_registry_of_a_node_is_reached_by_api_int() {
    let local = (IDMS, "quay.io < localhost:22625/openshift, api-int.c.example:22625/openshift");
    check(&[local], "quay.io/r", "api-int.c.example:22625/openshift/r quay.io/r");
    let blocked = config(&["api-int.c.example:22625"], &[], &[]);
    let found = rules(&[local], Some(&blocked)).places(&repository("quay.io/r"));
    assert_eq!(told(&found), "quay.io/r");
    let object = set(IDMS, "a", local.1);
    let unknown = RuleSources { sets: vec![(IDMS, &object)], ..RuleSources::default() };
    let found = MirrorRules::new(&unknown).unwrap().places(&repository("quay.io/r"));
    assert_eq!(told(&found), "api-int.c.example:22625/openshift/r quay.io/r");
    assert_eq!(found.left_out, [(repository("localhost:22625/openshift/r"), LeftOut::OnNodesOnly)]);
}

#[test]
fn absent_kinds_are_no_rules_and_unknown_ones_are_missing() {
    let provenance = || Provenance { source: "x".into(), as_of: jiff::Timestamp::UNIX_EPOCH, watched: false };
    let mut cluster = Snapshot::nothing("not read");
    assert!(MirrorRules::of(&cluster).unwrap_err().remedy.contains("imagedigestmirrorsets"));
    cluster.image_digest_mirror_sets = Fact::Known(vec![set(IDMS, "a", "quay.io < m.example")], provenance());
    cluster.image_tag_mirror_sets = Fact::Absent(provenance());
    cluster.image_content_source_policies = Fact::Absent(provenance());
    assert!(MirrorRules::of(&cluster).unwrap_err().remedy.contains("images.config.openshift.io cluster"));
    cluster.image_config = Fact::Absent(provenance());
    let places = |cluster: &Snapshot| told(&MirrorRules::of(cluster).unwrap().places(&repository("quay.io/r")));
    assert_eq!(places(&cluster), "m.example/r quay.io/r");

    let (other, same) = (set(ITMS, "a", "quay.io < t.example"), set(IDMS, "a", "quay.io < n.example"));
    let mut sources = RuleSources::of(&cluster).unwrap();
    sources.replace(ITMS, "a", Some(&other));
    sources.replace(IDMS, "a", Some(&same));
    let found = MirrorRules::new(&sources).unwrap().places(&repository("quay.io/r"));
    assert_eq!(told(&found), "n.example/r quay.io/r");
    sources.replace(IDMS, "a", None);
    assert_eq!(told(&MirrorRules::new(&sources).unwrap().places(&repository("quay.io/r"))), "quay.io/r");
}

#[test]
fn huge_and_hostile_rules_are_bounded() {
    let many: Vec<String> = (0..2000).map(|n| format!("m{n}.example")).collect();
    let line = format!("quay.io < {}", many.join(", "));
    let object = set(IDMS, "a", &vec![line; 51].join("\n"));
    let sources = RuleSources { sets: vec![(IDMS, &object)], ..RuleSources::default() };
    let missing = MirrorRules::new(&sources).unwrap_err();
    assert!(missing.why.contains("102051 mirrors"), "{missing:?}");
    let long = format!("quay.io/{}", vec!["a"; 128].join("/"));
    let line = |end: usize| format!("{} < m.example", &long[..=end]);
    let all: Vec<String> = (8..long.len()).step_by(2).map(line).collect();
    let all = all.join("\n");
    let found = rules(&[(IDMS, &all)], None).places(&repository(&long));
    assert_eq!(found.scope.as_deref(), Some(&*long));
    let strange =
        rules(&[(IDMS, "qu\u{1b}ay.io < a.example, b.example"), (IDMS, "qu\u{1b}ay.io < b.example, a.example")], None);
    assert!(strange.remarks().iter().all(|remark| !remark.contains('\u{1b}')), "{:?}", strange.remarks());
}
