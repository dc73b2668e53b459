//! Renders what people read about the command line: the help, and `docs/CLI.md`. Both come from the tables and nothing else.

use std::fmt::Write;

use super::env::VARIABLES;
use super::flags::{Flag, Group, Need};
use super::{COMMANDS, Command};
use crate::emit;
use crate::error::Exit;
use crate::provider::{VENDORS, Vendor};

/// Where a line of the help breaks (characters).
const WIDTH: usize = 100;
/// Where the second column of the help begins.
const COLUMN: usize = 30;

/// `gantry help`.
pub(super) fn help() -> String {
    let mut page = String::from(include_str!("help_head.txt"));
    for group in Group::ALL {
        let _ = writeln!(page, "\n{}:", group.title());
        for flag in group.flags() {
            row(&mut page, &flag.usage(), &format!("{}{}", flag.short, remarks(flag)));
        }
    }
    page.push_str("\nCommands:\n");
    for command in COMMANDS.iter().filter(|command| !command.hidden) {
        row(&mut page, &usage_of(command), command.short);
    }
    page.push_str("\nProviders and environment:\n");
    for vendor in VENDORS {
        row(&mut page, &format!("{}/MODEL", vendor.name), &vendor_line(vendor, ""));
    }
    for variable in VARIABLES {
        row(&mut page, variable.name, &variable.doc.replace('`', ""));
    }
    page.push_str("\nExit codes:\n");
    for exit in Exit::ALL {
        row(&mut page, &format!("{} {}", exit.code(), exit.name()), &exit.meaning().replace('`', ""));
    }
    page
}

/// `gantry help COMMAND`.
pub(super) fn help_for(command: &Command) -> String {
    let mut page = format!("Usage: gantry {}\n\n{}\n", usage_of(command), command.short);
    if !command.long_doc.is_empty() {
        wrap(&mut page, command.long_doc, 0);
    }
    page
}

/// `docs/CLI.md`, whole.
pub fn cli_page() -> String {
    let mut page = String::from(include_str!("cli_head.md"));
    for group in Group::ALL {
        let _ = writeln!(page, "\n### {}", group.title());
        for flag in group.flags() {
            let _ = write!(page, "\n#### `{}`\n\n{}{}", flag.usage(), flag.short, remarks(flag));
            let _ = if flag.long_doc.is_empty() { writeln!(page) } else { writeln!(page, " {}", flag.long_doc) };
        }
    }
    page.push_str("\n## Providers\n\n| model | reached by |\n|---|---|\n");
    for vendor in VENDORS {
        let _ = writeln!(page, "| `{}/…` | {} |", vendor.name, vendor_line(vendor, "`"));
    }
    page.push_str("\n## Environment\n\nRead once at the start, and only these, with the keys and base URLs above:\n\n| variable | meaning |\n|---|---|\n");
    for variable in VARIABLES {
        let _ = writeln!(page, "| `{}` | {} |", variable.name, variable.doc);
    }
    page.push_str("\n## Commands\n\nThey print for people, or for programs with `--json`, and exit 0; wrong words are told on stderr with exit 4.\n\n| command | what it does |\n|---|---|\n");
    for command in COMMANDS.iter().filter(|command| !command.hidden) {
        let long = if command.long_doc.is_empty() { String::new() } else { format!(" {}", command.long_doc) };
        let _ = writeln!(page, "| `gantry {}` | {}{} |", usage_of(command).replace('|', "\\|"), command.short, long);
    }
    let _ = write!(page, "\n## Exit codes\n\n{}", emit::exit_table());
    page
}

fn usage_of(command: &Command) -> String {
    format!("{} {}", command.name, command.args).trim_end().to_string()
}

/// What the table knows besides the sentence.
fn remarks(flag: &Flag) -> String {
    let need = match flag.need {
        Need::Required => " Required.",
        Need::Optional => "",
        Need::Repeatable => " May be repeated.",
    };
    match flag.default {
        Some(default) => format!("{need} Default: {}.", default()),
        None => need.to_string(),
    }
}

fn vendor_line(vendor: &Vendor, tick: &str) -> String {
    let mut line = match (vendor.key_var, vendor.key_required) {
        (Some(variable), true) => format!("Key in {tick}{variable}{tick}."),
        (Some(variable), false) => format!("Key, if the server wants one, in {tick}{variable}{tick}."),
        (None, _) => "No key.".into(),
    };
    if let Some(variable) = vendor.base_var {
        let flag = if vendor.base_flag { format!("{tick}--base-url{tick} or ") } else { String::new() };
        let _ = write!(line, " Base URL in {flag}{tick}{variable}{tick}, else {}.", vendor.base_default.unwrap_or("none"));
    }
    for (header, variable) in vendor.header_vars {
        let _ = write!(line, " {header} header from {tick}{variable}{tick}.");
    }
    line
}

fn row(page: &mut String, left: &str, right: &str) {
    let begin = format!("  {left}");
    page.push_str(&begin);
    if begin.len() + 2 > COLUMN {
        page.push('\n');
        page.push_str(&" ".repeat(COLUMN));
    } else {
        page.push_str(&" ".repeat(COLUMN - begin.len()));
    }
    wrap(page, right, COLUMN);
}

/// Writes words in lines that end before [`WIDTH`]; the first line goes on where the page stands, in column `indent`.
fn wrap(page: &mut String, text: &str, indent: usize) {
    let mut at = indent;
    for word in text.split_whitespace() {
        let wide = word.chars().count();
        if at > indent && at + 1 + wide > WIDTH {
            page.push('\n');
            page.push_str(&" ".repeat(indent));
            at = indent;
        } else if at > indent {
            page.push(' ');
            at += 1;
        }
        page.push_str(word);
        at += wide;
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::table::FLAGS;
    use super::*;

    #[test]
    fn the_help_names_everything_once_and_fits_the_width() {
        let help = help();
        for flag in FLAGS {
            assert_eq!(help.matches(&format!("  --{} <", flag.long)).count(), 1, "--{}", flag.long);
        }
        for line in help.lines() {
            assert!(line.chars().count() <= WIDTH && line.trim_end() == line, "{line:?}");
        }
        assert!(!help.contains("__exec"), "the helper's door is not for people");
    }
}
