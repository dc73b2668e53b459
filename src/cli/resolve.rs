//! From what was typed to what is meant: names are looked up, files opened and read, and everything that is wrong is told at once.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::endpoint::{self, endpoint};
use super::env::{self, Env};
use super::fault::{Fault, Faults, choices, shown};
use super::inputs;
use super::raw::{RawArgs, Typed};
use crate::limits;
use crate::provider::{ModelSlug, Recorder, Replay};
use crate::rt::{DriverChoice, Signals};
use crate::run::plan::{RunPlan, SHELL_ALLOW_DEFAULT};
use crate::tools::ToolSet;

/// What `GANTRY_DRIVER` may say.
const DRIVERS: [(&str, DriverChoice); 3] = [("auto", DriverChoice::Auto), ("uring", DriverChoice::Uring), ("epoll", DriverChoice::Epoll)];

/// Makes the plan of a run, or tells everything that is wrong with it.
///
/// `started` is when the process began to work. Stdin is read last, and only when nothing else is wrong: reading it may wait.
pub(super) fn resolve(typed: Typed, env: &Env, started: Instant, signals: Option<&Signals>) -> Result<RunPlan, Vec<Fault>> {
    let Typed { mut raw, mut faults, .. } = typed;
    let model = raw.model.as_deref().and_then(|text| faults.keep(endpoint::model(text)));
    let endpoint = model.as_ref().map(|model| endpoint(model, &mut raw, env, &mut faults));
    let workdir = raw.workdir.as_deref().and_then(|path| faults.keep(inputs::workdir(path)));
    let skills_dir = skills_dir(&raw, workdir.as_ref().map(|(path, _)| path.as_path()), &mut faults);
    let system =
        raw.system_file.as_deref().and_then(|path| faults.keep(inputs::text_file("--system-file", path, limits::PROMPT_BYTES_MAX)));
    let driver = faults.keep(driver(env));
    let tools = tools(&raw.tools, &mut faults);
    let replay = faults.keep(replay(model.as_ref()));
    let record = raw.record.as_deref().and_then(|path| faults.keep(recordable(path, model.as_ref())));
    let timeout_ms = raw.timeout_ms.unwrap_or(limits::TIMEOUT_MS_MAX);
    let prompt = match raw.prompt_file.as_deref() {
        Some(path) if path == OsStr::new("-") && !faults.is_empty() => None,
        Some(path) if path == OsStr::new("-") => faults.keep(inputs::text_stdin(inputs::deadline(started, timeout_ms), signals)),
        Some(path) => faults.keep(inputs::text_file("--prompt-file", path, limits::PROMPT_BYTES_MAX)),
        None => None,
    };
    if !faults.is_empty() {
        return Err(faults.into_vec());
    }
    // Last, since it empties a file that may be there.
    let record = record.map(record_to).transpose().map_err(|fault| vec![fault])?;
    let endpoint = endpoint.expect(SET);
    let (workdir, workdir_fd) = workdir.expect(SET);
    let shell_path = shell_path(env, &workdir);
    Ok(RunPlan {
        started,
        mode: raw.mode.expect(SET),
        workdir,
        workdir_fd,
        prompt: prompt.expect(SET),
        system,
        max_tokens: raw.max_tokens.expect(SET),
        timeout: Duration::from_millis(timeout_ms),
        max_turns: u32::try_from(raw.max_turns.unwrap_or(limits::TURNS_DEFAULT.into())).expect("the flag's range is that of u32"),
        model: model.expect(SET),
        key: endpoint.key,
        base_url: endpoint.base_url,
        headers: endpoint.headers,
        tls: endpoint.tls,
        connect_timeout: Duration::from_millis(limits::CONNECT_TIMEOUT_MS),
        idle_timeout: Duration::from_millis(raw.idle_timeout_ms.unwrap_or(limits::IDLE_TIMEOUT_MS_DEFAULT)),
        driver: driver.expect(SET),
        record,
        max_output_tokens: raw.max_output_tokens,
        temperature: raw.temperature,
        effort: raw.effort,
        replay: replay.expect(SET),
        tools: tools.expect(SET),
        shell_allow: shell_allow(raw.shell_allow),
        shell_path,
        shell_timeout: Duration::from_millis(raw.shell_timeout_ms.unwrap_or(limits::SHELL_TIMEOUT_MS_DEFAULT)),
        skills: raw.skills,
        skills_dir: skills_dir.expect(SET),
        notices: endpoint.notices,
    })
}

