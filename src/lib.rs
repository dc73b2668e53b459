//! `gantry` runs one LLM agent over a workspace and tells its embedder everything as NDJSON.
//!
//! This page is the map. A folder is a subsystem, and the folders stand in the order in which data flows:
//!
//! ```text
//! argv ─cli─▶ RunPlan ─run─▶ Agent ─┬─ provider: transcript ─▶ wire ─▶ Reply
//!                                   ├─ tools: ToolCall ─▶ sandbox ─▶ ToolOutput ─compress─▶ transcript
//!                                   └─ emit: Event ─▶ Sink ─▶ stdout
//! ```
//!
//! Layers, low to high; a module imports only from lower ones (`tests/tidy.rs` checks it):
//!
//! | layer | modules |
//! |---|---|
//! | 0 | [`limits`] [`error`] [`secret`] |
//! | 1 | [`json`] [`rt`] |
//! | 2 | [`emit`] [`compress`] [`sandbox`] |
//! | 3 | [`transcript`] |
//! | 4 | [`provider`] |
//! | 5 | [`tools`] |
//! | 6 | [`agent`] |
//! | 7 | [`run`] |
//! | 9 | [`cli`] |

pub mod agent;
pub mod cli;
pub mod compress;
pub mod emit;
pub mod error;
pub mod json;
pub mod limits;
pub mod provider;
pub mod rt;
pub mod run;
pub mod sandbox;
pub mod secret;
pub mod tools;
pub mod transcript;
