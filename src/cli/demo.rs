//! `airgate demo`: the server on a sample site, six typical steps sent to it over HTTPS.
//!
//! Invariant: nothing is shown but what came back over HTTPS; the files it judges by lie open to be edited.

mod site;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use super::output::{Colour, line, paint};
use crate::action::User;
use crate::config::ConfigFile;
use crate::serve::Server;
use crate::state::State;
use site::Site;
use steps::Step;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where the sample site is written; files that are there already are used as they are
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let site = Site::write(args.dir.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(show(&site))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(site: &Site) -> Result<()> {
    let loopback = Some("127.0.0.1:0".to_owned());
    let config = ConfigFile {
        state: Some(site.state()),
        releases: vec![site.releases()],
        self_signed: Some(site.certs()),
        listen: loopback.clone(),
        health_listen: loopback.clone(),
        admin_listen: loopback,
        ..ConfigFile::default()
    };
    let server = Server::bind(&config).await?;
    let url = format!("https://{}/validate?timeout=10s", server.addresses().webhook);
    // Nobody sends a signal: the server ends with the demo.
    let (_never, signals) = mpsc::channel(1);
    let serving = tokio::spawn(server.run(signals));

    line(&format!(
        "{} a cluster on 4.21.9 with 4.22.3 at hand, described in\n  {}\n",
        paint(Colour::Bold, "The sample site:"),
        site.dir.display()
    ));
    let client = client(site)?;
    let cluster = State::load(&site.state(), Timestamp::now());
    for step in steps::all() {
        let target = step.action.target()?;
        let review = step.action.review(cluster.object(&target.resource, None, &target.name), &User::default())?;
        print(&step, &ask(&client, &url, &review).await?);
        site.keep_review(&review)?;
    }
    serving.abort();
    line(&site.how_to_go_on());
    Ok(())
}

fn client(site: &Site) -> Result<reqwest::Client> {
    let ca = std::fs::read(site.certs().join("ca.crt")).context("the CA that signed the server's certificate")?;
    let builder = reqwest::Client::builder().tls_certs_only([reqwest::Certificate::from_pem(&ca)?]);
    Ok(builder.timeout(Duration::from_secs(10)).build()?)
}

async fn ask(client: &reqwest::Client, url: &str, review: &Value) -> Result<Value> {
    let request = client.post(url).header("content-type", "application/json").body(review.to_string());
    let answer = request.send().await.context("the server did not answer")?.text().await?;
    let answer: Value = serde_json::from_str(&answer).with_context(|| format!("the server answered {answer}"))?;
    Ok(answer["response"].clone())
}

/// As oc and kubectl print it.
fn print(step: &Step, response: &Value) {
    line(&format!(
        "{}\n{} {}",
        paint(Colour::Bold, &format!("# {}", step.title)),
        paint(Colour::Bold, "$"),
        step.command
    ));
    for warning in response["warnings"].as_array().into_iter().flatten() {
        line(&format!("{}: {}", paint(Colour::Yellow, "Warning"), warning.as_str().unwrap_or_default()));
    }
    if response["allowed"] == true {
        line(&paint(Colour::Green, &step.success));
    } else {
        let message = response["status"]["message"].as_str().unwrap_or_default();
        let text = format!("admission webhook \"{}\" denied the request: {message}", step.webhook);
        line(&format!("{} {text}", paint(Colour::Red, step.refusal)));
    }
    line("");
}
