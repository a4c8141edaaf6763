//! `airgate serve`: the webhook.

use std::io::IsTerminal;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tracing_subscriber::EnvFilter;

use super::output::note;
use super::source::SourceArgs;
use crate::config::ConfigFile;
use crate::serve::Server;
use crate::shutdown;

/// A core answers thousands of reviews a second; on a node with a hundred cores more threads would only hold memory.
const WORKERS_MAX: usize = 4;

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Where reviews are answered, over HTTPS [default: [::]:8443]
    #[arg(long, env = "AIRGATE_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// /livez, /readyz and /metrics, over HTTP [default: [::]:8081]
    #[arg(long, env = "AIRGATE_HEALTH_LISTEN", value_name = "ADDRESS")]
    health_listen: Option<String>,
    /// /statusz and the status page, over HTTP [default: 127.0.0.1:8080]
    #[arg(long, env = "AIRGATE_ADMIN_LISTEN", value_name = "ADDRESS")]
    admin_listen: Option<String>,
    /// Directory with tls.crt and tls.key; changes are picked up without a restart
    #[arg(long, env = "AIRGATE_TLS_DIR", value_name = "DIR", conflicts_with = "self_signed")]
    tls_dir: Option<PathBuf>,
    /// The same, made for 127.0.0.1, ::1 and localhost where they are missing, with ca.crt beside them
    #[arg(long, env = "AIRGATE_SELF_SIGNED", value_name = "DIR")]
    self_signed: Option<PathBuf>,
    /// Answer only clients with a certificate of these CAs
    #[arg(long, env = "AIRGATE_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

impl ServeArgs {
    fn config(&self) -> Result<ConfigFile> {
        let mut config = self.source.merged_config()?;
        let fill = |flag: &Option<String>, key: &mut Option<String>| {
            if flag.is_some() {
                key.clone_from(flag);
            }
        };
        fill(&self.listen, &mut config.listen);
        fill(&self.health_listen, &mut config.health_listen);
        fill(&self.admin_listen, &mut config.admin_listen);
        // The two exclude each other: a flag for one silences the file's other.
        if self.tls_dir.is_some() || self.self_signed.is_some() {
            config.tls_dir.clone_from(&self.tls_dir);
            config.self_signed.clone_from(&self.self_signed);
        }
        if self.client_ca.is_some() {
            config.client_ca.clone_from(&self.client_ca);
        }
        Ok(config)
    }
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
            note(&format!("error: {failed:#}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `AIRGATE_LOG` filters as tracing does (`info`, `airgate=debug`); JSON where no person is watching.
pub fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("AIRGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().flatten_event(true).init();
    }
}
