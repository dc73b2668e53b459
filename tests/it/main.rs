//! The black-box suite: the real binary against real parts on loopback.
//!
//! Every test starts `gantry` as an embedder would, with an environment of its own, and reads its stdout through a strict reader
//! (`stream.rs`) that was written from the documentation and not from the sources. The whole suite runs on both drivers: on the
//! one that the machine offers, and with `GANTRY_TEST_DRIVER=epoll` on the other.

#![allow(clippy::unwrap_used, clippy::print_stdout, unreachable_pub, reason = "a test may unwrap: its panic is the report")]

mod basics;
mod cli;
mod config;
mod endings;
mod faults;
mod gantry;
mod oddities;
mod parts;
mod provider;
mod rendered;
mod shell;
mod shell_cases;
mod shell_check;
mod stream;
mod tools;
