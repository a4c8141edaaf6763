//! Entry: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    airgate::cli::run()
}
