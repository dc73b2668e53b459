//! What all measurements share: a workdir, the binary, an upstream for each run, and the runs.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use gantry_bench::measure::Samples;
use gantry_bench::measure::launch::{Ran, run};
use gantry_bench::measure::usage::monotonic_ns;
use gantry_bench::script::read_loop;
use gantry_bench::upstream::{Certificate, Upstream, Wire};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Outcome;

/// Runs of a figure that is a moment of one run.
const STARTS: usize = 201;
/// Runs of a figure that is the difference of two runs.
const PAIRS: usize = 21;
/// The flags that every run has, beside its workdir and its prompt.
const FLAGS: [&str; 10] =
    ["--mode", "single", "--model", "anthropic/scripted", "--max-tokens", "100000000", "--timeout-ms", "60000", "--max-turns", "1000"];

/// The binary, and where it works.
pub(crate) struct Bed {
    gantry: PathBuf,
    launcher: PathBuf,
    dir: PathBuf,
    certificate: Arc<Certificate>,
}

/// What some turns of a run cost.
pub(crate) struct TurnCost {
    pub(crate) gantry_us: Figure,
    pub(crate) bare_us: Figure,
    pub(crate) peak_mib: Samples,
}

/// A figure of many runs.
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// From the runs that were disturbed least.
    pub(crate) least: f64,
}

impl Figure {
    pub(crate) fn of(samples: &Samples) -> Figure {
        Figure { median: samples.median(), least: samples.least() }
    }

    /// Combines two figures, each part with its own.
    pub(crate) fn with(&self, other: &Figure, combine: fn(f64, f64) -> f64) -> Figure {
        Figure { median: combine(self.median, other.median), least: combine(self.least, other.least) }
    }
}

