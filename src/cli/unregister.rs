//! `airgate unregister`: takes the guard away, so that nothing brings it back until somebody says so.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use super::output::{Format, line};
use super::source::{default_kubeconfig, environment, path_from_environment};
use crate::manifests::Flavor;
use crate::register::api::{Failure, Site, home, namespaces_of};
use crate::register::plan::{Home, UNREGISTERED};
use crate::text::{shell_word, shown};
use crate::watch;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct UnregisterArgs {
    /// Reach the cluster through this kubeconfig [env: AIRGATE_KUBECONFIG] [default: as oc does]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of airgate [default: the one that the configuration names] [env: AIRGATE_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Why, for whoever finds the cluster without its guard
    #[arg(long, value_name = "TEXT", default_value = "airgate unregister")]
    reason: String,
    /// Let a running airgate serve --register register again
    #[arg(long)]
    undo: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
From then on the API server asks airgate nothing: every step passes unjudged. It sets the annotation
airgate.io/unregistered on airgate's namespace, which keeps a running airgate serve --register from registering again, and
deletes the validatingwebhookconfiguration airgate. With oc alone:

  oc annotate namespace openshift-airgate airgate.io/unregistered='WHY' --overwrite
  oc delete validatingwebhookconfiguration airgate

The second command suffices where airgate is not running. It exits 0 when the configuration is gone, or was not there, 1 when
it is gone and may come back, since no namespace could be annotated, 2 when it could not be taken away, or when --undo finds
nothing to take back.";

/// For how long it looks whether the configuration stays away: what a replica had begun to write is done by then.
const STAYS_AWAY: u32 = 6;

pub fn run(args: &UnregisterArgs) -> Result<ExitCode> {
    let given = args.kubeconfig.clone().or_else(|| path_from_environment("AIRGATE_KUBECONFIG"));
    let Some(kubeconfig) = given.or_else(default_kubeconfig) else {
        bail!("no cluster was given: name one with --kubeconfig FILE");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async {
        let site = Site(watch::connect(Some(&kubeconfig)).await?);
        if args.undo { undo(args, &site).await } else { unregister(args, &site).await }
    })?;
    match args.output {
        Format::Json => line(&told.json().to_string()),
        Format::Text => told.said.iter().for_each(|said| line(said)),
    }
    Ok(if told.may_return { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What was done.
struct Told {
    namespace: Option<String>,
    deleted: bool,
    annotated: bool,
    /// The namespace could not be annotated.
    may_return: bool,
    said: Vec<String>,
}

impl Told {
    fn json(&self) -> Value {
        let Self { namespace, deleted, annotated, may_return, said } = self;
        json!({"namespace": namespace, "deleted": deleted, "annotated": annotated, "mayReturn": may_return, "messages": said})
    }
}

async fn unregister(args: &UnregisterArgs, site: &Site) -> Result<Told> {
    let stored = site.configuration().await.map_err(|why| cannot("read", &why))?;
    let mut told = Told { namespace: None, deleted: false, annotated: false, may_return: false, said: vec![] };
    let named = args.namespace.clone().or_else(|| environment("AIRGATE_NAMESPACE"));
    let of = stored.as_ref().map(namespaces_of).unwrap_or_default();
    let candidates = match named {
        Some(name) if !of.is_empty() && !of.contains(&name) => {
            bail!("the configuration is of {}, not of {name}: leave --namespace out, or name that", of.join(", "))
        }
        Some(name) => vec![name],
        None if of.is_empty() => usual(),
        None => of,
    };
    // Before the configuration goes, or a running airgate would bring it back.
    for namespace in &candidates {
        match site.set_unregistered(namespace, Some(&args.reason)).await {
            Ok(()) => {
                told.annotated = true;
                told.said.push(format!("namespace/{namespace} annotated: no airgate in it registers again"));
                told.namespace = Some(namespace.clone());
            }
            Err(Failure::Absent) => {}
            // The guard is to go all the same; what could bring it back is said.
            Err(why) => {
                told.may_return = true;
                told.said.push(format!(
                "namespace/{namespace} could not be annotated ({why}): a running airgate serve --register will register again, unless somebody runs\n  oc annotate namespace {} {UNREGISTERED}={} --overwrite",
                shell_word(namespace), shell_word(&args.reason)
            ));
            }
        }
    }
    let mut stored = stored;
    for look in 0..STAYS_AWAY {
        if let Some(configuration) = stored.as_ref().filter(|stored| !leaving(stored)) {
            let uid = configuration["metadata"]["uid"].as_str().unwrap_or_default();
            match site.delete_configuration(uid).await {
                Ok(()) => {
                    let again = if told.deleted { " again: it had come back" } else { "" };
                    told.may_return |= told.deleted && !told.annotated;
                    told.said.push(format!("validatingwebhookconfiguration/airgate deleted{again}"));
                    told.deleted = true;
                }
                Err(Failure::Absent | Failure::Conflict) => {}
                Err(why) => return Err(cannot("delete", &why)),
            }
        } else if stored.is_none() && !told.deleted && !told.annotated && look == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        stored = site.configuration().await.map_err(|why| cannot("read", &why))?;
    }
    if let Some(stored) = stored {
        if leaving(&stored) {
            let finalizers = stored["metadata"]["finalizers"].as_array().into_iter().flatten();
            let finalizers: Vec<_> = finalizers.filter_map(Value::as_str).map(shown).collect();
            bail!(
                "validatingwebhookconfiguration/airgate is deleted, but held by {}: airgate is asked until whoever set that takes it back, or: oc patch validatingwebhookconfiguration airgate --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'. {}",
                finalizers.join(", "),
                told.said.join("; ")
            );
        }
        bail!(
            "validatingwebhookconfiguration/airgate comes back as often as it is deleted: {}. {}",
            if told.may_return {
                "airgate serve --register runs in the namespace that could not be annotated"
            } else {
                "airgate serve --register runs in a namespace that was not annotated (give --namespace), or something else applies it"
            },
            told.said.join("; ")
        );
    }
    if !told.deleted {
        told.said
            .push("validatingwebhookconfiguration/airgate is not there: the API server asks airgate nothing".into());
    }
    match &told.namespace {
        Some(namespace) => {
            let named = if usual().contains(namespace) { String::new() } else { format!(" --namespace {namespace}") };
            told.said.push(format!("to register again: airgate unregister --undo{named}"));
        }
        None if !told.deleted => {
            told.may_return = true;
            told.said.push(format!(
                "there is no namespace {}: if airgate serve --register runs in another one, it registers as soon as it can; give --namespace",
                candidates.join(" or ")
            ));
        }
        None => {}
    }
    Ok(told)
}

/// Deleted, and held by a finalizer.
fn leaving(stored: &Value) -> bool {
    !stored["metadata"]["deletionTimestamp"].is_null()
}

async fn undo(args: &UnregisterArgs, site: &Site) -> Result<Told> {
    let mut told = Told { namespace: None, deleted: false, annotated: false, may_return: false, said: vec![] };
    let named = args.namespace.clone().or_else(|| environment("AIRGATE_NAMESPACE"));
    let candidates = named.clone().map_or_else(usual, |name| vec![name]);
    for namespace in &candidates {
        let stored = site.namespace(namespace).await;
        let stored = stored.map_err(|why| anyhow::anyhow!("namespace/{namespace} cannot be read: {why}"))?;
        if stored.is_none() && named.is_some() {
            bail!("there is no namespace {namespace}: name the one in which airgate runs, or leave --namespace out");
        }
        if let Home::Unregistered(reason) = home(stored.as_ref()) {
            let removed = site.set_unregistered(namespace, None).await;
            removed.map_err(|why| anyhow::anyhow!("namespace/{namespace} cannot be annotated: {why}"))?;
            told.said.push(format!(
                "namespace/{namespace}: {UNREGISTERED} ({reason}) removed; airgate serve --register in it registers within seconds"
            ));
            told.namespace = Some(namespace.clone());
        }
    }
    if told.said.is_empty() {
        bail!(
            "{UNREGISTERED} is not set on {}; give --namespace where airgate runs in another one",
            candidates.join(" or ")
        );
    }
    Ok(told)
}

/// Where airgate is unless somebody decided otherwise.
fn usual() -> Vec<String> {
    [Flavor::Openshift, Flavor::Kubernetes].map(|flavor| flavor.namespace().to_owned()).to_vec()
}

fn cannot(what: &str, why: &Failure) -> anyhow::Error {
    anyhow::anyhow!(
        "validatingwebhookconfiguration/airgate: cannot {what} it, {why}. A cluster administrator can: oc delete validatingwebhookconfiguration airgate"
    )
}
