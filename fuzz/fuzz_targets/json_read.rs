//! Any bytes as a document.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gantry_fuzz::json_read(data));
