//! Bad input: every fault is told at once, with the mend, and nothing is spent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::gantry::{Bed, bare, run};

#[test]
fn every_fault_is_told_at_once() {
    let done = run(bare().args([
        "--model",
        "antropic/x",
        "--workdir",
        "/no/such/dir",
        "--max-tokens",
        "many",
        "--frobnicate",
        "--timeout-ms",
        "-3",
    ]));
    assert_eq!(done.code, Some(4));
    let told = done.stream.all("error").iter().map(|e| e["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n");
    for part in ["did you mean `anthropic`", "/no/such/dir", "--max-tokens", "--frobnicate", "--timeout-ms", "--prompt-file", "--mode"] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn a_bad_prompt_workdir_or_key_is_told_before_anything_starts() {
    let bed = Bed::new();
    let file = |name: &str, content: &[u8]| {
        std::fs::write(bed.beside(name), content).unwrap();
        bed.beside(name)
    };
    let prompts = [
        (file("empty", b""), "empty"),
        (file("binary", b"\xff\xfe\x00"), "UTF-8"),
        (bed.beside("missing"), "missing"),
        (bed.work(), "directory"),
        ("/dev/zero".into(), "regular"),
    ];
    for (path, part) in prompts {
        let mut command = bare();
        command.args(["--mode", "single", "--model", "replay/demo", "--max-tokens", "1000", "--timeout-ms", "1000"]);
        let done = run(command.arg("--workdir").arg(bed.work()).arg("--prompt-file").arg(&path));
        let told = done.stream.one("error")["message"].as_str().unwrap().to_owned();
        assert!(done.code == Some(4) && told.contains("--prompt-file") && told.contains(part), "{part}: {told}");
    }
    let done = run(&mut bed.command("anthropic/x"));
    assert!(done.stream.one("error")["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"));
    let done = run(bed.command("anthropic/x").env("ANTHROPIC_API_KEY", "sk-very-secret\n"));
    let told = done.stream.one("error")["message"].as_str().unwrap();
    assert!(told.contains("ANTHROPIC_API_KEY") && !told.contains("very"), "{told}");
}

#[test]
fn words_that_are_no_text_or_look_like_flags_are_taken_as_they_are() {
    let bed = Bed::new();
    let odd = bed.beside("--mode");
    std::fs::create_dir(&odd).unwrap();
    let mut command = bare();
    command.current_dir(odd.parent().unwrap());
    command.args(["--mode", "single", "--model", "openai/x", "--max-tokens", "1000", "--timeout-ms", "1000", "--workdir", "--mode"]);
    let done = run(command.arg("--prompt-file").arg(OsStr::from_bytes(b"/tmp/\xff\xfe")));
    let told: Vec<&str> = done.stream.all("error").iter().map(|e| e["message"].as_str().unwrap()).collect();
    assert_eq!(done.code, Some(4));
    assert!(told.iter().all(|t| !t.contains("--workdir")), "a directory may be called --mode: {told:?}");
}

#[test]
fn a_doubled_or_empty_flag_is_told() {
    let bed = Bed::new();
    for (args, part) in [
        (&["--max-tokens", "1000"][..], "more than once"),
        (&["--max-turns", ""], "--max-turns"),
        (&["--tool", "red_file"], "read_file"),
        (&["--header", "no colon"], "--header"),
        (&["--base-url", "http://x/"], "--base-url"),
        (&["--temperature", "NaN"], "--temperature"),
    ] {
        let done = run(bed.command("openai/x").env("OPENAI_API_KEY", "k").args(args));
        let told = done.stream.all("error").iter().map(|e| e["message"].as_str().unwrap()).collect::<Vec<_>>().join("\n");
        assert!(done.code == Some(4) && told.contains(part), "{part}: {told}");
    }
}