/// Why a required value is there.
const SET: &str = "whatever left it unset was kept as a fault";

fn tools(words: &[String], faults: &mut Faults) -> Option<ToolSet> {
    let wrong = |texts: Vec<String>| texts.into_iter().for_each(|text| faults.push(Fault::new("--tool", text)));
    ToolSet::resolve(words).map_err(wrong).ok()
}

/// The cassette, when the model is one.
fn replay(model: Option<&ModelSlug>) -> Result<Option<Replay>, Fault> {
    let Some(ModelSlug { model: name, .. }) = model.filter(|model| model.vendor.wire.is_none()) else { return Ok(None) };
    let text = match Replay::built_in(name) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(inputs::text_file("--model", Path::new(name), limits::CASSETTE_BYTES_MAX)?),
    };
    Replay::parse(&text, name).map(Some).map_err(|text| Fault::new("--model", text))
}

/// Where a cassette can be written, if there is anything to record.
fn recordable<'a>(path: &'a Path, model: Option<&ModelSlug>) -> Result<&'a Path, Fault> {
    match model {
        Some(model) if model.vendor.wire.is_none() => {
            Err(Fault::new("--record", format!("{}/ answers from a recording; leave --record out", model.vendor.name)))
        }
        _ => inputs::writable("--record", path).map(|()| path),
    }
}

fn record_to(path: &Path) -> Result<File, Fault> {
    Recorder::create(path).map_err(|error| Fault::new("--record", format!("{}: {error}; name a file that can be written", shown(path))))
}

fn driver(env: &Env) -> Result<DriverChoice, Fault> {
    let Some(text) = env.text(env::DRIVER)? else { return Ok(DriverChoice::Auto) };
    let names = DRIVERS.map(|(name, _)| name);
    match DRIVERS.iter().find(|(name, _)| *name == text) {
        Some((_, choice)) => Ok(*choice),
        None => Err(Fault::new(env::DRIVER, format!("{} is not a driver; {}", shown(text), choices(text, &names)))),
    }
}

/// The directory named must be there; the default need not.
fn skills_dir(raw: &RawArgs, workdir: Option<&Path>, faults: &mut Faults) -> Option<PathBuf> {
    match &raw.skills_dir {
        Some(path) => faults.keep(inputs::directory("--skills-dir", path)),
        None => workdir.map(|workdir| workdir.join(".claude/skills")),
    }
}

/// A program that lies in the workdir is not the one that the list means.
fn shell_path(env: &Env, workdir: &Path) -> String {
    let dirs = env.paths(env::PATH).into_iter().filter(|dir| dir.is_absolute() && !dir.starts_with(workdir));
    let dirs: Vec<String> = dirs.filter_map(|dir| dir.into_os_string().into_string().ok()).collect();
    if dirs.is_empty() { PATH_DEFAULT.to_owned() } else { dirs.join(":") }
}

/// Where programs are found when `PATH` says nothing.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

fn shell_allow(named: Vec<String>) -> Vec<String> {
    if named.is_empty() { SHELL_ALLOW_DEFAULT.map(String::from).to_vec() } else { named }
}

#[cfg(test)]
mod tests {
    use super::super::raw;
    use super::super::scratch::Scratch;
    use super::*;
    use crate::rt::Clock;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    /// A command line that is right, to be made wrong in one place.
    struct Line {
        dir: Scratch,
        args: Vec<(String, OsString)>,
        env: Vec<(&'static str, &'static str)>,
    }

    impl Line {
        fn new(test: &str) -> Line {
            let dir = Scratch::new(test);
            let prompt = dir.file("prompt.md", b"Say hello.");
            let work = dir.dir("work");
            let args = [
                ("mode", OsString::from("single")),
                ("model", "anthropic/some-model".into()),
                ("workdir", work.into()),
                ("prompt-file", prompt.into()),
                ("max-tokens", "1000".into()),
                ("timeout-ms", "60000".into()),
            ];
            Line { dir, args: args.map(|(flag, value)| (flag.into(), value)).to_vec(), env: vec![("ANTHROPIC_API_KEY", "sk-1")] }
        }

