//! The screen. Prose is wrapped; commands and digests stay whole, since they are there to be copied.

use std::fmt::Write;

use super::super::output::{Colour, paint};
use crate::settings::ServerMode;
use crate::status::{
    Answer, BundleStatus, Bundles, Cluster, FactStatus, Judged, Kind, Needed, Presence, Registration, Status, Target,
    Upgrades,
};
use crate::text::counted;
use crate::verdict::Result as Outcome;

/// Of prose and tables; also what an old terminal has.
const WIDTH: usize = 80;
/// Targets that cannot be reached, named one by one.
const SHOWN: usize = 12;

pub(super) fn screen(status: &Status) -> String {
    let mut screen = Screen::default();
    screen.cluster(&status.cluster);
    screen.settings(status);
    screen.upgrades(&status.upgrades, status.cluster.state);
    screen.needed(&status.needed, status);
    screen.bundles(&status.bundles);
    for entry in &status.overrides {
        let force = if entry.in_force { "in force" } else { "opens nothing now" };
        screen.section("OVERRIDES");
        screen.item(&format!("{} ({force}): {}", entry.object, entry.text));
        screen.command(&format!("airgate override --clear {}", entry.object));
    }
    if let Some(registration) = &status.registration {
        screen.registration(registration);
    }
    screen.facts(&status.facts);
    for problem in &status.problems {
        screen.section("PROBLEMS");
        screen.item(&problem.to_string());
    }
    screen.text.trim_end().to_owned()
}

/// The columns that a text takes: colours take none.
fn seen(text: &str) -> usize {
    let mut count = 0;
    let mut colour = false;
    for c in text.chars() {
        match (colour, c) {
            (false, '\x1b') => colour = true,
            (false, _) => count += 1,
            (true, 'm') => colour = false,
            (true, _) => {}
        }
    }
    count
}

#[derive(Default)]
struct Screen {
    text: String,
    section: &'static str,
}

impl Screen {
    /// Opens a section unless it is open.
    fn section(&mut self, title: &'static str) {
        if self.section != title {
            let gap = if self.text.is_empty() { "" } else { "\n" };
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "{gap}{}", paint(Colour::Bold, title));
            self.section = title;
        }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Prose below a section.
    fn item(&mut self, text: &str) {
        self.wrapped("  ", "    ", text);
    }

    /// A name and what is to be said of it.
    fn field(&mut self, name: &str, text: &str) {
        self.wrapped(&format!("    {:10}", format!("{name}:")), "              ", text);
    }

    fn wrapped(&mut self, first: &str, rest: &str, text: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in text.split_whitespace() {
            if !empty && seen(&line) + 1 + seen(word) > WIDTH {
                self.line(&line);
                rest.clone_into(&mut line);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line);
    }

    fn command(&mut self, command: &str) {
        self.line(&format!("      {command}"));
    }

    /// Rows below their headings, each column as wide as it must be.
    fn table(&mut self, indent: &str, heads: &[&str], rows: &[Vec<String>]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| seen(cell));
            cells.chain(heads.get(column).map(|head| seen(head))).max().unwrap_or_default()
        };
        let all = std::iter::once(heads.iter().map(ToString::to_string).collect()).chain(rows.iter().cloned());
        for row in all {
            let mut line = indent.to_owned();
            let last = row.len().saturating_sub(1);
            let mut left = String::new();
            for (column, cell) in row.iter().enumerate() {
                if column == last {
                    left.clone_from(cell);
                } else {
                    let _ = write!(line, "{cell:0$}  ", width(column));
                }
            }
            let rest = " ".repeat(seen(&line));
            self.wrapped(&line, &rest, &left);
        }
        // What a cell that is empty leaves behind.
        let trimmed: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        self.text = trimmed.join("\n") + "\n";
    }
}

