//! Renders what a shell offers while a command line is typed, from the tables.

use std::fmt::Write;

use super::COMMANDS;
use super::flags::{Complete, Need};
use super::table::FLAGS;

/// A shell that scripts are rendered for.
pub(super) struct Shell {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Renders its script.
    pub(super) script: fn() -> String,
}

/// Every shell.
pub(super) static SHELLS: &[Shell] =
    &[Shell { name: "bash", script: bash }, Shell { name: "fish", script: fish }, Shell { name: "zsh", script: zsh }];

fn commands() -> Vec<&'static str> {
    COMMANDS.iter().filter(|command| !command.hidden).map(|command| command.name).collect()
}

fn bash() -> String {
    let mut script =
        String::from("_gantry() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n    case $prev in\n");
    for flag in FLAGS {
        let offer = match flag.complete {
            Complete::Nothing => "COMPREPLY=()".into(),
            Complete::File => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")".into(),
            Complete::Dir => "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")".into(),
            Complete::Words(words) => format!("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$cur\")", words().join(" ")),
        };
        let _ = writeln!(script, "        --{}) {offer}; return ;;", flag.long);
    }
    let flags: Vec<String> = FLAGS.iter().map(|flag| format!("--{}", flag.long)).collect();
    let _ = writeln!(script, "    esac\n    local words='{}'", flags.join(" "));
    let _ = writeln!(script, "    [[ $COMP_CWORD -eq 1 ]] && words+=' {}'", commands().join(" "));
    script.push_str("    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\ncomplete -F _gantry gantry\n");
    script
}

fn fish() -> String {
    let mut script = String::from("complete -c gantry -f\n");
    for command in COMMANDS.iter().filter(|command| !command.hidden) {
        let _ = writeln!(script, "complete -c gantry -n __fish_use_subcommand -a {} -d '{}'", command.name, quoted(command.short));
    }
    for flag in FLAGS {
        let offer = match flag.complete {
            Complete::Nothing => "-x".into(),
            Complete::File => "-r -F".into(),
            Complete::Dir => "-x -a '(__fish_complete_directories)'".into(),
            Complete::Words(words) => format!("-x -a '{}'", words().join(" ")),
        };
        let _ = writeln!(script, "complete -c gantry -l {} {offer} -d '{}'", flag.long, quoted(flag.short));
    }
    script
}

fn zsh() -> String {
    let mut script = String::from("#compdef gantry\n_arguments \\\n");
    for flag in FLAGS {
        let offer = match flag.complete {
            Complete::Nothing => " ".into(),
            Complete::File => "_files".into(),
            Complete::Dir => "_files -/".into(),
            Complete::Words(words) => format!("({})", words().join(" ")),
        };
        let again = if flag.need == Need::Repeatable { "*" } else { "" };
        let doc = quoted(flag.short).replace('[', "\\[").replace(']', "\\]");
        let value = flag.value.replace(':', "\\:");
        let _ = writeln!(script, "  '{again}--{}[{doc}]:{value}:{offer}' \\", flag.long);
    }
    let _ = writeln!(script, "  '1::command:({})'", commands().join(" "));
    script
}

/// For single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_offers_every_flag_and_command() {
        for Shell { name: shell, script } in SHELLS {
            let script = script();
            for flag in FLAGS {
                let spelled = if *shell == "fish" { format!("-l {} ", flag.long) } else { format!("--{}", flag.long) };
                assert!(script.contains(&spelled), "{shell} {spelled}");
            }
            assert!(commands().iter().all(|command| script.contains(command)), "{shell}");
        }
    }

    #[test]
    fn quotes_in_a_sentence_do_not_end_it() {
        assert_eq!(quoted("a skill's text"), "a skill'\\''s text");
    }
}
