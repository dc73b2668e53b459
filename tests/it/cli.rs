//! The command line from outside: what a person and an embedder see before any run has started.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use gantry_bench::upstream::{Script, Turn, Upstream, Wire};
use serde_json::Value;

use crate::gantry::{BIN, Bed, Done, bare, finish, run};

fn gantry(args: &[&str]) -> Command {
    let mut command = bare();
    command.args(args);
    command
}

/// A run whose flags are right but for the prompt, which comes from stdin.
fn on_stdin(timeout_ms: &str) -> Command {
    let workdir = env!("CARGO_MANIFEST_DIR");
    let args = ["--mode", "single", "--model", "replay/demo", "--workdir", workdir, "--max-tokens", "1000", "--prompt-file", "-"];
    let mut command = gantry(&args);
    command.args(["--timeout-ms", timeout_ms]).stdin(Stdio::piped());
    command
}

/// The messages of a run that did not start.
fn refusal(done: &Done) -> Vec<&str> {
    assert!(done.stream.all("start").is_empty());
    done.stream.all("error").iter().map(|error| error["message"].as_str().unwrap()).collect()
}

#[test]
fn help_and_version_as_flags_are_configuration_errors_with_words_on_stderr() {
    for (flag, words) in [("--help", "--prompt-file"), ("-h", "--prompt-file"), ("--version", "gantry "), ("-V", "gantry ")] {
        let done = run(&mut gantry(&["--mode", "single", flag]));
        assert_eq!((done.code, refusal(&done).len()), (Some(4), 1), "who asks for help is not told what is missing");
        assert!(done.stderr.contains(words));
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
fn asking_for_help_on_a_flag_is_told_where_flags_are_explained() {
    let output = gantry(&["help", "--mode"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(told.contains("`gantry help` alone tells the flags"), "{told}");
}

#[test]
fn a_misspelt_command_is_told_alone() {
    let done = run(&mut gantry(&["docter", "--json"]));
    assert_eq!(done.code, Some(4));
    assert!(matches!(refusal(&done)[..], [told] if told.contains("`gantry doctor`")));
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
    let bed = Bed::new();
    let mut child = bed.command("replay/demo").stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let done = finish(child, Instant::now());
    drop(held);
    assert_eq!(done.stream.all("start").len(), 1);
}

#[test]
fn a_prompt_on_stdin_is_the_same_as_one_in_a_file() {
    let bed = Bed::new();
    let prompt = "Tell me about \u{1F980} and\r\nlines.\n".repeat(10_000);
    fs::write(bed.beside("prompt.md"), &prompt).unwrap();
    let bodies = [false, true].map(|through_stdin| {
        let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]));
        let mut command = bed.against(&upstream, Wire::Anthropic);
        if through_stdin {
            let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let file = bed.beside("prompt.md").into_os_string();
            let args = args.into_iter().map(|arg| if arg == file { "-".into() } else { arg });
            let mut other = bare();
            other.args(args).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::piped());
            command = other;
        }
        let mut child = command.spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(prompt.as_bytes()).unwrap();
        }
        assert_eq!(finish(child, Instant::now()).code, Some(0));
        upstream.ledger()[0].body.clone()
    });
    assert!(bodies[0] == bodies[1] && bodies[0].len() > prompt.len());
}

#[test]
fn a_prompt_on_stdin_that_never_ends_is_bounded_by_the_wall_clock() {
    let mut child = on_stdin("200").spawn().unwrap();
    let mut held = child.stdin.take().unwrap();
    held.write_all(b"half a prompt").unwrap();
    let done = finish(child, Instant::now());
    drop(held);
    assert_eq!((done.code, refusal(&done).len()), (Some(3), 1));
    assert!(done.stream.last()["duration_ms"].as_u64().unwrap() >= 200);
}

#[test]
fn a_signal_while_a_prompt_is_awaited_still_ends_with_a_result() {
    let mut child = on_stdin("600000").spawn().unwrap();
    let held = child.stdin.take();
    wait_for_handler(&child);
    let killed = Command::new("bash").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
    assert!(killed.success());
    let done = finish(child, Instant::now());
    drop(held);
    assert_eq!((done.code, refusal(&done).len()), (Some(3), 1));
    assert_eq!(done.stream.last()["stop_reason"], "signal");
}

