//! `airgate serve`: the webhook.

use std::io::IsTerminal;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::output::note;
use super::source::{SourceArgs, environment, path_from_environment};
use crate::certificates::Timing;
use crate::config::ConfigFile;
use crate::manifests::Flavor;
use crate::serve::Server;
use crate::shutdown;

/// A core answers thousands of reviews a second; on a node with a hundred cores more threads would only hold memory.
const WORKERS_MAX: usize = 4;

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Directory that keeps releases read from registries over a restart; without it memory alone does [env: AIRGATE_CACHE_DIR]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Where reviews are answered, over HTTPS [default: [::]:8443] [env: AIRGATE_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// /livez, /readyz and /metrics, over HTTP [default: [::]:8081] [env: AIRGATE_HEALTH_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    health_listen: Option<String>,
    /// /statusz and the status page, over HTTP [default: 127.0.0.1:8080] [env: AIRGATE_ADMIN_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Directory with tls.crt and tls.key; changes are picked up without a restart [env: AIRGATE_TLS_DIR]
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// The same, made for 127.0.0.1, ::1 and localhost where they are missing, with ca.crt beside them [env: AIRGATE_SELF_SIGNED]
    #[arg(long, value_name = "DIR")]
    self_signed: Option<PathBuf>,
    /// Answer only clients with a certificate of these CAs [env: AIRGATE_CLIENT_CA]
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// The namespace that it runs in [default: the pod's] [env: AIRGATE_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Keep the webhook configuration airgate registered, once ready [env: AIRGATE_REGISTER=true]
    #[arg(long)]
    register: bool,
    /// The same by this URL instead of the Service airgate, for a server beside the cluster [env: AIRGATE_REGISTER_URL]
    #[arg(long, value_name = "URL")]
    register_url: Option<String>,
    /// Who injects the CA bundle: openshift's service CA or, with kubernetes, cert-manager [default: openshift] [env: AIRGATE_FLAVOR]
    #[arg(long, value_enum)]
    flavor: Option<Flavor>,
    /// Make and renew the serving certificate and its CA, in the Secret airgate-tls [env: AIRGATE_KEEP_CERTIFICATES=true]
    #[arg(long)]
    keep_certificates: bool,
    #[arg(long, hide = true)]
    certificate_timing: Option<Timing>,
}

impl ServeArgs {
    fn config(&self) -> Result<ConfigFile> {
        let mut config = self.source.merged_config()?;
        let fill = |flag: &Option<String>, variable: &str, key: &mut Option<String>| {
            *key = flag.clone().or_else(|| environment(variable)).or(key.take());
        };
        fill(&self.listen, "AIRGATE_LISTEN", &mut config.listen);
        fill(&self.health_listen, "AIRGATE_HEALTH_LISTEN", &mut config.health_listen);
        fill(&self.admin_listen, "AIRGATE_ADMIN_LISTEN", &mut config.admin_listen);
        self.certificate(&mut config)?;
        config.cache_dir =
            self.cache_dir.clone().or_else(|| path_from_environment("AIRGATE_CACHE_DIR")).or(config.cache_dir);
        config.client_ca =
            self.client_ca.clone().or_else(|| path_from_environment("AIRGATE_CLIENT_CA")).or(config.client_ca);
        fill(&self.namespace, "AIRGATE_NAMESPACE", &mut config.namespace);
        fill(&self.register_url, "AIRGATE_REGISTER_URL", &mut config.register_url);
        config.flavor = match (self.flavor, environment("AIRGATE_FLAVOR")) {
            (Some(flavor), _) => flavor,
            (None, Some(text)) => Flavor::from_str(&text, false)
                .map_err(|_| anyhow!("AIRGATE_FLAVOR={text}: it must be openshift or kubernetes"))?,
            (None, None) => config.flavor,
        };
        if !matches!(config.flavor, Flavor::Openshift | Flavor::Kubernetes) {
            bail!("--flavor {}: a server runs on openshift or on kubernetes", config.flavor);
        }
        config.register = self.register || switch("AIRGATE_REGISTER")?.unwrap_or(config.register);
        config.certificate_timing = self.certificate_timing;
        Ok(config)
    }

    /// Where the certificate comes from: the first level that says it decides, and says it once.
    fn certificate(&self, config: &mut ConfigFile) -> Result<()> {
        let kept = switch("AIRGATE_KEEP_CERTIFICATES")?;
        let flags = (self.tls_dir.clone(), self.self_signed.clone(), self.keep_certificates);
        let variables = (
            path_from_environment("AIRGATE_TLS_DIR"),
            path_from_environment("AIRGATE_SELF_SIGNED"),
            kept == Some(true),
        );
        let by_file = config.keep_certificates && kept != Some(false);
        let file = (config.tls_dir.take(), config.self_signed.take(), by_file);
        let levels = [
            ("--tls-dir, --self-signed and --keep-certificates", flags),
            ("AIRGATE_TLS_DIR, AIRGATE_SELF_SIGNED and AIRGATE_KEEP_CERTIFICATES", variables),
            ("the keys tlsDir, selfSigned and keepCertificates in the config file", file),
        ];
        for (which, (tls_dir, self_signed, keep)) in levels {
            match usize::from(tls_dir.is_some()) + usize::from(self_signed.is_some()) + usize::from(keep) {
                0 => {}
                1 => {
                    (config.tls_dir, config.self_signed, config.keep_certificates) = (tls_dir, self_signed, keep);
                    return Ok(());
                }
                _ => bail!("{which} exclude each other: give one of them"),
            }
        }
        config.keep_certificates = false;
        Ok(())
    }
}

fn switch(variable: &str) -> Result<Option<bool>> {
    let parse = |text: String| match text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => bail!("{variable}={text}: it must be true or false"),
    };
    environment(variable).map(parse).transpose()
}

pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    log_to_stderr();
    let config = args.config()?;
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let served = runtime.block_on(async {
        let signals = shutdown::signals()?;
        let server = match Server::bind(&config).await {
            Ok(server) => server,
            Err(error) => return Ok(Err(error)),
        };
        server.run(signals).await.map(Ok)
    });
    match served {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        // What cannot start is usage, exit 2; what fails later is not.
        Ok(Err(not_started)) => Err(not_started),
        Err(failed) => {
            note(&format!("error: {}", super::one_line(&failed)));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `AIRGATE_LOG` filters as tracing does (`info`, `airgate=debug`); JSON where no person is watching.
pub fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("AIRGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    // A line that cannot be written (a full disk) is lost. To say so on the same full disk would be a panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().flatten_event(true).init();
    }
}
