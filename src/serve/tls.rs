//! Where the server's certificate comes from, and whose TLS profile it follows.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::certificates::{CertificateKeeper, Kept};
use crate::cluster::Fact;
use crate::config::ConfigFile;
use crate::facts::Facts;
use crate::http::tasks::Tasks;
use crate::metrics::Metrics;
use crate::objects::api_server::ApiServer;
use crate::tls::profile::{self, Followed};
use crate::tls::{LiveProfile, Source, self_signed};
use crate::watch;

/// How often the profile that the watch knows is compared with the one in use.
const PROFILE_POLL: Duration = Duration::from_secs(1);
/// Where a pod finds its own.
pub(super) const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Exactly one source; the keeper, where it is one, runs from here on.
pub(super) async fn source(
    config: &ConfigFile,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> Result<(Source, Option<Kept>)> {
    match (&config.tls_dir, &config.self_signed, config.keep_certificates) {
        (Some(dir), None, false) => Ok((Source::Directory(dir.clone()), None)),
        (None, Some(dir), false) => {
            self_signed::ensure(dir, &[])?;
            Ok((Source::Directory(dir.clone()), None))
        }
        (None, None, true) => {
            if config.state.is_some() {
                bail!("--keep-certificates keeps them in a cluster: it cannot go with --state");
            }
            let namespace = namespace(config, Path::new(NAMESPACE_FILE)).context("--keep-certificates")?;
            let client = watch::connect(config.kubeconfig.as_deref()).await?;
            let timing = config.certificate_timing.unwrap_or_default();
            let (keeper, kept) = CertificateKeeper::new(client, &namespace, timing, metrics);
            tasks.spawn("the certificate keeper", async move { match keeper.run().await {} });
            Ok((kept.source(), Some(kept)))
        }
        (None, None, false) => bail!(
            "no certificate: give --tls-dir DIR with tls.crt and tls.key, --self-signed DIR to have them made there, or --keep-certificates to have them kept in a Secret of the cluster; airgate never serves plain HTTP"
        ),
        _ => bail!("--tls-dir, --self-signed and --keep-certificates exclude each other: give one of them"),
    }
}

/// The namespace that this process runs in.
///
/// # Errors
/// Where nobody says it, or what is said is no name of one.
pub(super) fn namespace(config: &ConfigFile, file: &Path) -> Result<String> {
    let (namespace, from) = match &config.namespace {
        Some(namespace) => (namespace.clone(), "--namespace".to_owned()),
        None => {
            let text = std::fs::read_to_string(file).with_context(|| {
                format!(
                    "the namespace is not known, since this is no pod with a service account ({} cannot be read): give --namespace NAMESPACE",
                    file.display()
                )
            })?;
            (text.trim().to_owned(), file.display().to_string())
        }
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if namespace.is_empty() || namespace.len() > 63 || !namespace.chars().all(plain) {
        bail!("{from} says {namespace:?}, which is no name of a namespace: give --namespace NAMESPACE");
    }
    Ok(namespace)
}

/// Takes what the cluster asks of its components into use, for ever.
pub(super) async fn follow(facts: Facts, live: LiveProfile) -> Infallible {
    let mut known = false;
    loop {
        let fact = facts.watches().map(watch::Watches::api_server);
        if let Some(fact) = &fact
            && let Some(followed) = wanted(fact, known)
            && live.set(followed.clone())
        {
            let Followed { profile, parameters, not_honoured } = &followed;
            tracing::info!(%profile, min_version = ?parameters.min_version, "what is negotiated in TLS");
            for lacking in not_honoured {
                tracing::warn!(%profile, "of the TLS profile airgate does not have {lacking}");
            }
        }
        known |= fact.is_some_and(|fact| !matches!(*fact, Fact::Unknown(_)));
        tokio::time::sleep(PROFILE_POLL).await;
    }
}

/// `None`: as before. A profile that was followed is not given up because it cannot be read for a while.
fn wanted(fact: &Fact<ApiServer<'_>>, known: bool) -> Option<Followed> {
    match fact {
        Fact::Known(api_server, _) => Some(profile::follow(&api_server.spec)),
        Fact::Absent(_) => Some(Followed::defaults("airgate's own defaults: there is no APIServer cluster here")),
        Fact::Unknown(_) if known => None,
        Fact::Unknown(missing) => {
            Some(Followed::defaults(format!("airgate's own defaults: {}; {}", missing.why, missing.remedy)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Provenance;

    #[test]
    fn the_namespace_is_said_or_the_pods() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namespace");
        let asked = |name: Option<&str>| ConfigFile { namespace: name.map(str::to_owned), ..ConfigFile::default() };
        let none = namespace(&asked(None), &file).unwrap_err().to_string();
        assert!(none.contains("give --namespace NAMESPACE"), "{none}");
        std::fs::write(&file, "openshift-airgate\n").unwrap();
        assert_eq!(namespace(&asked(None), &file).unwrap(), "openshift-airgate");
        assert_eq!(namespace(&asked(Some("mine")), &file).unwrap(), "mine");
        for bad in ["", "../x", "a b", "A"] {
            let text = namespace(&asked(Some(bad)), &file).unwrap_err().to_string();
            assert!(text.contains("no name of a namespace"), "{bad:?}: {text}");
        }
    }

    #[tokio::test]
    async fn there_is_exactly_one_source() {
        let dir = tempfile::tempdir().unwrap();
        let at = || Some(dir.path().to_owned());
        let none = ConfigFile::default();
        for (config, part) in [
            (none.clone(), "or --keep-certificates to have them kept"),
            (ConfigFile { tls_dir: at(), self_signed: at(), ..none.clone() }, "exclude each other"),
            (ConfigFile { tls_dir: at(), keep_certificates: true, ..none.clone() }, "exclude each other"),
            (ConfigFile { state: at(), keep_certificates: true, ..none.clone() }, "cannot go with --state"),
            (ConfigFile { keep_certificates: true, ..none.clone() }, "--keep-certificates"),
        ] {
            let result = source(&config, &Metrics::new(), &mut Tasks::new()).await;
            let text = format!("{:#}", result.err().unwrap());
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_changes_nothing_that_is_known() {
        let provenance = Provenance { source: "watch".into(), as_of: jiff::Timestamp::UNIX_EPOCH, watched: true };
        let unread = Fact::unknown("denied", "grant it");
        let first = wanted(&unread, false).unwrap();
        assert!(first.profile.contains("denied; grant it"), "{first:?}");
        assert_eq!(wanted(&unread, true), None);
        assert!(wanted(&Fact::Absent(provenance.clone()), true).unwrap().profile.contains("no APIServer"));
        let api_server = crate::projection::from_text::<ApiServer<'_>>(
            r#"{"spec":{"tlsAdherence":"StrictAllComponents","tlsSecurityProfile":{"type":"Modern"}}}"#,
        );
        let followed = wanted(&Fact::Known(api_server.unwrap(), provenance), false).unwrap();
        assert_eq!(followed.profile, "Modern");
    }
}
