//! Measures a `gantry` binary against the scripted upstream and prints a table: `measure GANTRY [--check]`.
//!
//! With `--check` it fails when a figure that does not depend on the machine's load is beyond twice its bar: bytes, memory, and
//! ratios to something that was measured in the same minute. Wall clocks and microseconds are for reading.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gantry_bench::measure::{machine, median, run};
use gantry_bench::script::read_loop;
use gantry_bench::upstream::{Certificate, Upstream, Wire};

/// Runs of one figure.
const STARTS: usize = 201;
const RUNS: usize = 21;
/// Model calls of the run whose cost is measured.
const TURNS: usize = 50;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Turns before the ones whose cost is compared, and how many of those: enough of them to fill whole chunks of the transcript.
const SHORT_TURNS: usize = 10;
const LONG_TURNS: usize = 400;
const WINDOW_TURNS: usize = 50;

/// One line of the table.
struct Row {
    what: &'static str,
    figure: f64,
    unit: &'static str,
    /// The most that it should be; a yardstick has none.
    bar: Option<f64>,
}

/// Units of figures that a loaded machine leaves as they are.
const STEADY_UNITS: [&str; 3] = ["×", "MiB", "bytes"];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(gantry) = args.next() else {
        eprintln!("usage: measure GANTRY [--check]");
        return ExitCode::from(2);
    };
    let check = args.next().as_deref() == Some("--check");
    match Bed::new(PathBuf::from(gantry)).and_then(|bed| rows(&bed)) {
        Err(error) => {
            eprintln!("measure: {error}");
            ExitCode::FAILURE
        }
        Ok(rows) => {
            println!("{}\n\n| what | figure | bar | figure / bar |\n|---|---|---|---|", machine());
            for Row { what, figure, unit, bar } in &rows {
                let (bar, ratio) =
                    bar.map_or(("–".into(), "–".into()), |bar| (format!("≤ {bar} {unit}"), format!("{:.2}", figure / bar)));
                println!("| {what} | {figure:.2} {unit} | {bar} | {ratio} |");
            }
            let gross = |row: &&Row| STEADY_UNITS.contains(&row.unit) && row.bar.is_some_and(|bar| row.figure > 2.0 * bar);
            let gross: Vec<&str> = rows.iter().filter(gross).map(|row| row.what).collect();
            if check && !gross.is_empty() {
                eprintln!("measure: beyond twice the bar: {gross:?}");
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
    }
}

fn rows(bed: &Bed) -> Outcome<Vec<Row>> {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let mut rows = Vec::new();
    let mut add = |what, figure, unit, bar: Option<f64>| rows.push(Row { what, figure, unit, bar });
    add("yardstick: /bin/true from its start to its end, p50", ms(spawn_of_nothing()?), "ms", None);
    add("exec to first request byte, http, p50", ms(bed.first_byte(false, &["--tool", "read_file"])?), "ms", Some(1.0));
    add("exec to first request byte, TLS, p50", ms(bed.first_byte(true, &["--tool", "read_file"])?), "ms", Some(1.2));
    add("exec to first request byte, http, with the shell tool, p50", ms(bed.first_byte(false, &[])?), "ms", Some(2.5));
    let turn = bed.cpu_per_turn(&["--tool", "read_file"])?;
    add("yardstick: CPU per request of a bare loop that sends the same bytes", turn.bare_us, "µs", None);
    add("user+sys CPU of a tool turn", turn.gantry_us, "µs", Some(130.0));
    add("user+sys CPU of a tool turn over the bare loop", turn.gantry_us / turn.bare_us, "×", Some(3.0));
    add("peak RSS of a 50-turn run", turn.peak_kib as f64 / 1024.0, "MiB", Some(9.0));
    add("system prompt and tools of the first request, Anthropic", bed.first_request_bytes()? as f64, "bytes", Some(5_000.0));
    if let Some(short) = bed.instructions_per_turn(SHORT_TURNS)? {
        let long = bed.instructions_per_turn(LONG_TURNS)?.ok_or("valgrind went away")?;
        add("user instructions of a turn after 10, replayed, in thousands", short / 1e3, "k", None);
        add("user instructions of a turn after 400 over one after 10, replayed", long / short, "×", Some(1.1));
    }
    Ok(rows)
}

/// The least that starting a process costs here and now.
fn spawn_of_nothing() -> Outcome<Duration> {
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let started = Instant::now();
        Command::new("/bin/true").status()?;
        times.push(started.elapsed());
    }
    Ok(median(&mut times).unwrap_or_default())
}

/// What all measurements share.
struct Bed {
    gantry: PathBuf,
    dir: PathBuf,
}

struct TurnCost {
    gantry_us: f64,
    bare_us: f64,
    peak_kib: u64,
}

