//! Measures a `gantry` binary against the scripted upstream and prints a table: `measure GANTRY [--long] [--check]`.
//!
//! With `--check` it fails when a median is beyond twice its bar, which no noise of a shared machine explains.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

mod bed;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use gantry_bench::measure::launch::{LAUNCH, launch};
use gantry_bench::measure::machine;
use lexopt::prelude::*;

use bed::{Bed, Figure};

const USAGE: &str = "usage: measure GANTRY [--long] [--check]
  --long   measures the turns 300 to 400 too
  --check  fails when a median is beyond twice its bar";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// One line of the table.
struct Row {
    what: &'static str,
    unit: &'static str,
    figure: Figure,
    bar: f64,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let done = match words.next() {
        Some(first) if first == LAUNCH => launched(words),
        _ => measure(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("measure: {error}");
        ExitCode::FAILURE
    })
}

fn launched(words: impl Iterator<Item = std::ffi::OsString>) -> Outcome<ExitCode> {
    println!("{}", serde_json::to_string(&launch(words)?)?);
    Ok(ExitCode::SUCCESS)
}

fn measure() -> Outcome<ExitCode> {
    let (mut gantry, mut long, mut check) = (None, false, false);
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next()? {
        match word {
            Value(path) if gantry.is_none() => gantry = Some(PathBuf::from(path)),
            Long("long") => long = true,
            Long("check") => check = true,
            other => return Err(format!("{}\n{USAGE}", other.unexpected()).into()),
        }
    }
    let bed = Bed::new(&gantry.ok_or(USAGE)?)?;
    let mut rows = usual_rows(&bed)?;
    if long {
        rows.push(long_row(&bed)?);
    }
    println!("{}\n{}\n", machine(), bed.versions()?);
    println!("| what | median | least | bar | median / bar |\n|---|---|---|---|---|");
    for Row { what, unit, figure: Figure { median, least }, bar } in &rows {
        println!("| {what} | {median:.2} {unit} | {least:.2} {unit} | ≤ {bar} {unit} | {:.2} |", median / bar);
    }
    let gross: Vec<&str> = rows.iter().filter(|row| row.figure.median > 2.0 * row.bar).map(|row| row.what).collect();
    if check && !gross.is_empty() {
        return Err(format!("beyond twice the bar: {gross:?}").into());
    }
    Ok(ExitCode::SUCCESS)
}

fn usual_rows(bed: &Bed) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |what, unit, bar, figure| rows.push(Row { what, unit, figure, bar });
    let only_read: &[&str] = &["--tool", "read_file"];
    for (what, bar, tls, flags) in [
        ("exec to first request byte, http, without the shell's helper", 1.0, false, only_read),
        ("exec to first request byte, TLS, without the shell's helper", 1.2, true, only_read),
        ("exec to first request byte, http, default tools", 2.5, false, &[]),
        ("exec to first request byte, TLS, default tools", 2.5, true, &[]),
    ] {
        add(what, "ms", bar, Figure::of(&bed.first_byte(tls, flags)?));
    }
    let turn = bed.cost_of_turns(1, 50)?;
    let ratio = turn.gantry_us.with(&turn.bare_us, |gantry, bare| gantry / bare);
    add("peak RSS of a 50-turn run", "MiB", 9.0, Figure::of(&turn.peak_mib));
    add("user+sys CPU of a tool turn", "µs", 130.0, turn.gantry_us);
    add("the same over a bare loop that sends the same bytes", "×", 3.0, ratio);
    let bytes = bed.first_request_bytes()? as f64;
    add("system prompt and tools of the first request, Anthropic", "bytes", 5_000.0, Figure { median: bytes, least: bytes });
    Ok(rows)
}

fn long_row(bed: &Bed) -> Outcome<Row> {
    let turn = bed.cost_of_turns(300, 400)?;
    let figure = turn.gantry_us.with(&turn.bare_us, |gantry, bare| gantry - bare);
    Ok(Row { what: "user+sys CPU of a tool turn above the bare loop, turns 300 to 400", unit: "µs", figure, bar: 100.0 })
}
