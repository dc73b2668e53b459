//! Plays a script as a provider's server until it is killed. Its first line on stdout is its base URL.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use gantry_bench::script;
use gantry_bench::upstream::{Certificate, Script, Upstream, Wire};
use lexopt::prelude::*;

const USAGE: &str = "usage: scripted_upstream --wire anthropic|chat (--script FILE | --read-loop TURNS:PATH)
                         [--port N] [--tls-pem FILE] [--ledger FILE]
  --script     an answer a line, as in bench/README.md
  --read-loop  so many model calls: all but the last read PATH
  --tls-pem    speaks TLS, and writes its certificate there
  --ledger     writes each request as a line";

struct Flags {
    wire: Wire,
    script: Option<Script>,
    port: u16,
    tls_pem: Option<PathBuf>,
    ledger: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Err(why) = flags().and_then(serve);
    eprintln!("{why}\n{USAGE}");
    ExitCode::from(2)
}

fn flags() -> Result<Flags, String> {
    let mut flags = Flags { wire: Wire::Anthropic, script: None, port: 0, tls_pem: None, ledger: None };
    let (mut file, mut read_loop) = (None, None);
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next().map_err(|e| e.to_string())? {
        let text = |words: &mut lexopt::Parser| words.value().and_then(|v| v.string()).map_err(|e| e.to_string());
        match word {
            Long("wire") => flags.wire = Wire::named(&text(&mut words)?).ok_or("--wire takes anthropic or chat")?,
            Long("script") => file = Some(text(&mut words)?),
            Long("read-loop") => read_loop = Some(text(&mut words)?),
            Long("port") => flags.port = text(&mut words)?.parse().map_err(|e| format!("--port: {e}"))?,
            Long("tls-pem") => flags.tls_pem = Some(text(&mut words)?.into()),
            Long("ledger") => flags.ledger = Some(text(&mut words)?.into()),
            other => return Err(other.unexpected().to_string()),
        }
    }
    flags.script = match (file, read_loop) {
        (Some(file), None) => {
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
            Some(script::parse(flags.wire, &text).map_err(|e| format!("{file}: {e}"))?)
        }
        (None, Some(spec)) => {
            let (turns, path) = spec.split_once(':').ok_or("--read-loop takes TURNS:PATH")?;
            Some(script::read_loop(flags.wire, turns.parse().map_err(|e| format!("--read-loop: {e}"))?, path))
        }
        _ => return Err("give one of --script and --read-loop".into()),
    };
    Ok(flags)
}

fn serve(flags: Flags) -> Result<Infallible, String> {
    let mut script = flags.script.ok_or("there is a script")?;
    if let Some(pem) = flags.tls_pem {
        let certificate = Arc::new(Certificate::new());
        certificate.write_pem(pem);
        script = script.tls(certificate);
    }
    if let Some(path) = flags.ledger {
        script = script.write_ledger(File::create(path).map_err(|e| format!("--ledger: {e}"))?);
    }
    // Whoever wants the requests has them written; memory stays for the run under test.
    let upstream = Upstream::start_on(flags.port, script.without_bodies());
    println!("{}", upstream.base_url());
    io::stdout().flush().map_err(|e| e.to_string())?;
    loop {
        std::thread::park();
    }
}
