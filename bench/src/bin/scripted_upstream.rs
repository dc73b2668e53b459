//! Plays a script as a provider's server until it is killed. Its first line on stdout is its base URL.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use gantry_bench::script;
use gantry_bench::upstream::{Certificate, Script, Upstream, Wire};
use lexopt::prelude::*;

const USAGE: &str = "usage: scripted_upstream --wire anthropic|chat (--script FILE | --read-loop TURNS:PATH)
                         [--port N] [--tls-pem FILE] [--ledger FILE]
  --script     a turn a line: {\"text\": …, \"calls\": [{\"name\": …, \"args\": {…}}], \"usage\": [in, out, read, write]}
  --read-loop  so many model calls: all but the last read PATH
  --tls-pem    speaks TLS, and writes its certificate there
  --ledger     appends each request's body as a line";

struct Flags {
    wire: Wire,
    script: Option<Script>,
    port: u16,
    tls_pem: Option<PathBuf>,
    ledger: Option<PathBuf>,
}

fn main() -> ExitCode {
    match flags().and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn flags() -> Result<Flags, String> {
    let mut flags = Flags { wire: Wire::Anthropic, script: None, port: 0, tls_pem: None, ledger: None };
    let (mut file, mut read_loop) = (None, None);
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next().map_err(|e| e.to_string())? {
        let text = |words: &mut lexopt::Parser| words.value().and_then(|v| v.string()).map_err(|e| e.to_string());
        match word {
            Long("wire") => flags.wire = if text(&mut words)? == "chat" { Wire::Chat } else { Wire::Anthropic },
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
            Some(Script::turns(flags.wire, script::parse(&text).map_err(|e| format!("{file}: {e}"))?))
        }
        (None, Some(spec)) => {
            let (turns, path) = spec.split_once(':').ok_or("--read-loop takes TURNS:PATH")?;
            Some(script::read_loop(flags.wire, turns.parse().map_err(|e| format!("--read-loop: {e}"))?, path))
        }
        _ => return Err("give one of --script and --read-loop".into()),
    };
    Ok(flags)
}

fn serve(flags: Flags) -> Result<(), String> {
    let mut script = flags.script.ok_or("there is a script")?;
    if let Some(pem) = flags.tls_pem {
        let certificate = Arc::new(Certificate::new());
        certificate.write_pem(pem);
        script = script.tls(certificate);
    }
    let upstream = Upstream::start_on(flags.port, script);
    println!("{}", upstream.base_url());
    io::stdout().flush().map_err(|e| e.to_string())?;
    let mut ledger = flags.ledger.map(std::fs::File::create).transpose().map_err(|e| format!("--ledger: {e}"))?;
    let mut seen = 0;
    loop {
        upstream.wait_for(seen + 1, Duration::from_secs(365 * 24 * 3_600));
        for received in upstream.ledger_from(seen) {
            seen += 1;
            if let Some(file) = &mut ledger {
                let line = [received.body.as_slice(), b"\n"].concat();
                file.write_all(&line).map_err(|e| format!("--ledger: {e}"))?;
            }
        }
    }
}
