//! Measurements of whole processes from outside: what the kernel's books say of them, and when they did what.

pub mod launch;
pub mod usage;

use std::path::Path;

/// Repeated measurements of one thing.
#[derive(Clone, Debug)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    /// Takes what was measured.
    ///
    /// # Panics
    /// When nothing was.
    pub fn new(mut values: Vec<f64>) -> Samples {
        assert!(!values.is_empty(), "a figure has a sample");
        values.sort_by(f64::total_cmp);
        Samples { sorted: values }
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2]
    }

    /// The least, which a busy machine disturbs last.
    pub fn least(&self) -> f64 {
        self.sorted[0]
    }
}

/// The machine, in one line.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).map_or("unknown CPU", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    format!("{model}, {cores} cores, Linux {}, load {load}", read("/proc/sys/kernel/osrelease").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_by_their_middle_and_their_least() {
        let samples = Samples::new(vec![3.0, 1.0, 9.0, 2.0, 8.0]);
        assert_eq!((samples.median(), samples.least()), (3.0, 1.0));
        assert!(machine().contains("Linux "));
    }
}
