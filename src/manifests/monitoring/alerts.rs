//! The alerts, as data. Severities as OpenShift has them: critical wakes somebody, warning is for the next hour of
//! work, info is for whoever looks. Nothing that runs depends on airgate, so critical is only what has taken a
//! release from under the cluster, and what leaves the cluster without its guard or its upgrades.
//!
//! Each has a section of its name in the runbook, which `airgate runbook NAME` prints where there is no network.

use serde_json::{Value, json};

use super::of_namespace;

/// The runbook: where the sections are, and what they say.
pub const RUNBOOK: &str = "docs/runbook.md";
pub const RUNBOOK_TEXT: &str = include_str!("../../../docs/runbook.md");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Critical,
    Warning,
    Info,
}

/// One rule. Two may share a name: the same trouble, more and less urgent.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    pub name: &'static str,
    /// `PromQL`; `$own` stands for the labels of airgate's own series.
    expr: &'static str,
    /// How long it must hold.
    hold: &'static str,
    pub severity: Severity,
    summary: &'static str,
    /// What is the matter, and what of it is felt.
    description: &'static str,
    /// What to type first.
    first: &'static str,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

use Severity::{Critical, Info, Warning};

/// 21 days: service-ca renews 13 months before the end, cert-manager and airgate's own keeper 30 days of 90; at 21 a
/// renewal has failed for days. 3 days: a weekend is left. 180 days: the keeper makes the next CA a year before.
pub static ALERTS: [Alert; 24] = [
    Alert {
        name: "AirgateDown",
        expr: "absent(airgate_ready{$own} == 1)",
        hold: "10m",
        severity: Critical,
        summary: "No airgate answers: upgrades are refused, other guarded changes pass unseen.",
        description: "For 10 minutes Prometheus has seen no airgate in namespace $namespace that is ready. Upgrade steps and removals of releases are refused until one answers; clearing an upgrade is not. Changes of mirrors, Secrets and CRDs pass unjudged.",
        first: "oc -n $namespace get pods,events",
    },
    Alert {
        name: "AirgateReplicaMissing",
        expr: "kube_deployment_spec_replicas{namespace=\"$namespace\",deployment=\"airgate\"} > on (namespace) count by (namespace) (airgate_ready{$own} == 1)",
        hold: "30m",
        severity: Warning,
        summary: "Fewer replicas of airgate are ready than are wanted.",
        description: "Of {{ $value }} replicas not all have been ready for 30 minutes: if the last one goes, upgrade steps are refused.",
        first: "oc -n $namespace get pods -o wide",
    },
    Alert {
        name: "AirgateNotReady",
        expr: "airgate_ready{$own} == 0",
        hold: "15m",
        severity: Warning,
        summary: "A replica of airgate runs and is not ready.",
        description: "Pod {{ $labels.pod }} has not been ready for 15 minutes and is sent no reviews. Its /readyz says what it waits for.",
        first: "oc -n $namespace describe pod {{ $labels.pod }}",
    },
    Alert {
        name: "AirgateCertificateExpiring",
        expr: "((airgate_certificate_not_after_seconds{$own} > 0) - time()) / 86400 < 21",
        hold: "1h",
        severity: Warning,
        summary: "The certificate that airgate serves with was not renewed in time.",
        description: "The serving certificate of pod {{ $labels.pod }} is good for {{ $value | printf \"%.1f\" }} more days, and should have been renewed by now.",
        first: "oc -n $namespace get secrets",
    },
    Alert {
        name: "AirgateCertificateExpiring",
        expr: "((airgate_certificate_not_after_seconds{$own} > 0) - time()) / 86400 < 3",
        hold: "1h",
        severity: Critical,
        summary: "The certificate that airgate serves with is about to expire: then upgrades are refused.",
        description: "The serving certificate of pod {{ $labels.pod }} is good for {{ $value | printf \"%.1f\" }} more days. After that the API server refuses to call airgate, and so refuses upgrade steps.",
        first: "oc -n $namespace get secrets",
    },
    Alert {
        name: "AirgateCaExpiring",
        expr: "((airgate_ca_not_after_seconds{$own} > 0) - time()) / 86400 < 180",
        hold: "1h",
        severity: Warning,
        summary: "The CA that airgate's keeper signs with was not renewed in time.",
        description: "The CA is good for {{ $value | printf \"%.0f\" }} more days and should have had a successor for half a year. The keeper's log says what keeps it from making one.",
        first: "oc -n $namespace logs {{ $labels.pod }} --since=1h",
    },
    Alert {
        name: "AirgateCertificateKeeperBlocked",
        expr: "airgate_certificate_keeper_blocked{$own} == 1",
        hold: "15m",
        severity: Warning,
        summary: "airgate's certificate keeper cannot do its work.",
        description: "Something has been in the way of the certificate keeper in pod {{ $labels.pod }} for 15 minutes. What is served stays in use; it will not be renewed, or the CA bundles not be kept. The log names what is in the way, and the remedy.",
        first: "oc -n $namespace logs {{ $labels.pod }} --since=1h",
    },
    Alert {
        name: "AirgateCertificateRefused",
        expr: "airgate_certificate_refused{$own} == 1",
        hold: "10m",
        severity: Warning,
        summary: "The stored certificate cannot be served with; the one before stays in use.",
        description: "Pod {{ $labels.pod }} cannot use the certificate, key or client CA that is stored, and serves the ones before until they expire. The log says what is wrong with them.",
        first: "oc -n $namespace logs {{ $labels.pod }} --since=1h",
    },
    Alert {
        name: "AirgateFactUnknown",
        expr: "max by (fact) (airgate_fact_unknown{$own}) == 1",
        hold: "15m",
        severity: Warning,
        summary: "airgate cannot read something that its verdicts rest on.",
        description: "{{ $labels.fact }} has been unknown for 15 minutes: steps that depend on it are refused as Unknown, or pass with a warning.",
        first: "oc -n $namespace logs deployment/airgate --since=20m",
    },
    Alert {
        name: "AirgateFactStale",
        expr: "max by (fact) (airgate_fact_stale{$own}) == 1",
        hold: "10m",
        severity: Warning,
        summary: "airgate has heard nothing new of something that its verdicts rest on.",
        description: "The watch of {{ $labels.fact }} has been silent for more than 15 minutes: removals of releases are judged on live reads, other steps pass with a warning.",
        first: "oc -n $namespace logs deployment/airgate --since=30m",
    },
    Alert {
        name: "AirgateFilesUnusable",
        expr: "max(airgate_file_problems{$own}) > 0",
        hold: "15m",
        severity: Warning,
        summary: "Files with releases cannot be used.",
        description: "{{ $value }} files of the directories given to airgate cannot be used: what they say of releases is not known. The log names each.",
        first: "oc -n $namespace logs deployment/airgate",
    },
    Alert {
        name: "AirgateStepInvalidated",
        expr: "max(airgate_invalidated_steps_standing{$own}) > 0",
        hold: "1m",
        severity: Critical,
        summary: "A release that the cluster needs has left the InternalReleaseImage.",
        description: "Two steps passed at the same time, and one took away a release that the other needs ({{ $value }} now). Put it back while its images are still on the nodes; the Event says how.",
        first: "oc get events -n default --field-selector reason=StepInvalidated",
    },
    Alert {
        name: "AirgateAuditFindings",
        expr: "max by (policy) (airgate_audit_findings{$own,outcome=\"deny\"}) > 0",
        hold: "1h",
        severity: Warning,
        summary: "Something is stored that airgate would refuse today.",
        description: "{{ $value }} findings of policy {{ $labels.policy }} have stood for an hour: it was stored before airgate was there, in audit mode or with an override, or while airgate was away.",
        first: "airgate audit",
    },
    Alert {
        name: "AirgateOverrideUsed",
        expr: "sum by (policy) (increase(airgate_overrides_used_total{$own}[1d])) > 0",
        hold: "0s",
        severity: Info,
        summary: "An override of airgate was used.",
        description: "An override opened a step against policy {{ $labels.policy }} within the last day. The Event says who, which step and why.",
        first: "oc get events -n default --field-selector reason=OverrideUsed",
    },
    Alert {
        name: "AirgateReviewsSlow",
        expr: "histogram_quantile(0.9, sum by (le) (rate(airgate_review_seconds_bucket{$own}[15m]))) > 1",
        hold: "15m",
        severity: Warning,
        summary: "airgate takes long to answer.",
        description: "One review in ten has taken {{ $value | printf \"%.1f\" }} s or more for 15 minutes; the API server waits 10 s at most. A review that reads a release waits for the registry.",
        first: "oc -n $namespace logs deployment/airgate --since=30m",
    },
    Alert {
        name: "AirgateReviewsTimeOut",
        expr: "sum by (pod) (increase(airgate_refusals_total{$own,reason=\"deadline\"}[15m])) > 0",
        hold: "5m",
        severity: Warning,
        summary: "airgate found no answer in the time that the API server gives it.",
        description: "Reviews in pod {{ $labels.pod }} have run into their deadline: guarded steps failed, others passed unjudged.",
        first: "oc -n $namespace logs {{ $labels.pod }} --since=30m",
    },
    Alert {
        name: "AirgateShedding",
        expr: "sum by (pod) (rate(airgate_refusals_total{$own,reason=~\"shed|shed_memory\"}[5m])) > 0",
        hold: "5m",
        severity: Warning,
        summary: "airgate is sent more than it takes and turns requests away.",
        description: "Pod {{ $labels.pod }} has turned requests away for 5 minutes, {{ $value | printf \"%.2f\" }} a second. The API server asks again for 10 s, then the step fails.",
        first: "oc -n $namespace get networkpolicy",
    },
    Alert {
        name: "AirgateInternalErrors",
        expr: "sum by (pod) (increase(airgate_refusals_total{$own,reason=\"panic\"}[1h])) > 0",
        hold: "0s",
        severity: Warning,
        summary: "A request met a bug in airgate.",
        description: "Pod {{ $labels.pod }} failed on a request within the last hour and went on. The log says where.",
        first: "oc -n $namespace logs {{ $labels.pod }} --since=2h | grep panic",
    },
    Alert {
        name: "AirgateLookupsFail",
        expr: "sum(increase(airgate_release_lookups_total{$own,reason=\"request\",outcome=\"failed\"}[1h])) > 0 unless sum(increase(airgate_release_lookups_total{$own,outcome=\"read\"}[1h])) > 0",
        hold: "5m",
        severity: Warning,
        summary: "No release that was asked for could be read from the registries.",
        description: "Releases that somebody asked for within the last hour could not be read, and none could: the registries are out of reach, or do not have them. The denial says which place answered what.",
        first: "oc -n $namespace logs deployment/airgate --since=1h",
    },
    Alert {
        name: "AirgateCallsFail",
        expr: "sum by (name) (rate(apiserver_admission_webhook_rejection_count{name=~\".+[.]airgate[.]io\",error_type=\"calling_webhook_error\"}[10m])) > 0",
        hold: "5m",
        severity: Warning,
        summary: "The API server cannot call airgate and refuses what it would ask about.",
        description: "Calls of {{ $labels.name }} fail, so the API server refuses the steps it guards. The text that the person sees says why.",
        first: "oc get validatingwebhookconfiguration airgate -o yaml",
    },
    Alert {
        name: "AirgateCallsSkipped",
        expr: "sum by (name) (increase(apiserver_admission_webhook_fail_open_count{name=~\".+[.]airgate[.]io\"}[1h]) > 0 or (apiserver_admission_webhook_fail_open_count{name=~\".+[.]airgate[.]io\"} unless apiserver_admission_webhook_fail_open_count offset 1h)) > 0",
        hold: "0s",
        severity: Warning,
        summary: "The API server could not call airgate and stored changes unjudged.",
        description: "Calls of {{ $labels.name }} failed within the last hour, and what it guards passed. airgate audit finds what should not have.",
        first: "airgate audit",
    },
    Alert {
        name: "AirgateNotRegistered",
        expr: "max by (state) (airgate_registration_state{$own,state!=\"registered\"}) == 1 unless on () max(airgate_registration_state{$own,state=\"registered\"}) == 1",
        hold: "15m",
        severity: Warning,
        summary: "The webhook configuration that airgate keeps is not what it should be.",
        description: "For 15 minutes no replica has seen the webhook configuration as it should be; its state is {{ $labels.state }}. Depending on it, nothing is guarded, or not everything, or guarded steps fail.",
        first: "oc get validatingwebhookconfiguration airgate -o yaml",
    },
    Alert {
        name: "AirgateTwoVersions",
        expr: "count(count by (version) (airgate_build_info{$own})) > 1",
        hold: "1h",
        severity: Warning,
        summary: "Replicas of airgate run different versions.",
        description: "{{ $value }} versions of airgate have run side by side for an hour: its own upgrade is stuck.",
        first: "oc -n $namespace rollout status deployment/airgate",
    },
    Alert {
        name: "AirgateAuditMode",
        expr: "max(airgate_mode{$own,mode=\"audit\"}) == 1",
        hold: "14d",
        severity: Info,
        summary: "airgate has been in audit mode for two weeks: it denies nothing.",
        description: "The server judges, records and lets pass. If it was only to be tried, read what it would have refused and go to enforce.",
        first: "airgate audit",
    },
];

