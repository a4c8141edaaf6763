//! Embeds the policy cases, so that `airgate test` and `airgate policies explain` need nothing but the binary.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("policies");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for policy in sorted(&root)? {
        let cases = policy.join("cases");
        if !cases.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", cases.display());
        for file in sorted(&cases)?.into_iter().filter(|file| file.extension().is_some_and(|e| e == "yaml")) {
            let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let entry = (name(&policy), name(&file), file.display().to_string());
            // Writing to a String cannot fail.
            let _ = writeln!(list, "    ({:?}, {:?}, include_str!({:?})),", entry.0, entry.1, entry.2);
        }
    }
    list.push(']');
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("cases.rs"), list)
}

fn sorted(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}
