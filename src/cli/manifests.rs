//! `airgate manifests`: what to apply so that airgate runs and the API server asks it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::output::{line, note};
use crate::manifests::{
    Certificates, Document, Endpoint, Flavor, IMAGE, Options, documents, files, olm, render, rights_alone, tree, write,
};
use crate::pullspec::Digest;
use crate::settings::ServerMode;

#[derive(Debug, Args)]
pub struct ManifestsArgs {
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
    /// audit: nothing is denied, and no webhook is a reason for a failing call
    #[arg(long, value_enum, default_value = "enforce")]
    mode: ModeArg,
    /// Print what the Prometheus operator reads, and a dashboard, for a Kubernetes cluster that has that operator;
    /// OpenShift always does
    #[arg(long, conflicts_with = "url")]
    monitoring: bool,
    /// A server outside the cluster; /validate is appended where the URL has no path
    #[arg(long, value_name = "URL", requires = "ca_file")]
    url: Option<String>,
    /// PEM file with the CA that signed the server's certificate
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// airgate's image, best by digest
    #[arg(long, value_name = "PULLSPEC", default_value = IMAGE, hide_default_value = true, conflicts_with = "url")]
    image: String,
    /// The image of the operator bundle, which the catalog names (--flavor olm)
    #[arg(long, value_name = "PULLSPEC")]
    bundle_image: Option<String>,
    /// Who makes the serving certificate [default: service-ca on OpenShift, else keeper]
    #[arg(long, value_enum, conflicts_with = "url")]
    certificates: Option<Certificates>,
    /// One replica, for a control plane of one node
    #[arg(long, conflicts_with = "url")]
    single_node: bool,
    /// Only a part: rights are all that a server beside the cluster needs
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Who gets the rights, in place of airgate's service account (oc whoami names a kubeconfig's)
    #[arg(long, value_name = "USER", requires = "only")]
    user: Option<String>,
    /// Write files into DIR, one a concern, with a kustomization.yaml, instead of printing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write a base and overlays (audit, single-node, ...) into DIR, for kustomize
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "only", "url"])]
    tree: Option<PathBuf>,
    /// For airgate serve --register: the rights that it needs, and no webhook configuration
    #[arg(long, conflicts_with = "url")]
    register: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    Enforce,
    Audit,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    Rights,
}

/// What a mirror puts a real pullspec in place of.
const BUNDLE_IMAGE: &str = concat!("airgate-bundle:", env!("CARGO_PKG_VERSION"));

pub fn run(args: &ManifestsArgs) -> Result<ExitCode> {
    let options = args.options()?;
    if options.flavor == Flavor::Olm {
        let Some(directory) = &args.dir else { bail!("--flavor olm is files, a bundle and a catalog: give --dir DIR") };
        if args.only.is_some() || options.endpoint != Endpoint::Service || options.ca_bundle.is_some() {
            bail!("--flavor olm is a whole operator: leave --only, --url and --ca-file out");
        }
        write(directory, &olm(&options, args.bundle_image.as_deref().unwrap_or(BUNDLE_IMAGE))?)?;
        if options.image == IMAGE || args.bundle_image.is_none() {
            note("note: airgate's image or the bundle's is a placeholder; give both by --image and --bundle-image");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.bundle_image.is_some() {
        bail!("--bundle-image is what a catalog of operators names: give --flavor olm, or leave it out");
    }
    if let Some(directory) = &args.tree {
        if options.flavor == Flavor::Payload {
            bail!("--tree is for kustomize, which has no part in a release payload: give --dir");
        }
        write(directory, &tree(&options)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let documents = match args.only {
        None => documents(&options)?,
        Some(Part::Rights) => rights_alone(&options)?,
    };
    match &args.dir {
        Some(directory) => write(directory, &files(&options, &documents)?)?,
        None => print(&options, &documents)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(options: &Options, documents: &[Document]) -> Result<()> {
    line(render(documents)?.trim_end());
    if options.mode == ServerMode::Audit && options.endpoint != Endpoint::Service {
        line("---\n# The server needs the key `mode: audit` in its config file (airgate serve --config FILE).");
    }
    let deployed = documents.iter().any(|document| document.object["kind"] == "Deployment");
    if deployed && options.image == IMAGE && options.flavor != Flavor::Payload {
        note("note: the image is a placeholder; give the mirrored one by --image PULLSPEC, or by images: of kustomize");
    } else if deployed && options.image != IMAGE && !options.image.contains('@') {
        note("note: the image is named by a tag, which can be moved to another one: name it by digest");
    }
    Ok(())
}

impl ManifestsArgs {
    fn options(&self) -> Result<Options> {
        let base = Options::of(self.flavor);
        let certificates = self.certificates.unwrap_or(base.certificates);
        match (self.flavor, certificates) {
            (Flavor::Kubernetes, Certificates::ServiceCa) => {
                bail!("--certificates service-ca is OpenShift's: with --flavor kubernetes it is keeper or cert-manager")
            }
            (Flavor::Olm, Certificates::CertManager | Certificates::Keeper) => {
                bail!("--certificates {certificates}: in an operator bundle it is service-ca, which every cluster has")
            }
            (Flavor::Payload, Certificates::CertManager | Certificates::Keeper) => {
                bail!("--certificates {certificates}: in a release payload it is service-ca, which every cluster has")
            }
            _ => {}
        }
        if self.ca_file.is_some() && self.url.is_none() && certificates == Certificates::Keeper {
            bail!("--ca-file: with --certificates keeper airgate makes its CA and hands it to the webhooks itself");
        }
        if self.flavor == Flavor::Payload && self.single_node {
            bail!(
                "--single-node: a release payload is the same on every cluster; its two replicas share a single node"
            );
        }
        if self.flavor == Flavor::Olm && (self.single_node || matches!(self.mode, ModeArg::Audit)) {
            bail!(
                "--flavor olm is the same for every cluster, a single node too; the mode is a key of the config file that the Subscription names: mode: audit"
            );
        }
        if self.image.is_empty() || self.image.contains(char::is_whitespace) {
            bail!("--image {:?} is no pullspec: it must look like HOST/PATH@sha256:DIGEST", self.image);
        }
        if let Some((_, digest)) = self.image.split_once('@')
            && Digest::parse(digest).is_none()
        {
            bail!("--image {:?}: {digest:?} is no digest, which is sha256: and 64 hex digits", self.image);
        }
        Ok(Options {
            mode: match self.mode {
                ModeArg::Enforce => ServerMode::Enforce,
                ModeArg::Audit => ServerMode::Audit,
            },
            monitoring: base.monitoring || self.monitoring,
            endpoint: self.url.as_deref().map_or(Ok(Endpoint::Service), Endpoint::url)?,
            ca_bundle: self.ca_bundle()?,
            image: self.image.clone(),
            certificates,
            single_node: self.single_node,
            user: self.user.clone(),
            register: self.register,
            ..base
        })
    }

    fn ca_bundle(&self) -> Result<Option<Vec<u8>>> {
        let Some(path) = &self.ca_file else { return Ok(None) };
        let pem = std::fs::read(path).with_context(|| format!("--ca-file {}", path.display()))?;
        let begin = b"-----BEGIN CERTIFICATE-----";
        if !pem.windows(begin.len()).any(|window| window == begin) {
            bail!(
                "--ca-file {} holds no PEM certificate; airgate serve --self-signed DIR writes DIR/ca.crt",
                path.display()
            );
        }
        Ok(Some(pem))
    }
}
