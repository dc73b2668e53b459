//! Any bytes as an answer on each wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gantry_fuzz::decode(data));
