//! JSON on the hot path: a writer that escapes, and a reader that keeps its tape.

pub mod read;
pub mod write;