        fn set(mut self, flag: &str, value: impl Into<OsString>) -> Line {
            self.args.retain(|(known, _)| known != flag);
            self.args.push((flag.into(), value.into()));
            self
        }

        fn add(mut self, flag: &str, value: impl Into<OsString>) -> Line {
            self.args.push((flag.into(), value.into()));
            self
        }

        fn env(mut self, name: &'static str, value: &'static str) -> Line {
            self.env.retain(|(known, _)| *known != name);
            self.env.push((name, value));
            self
        }

        fn words(&self) -> Vec<OsString> {
            self.args.iter().flat_map(|(flag, value)| [format!("--{flag}").into(), value.clone()]).collect()
        }

        fn plan(&self) -> Result<RunPlan, Vec<String>> {
            resolve(raw::parse(&self.words()), &Env::of(&self.env), Clock::now(), None)
                .map_err(|faults| faults.iter().map(Fault::to_string).collect())
        }

        /// The only fault.
        fn fault(&self) -> String {
            let mut faults = self.plan().expect_err("there is a fault");
            assert_eq!(faults.len(), 1, "{faults:?}");
            faults.remove(0)
        }
    }

    #[test]
    fn a_right_command_line_is_a_plan_with_the_documented_defaults() {
        let line = Line::new("plan");
        let plan = line.plan().expect("right");
        assert_eq!(plan.workdir, line.dir.path("work"));
        assert_eq!((plan.prompt.as_str(), plan.system), ("Say hello.", None));
        assert_eq!((plan.max_tokens, plan.timeout, plan.max_turns), (1000, Duration::from_secs(60), 100));
        assert_eq!(plan.key.as_ref().map(crate::secret::Secret::expose), Some("sk-1"));
        assert_eq!(plan.base_url.expect("a default").to_string(), "https://api.anthropic.com/");
        assert_eq!(plan.shell_allow, SHELL_ALLOW_DEFAULT);
        assert_eq!(plan.shell_timeout, Duration::from_secs(120));
        assert_eq!(plan.skills_dir, line.dir.path("work").join(".claude/skills"));
        assert!(plan.notices.is_empty() && plan.replay.is_none() && plan.headers.is_empty());
    }

    #[test]
    fn every_fault_is_told_at_once_and_names_its_flag() {
        let line = Line::new("all-at-once")
            .set("mode", "singel")
            .set("workdir", "/no/such/place")
            .set("max-tokens", "1e6")
            .set("timeout-ms", "0")
            .set("prompt-file", "/no/such/prompt")
            .add("skills-dir", "/no/such/skills")
            .add("promt-file", "x")
            .add("temperature", "NaN")
            .env("ANTHROPIC_API_KEY", "")
            .env("GANTRY_DRIVER", "iouring");
        let faults = line.plan().expect_err("wrong all over").join("\n");
        for part in [
            "--mode: 'singel' is not a mode; did you mean single?",
            "--workdir: '/no/such/place': No such file",
            "--max-tokens: '1e6' is not a whole number from 1 to",
            "--timeout-ms: '0' is not a whole number",
            "--prompt-file: '/no/such/prompt': No such file",
            "--skills-dir: ",
            "'--promt-file' is not a flag; did you mean --prompt-file?",
            "--temperature: 'NaN'",
            "ANTHROPIC_API_KEY not set",
            "GANTRY_DRIVER: 'iouring' is not a driver; did you mean uring?",
        ] {
            assert!(faults.contains(part), "{part} in\n{faults}");
        }
        assert_eq!(faults.lines().count(), 10, "{faults}");
    }

    #[test]
    fn each_required_flag_is_missed_by_name() {
        let faults = resolve(raw::parse(&[]), &Env::default(), Clock::now(), None).expect_err("nothing is given");
        let missed: Vec<_> = faults.iter().map(|fault| fault.subject.as_str()).collect();
        assert_eq!(missed, ["--max-tokens", "--mode", "--model", "--prompt-file", "--timeout-ms", "--workdir"]);
        assert!(faults.iter().all(|fault| fault.message.starts_with("missing; give --")));
    }

    #[test]
    fn a_flag_given_twice_is_refused_and_a_repeatable_one_is_not() {
        let line = Line::new("twice").add("max-tokens", "5");
        assert_eq!(line.fault(), "--max-tokens: given more than once; give it once");
        let line = Line::new("repeated").add("tool", "grep").add("tool", "read_file").add("tool", "grep");
        assert_eq!(line.plan().expect("right").tools.names(), ["read_file", "grep", "retrieve"]);
    }

