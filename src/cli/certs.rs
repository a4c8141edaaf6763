//! `airgate certs`: a CA and a serving certificate, for development and for servers outside a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::output::line;
use crate::tls::self_signed::{Outcome, ensure};

#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Where ca.crt, tls.crt and tls.key are written, unless they are there already
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A DNS name or IP address beside 127.0.0.1, ::1 and localhost; may be given several times
    #[arg(long = "name", value_name = "DNS")]
    names: Vec<String>,
}

pub fn run(args: &CertsArgs) -> Result<ExitCode> {
    crate::tls::install_provider();
    let dir = args.dir.display();
    match ensure(&args.dir, &args.names)? {
        Outcome::Written(_) => line(&format!("wrote {dir}/ca.crt, {dir}/tls.crt and {dir}/tls.key")),
        Outcome::Kept(_) => {
            line(&format!("{dir} has a matching ca.crt, tls.crt and tls.key already: nothing was written"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
