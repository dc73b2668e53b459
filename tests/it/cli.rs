//! The command line from outside: what a person and an embedder see before any run has started.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn gantry(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.args(args).env_clear().stdin(Stdio::null());
    command
}

/// A run whose flags are right but for the prompt, which comes from stdin.
fn run_on_stdin(timeout_ms: &str) -> Command {
    let workdir = env!("CARGO_MANIFEST_DIR");
    let args = ["--mode", "single", "--model", "replay/demo", "--workdir", workdir, "--max-tokens", "1000", "--prompt-file", "-"];
    let mut command = gantry(&args);
    command.args(["--timeout-ms", timeout_ms]);
    command
}

/// Starts with stdin as a pipe that stays open, and stdout to be read.
fn start(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The lines of stdout, checked for what holds of every refusal: no `start`, one `result`, at the end, with the exit code.
fn refusal(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.ends_with('\n'), "{text:?}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, errors) = events.split_last().unwrap();
    assert!(errors.iter().all(|event| event["event"] == "error"), "{text}");
    assert_eq!(result["event"], "result");
    let names = ["ok", "error", "budget", "timeout", "config", "rate_limited"];
    assert_eq!(result["exit"], names[usize::try_from(output.status.code().unwrap()).unwrap()]);
    errors.to_vec()
}

#[test]
fn help_and_version_as_flags_are_configuration_errors_with_words_on_stderr() {
    for (flag, words) in [("--help", "--prompt-file"), ("-h", "--prompt-file"), ("--version", "gantry "), ("-V", "gantry ")] {
        let output = gantry(&["--mode", "single", flag]).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        assert_eq!(refusal(&output).len(), 1, "the flags that are missing are not told to someone who asks for help");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words));
    }
}

#[test]
fn commands_print_and_exit_0_and_wrong_words_exit_4_with_nothing_on_stdout() {
    for words in [&["help"][..], &["help", "doctor"], &["doctor", "--help"], &["version"], &["doctor"], &["completions", "zsh"]] {
        let output = gantry(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{words:?}");
    }
    for words in [&["help", "nothing"][..], &["version", "--jsn"], &["schema"], &["completions", "tcsh"], &["doctor", "x"]] {
        let output = gantry(words).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
    for words in [&["version", "--json"][..], &["doctor", "--json"], &["schema", "events"]] {
        let output = gantry(words).output().unwrap();
        assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap().is_object(), "{words:?}");
    }
}

#[test]
fn a_misspelt_command_is_told_alone() {
    let output = gantry(&["docter", "--json"]).output().unwrap();
    let errors = refusal(&output);
    assert_eq!(errors.len(), 1);
    assert!(errors[0]["message"].as_str().unwrap().contains("`gantry doctor`"));
}

#[test]
fn doctor_and_errors_never_show_a_key() {
    for args in [&["doctor"][..], &["doctor", "--json"], &["--model", "openai/m"]] {
        let output = gantry(args).env("OPENAI_API_KEY", "sk-hidden\r").env("ANTHROPIC_API_KEY", "sk-hidden").output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("OPENAI_API_KEY") && !shown.contains("hidden"), "{shown}");
    }
}

#[test]
fn an_open_stdin_is_not_read_unless_it_is_asked_for() {
    // Would wait for ever if it were read: the other end stays open until the child has ended.
    let mut child = start(gantry(&["--mode", "single", "--prompt-file", "/no/such/file"]));
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert_eq!(output.status.code(), Some(4));
    assert!(refusal(&output).iter().any(|error| error["message"].as_str().unwrap().contains("/no/such/file")));
}

#[test]
fn a_prompt_on_stdin_that_never_ends_is_bounded_by_the_wall_clock() {
    let mut child = start(run_on_stdin("200"));
    let mut held = child.stdin.take().unwrap();
    held.write_all(b"half a prompt").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(refusal(&output).len(), 1);
}

#[test]
fn a_signal_while_a_prompt_is_awaited_still_ends_with_a_result() {
    let mut child = start(run_on_stdin("600000"));
    let held = child.stdin.take();
    wait_for_handler(&child);
    let killed = Command::new("bash").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert_eq!((output.status.code(), output.status.signal()), (Some(3), None));
    refusal(&output);
}

/// Returns once the process has a handler of its own for SIGTERM; from then on a signal is an event and not its death.
fn wait_for_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let caught = || {
        let text = fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0
    };
    while !caught() {
        std::thread::yield_now();
    }
}

#[test]
fn an_empty_or_binary_prompt_on_stdin_is_a_configuration_error() {
    for bytes in [&b""[..], b" \n", b"\xff\xfe", b"a\0b"] {
        let mut child = start(run_on_stdin("600000"));
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{bytes:?}");
        assert_eq!(refusal(&output).len(), 1);
    }
}

#[test]
fn a_stdout_that_is_full_or_gone_changes_no_exit_code_and_panics_nowhere() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let output = gantry(&["--mode"]).stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(4), true));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for (args, code) in [(&["help"][..], 0), (&["--mode"], 4)] {
        let output = gantry(args).stdout(writer.try_clone().unwrap()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(code), true), "{args:?}");
    }
    let output = gantry(&["help"]).stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(1), false));
}

#[test]
fn bash_reads_the_completion_script_and_offers_flags_values_and_commands() {
    let script = String::from_utf8(gantry(&["completions", "bash"]).output().unwrap().stdout).unwrap();
    for (words, offered) in [("gantry --max-tu", "--max-turns"), ("gantry doc", "doctor"), ("gantry --mode s", "single")] {
        let last = words.split(' ').count() - 1;
        let ask = format!("{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}; _gantry; echo \"${{COMPREPLY[@]}}\"");
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), offered, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_home_a_temp_dir_and_a_path_are_not_needed_and_the_working_directory_may_be_gone() {
    let gone = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("gone-{}", std::process::id()));
    fs::create_dir(&gone).unwrap();
    let script = format!("rmdir '{}'; exec '{}' --workdir .", gone.display(), env!("CARGO_BIN_EXE_gantry"));
    let output = Command::new("/bin/bash")
        .args(["--norc", "-c", &script])
        .env_clear()
        .env("PATH", "/bin:/usr/bin")
        .current_dir(&gone)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(refusal(&output).iter().any(|error| error["message"].as_str().unwrap().starts_with("--workdir: '.'")));
}