    #[test]
    fn a_value_is_never_read_as_a_flag() {
        let line = Line::new("values");
        let odd = line.dir.dir("--workdir");
        let inside = std::fs::canonicalize(&odd).expect("it is there");
        assert_eq!(line.set("workdir", inside.clone()).plan().expect("right").workdir, inside);
        let typed = raw::parse(&["--system-file", "--timeout-ms", "--tool=--mode", "--workdir", "--help"].map(OsString::from));
        assert_eq!(typed.raw.system_file.as_deref(), Some(Path::new("--timeout-ms")));
        assert_eq!(typed.raw.tools, ["--mode"]);
        assert_eq!(typed.raw.workdir.as_deref(), Some(Path::new("--help")));
        assert_eq!((typed.raw.timeout_ms, typed.asked), (None, None));
    }

    #[test]
    fn words_that_are_no_flags_are_told_once_each() {
        for (words, parts) in [
            (&["--isolate", "stray"][..], &["'--isolate' is not a flag"][..]),
            (&["--max_tokens=5"], &["did you mean --max-tokens?"]),
            (&["-model", "x"], &["'-model' is not a flag; did you mean --model?"]),
            (&["-x"], &["'-x' is not a flag"]),
            (&["docter"], &["did you mean `gantry doctor`?"]),
            (&["a", "--", "--mode"], &["'a' belongs to no flag", "'--mode' belongs to no flag"]),
            (&["--mode"], &["--mode: no value follows; give --mode <MODE>"]),
            (&["--\u{1b}[2J"], &["'--\\u{1b}[2J' is not a flag"]),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let faults = raw::parse(&words).faults.into_vec();
            let told: Vec<_> = faults.iter().map(Fault::to_string).filter(|fault| !fault.contains(": missing;")).collect();
            assert_eq!(told.len(), parts.len(), "{told:?}");
            assert!(told.iter().zip(parts).all(|(told, part)| told.contains(part)), "{told:?} has {parts:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_where_text_is_wanted() {
        let binary = || OsString::from_vec(b"single\xff".to_vec());
        for flag in ["mode", "model", "max-tokens"] {
            let fault = Line::new(flag).set(flag, binary()).fault();
            assert!(fault.starts_with(&format!("--{flag}: ")) && fault.contains("UTF-8"), "{fault}");
        }
        let unknown = raw::parse(&[OsString::from_vec(b"--\xff=1".to_vec())]).faults.into_vec();
        assert!(unknown[0].to_string().contains("is not a flag"));
    }

    #[test]
    fn a_key_that_is_missing_or_cannot_be_sent_is_told_without_showing_it() {
        for key in ["sk-hidden\n", " sk-hidden", "sk-hidden\r", "sk-hid\nden", "sk-hidden\u{7f}", "sk-hiddén"] {
            let fault = Line::new("key").env("ANTHROPIC_API_KEY", key).fault();
            assert!(fault.starts_with("ANTHROPIC_API_KEY: the key ") && !fault.contains("sk-"), "{fault}");
        }
        let fault = Line::new("no-key").env("ANTHROPIC_API_KEY", " ").fault();
        assert!(fault.starts_with("ANTHROPIC_API_KEY not set"), "{fault}");
        // The key of another provider does not stand in.
        let fault = Line::new("other-key").set("model", "openai/m").fault();
        assert!(fault.starts_with("OPENAI_API_KEY not set"), "{fault}");
    }

    #[test]
    fn a_local_model_and_a_cassette_need_no_key() {
        let line = Line::new("no-key-needed").env("ANTHROPIC_API_KEY", "");
        let plan = line.set("model", "local/m").plan().expect("right");
        assert_eq!((plan.key.is_none(), plan.base_url.expect("a default").to_string()), (true, "http://localhost:8000/v1".into()));
        let plan = Line::new("replay").set("model", "replay/demo").plan().expect("right");
        assert!(plan.base_url.is_none());
    }

    #[test]
    fn the_base_url_is_the_flags_then_the_variables_then_the_default() {
        let base = |line: Line| line.plan().expect("right").base_url.expect("one").to_string();
        let local = |test: &str| Line::new(test).set("model", "local/m");
        assert_eq!(base(local("base-1").env("GANTRY_LOCAL_BASE_URL", " http://a:1/v1 ")), "http://a:1/v1");
        assert_eq!(base(local("base-2").env("GANTRY_LOCAL_BASE_URL", "http://a:1/v1").add("base-url", "http://b:2/v1")), "http://b:2/v1");
        let fault = Line::new("base-3").add("base-url", "http://b:2").fault();
        assert!(fault.contains("ANTHROPIC_API_BASE"), "{fault}");
    }

    #[test]
    fn a_header_of_the_users_takes_the_place_of_the_key_and_that_is_said() {
        let plan = Line::new("auth").env("ANTHROPIC_API_KEY", "").add("header", "Authorization: Bearer t").plan().expect("right");
        assert!(plan.key.is_none());
        let both = Line::new("auth-both").add("header", "x-api-key: t").plan().expect("right");
        assert!(both.key.is_none(), "only one of them is sent");
        assert_eq!(plan.notices.len(), 1);
        assert!(plan.notices[0].message.contains("authorization") && !plan.notices[0].message.contains("Bearer"));
    }

    #[test]
    fn attribution_comes_from_variables_and_a_flag_wins() {
        let router = |test: &str| {
            let line = Line::new(test).set("model", "openrouter/vendor/m").env("OPENROUTER_API_KEY", "sk-2");
            line.env("OPENROUTER_X_TITLE", " app ").env("OPENROUTER_HTTP_REFERER", "")
        };
        let headers = |line: Line| {
            let plan = line.plan().expect("right");
            plan.headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().expect("text"))).collect::<Vec<_>>()
        };
        assert_eq!(headers(router("attribution-1")), ["x-title=app"]);
        assert_eq!(headers(router("attribution-2").add("header", "X-Title: mine")), ["x-title=mine"]);
        assert!(router("attribution-3").env("OPENROUTER_X_TITLE", "a\nb").fault().starts_with("OPENROUTER_X_TITLE: "));
    }

