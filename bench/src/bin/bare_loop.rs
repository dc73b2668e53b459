//! The yardstick: the least that a client can do with the same requests. `bare_loop URL LEDGER` posts each line of the ledger on
//! one kept connection, reads each answer to its end, and prints the CPU time per request, the first one left out, in microseconds.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people and scripts")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use gantry_bench::measure::own_cpu;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, ledger] = args.as_slice() else {
        eprintln!("usage: bare_loop URL LEDGER");
        return ExitCode::from(2);
    };
    match post_all(url, ledger) {
        Ok(per_request) => {
            println!("{:.1}", per_request.as_secs_f64() * 1e6);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bare_loop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn post_all(url: &str, ledger: &str) -> io::Result<Duration> {
    let address = url.strip_prefix("http://").ok_or_else(|| io::Error::other("an http:// URL is needed"))?;
    let bodies: Vec<Vec<u8>> = std::fs::read(ledger)?.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(<[u8]>::to_vec).collect();
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
    let mut writer = stream;
    let mut begun = own_cpu();
    for (at, body) in bodies.iter().enumerate() {
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(head.as_bytes())?;
        writer.write_all(body)?;
        read_answer(&mut reader)?;
        if at == 0 {
            begun = own_cpu();
        }
    }
    Ok((own_cpu() - begun) / u32::try_from(bodies.len().saturating_sub(1).max(1)).unwrap_or(u32::MAX))
}

fn read_answer(reader: &mut impl BufRead) -> io::Result<()> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        io::copy(&mut reader.by_ref().take(size + 2), &mut io::sink())?;
        if size == 0 {
            return Ok(());
        }
    }
}
