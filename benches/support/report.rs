//! What stands above each report, and how many runs become one number.

use std::fs;

use anyhow::Result;

/// When, on what kind of machine, and how busy it was.
pub fn machine() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let model = fs::read_to_string("/proc/cpuinfo")?
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned());
    let busy = fs::read_to_string("/proc/loadavg")?;
    let busy = busy.split(' ').next().unwrap_or_default();
    let date = jiff::Timestamp::now().strftime("%F").to_string();
    Ok(format!("{date}, {cores} cores ({model}), load average before the run {busy}."))
}

/// The upper one of an even number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
