//! What measures and tests `gantry` from outside: the scripted upstream, the bare loop and the measurements.
//!
//! Nothing here sees `gantry`'s sources. The scripted upstream is a provider's server that plays a script of turns on a wire, byte
//! for byte, with delays and faults, and keeps a ledger of what it received.

pub mod measure;
pub mod script;
pub mod upstream;
