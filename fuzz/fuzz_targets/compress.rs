//! Any text under any rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gantry_fuzz::compress(data));
