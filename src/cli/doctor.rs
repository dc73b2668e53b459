//! `gantry doctor`: what this machine offers to a run, without starting one. Values of keys are never shown.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::commands::{VERSION, wrong_words};
use super::env::{self, Env};
use super::headers;
use super::inputs;
use super::out::print;
use super::sys;
use crate::provider::{self, VENDORS};
use crate::rt;

/// One thing that was looked at.
struct Check {
    name: &'static str,
    /// Whether it is there and fit for use.
    ok: bool,
    /// What was found, or what follows from its absence.
    detail: String,
}

impl Check {
    fn of<T>(name: &'static str, found: io::Result<T>, detail: &str, without: &str) -> Check {
        match found {
            Ok(_) => Check { name, ok: true, detail: detail.into() },
            Err(error) => Check { name, ok: false, detail: format!("{error}; {without}") },
        }
    }
}

/// `gantry doctor [--json]`.
pub(super) fn doctor(args: &[OsString]) -> ExitCode {
    match args {
        [] => print(&as_text(&examine(&Env::collect()))),
        [flag] if flag == "--json" => print(&as_json(&examine(&Env::collect()))),
        _ => wrong_words("doctor"),
    }
}

fn examine(env: &Env) -> Vec<Check> {
    let mut checks = vec![
        Check { name: "kernel", ok: true, detail: sys::kernel() },
        Check::of("io_uring", rt::probe(), "the core runs on it", "the core runs on epoll"),
        Check::of("openat2", sys::openat2_works(), "file tools are confined by the kernel", "Linux 5.6 or later has it"),
        Check::of("pidfd", sys::pidfd_works(), "children are awaited by descriptor", "Linux 5.3 or later has it"),
    ];
    for (name, without) in [("bash", "the shell tool will fail"), ("git", "the git_diff tool will fail")] {
        let found = env.paths(env::PATH).into_iter().map(|dir| dir.join(name)).find(|path| is_program(path));
        checks.push(match found {
            Some(path) => Check { name, ok: true, detail: path.display().to_string() },
            None => Check { name, ok: false, detail: format!("not in PATH; {without}") },
        });
    }
    checks.push(Check { name: "TLS roots", ok: true, detail: format!("{} built in", provider::builtin_roots()) });
    if let Some(file) = env.get(env::CERT_FILE) {
        let fault = inputs::certificates(env::CERT_FILE, Path::new(file)).err();
        checks.push(Check {
            name: env::CERT_FILE,
            ok: fault.is_none(),
            detail: fault.map_or(file.to_string_lossy().into_owned(), |fault| fault.message),
        });
    }
    checks.extend(VENDORS.iter().filter_map(|vendor| vendor.key_var).map(|variable| key(variable, env)));
    checks
}

/// Whether a key is set, and whether it can be sent.
fn key(variable: &'static str, env: &Env) -> Check {
    let detail = match env.text(variable).map(|text| text.map(headers::check)) {
        Ok(Some(Ok(()))) => return Check { name: variable, ok: true, detail: "set".into() },
        Ok(Some(Err(what))) => format!("set, but the key {what}"),
        Ok(None) => "not set".into(),
        Err(fault) => fault.message,
    };
    Check { name: variable, ok: false, detail }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn as_text(checks: &[Check]) -> String {
    let wide = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let line = |check: &Check| format!("{:<3} {:wide$}  {}\n", if check.ok { "yes" } else { "no" }, check.name, check.detail);
    checks.iter().map(line).collect()
}

fn as_json(checks: &[Check]) -> String {
    let checks: Vec<Value> = checks.iter().map(|check| json!({ "name": check.name, "ok": check.ok, "detail": check.detail })).collect();
    format!("{}\n", json!({ "version": VERSION, "checks": checks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_judged_and_never_shown() {
        let env = Env::of(&[("ANTHROPIC_API_KEY", "sk-hidden"), ("OPENAI_API_KEY", "sk-hidden\n")]);
        let checks = examine(&env);
        let of = |name: &str| checks.iter().find(|check| check.name == name).expect(name);
        assert!(of("ANTHROPIC_API_KEY").ok && !of("OPENAI_API_KEY").ok && !of("OPENROUTER_API_KEY").ok);
        assert!(of("OPENAI_API_KEY").detail.contains("line break"));
        assert!(!of("bash").ok, "there is no PATH in this environment");
        for shown in [as_text(&checks), as_json(&checks)] {
            assert!(!shown.contains("hidden"), "{shown}");
        }
        assert!(serde_json::from_str::<Value>(&as_json(&checks)).is_ok());
    }
}
