//! The black-box suite: the real binary against real parts on loopback.

#![allow(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod cli;