impl Screen {
    fn cluster(&mut self, cluster: &Cluster) {
        self.section("CLUSTER");
        match (&cluster.current, cluster.state) {
            (Some(current), _) => {
                let architecture = if current.architecture.is_empty() { "" } else { " (multi)" };
                let since = current.since.as_deref().unwrap_or_default();
                let state = match current.state.as_deref() {
                    None => "status.history is empty".to_owned(),
                    Some("Completed") => format!("{}, begun {since}", paint(Colour::Green, "Completed")),
                    Some(state) => format!("{}, begun {since}", paint(Colour::Yellow, state)),
                };
                let from = current.last_completed.as_ref().map(|last| format!(", {last} was the last to be completed"));
                let version = paint(Colour::Bold, &current.version);
                self.item(&format!("runs {version}{architecture}, {state}{}", from.unwrap_or_default()));
                self.command(&current.image);
            }
            (None, Presence::Known) => self.item("the ClusterVersion has no status.desired: what runs is not known"),
            (None, Presence::Absent) => self.item("there is no ClusterVersion named version: what runs is not known"),
            (None, Presence::Unknown) => self.item("the ClusterVersion is not known; see FACTS below"),
        }
        if let Some(pending) = &cluster.pending {
            let mut named: Vec<&str> = [&pending.version, &pending.architecture].map(|text| &**text).to_vec();
            named.retain(|text| !text.is_empty());
            let named = if named.is_empty() { "the image below".into() } else { named.join(" ") };
            let seen = if pending.seen { "" } else { ", not yet seen by the CVO" };
            let force = if pending.force { ", with force" } else { "" };
            self.item(&format!("{} {named}{force}{seen}", paint(Colour::Yellow, "asked for:")));
            if !pending.image.is_empty() {
                self.command(&pending.image);
            }
        } else if cluster.current.is_some() {
            self.item("no other release is asked for");
        }
        for notice in &cluster.conditions {
            let reason = if notice.reason.is_empty() { String::new() } else { format!(" ({})", notice.reason) };
            self.item(&format!("{}={}{reason}: {}", notice.kind, notice.status, notice.message));
        }
        if cluster.hosted {
            self.item(
                "the control plane is hosted: act on its HostedCluster; airgate only warns about ClusterVersion here",
            );
        }
    }

    fn settings(&mut self, status: &Status) {
        if status.mode == ServerMode::Audit {
            self.item("airgate's configuration has mode: audit, so nothing is denied");
        }
    }

    fn upgrades(&mut self, upgrades: &Upgrades, cluster: Presence) {
        self.section("UPGRADES");
        let releases = counted(upgrades.on_site, "release");
        match &upgrades.from {
            None if cluster == Presence::Known => {
                self.item("the current version is not known, so no step can be judged");
            }
            None => self.item("without a ClusterVersion no step can be judged"),
            Some(_) if upgrades.on_site == 0 => {
                self.item(
                    "no release source on this site has a release: name directories that hold some with --releases DIR",
                );
            }
            Some(from) => self.item(&format!("from {from}, out of {releases} on this site")),
        }
        let (reached, refused): (Vec<_>, Vec<_>) =
            upgrades.targets.iter().partition(|target| target.kind != Kind::None);
        for target in &reached {
            self.target(target);
        }
        if upgrades.from.is_some() && upgrades.on_site > 0 && reached.is_empty() {
            self.item(&paint(Colour::Yellow, "none of them can be reached from here"));
        }
        if !refused.is_empty() {
            let mut versions: Vec<&str> = refused.iter().take(SHOWN).map(|target| &*target.version).collect();
            versions.dedup();
            let more = refused.len().saturating_sub(SHOWN);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            self.item(&format!("not from here: {}{more}", versions.join(", ")));
            self.command("airgate check upgrade --to-image PULLSPEC    # says why");
        }
    }

    fn target(&mut self, target: &Target) {
        let version = paint(Colour::Bold, &target.version);
        let how = match target.kind {
            Kind::Direct if target.judged.outcome == Outcome::Warn => paint(Colour::Yellow, "possible, with a warning"),
            Kind::Direct => paint(Colour::Green, "possible"),
            Kind::Back => paint(Colour::Yellow, "possible as a way back"),
            Kind::Through | Kind::None => {
                let stones: Vec<&str> = target.through.iter().map(|hop| &*hop.version).collect();
                format!("through {}; first:", stones.join(", then "))
            }
        };
        let multi = if target.architecture.as_deref() == Some("multi") { " (multi)" } else { "" };
        self.item(&format!("{version}{multi}  {how}"));
        if target.judged.outcome == Outcome::Warn {
            for warning in &target.judged.why {
                self.wrapped("      ", "      ", warning);
            }
        }
        if let Some(command) = &target.command {
            self.command(command);
        }
    }