impl Bed {
    pub(crate) fn new(gantry: &Path) -> Outcome<Bed> {
        let gantry = gantry.canonicalize().map_err(|e| format!("{}: {e}", gantry.display()))?;
        let dir = std::env::temp_dir().join(format!("gantry-measure-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("work"))?;
        let bed = Bed { gantry, launcher: std::env::current_exe()?, dir, certificate: Arc::new(Certificate::new()) };
        // 64 lines of 64 bytes.
        std::fs::write(bed.dir.join("work/file.txt"), "A line of sixty-three characters, as source files have them...\n".repeat(64))?;
        std::fs::write(bed.dir.join("prompt.md"), "Read file.txt again and again.")?;
        bed.certificate.write_pem(bed.dir.join("ca.pem"));
        Ok(bed)
    }

    /// What was measured: the binary's own words, its size, and its driver.
    pub(crate) fn versions(&self) -> Outcome<String> {
        let version = Command::new(&self.gantry).arg("version").output()?;
        let version = String::from_utf8(version.stdout)?;
        let upstream = Upstream::start(read_loop(Wire::Anthropic, 1, "file.txt"));
        let start: serde_json::Value = serde_json::from_str(&self.run(&upstream, &[])?.first_line)?;
        let bytes = self.gantry.metadata()?.len();
        let version = version.lines().next().unwrap_or_default();
        Ok(format!("{version}, {:.2} MB, driver {}", bytes as f64 / 1e6, start["driver"].as_str().unwrap_or("unknown")))
    }

    /// Milliseconds from exec to the arrival of the first request's first byte.
    pub(crate) fn first_byte(&self, tls: bool, flags: &[&str]) -> Outcome<Samples> {
        let script = read_loop(Wire::Anthropic, 1, "file.txt");
        let script = if tls { script.tls(self.certificate.clone()) } else { script };
        let samples = (0..STARTS).map(|_| {
            let upstream = Upstream::start(script.clone());
            let zero = (Instant::now(), monotonic_ns());
            let ran = self.run(&upstream, flags)?;
            let first = upstream.received(0).ok_or("no request arrived")?;
            let arrived_ns = zero.1 + u64::try_from(first.at.duration_since(zero.0).as_nanos())?;
            Ok(arrived_ns.saturating_sub(ran.exec_ns) as f64 / 1e6)
        });
        Ok(Samples::new(samples.collect::<Outcome<_>>()?))
    }

    /// The cost of a turn between two: what a run of `to` turns costs more than one of `from`, by the turns between.
    pub(crate) fn cost_of_turns(&self, from: usize, to: usize) -> Outcome<TurnCost> {
        let (mut shorts, mut longs, mut pairs, mut bare, mut peaks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let lean = |turns: usize| Upstream::start(read_loop(Wire::Anthropic, turns, "file.txt").without_bodies());
        let between = (to - from) as f64;
        // Every run of these turns sends the same bytes, so one of them stands for all.
        let ledger = self.ledger(to)?;
        for _ in 0..PAIRS {
            let (less, more) = (self.run(&lean(from), &[])?, self.run(&lean(to), &[])?);
            shorts.push(less.cpu_us);
            longs.push(more.cpu_us);
            pairs.push((more.cpu_us - less.cpu_us) / between);
            peaks.push(more.rss_max_kib as f64 / 1024.0);
            bare.push(bare_loop(&lean(to), &ledger, from)?);
        }
        let least = (Samples::new(longs).least() - Samples::new(shorts).least()) / between;
        let gantry_us = Figure { median: Samples::new(pairs).median(), least };
        Ok(TurnCost { gantry_us, bare_us: Figure::of(&Samples::new(bare)), peak_mib: Samples::new(peaks) })
    }

    /// The ledger of a run of so many turns, as a file.
    fn ledger(&self, turns: usize) -> Outcome<PathBuf> {
        let path = self.dir.join("ledger");
        let script = read_loop(Wire::Anthropic, turns, "file.txt").write_ledger(File::create(&path)?);
        self.run(&Upstream::start(script.without_bodies()), &[])?;
        Ok(path)
    }

    /// The system prompt and the tools of the first request, as they are written.
    pub(crate) fn first_request_bytes(&self) -> Outcome<usize> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            system: &'a RawValue,
            #[serde(borrow)]
            tools: &'a RawValue,
        }
        let upstream = Upstream::start(read_loop(Wire::Anthropic, 1, "file.txt"));
        self.run(&upstream, &[])?;
        let request = upstream.received(0).ok_or("no request arrived")?;
        let parts: Parts<'_> = serde_json::from_slice(&request.body)?;
        Ok(parts.system.get().len() + parts.tools.get().len())
    }

    fn run(&self, upstream: &Upstream, flags: &[&str]) -> Outcome<Ran> {
        let mut words = vec![self.gantry.clone().into_os_string()];
        words.extend(FLAGS.iter().chain(flags).map(OsString::from));
        words.extend(["--workdir".into(), self.dir.join("work").into(), "--prompt-file".into(), self.dir.join("prompt.md").into()]);
        // The address and no name, so that nothing is resolved.
        let base = upstream.base_url().replace("localhost", "127.0.0.1");
        let mut variables = vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("ANTHROPIC_API_BASE".into(), base.into()),
            ("ANTHROPIC_API_KEY".into(), "placeholder".into()),
            ("SSL_CERT_FILE".into(), self.dir.join("ca.pem").into()),
        ];
        variables.extend(std::env::var_os("GANTRY_DRIVER").map(|driver| ("GANTRY_DRIVER".into(), driver)));
        let ran = run(&self.launcher, &words, &variables)?;
        if ran.code != Some(0) || !ran.last_line.contains("\"exit\":\"ok\"") {
            return Err(format!("the run did not end well: {ran:?}").into());
        }
        Ok(ran)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// What the same requests cost a bare loop, a turn, without the first ones.
fn bare_loop(upstream: &Upstream, ledger: &Path, from: usize) -> Outcome<f64> {
    let program = std::env::current_exe()?.with_file_name("bare_loop");
    let mut command = Command::new(&program);
    command.arg(upstream.base_url()).arg(ledger).arg("--from").arg(from.to_string());
    let output = command.output().map_err(|e| format!("{}: {e}; cargo build --release -p gantry-bench", program.display()))?;
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(told["cpu_us_per_turn"].as_f64().ok_or("the bare loop tells its cost")?)
}