/// Returns once the process has a handler of its own for SIGTERM; from then on a signal is an event and not its death.
fn wait_for_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let caught = || {
        let text = fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0
    };
    let begun = Instant::now();
    while !caught() {
        assert!(begun.elapsed().as_secs() < 60, "the process ended or hangs before it could be signalled");
        std::thread::yield_now();
    }
}

#[test]
fn an_empty_or_binary_prompt_on_stdin_is_a_configuration_error() {
    for bytes in [&b""[..], b" \n", b"\xff\xfe", b"a\0b"] {
        let mut child = on_stdin("600000").spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let done = finish(child, Instant::now());
        assert_eq!((done.code, refusal(&done).len()), (Some(4), 1), "{bytes:?}");
    }
}

#[test]
fn a_cassette_that_is_a_fifo_or_endless_is_refused_and_not_waited_for() {
    let bed = Bed::new();
    let fifo = bed.beside("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo.to_str().unwrap(), "/dev/zero"] {
        let done = run(&mut bed.command(&format!("replay/{path}")));
        assert!(matches!(refusal(&done)[..], [told] if told.starts_with("--model: ") && told.contains("not a regular file")));
        let done = run(bed.command("local/m").args(["--record", path]));
        assert!(matches!(refusal(&done)[..], [told] if told.starts_with("--record: ")));
    }
}

#[test]
fn nothing_in_the_workdir_changes_where_a_key_goes() {
    let bed = Bed::new();
    let [ours, theirs] = [(); 2].map(|()| Upstream::start(Script::turns(Wire::Chat, vec![Turn::new().text("ok")])));
    let url = theirs.base_url();
    bed.write(".env", format!("OPENAI_BASE_URL={url}/v1\nHTTPS_PROXY={url}\nHTTP_PROXY={url}\n"));
    bed.write("profile.toml", format!("base_url = \"{url}\"\n")).write(".gantry/config.toml", format!("base_url = \"{url}\"\n"));
    bed.write(".claude/settings.json", format!("{{\"env\":{{\"OPENAI_BASE_URL\":\"{url}\"}}}}"));
    let work = bed.work();
    let done = run(bed.against(&ours, Wire::Chat).current_dir(&work).env("HOME", &work).env("XDG_CONFIG_HOME", &work));
    assert_eq!((done.code, ours.ledger().len(), theirs.ledger().len()), (Some(0), 1, 0));
}

#[test]
fn headers_arrive_and_one_that_takes_the_place_of_the_key_is_told_and_shown_nowhere() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]));
    let mut command = bed.against(&upstream, Wire::Anthropic);
    let done = run(command.args(["--header", "Authorization: Bearer t-hidden", "--header=X-Route: blue"]));
    assert_eq!(done.code, Some(0));
    let request = &upstream.ledger()[0];
    assert_eq!((request.header("authorization"), request.header("x-route")), (Some("Bearer t-hidden"), Some("blue")));
    assert_eq!(request.header("x-api-key"), None, "the key is not sent beside it");
    assert_eq!(done.stream.one("warning")["code"], "auth_header");
    assert!(!format!("{:?}", done.stream.events()).contains("hidden") && !done.stderr.contains("hidden"));
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
fn a_home_a_temp_dir_and_a_path_are_not_needed_and_the_current_directory_may_be_gone() {
    let bed = Bed::new();
    let gone = bed.beside("gone");
    fs::create_dir(&gone).unwrap();
    let script = format!("rmdir '{}'; exec \"$0\" \"$@\"", gone.display());
    for (workdir, code) in [(bed.work().to_str().unwrap(), 0), (".", 4)] {
        let mut command = Command::new("/bin/bash");
        command.args(["--norc", "-c", &script, BIN, "--mode", "single", "--model", "replay/demo", "--workdir", workdir]);
        command.args(["--max-tokens", "100000", "--timeout-ms", "30000", "--prompt-file"]).arg(bed.beside("prompt.md"));
        command.env_clear().env("HOME", "/no/such/home").env("TMPDIR", "/no/such/tmp").env("LANG", "C").current_dir(&gone);
        let done = run(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        assert_eq!(done.code, Some(code), "{:?}", done.stream.last());
        fs::create_dir_all(&gone).unwrap();
    }
}
