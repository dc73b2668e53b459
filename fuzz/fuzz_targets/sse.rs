//! Any bytes in any pieces as an event stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gantry_fuzz::sse(data));