    fn needed(&mut self, needed: &Needed, status: &Status) {
        self.section("STILL NEEDED");
        let rows: Vec<Vec<String>> = needed
            .releases
            .iter()
            .map(|release| {
                let name = match (&*release.version, &release.digest) {
                    ("", Some(digest)) => digest.chars().take(19).collect::<String>() + "...",
                    (version, _) => version.to_owned(),
                };
                let kept = if release.kept { "yes" } else { "no" };
                let on_site = if release.on_site { "yes" } else { "no" };
                let bundles = release.bundles.len();
                let in_bundle = if bundles == 0 { "-".to_owned() } else { counted(bundles, "bundle") };
                vec![name, kept.into(), on_site.into(), in_bundle, release.holders.join(", ")]
            })
            .collect();
        if !rows.is_empty() {
            self.table("  ", &["release", "kept", "on site", "held in", "for"], &rows);
            self.item(&format!("kept: no bundle of it may leave the cluster (retain: {})", status.retain));
        }
        for unknown in &needed.unknown {
            self.item(&format!("{}: {unknown}", paint(Colour::Yellow, "there may be more")));
        }
    }

    fn bundles(&mut self, bundles: &Bundles) {
        match bundles.state {
            Presence::Absent => return,
            Presence::Unknown => {
                self.section("BUNDLES");
                return self.item("the InternalReleaseImage is not known; see FACTS below");
            }
            Presence::Known => self.section("BUNDLES of InternalReleaseImage cluster"),
        }
        for bundle in &bundles.bundles {
            self.bundle(bundle, bundles.nodes);
        }
        if let Some(whole) = &bundles.removal {
            self.item("the whole object");
            self.removal(whole, Some("oc delete internalreleaseimage cluster"));
        }
    }

    fn bundle(&mut self, bundle: &BundleStatus, nodes: Presence) {
        let place = if bundle.in_spec { "" } else { " (not in spec.releases)" };
        self.item(&format!("{}{place}", paint(Colour::Bold, &bundle.name)));
        let needed = bundle.needed_for.join("; ");
        let in_use = match bundle.in_use {
            Answer::Yes => format!("yes ({needed})"),
            Answer::No if needed.is_empty() => "no".into(),
            Answer::No => format!("no ({needed})"),
            Answer::Unknown => "not known".into(),
        };
        self.field("in use", &in_use);
        let count = format!("on {} of {}", bundle.ready_nodes, counted(bundle.nodes.len(), "node"));
        let ready = match (bundle.ready, nodes) {
            (Answer::Yes, _) => format!("{}, {count}", paint(Colour::Green, "yes")),
            (Answer::No, _) => format!("{}, {count}", paint(Colour::Red, "no")),
            (Answer::Unknown, Presence::Known) if !bundle.nodes.is_empty() => format!("not known, {count}"),
            (Answer::Unknown, _) => "not known: no MachineConfigNode says anything of it".into(),
        };
        let reported = bundle.reported.iter().find(|notice| notice.kind == "Available").map(|notice| &*notice.status);
        let reported = match (reported, bundle.ready) {
            (Some("True"), Answer::No) => " (its status says Available, which is true of some node)",
            _ => "",
        };
        self.field("ready", &format!("{ready}{reported}"));
        if let Some(removal) = &bundle.removal {
            self.removal(removal, bundle.remove.as_deref());
        }
        let rows: Vec<Vec<String>> = bundle
            .nodes
            .iter()
            .map(|node| vec![node.node.clone(), node.state.to_owned(), node.detail.clone()])
            .collect();
        if !rows.is_empty() {
            self.table("    ", &["node", "state", ""], &rows);
        }
    }

