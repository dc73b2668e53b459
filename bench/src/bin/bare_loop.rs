//! The yardstick: sends the requests of a ledger again, one after the other on one kept connection, reads each answer to its end,
//! and prints as JSON what a turn costs in CPU time, the first `--from` of them left out.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader};
use std::process::ExitCode;
use std::time::Duration;

use gantry_bench::bare::Bare;
use gantry_bench::ledger;
use gantry_bench::measure::usage::Usage;
use lexopt::prelude::*;

const USAGE: &str = "usage: bare_loop URL LEDGER [--from TURNS]";

fn main() -> ExitCode {
    match flags().and_then(|flags| play(&flags)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare_loop: {error}");
            ExitCode::from(2)
        }
    }
}

struct Flags {
    url: String,
    ledger: String,
    from: usize,
}

fn flags() -> Result<Flags, Box<dyn Error>> {
    let (mut from, mut paths) = (1, Vec::new());
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Long("from") => from = words.value()?.parse()?,
            Value(path) => paths.push(path.string()?),
            other => return Err(format!("{}\n{USAGE}", other.unexpected()).into()),
        }
    }
    let [url, ledger] = <[String; 2]>::try_from(paths).map_err(|_| USAGE)?;
    Ok(Flags { url, ledger, from })
}

fn play(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let address = flags.url.strip_prefix("http://").ok_or("the URL is to begin with http://")?;
    let file = File::open(&flags.ledger).map_err(|e| format!("{}: {e}", flags.ledger))?;
    // The last turn that is left out is sent too, so that the connection is warm when the clock starts.
    let entries = ledger::read(BufReader::new(file)).skip(flags.from.saturating_sub(1));
    let requests: Vec<Vec<u8>> = entries.map(|entry| Ok(entry?.request())).collect::<io::Result<_>>()?;
    let (warming, measured) = requests.split_at_checked(flags.from.min(1)).ok_or("the ledger has fewer turns than --from")?;
    let mut bare = Bare::connect(address.parse()?)?;
    exchange(&mut bare, warming)?;
    let cpu = exchange(&mut bare, measured)?;
    let per_turn = cpu.as_secs_f64() * 1e6 / measured.len().max(1) as f64;
    println!("{}", serde_json::json!({"turns": measured.len(), "cpu_us_per_turn": per_turn}));
    Ok(())
}

/// The CPU time that these requests and their answers took. All their bytes lie ready before it.
fn exchange(bare: &mut Bare, requests: &[Vec<u8>]) -> Result<Duration, Box<dyn Error>> {
    let begun = Usage::own()?.cpu;
    for request in requests {
        let (status, _) = bare.exchange(request)?;
        if status != 200 {
            return Err(format!("a request was answered {status}").into());
        }
    }
    Ok(Usage::own()?.cpu - begun)
}
