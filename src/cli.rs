//! The command line: verbs and the flags they share. Only this module and those below it print.

mod audit;
mod certs;
mod check;
mod completion;
mod demo;
mod manifests;
mod output;
mod override_step;
mod policies;
mod progress;
mod release;
mod request;
mod runbook;
mod serve;
mod snapshot;
mod source;
mod status;
mod test;
mod unregister;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The admission guard of air-gapped OpenShift clusters.
#[derive(Debug, Parser)]
#[command(name = "airgate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Answer the API server's reviews
    Serve(serve::ServeArgs),
    /// Judge a request, an object or a planned step without sending it anywhere
    Check(check::CheckArgs),
    /// Judge what a cluster has stored as if it were requested now
    Audit(audit::AuditArgs),
    /// Save what airgate reads of a cluster, and with a request all that its verdict rests on
    Snapshot(snapshot::SnapshotArgs),
    /// Where the cluster stands and where it can go: releases in use, bundles, upgrades, missing facts
    Status(status::StatusArgs),
    /// Show what an override would open, and set it: the way out in an emergency
    Override(override_step::OverrideArgs),
    /// Take the guard away from a cluster, and keep it away: the way out where nothing else helps
    Unregister(unregister::UnregisterArgs),
    /// Run policy cases
    Test(test::TestArgs),
    /// List the policies, or explain one
    Policies(policies::PoliciesArgs),
    /// What to do about an alert, or about a text that begins with the name of a webhook
    Runbook(runbook::RunbookArgs),
    /// Print what to apply so that the API server asks airgate
    Manifests(manifests::ManifestsArgs),
    /// Say what release images say about themselves, from layouts, archives, trees and catalogs
    Release(release::ReleaseArgs),
    /// Make a CA and a serving certificate
    Certs(certs::CertsArgs),
    /// Show the guard at work on a sample site; needs nothing but this binary
    Demo(demo::DemoArgs),
    /// Print shell completion, or write man pages
    Completion(completion::CompletionArgs),
}

/// Usage or bad input.
const EXIT_USAGE: u8 = 2;

/// Parses the command line, runs the verb and reports what went wrong.
pub fn run() -> ExitCode {
    let cli = Cli::parse(); // exits 2 on a usage error, 0 on --help
    let result = match cli.verb {
        Verb::Serve(args) => serve::run(&args),
        Verb::Completion(args) => completion::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Certs(args) => certs::run(&args),
        Verb::Check(args) => check::run(args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Snapshot(args) => snapshot::run(args),
        Verb::Status(args) => status::run(&args),
        Verb::Override(args) => override_step::run(args),
        Verb::Unregister(args) => unregister::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Policies(args) => policies::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Runbook(args) => runbook::run(&args),
        Verb::Manifests(args) => manifests::run(&args),
    };
    let result = result.and_then(|code| output::finish().map(|()| code).map_err(anyhow::Error::msg));
    result.unwrap_or_else(|error| {
        output::error(&one_line(&error));
        ExitCode::from(EXIT_USAGE)
    })
}

/// The error and its causes; a cause that the text already tells is not told again.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}
