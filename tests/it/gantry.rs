//! Starts the binary as an embedder would.

use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gantry_bench::upstream::{Upstream, Wire};

use crate::stream::Stream;

/// The binary under test.
pub const BIN: &str = env!("CARGO_BIN_EXE_gantry");
/// Longer than any test should take; a hang fails with this and not with the runner's patience.
const PATIENCE: Duration = Duration::from_secs(60);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory of one test: a workdir, a prompt, and room beside them.
pub struct Bed {
    base: PathBuf,
    max_tokens: Cell<u64>,
    timeout_ms: Cell<u64>,
}

impl Bed {
    /// An empty workdir and a prompt.
    pub fn new() -> Bed {
        let home = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let base = home.join(format!("gantry-it-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(base.join("work")).unwrap();
        std::fs::write(base.join("prompt.md"), "Look around and report.").unwrap();
        Bed { base, max_tokens: Cell::new(1_000_000), timeout_ms: Cell::new(30_000) }
    }

    /// Sets the budget of the runs to come.
    pub fn budget(&self, max_tokens: u64) -> &Bed {
        self.max_tokens.set(max_tokens);
        self
    }

    /// Sets the wall clock of the runs to come.
    pub fn timeout(&self, timeout_ms: u64) -> &Bed {
        self.timeout_ms.set(timeout_ms);
        self
    }

    /// The workdir.
    pub fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// A path beside the workdir.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Writes a file of the workdir.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Bed {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Reads a file of the workdir.
    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.work().join(path)).unwrap()
    }

    /// Temporary files of ours in the workdir, of which none may stay.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![self.work()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    dirs.push(entry.path());
                } else if name.contains(".gantry") {
                    found.push(name);
                }
            }
        }
        found
    }

    /// A command with the required flags and no environment but what is needed.
    pub fn command(&self, model: &str) -> Command {
        let mut command = bare();
        command.args(["--mode", "single", "--model", model]);
        command.args(["--max-tokens", &self.max_tokens.get().to_string(), "--timeout-ms", &self.timeout_ms.get().to_string()]);
        command.arg("--workdir").arg(self.work()).arg("--prompt-file").arg(self.base.join("prompt.md"));
        command
    }

    /// A command against an upstream on a wire.
    pub fn against(&self, upstream: &Upstream, wire: Wire) -> Command {
        let mut command = match wire {
            Wire::Anthropic => self.command("anthropic/scripted"),
            Wire::Chat => self.command("openai/scripted"),
        };
        command.env("ANTHROPIC_API_BASE", upstream.base_url()).env("ANTHROPIC_API_KEY", "sk-ant-secret-0");
        command.env("OPENAI_BASE_URL", format!("{}/v1", upstream.base_url())).env("OPENAI_API_KEY", "sk-secret-1");
        command
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// The binary without flags, and with an environment that holds nothing of the machine's.
pub fn bare() -> Command {
    let mut command = Command::new(BIN);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if let Some(driver) = std::env::var_os("GANTRY_TEST_DRIVER") {
        command.env("GANTRY_DRIVER", driver);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A finished run.
pub struct Done {
    /// What it wrote, strictly read.
    pub stream: Stream,
    /// The exit code; none when a signal killed it.
    pub code: Option<i32>,
    /// What it said to people.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

/// Runs a command to its end and reads its stream strictly; exit code and `result` must agree.
pub fn run(command: &mut Command) -> Done {
    let started = Instant::now();
    let child = command.spawn().unwrap();
    finish(child, started)
}

/// Waits for a child that was started from a command of ours.
pub fn finish(mut child: Child, started: Instant) -> Done {
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let lines = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let code = wait(&mut child, PATIENCE);
    let took = started.elapsed();
    let stream = Stream::read(&lines.join().unwrap());
    let stderr = errors.join().unwrap();
    assert!(!stderr.contains("panicked"), "no panic is acceptable: {stderr}");
    assert_eq!(code, Some(stream.exit_code()), "the exit code mirrors the result: {:?}\n{stderr}", stream.last());
    Done { stream, code, stderr, took }
}

/// Waits with a bound, after which the child is killed and the test fails.
pub fn wait(child: &mut Child, bound: Duration) -> Option<i32> {
    let until = Instant::now() + bound;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("the run did not end within {bound:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
