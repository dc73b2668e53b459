//! One agent: a model, its transcript and its tools, from the first prompt to the last answer.
//!
//! [`turn`] is the loop, top to bottom in one file. [`meter`] is the budget that all agents of a run share.

pub mod meter;
pub mod prompt;
pub mod turn;

pub use meter::Meter;
pub use turn::{Agent, Ending, stop_of};