    fn removal(&mut self, removal: &Judged, command: Option<&str>) {
        let why = removal.why.join("; ");
        let text = match removal.outcome {
            Outcome::Allow => paint(Colour::Green, "allowed"),
            Outcome::Warn => format!("{}: {why}", paint(Colour::Yellow, "allowed with a warning")),
            // What needs it stands above.
            Outcome::Deny => format!("{}: {}", paint(Colour::Red, "denied"), removal.denials.join("; ")),
            Outcome::Unknown => format!("{}: {why}", paint(Colour::Red, "denied, a fact is missing")),
        };
        self.field("removal", &text);
        if let Some(command) = command.filter(|_| removal.allowed()) {
            self.command(command);
        }
    }

    fn registration(&mut self, registration: &Registration) {
        self.section("GUARD");
        let Registration { state, fails_closed, without_ca, owner, .. } = registration;
        match state {
            Presence::Known => {
                let closed = match fails_closed.as_slice() {
                    [] => "no entry fails closed: every step passes while airgate is away".to_owned(),
                    names => format!("fails closed: {}", names.join(", ")),
                };
                let owner = owner.as_ref().map_or_else(String::new, |name| format!("; it goes with namespace {name}"));
                self.item(&format!("validatingwebhookconfiguration airgate is registered; {closed}{owner}"));
                if !without_ca.is_empty() {
                    let bad = paint(Colour::Red, "without a caBundle, no call succeeds:");
                    self.item(&format!("{bad} {}", without_ca.join(", ")));
                }
            }
            Presence::Absent => {
                let off = paint(Colour::Yellow, "not registered:");
                self.item(&format!("{off} the API server asks airgate nothing, every step passes unjudged"));
            }
            Presence::Unknown => {
                let why = registration.why.as_deref().unwrap_or_default();
                self.item(&format!("validatingwebhookconfiguration airgate cannot be read: {why}"));
            }
        }
        if let Some(reason) = &registration.unregistered {
            self.item(&format!("kept away by airgate.io/unregistered on its namespace ({reason}); to end that:"));
            self.command("airgate unregister --undo");
        }
        if let Some(command) = registration.removal {
            self.item("before airgate is uninstalled, or where it locks you out:");
            // What the namespace owns was registered by airgate itself, which would bring it back.
            if let Some(namespace) = &registration.owner {
                self.command(&format!("oc annotate namespace {namespace} airgate.io/unregistered=WHY --overwrite"));
            }
            self.command(command);
        }
    }

    fn facts(&mut self, facts: &[FactStatus]) {
        self.section("FACTS");
        let good: Vec<&FactStatus> = facts.iter().filter(|fact| fact.state != Presence::Unknown && !fact.old).collect();
        let absent: Vec<&str> = good.iter().filter(|f| f.state == Presence::Absent).map(|f| f.name).collect();
        let oldest = good.iter().filter_map(|fact| Some((fact.as_of?, fact.age.as_deref()?))).min();
        let oldest = oldest.map(|(_, age)| format!(", the oldest {age} ago")).unwrap_or_default();
        let known =
            if good.len() == facts.len() { format!("all {} are", facts.len()) } else { format!("{} are", good.len()) };
        self.item(&format!("{known} known{oldest}"));
        if !absent.is_empty() {
            self.item(&format!("known to be absent: {}", absent.join(", ")));
        }
        for fact in facts.iter().filter(|fact| fact.state == Presence::Unknown) {
            let why = fact.why.as_deref().unwrap_or_default();
            self.item(&format!("{} {}: {why}", paint(Colour::Red, "missing:"), fact.name));
            self.command(fact.remedy.as_deref().unwrap_or_default());
        }
        for fact in facts.iter().filter(|fact| fact.old) {
            let age = fact.age.as_deref().unwrap_or_default();
            let source = fact.source.as_deref().unwrap_or_default();
            self.item(&format!(
                "{} {}: nothing heard from the {source} for {age}",
                paint(Colour::Yellow, "old:"),
                fact.name
            ));
        }
    }
}

#[cfg(test)]
mod tests;
