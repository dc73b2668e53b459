//! Every flag of a run, sorted by name. A new flag is one row here, one field in [`RawArgs`](super::raw::RawArgs), and its use in `resolve`.

use super::fault::{choices, shown};
use super::flags::{Complete, Flag, Group, Need};
use super::headers::add_header;
use super::values::{add, fraction, name, path, program, put, text, whole};
use crate::limits;
use crate::provider::{Effort, VENDORS};
use crate::run::plan::{MODES, SHELL_ALLOW_DEFAULT};
use crate::tools::{self, TOOLS};

/// The flags.
pub(super) static FLAGS: &[Flag] = &[
    Flag {
        long: "base-url",
        value: "URL",
        need: Need::Optional,
        group: Group::Model,
        complete: Complete::Nothing,
        short: "Where an OpenAI-compatible server answers; for local/ models only.",
        long_doc: "Wins over GANTRY_LOCAL_BASE_URL. The other providers are pointed elsewhere by their variable, never by a flag, \
                   so that a key goes only where its owner sent it.",
        default: None,
        set: |raw, value| put(&mut raw.base_url, text(value).map_err(|_| "the value is empty or not UTF-8; give a URL".into())),
    },
    Flag {
        long: "effort",
        value: "LEVEL",
        need: Need::Optional,
        group: Group::Model,
        complete: Complete::Words(|| Effort::ALL.iter().map(|(name, _)| (*name).into()).collect()),
        short: "How hard a reasoning model thinks: low, medium or high.",
        long_doc: "Sent to the model only when given; a model that cannot reason may refuse it.",
        default: None,
        set: |raw, value| put(&mut raw.effort, text(value).and_then(effort)),
    },
    Flag {
        long: "header",
        value: "NAME: VALUE",
        need: Need::Repeatable,
        group: Group::Model,
        complete: Complete::Nothing,
        short: "One more header for every request to the provider.",
        long_doc: "Authorization or X-Api-Key takes the place of the key, which is then neither needed nor sent. Values are never \
                   shown and never recorded. Headers that frame the request (Host, Content-Length, …) are refused.",
        default: None,
        set: |raw, value| add_header(&mut raw.headers, value),
    },
    Flag {
        long: "idle-timeout-ms",
        value: "N",
        need: Need::Optional,
        group: Group::Limits,
        complete: Complete::Nothing,
        short: "How long the provider may send nothing before the attempt is given up.",
        long_doc: "Applies to the wait for the first byte and to each gap after it. The attempt is then made again as after any \
                   transport fault.",
        default: Some(|| limits::IDLE_TIMEOUT_MS_DEFAULT.to_string()),
        set: |raw, value| put(&mut raw.idle_timeout_ms, whole(value, 1..=limits::TIMEOUT_MS_MAX)),
    },
    Flag {
        long: "inject-skill",
        value: "NAME",
        need: Need::Repeatable,
        group: Group::Tools,
        complete: Complete::Nothing,
        short: "Put a skill's text into the system prompt.",
        long_doc: "Read from NAME/SKILL.md in the directory of skills. A skill that is not there is a warning event, and the run goes on.",
        default: None,
        set: |raw, value| add(&mut raw.skills, name(value, limits::SKILL_NAME_CHARS_MAX)),
    },
    Flag {
        long: "max-output-tokens",
        value: "N",
        need: Need::Optional,
        group: Group::Limits,
        complete: Complete::Nothing,
        short: "The most output tokens of one model call.",
        long_doc: "The rest of the budget bounds it further.",
        default: Some(|| {
            format!("{} at Anthropic, whose wire wants a number; elsewhere the provider's own", limits::OUTPUT_TOKENS_DEFAULT)
        }),
        set: |raw, value| put(&mut raw.max_output_tokens, whole(value, 1..=u64::MAX)),
    },
    Flag {
        long: "max-tokens",
        value: "N",
        need: Need::Required,
        group: Group::Limits,
        complete: Complete::Nothing,
        short: "The token budget of the whole run: input, output and cache writes.",
        long_doc: "Cache reads are not counted. The run ends with exit `budget` when the sum reaches N, or before a call for whose answer fewer than 256 tokens are left. The last call may go past N, since its input is known only afterwards.",
        default: None,
        set: |raw, value| put(&mut raw.max_tokens, whole(value, 1..=u64::MAX)),
    },
    Flag {
        long: "max-turns",
        value: "N",
        need: Need::Optional,
        group: Group::Limits,
        complete: Complete::Nothing,
        short: "Model calls before one last call asks for the answer.",
        long_doc: "The run then ends with exit `ok` and the stop reason `turn_cap`.",
        default: Some(|| limits::TURNS_DEFAULT.to_string()),
        set: |raw, value| put(&mut raw.max_turns, whole(value, 1..=u64::from(u32::MAX - 1))),
    },
    Flag {
        long: "mode",
        value: "MODE",
        need: Need::Required,
        group: Group::Task,
        complete: Complete::Words(|| MODES.iter().map(|row| row.name.into()).collect()),
        short: "How the run proceeds.",
        long_doc: "`single`: one agent works until it stops calling tools, or until the turn cap.",
        default: None,
        set: |raw, value| put(&mut raw.mode, text(value).and_then(mode)),
    },
    Flag {
        long: "model",
        value: "PROVIDER/MODEL",
        need: Need::Required,
        group: Group::Model,
        complete: Complete::Words(|| VENDORS.iter().map(|vendor| format!("{}/", vendor.name)).collect()),
        short: "The provider, a slash, and the model's name as that provider knows it.",
        long_doc: "Only the first slash splits: openrouter/vendor/model asks OpenRouter for vendor/model. replay/demo answers from a \
                   recording in the binary, without a key and without a network; replay/FILE from one that --record wrote.",
        default: None,
        set: |raw, value| put(&mut raw.model, text(value)),
    },
    Flag {
        long: "prompt-file",
        value: "FILE",
        need: Need::Required,
        group: Group::Task,
        complete: Complete::File,
        short: "The task as UTF-8 text, in a file, or - for stdin.",
        long_doc: "Stdin is read only when it is asked for, to its end.",
        default: None,
        set: |raw, value| put(&mut raw.prompt_file, path(value)),
    },
    Flag {
        long: "record",
        value: "FILE",
        need: Need::Optional,
        group: Group::Model,
        complete: Complete::File,
        short: "Write every exchange with the provider to a cassette that replay/FILE answers from.",
        long_doc: "Only answers are in it: no key, no header of yours, and nothing of what was sent. A file that is there is replaced.",
        default: None,
        set: |raw, value| put(&mut raw.record, path(value)),
    },
    Flag {
        long: "shell-allow",
        value: "PROGRAM",
        need: Need::Repeatable,
        group: Group::Tools,
        complete: Complete::Nothing,
        short: "A program that the shell tool may run.",
        long_doc: "Given once or more, it replaces the default list.",
        default: Some(|| SHELL_ALLOW_DEFAULT.join(" ")),
        set: |raw, value| add(&mut raw.shell_allow, program(value)),
    },
    Flag {
        long: "shell-timeout-ms",
        value: "N",
        need: Need::Optional,
        group: Group::Tools,
        complete: Complete::Nothing,
        short: "The wall clock of one shell command; then its whole process tree is killed.",
        long_doc: "The run's own deadline bounds it further.",
        default: Some(|| limits::SHELL_TIMEOUT_MS_DEFAULT.to_string()),
        set: |raw, value| put(&mut raw.shell_timeout_ms, whole(value, 1..=limits::TIMEOUT_MS_MAX)),
    },
    Flag {
        long: "skills-dir",
        value: "DIR",
        need: Need::Optional,
        group: Group::Tools,
        complete: Complete::Dir,
        short: "Where skills are found, for --inject-skill and the skill_load tool.",
        long_doc: "It may lie outside the workdir.",
        default: Some(|| "<workdir>/.claude/skills".into()),
        set: |raw, value| put(&mut raw.skills_dir, path(value)),
    },
    Flag {
        long: "system-file",
        value: "FILE",
        need: Need::Optional,
        group: Group::Task,
        complete: Complete::File,
        short: "The system prompt, in place of the built-in one.",
        long_doc: "",
        default: None,
        set: |raw, value| put(&mut raw.system_file, path(value)),
    },
    Flag {
        long: "temperature",
        value: "X",
        need: Need::Optional,
        group: Group::Model,
        complete: Complete::Nothing,
        short: "The sampling temperature, from 0 to 2.",
        long_doc: "Sent to the model only when given; some models refuse it.",
        default: None,
        set: |raw, value| put(&mut raw.temperature, fraction(value, 0.0..=2.0)),
    },
    Flag {
        long: "timeout-ms",
        value: "N",
        need: Need::Required,
        group: Group::Limits,
        complete: Complete::Nothing,
        short: "The wall clock of the whole run in milliseconds.",
        long_doc: "Everything in flight is cancelled when it ends: model calls, waits and the process trees of tools.",
        default: None,
        set: |raw, value| put(&mut raw.timeout_ms, whole(value, 1..=limits::TIMEOUT_MS_MAX)),
    },
    Flag {
        long: "tool",
        value: "NAME",
        need: Need::Repeatable,
        group: Group::Tools,
        complete: Complete::Words(tool_words),
        short: "Offer the model only the tools named; +NAME adds to the default set instead.",
        long_doc: "Tools that change files are off unless named: --tool +write_file.",
        default: Some(|| "all tools that only read, and shell".into()),
        set: |raw, value| add(&mut raw.tools, text(value)),
    },
    Flag {
        long: "workdir",
        value: "DIR",
        need: Need::Required,
        group: Group::Task,
        complete: Complete::Dir,
        short: "The directory to work in; file tools cannot leave it.",
        long_doc: "",
        default: None,
        set: |raw, value| put(&mut raw.workdir, path(value)),
    },
];

/// What `--tool` takes: each tool alone, and those that are off by default also as an addition.
fn tool_words() -> Vec<String> {
    let named = |group: tools::Group| TOOLS.iter().filter(move |tool| tool.group == group).map(|tool| tool.name);
    named(tools::Group::Base)
        .map(String::from)
        .chain(named(tools::Group::OptIn).flat_map(|name| [name.into(), format!("+{name}")]))
        .collect()
}

fn mode(text: String) -> Result<crate::run::plan::Mode, String> {
    let names: Vec<&str> = MODES.iter().map(|row| row.name).collect();
    match MODES.iter().find(|row| row.name == text) {
        Some(row) => Ok(row.mode),
        None => Err(format!("{} is not a mode; {}", shown(&text), choices(&text, &names))),
    }
}

fn effort(text: String) -> Result<Effort, String> {
    match Effort::ALL.iter().find(|(name, _)| *name == text) {
        Some((_, effort)) => Ok(*effort),
        None => Err(format!("{} is not a level; {}", shown(&text), choices(&text, &Effort::ALL.map(|(name, _)| name)))),
    }
}
