//! `airgate release`: what a release image says about itself, wherever a disconnected site keeps it.

mod access;
mod export;
mod info;
mod missing;
mod online;
mod resolve;
mod signature;

use std::cell::OnceCell;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use tokio::runtime::Runtime;

use self::access::AccessArgs;
use self::online::Online;
use super::output;
use super::source::SourceArgs;
use crate::catalog;
use crate::config::ConfigFile;
use crate::problem::Problem;
use crate::release::Catalog;

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(subcommand)]
    verb: ReleaseVerb,
}

#[derive(Debug, Subcommand)]
enum ReleaseVerb {
    /// Show version, digest, architecture, previous versions and components of releases
    #[command(visible_alias = "inspect")]
    Info(ReadArgs),
    /// Print releases as a catalog file, which a --releases directory takes
    Export(ReadArgs),
    /// Ask the registries for every image of a release and name those that are not there
    #[command(after_help = missing::EXIT_STATUS)]
    Missing(missing::MissingArgs),
}

#[derive(Debug, Args)]
struct ReadArgs {
    #[command(flatten)]
    refs: RefArgs,
    /// text is a table; for export it is yaml
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
struct RefArgs {
    /// A path (OCI layout, archive, mirrored tree, catalog file), oci:DIR, oci-archive:FILE, else a pullspec by
    /// digest, which is looked up in the --releases directories and then in the registry that it names, or in the
    /// mirrors of the cluster that --state or --kubeconfig names
    #[arg(required = true, value_name = "REF")]
    refs: Vec<String>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
    Yaml,
}

/// Something could not be read; what could be is printed all the same.
const EXIT_UNREAD: u8 = 1;

pub fn run(args: &ReleaseArgs) -> Result<ExitCode> {
    match &args.verb {
        ReleaseVerb::Info(args) => read(args, |site, read| {
            let signed = signature::Signed::read(site, &read, Timestamp::now())?;
            info::print(read, &signed, args.output)
        }),
        ReleaseVerb::Export(args) => read(args, |_, read| export::print(read, args.output)),
        ReleaseVerb::Missing(args) => missing::run(args),
    }
}

type Read<'a> = Vec<(&'a str, catalog::Outcome)>;

fn read(args: &ReadArgs, print: impl FnOnce(&Site<'_>, Read<'_>) -> Result<Vec<Problem>>) -> Result<ExitCode> {
    let site = args.refs.site()?;
    let read = resolve::all(&site, &args.refs.refs, Timestamp::now())?;
    let read = read.into_iter().map(|resolved| (resolved.reference, resolved.outcome)).collect();
    let problems = print(&site, read)?;
    for problem in &problems {
        output::error(&problem.to_string());
    }
    Ok(ExitCode::from(if problems.is_empty() { 0 } else { EXIT_UNREAD }))
}

/// What references are looked up in; each part is made ready when the first one needs it.
struct Site<'a> {
    config: ConfigFile,
    access: &'a AccessArgs,
    runtime: Runtime,
    catalog: OnceCell<(Catalog, Vec<Problem>)>,
    online: OnceCell<Online>,
}

impl RefArgs {
    fn site(&self) -> Result<Site<'_>> {
        Ok(Site {
            config: self.sources.merged_config()?,
            access: &self.access,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            catalog: OnceCell::new(),
            online: OnceCell::new(),
        })
    }
}

impl Site<'_> {
    fn catalog(&self) -> &(Catalog, Vec<Problem>) {
        self.catalog.get_or_init(|| catalog::load(&self.config.releases, Timestamp::now()))
    }

    fn online(&self) -> Result<&Online> {
        if let Some(online) = self.online.get() {
            return Ok(online);
        }
        let online = Online::new(self.access, &self.config, &self.runtime)?;
        Ok(self.online.get_or_init(|| online))
    }
}
