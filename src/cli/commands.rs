//! The commands that print for people and for scripts. They touch no provider and exit 0.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::COMMANDS;
use super::completions::SHELLS;
use super::fault::{choices, shown};
use super::out::{print, refuse};
use super::usage;
use crate::emit;

/// `gantry help [COMMAND]`.
pub(super) fn help(args: &[OsString]) -> ExitCode {
    let names: Vec<&str> = COMMANDS.iter().filter(|command| !command.hidden).map(|command| command.name).collect();
    match args {
        [] => print(&usage::help()),
        [word] => match COMMANDS.iter().find(|command| !command.hidden && word == command.name) {
            Some(command) => print(&usage::help_for(command)),
            None => refuse(&format!(
                "{} is not a command; {}; `gantry help` alone tells the flags",
                shown(word),
                choices(&word.to_string_lossy(), &names)
            )),
        },
        _ => wrong_words("help"),
    }
}

/// `gantry version [--json]`.
pub(super) fn version(args: &[OsString]) -> ExitCode {
    match args {
        [] => print(&version_line()),
        [flag] if flag == "--json" => {
            let version = json!({ "name": "gantry", "version": VERSION, "schema_version": emit::SCHEMA_VERSION });
            print(&format!("{version}\n"))
        }
        _ => wrong_words("version"),
    }
}

/// `gantry schema events`.
pub(super) fn schema(args: &[OsString]) -> ExitCode {
    match args {
        [what] if what == "events" => print(&format!("{:#}\n", emit::events_schema())),
        _ => wrong_words("schema"),
    }
}

/// `gantry completions SHELL`.
pub(super) fn completions(args: &[OsString]) -> ExitCode {
    match args {
        [shell] => match SHELLS.iter().find(|row| shell == row.name) {
            Some(row) => print(&(row.script)()),
            None => {
                let names: Vec<&str> = SHELLS.iter().map(|row| row.name).collect();
                refuse(&format!("there is no script for {}; {}", shown(shell), choices(&shell.to_string_lossy(), &names)))
            }
        },
        _ => wrong_words("completions"),
    }
}

/// The version of the program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `gantry 1.2.3`, a line.
pub(super) fn version_line() -> String {
    format!("gantry {VERSION}\n")
}

/// Tells how a command is written.
pub(super) fn wrong_words(name: &str) -> ExitCode {
    let command = COMMANDS.iter().find(|command| command.name == name).expect("a command refuses words of its own");
    refuse(&format!("`gantry {name}` does not take these words; write: gantry {name} {}", command.args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_documented() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for command in COMMANDS {
            assert!(command.short.ends_with('.') && command.short.len() <= 90, "{}", command.name);
            assert!(command.long_doc.is_empty() || command.long_doc.ends_with('.'), "{}", command.name);
        }
    }
}