impl Alert {
    /// Where its section begins: what Markdown makes of a heading of one word.
    #[must_use]
    pub fn runbook(&self) -> String {
        format!("{RUNBOOK}#{}", self.name.to_lowercase())
    }

    fn rule(&self, namespace: &str) -> Value {
        let text = |text| of_namespace(text, namespace);
        let description =
            format!("{}\nFirst: {}\nMore: airgate runbook {}", text(self.description), text(self.first), self.name);
        json!({
            "alert": self.name,
            "expr": text(self.expr),
            "for": self.hold,
            "labels": {"severity": self.severity.as_str(), "namespace": namespace},
            "annotations": {
                "summary": self.summary,
                "description": description,
                "runbook_url": self.runbook(),
            },
        })
    }
}

/// The one group of rules.
pub(super) fn group(namespace: &str) -> Value {
    json!({"name": "airgate", "rules": ALERTS.iter().map(|alert| alert.rule(namespace)).collect::<Vec<_>>()})
}

/// The runbook's section with this in its heading, such as an alert's name; else the one whose heading has, between
/// backticks, a part of this, such as of the error that was printed; else the first that has it at all.
#[must_use]
pub fn section(words: &str) -> Option<&'static str> {
    let words = words.trim().to_lowercase();
    let heading = |section: &str| section.lines().next().unwrap_or_default().to_lowercase();
    let headed = |section: &&str| heading(section).contains(&words);
    let quoted = |section: &&str| heading(section).split('`').skip(1).step_by(2).any(|part| words.contains(part));
    let anywhere = |section: &&str| section.to_lowercase().contains(&words);
    sections().find(headed).or_else(|| sections().find(quoted)).or_else(|| sections().find(anywhere))
}

fn sections() -> impl Iterator<Item = &'static str> {
    let end_of =
        |start: usize| RUNBOOK_TEXT[start + 1..].find("\n## ").map_or(RUNBOOK_TEXT.len(), |end| start + end + 2);
    RUNBOOK_TEXT.match_indices("\n## ").map(move |(at, _)| RUNBOOK_TEXT[at + 1..end_of(at + 1)].trim_end())
}
