//! `airgate manifests`: what to apply so that the API server asks airgate.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::output::line;
use crate::manifests::{Endpoint, Flavor, Options, render};
use crate::settings::ServerMode;

#[derive(Debug, Args)]
pub struct ManifestsArgs {
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
    /// audit: nothing is denied, and no webhook is a reason for a failing call
    #[arg(long, value_enum, default_value = "enforce")]
    mode: ModeArg,
    /// A server outside the cluster; /validate is appended where the URL has no path
    #[arg(long, value_name = "URL", requires = "ca_file")]
    url: Option<String>,
    /// PEM file with the CA that signed the server's certificate
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    Enforce,
    Audit,
}

pub fn run(args: &ManifestsArgs) -> Result<ExitCode> {
    let ca_bundle = args.ca_file.as_ref().map(|path| {
        let pem = std::fs::read(path).with_context(|| format!("--ca-file {}", path.display()))?;
        let begin = b"-----BEGIN CERTIFICATE-----";
        if !pem.windows(begin.len()).any(|window| window == begin) {
            bail!(
                "--ca-file {} holds no PEM certificate; airgate serve --self-signed DIR writes DIR/ca.crt",
                path.display()
            );
        }
        Ok(pem)
    });
    let options = Options {
        flavor: args.flavor,
        namespace: args.flavor.namespace().into(),
        mode: match args.mode {
            ModeArg::Enforce => ServerMode::Enforce,
            ModeArg::Audit => ServerMode::Audit,
        },
        endpoint: args.url.as_deref().map_or(Ok(Endpoint::Service), Endpoint::url)?,
        ca_bundle: ca_bundle.transpose()?,
    };
    line(render(&options)?.trim_end());
    Ok(ExitCode::SUCCESS)
}