    #[test]
    fn stdin_is_not_read_while_anything_else_is_wrong() {
        // The test's own stdin may never end; a plan that read it would hang here.
        let line = Line::new("stdin-last").set("prompt-file", "-").set("workdir", "/no/such/place");
        assert!(line.fault().starts_with("--workdir"));
    }

    #[test]
    fn files_that_are_named_are_checked() {
        let line = Line::new("files");
        let blank = line.dir.file("blank", b"\n");
        assert!(line.add("system-file", blank).fault().starts_with("--system-file: "));
        assert!(Line::new("record").add("record", "/no/such/folder/c").fault().starts_with("--record: "));
        assert!(Line::new("replayed").set("model", "replay/demo").add("record", "/dev/shm/c").fault().starts_with("--record: replay/"));
        assert!(Line::new("cassette").set("model", "replay//no/such/file").fault().starts_with("--model: '/no/such/file': No such"));
        assert!(Line::new("tools").add("tool", "red_file").fault().starts_with("--tool: "));
        assert!(Line::new("cert").env("SSL_CERT_FILE", "/no/such/file").fault().starts_with("SSL_CERT_FILE: "));
        // Over plain http no root is needed.
        assert!(Line::new("cert-unused").set("model", "local/m").env("SSL_CERT_FILE", "/no/such/file").plan().is_ok());
    }

    #[test]
    fn a_cassette_that_is_there_is_emptied_only_when_nothing_is_wrong() {
        let line = Line::new("kept");
        let old = line.dir.file("old", b"an old cassette");
        let line = line.add("record", &old).set("max-tokens", "0");
        line.fault();
        assert_eq!(std::fs::read(&old).expect("still there"), b"an old cassette");
        let line = line.set("max-tokens", "5");
        assert!(line.plan().expect("right").record.is_some());
        assert_eq!(std::fs::read(&old).expect("still there"), b"");
    }

    #[test]
    fn a_plan_shows_no_secret() {
        let line = Line::new("secret").env("ANTHROPIC_API_KEY", "sk-hidden").add("header", "X-Api-Token: t-hidden");
        let shown = format!("{:?}", line.plan().expect("right"));
        assert!(shown.contains("x-api-token") && !shown.contains("hidden"), "{shown}");
    }
}
