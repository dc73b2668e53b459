//! Any text as a JSON string.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gantry_fuzz::json_write(data));
