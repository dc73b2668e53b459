//! (being built)

pub mod plan;