impl Bed {
    fn new(gantry: PathBuf) -> Outcome<Bed> {
        let home = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let dir = home.join(format!("gantry-measure-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("work"))?;
        std::fs::write(dir.join("work/file.txt"), "A line of sixty-three characters, as source files have them...\n".repeat(64))?;
        std::fs::write(dir.join("prompt.md"), "Read file.txt again and again.")?;
        Ok(Bed { gantry: gantry.canonicalize()?, dir })
    }

    fn command(&self, base: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.gantry);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("ANTHROPIC_API_BASE", base).env("ANTHROPIC_API_KEY", "placeholder");
        command.args([
            "--mode",
            "single",
            "--model",
            "anthropic/scripted",
            "--max-tokens",
            "100000000",
            "--timeout-ms",
            "60000",
            "--max-turns",
            "1000",
        ]);
        command.arg("--workdir").arg(self.dir.join("work")).arg("--prompt-file").arg(self.dir.join("prompt.md")).args(flags);
        command
    }

    /// From just before the process is made to the arrival of its first request's first byte.
    fn first_byte(&self, tls: bool, flags: &[&str]) -> Outcome<Duration> {
        let mut script = read_loop(Wire::Anthropic, 1, "file.txt");
        let pem = self.dir.join("ca.pem");
        if tls {
            let certificate = Arc::new(Certificate::new());
            certificate.write_pem(pem.clone());
            script = script.tls(certificate);
        }
        let upstream = Upstream::start(script);
        let mut times = Vec::with_capacity(STARTS);
        for _ in 0..STARTS {
            let mut command = self.command(&upstream.base_url(), flags);
            if tls {
                command.env("SSL_CERT_FILE", &pem);
            }
            let started = Instant::now();
            run(&mut command)?;
            let received = upstream.ledger().pop().ok_or("no request arrived")?;
            times.push(received.at.saturating_duration_since(started));
        }
        Ok(median(&mut times).unwrap_or_default())
    }

    /// The cost of one turn: what a run of many costs more than a run of one.
    fn cpu_per_turn(&self, flags: &[&str]) -> Outcome<TurnCost> {
        let ledger = self.dir.join("ledger");
        let many = Process::upstream(TURNS, Some(&ledger))?;
        run(&mut self.command(&many.url, flags))?;
        let mut bare = Vec::new();
        for _ in 0..RUNS {
            let output = Command::new(sibling("bare_loop")?).arg(&many.url).arg(&ledger_of(&ledger, TURNS)?).output()?;
            bare.push(String::from_utf8(output.stdout)?.trim().parse::<f64>()?);
        }
        let one = Process::upstream(1, None)?;
        let mut costs = Vec::new();
        let mut peaks = Vec::new();
        for _ in 0..RUNS {
            let long = run(&mut self.command(&many.url, flags))?;
            let short = run(&mut self.command(&one.url, flags))?;
            costs.push(long.cpu.saturating_sub(short.cpu).as_secs_f64() * 1e6 / (TURNS - 1) as f64);
            peaks.push(long.peak_kib);
        }
        let gantry_us = median(&mut costs).unwrap_or_default();
        Ok(TurnCost { gantry_us, bare_us: median(&mut bare).unwrap_or_default(), peak_kib: peaks.into_iter().max().unwrap_or_default() })
    }

    /// User instructions of one turn after `turns` of them, by the difference between two replays of one cassette; nothing where
    /// valgrind is not installed.
    fn instructions_per_turn(&self, turns: usize) -> Outcome<Option<f64>> {
        let cassette = self.dir.join("cassette.ndjson");
        if !cassette.exists() {
            let upstream = Process::upstream(LONG_TURNS + 2 * WINDOW_TURNS, None)?;
            run(self.command(&upstream.url, &["--tool", "read_file", "--record"]).arg(&cassette))?;
        }
        let Some(before) = self.instructions(&cassette, turns)? else { return Ok(None) };
        let after = self.instructions(&cassette, turns + WINDOW_TURNS)?.ok_or("valgrind went away")?;
        Ok(Some((after - before) / WINDOW_TURNS as f64))
    }

    /// User instructions of a replay that ends at its turn cap.
    fn instructions(&self, cassette: &Path, turns: usize) -> Outcome<Option<f64>> {
        let mut command = Command::new("valgrind");
        // Under valgrind a wait in the ring would stop every other thread.
        command.env("GANTRY_DRIVER", "epoll").args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&self.gantry);
        command.args(["--mode", "single", "--max-tokens", "100000000", "--timeout-ms", "600000", "--tool", "read_file"]);
        command.arg("--model").arg(format!("replay/{}", cassette.display())).arg("--max-turns").arg(turns.to_string());
        command.arg("--workdir").arg(self.dir.join("work")).arg("--prompt-file").arg(self.dir.join("prompt.md"));
        let output = match command.stdin(Stdio::null()).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            done => done?,
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let counted = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
        counted.map(Some).ok_or_else(|| format!("valgrind counted nothing: {said}").into())
    }

    fn first_request_bytes(&self) -> Outcome<usize> {
        let upstream = Upstream::start(read_loop(Wire::Anthropic, 1, "file.txt"));
        run(&mut self.command(&upstream.base_url(), &[]))?;
        let body = upstream.ledger().pop().ok_or("no request arrived")?.json();
        Ok(body["system"].to_string().len() + body["tools"].to_string().len())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The first lines of a ledger, which later runs go on writing.
fn ledger_of(ledger: &Path, lines: usize) -> Outcome<PathBuf> {
    let text = std::fs::read_to_string(ledger)?;
    let first: Vec<&str> = text.lines().take(lines).collect();
    let path = ledger.with_extension("first");
    std::fs::write(&path, first.join("\n"))?;
    Ok(path)
}

/// A tool of this package, which lies beside this one.
fn sibling(name: &str) -> Outcome<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("{} is missing; cargo build --release -p gantry-bench", path.display()).into()) }
}

/// An upstream in a process of its own, so that its CPU is nobody else's.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn upstream(turns: usize, ledger: Option<&Path>) -> Outcome<Process> {
        let mut command = Command::new(sibling("scripted_upstream")?);
        command.arg("--read-loop").arg(format!("{turns}:file.txt"));
        if let Some(ledger) = ledger {
            command.arg("--ledger").arg(ledger);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().ok_or("stdout is piped")?).read_line(&mut url)?;
        Ok(Process { child, url: url.trim().to_owned() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
