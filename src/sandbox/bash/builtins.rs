//! The builtins that a line may use, and the variables that it may set.

use super::words::{Breadth, Text};
use super::{Judged, Walk, beneath, is_name};

/// Harmless whatever their arguments.
const PLAIN: &[&str] = &["pwd", "echo", "true", "false", ":", "exit", "return", "break", "continue", "shift"];
/// Harmless with the arguments that [`Walk::builtin`] lets pass.
const CHECKED: &[&str] = &["cd", "printf", "test", "[", "read", "export", "set", "unset", "command", "type", "wait"];
/// Evaluate text, change what names mean, or start programs in other ways.
const REFUSED: &[&str] = &[
    ".",
    "source",
    "eval",
    "exec",
    "builtin",
    "enable",
    "trap",
    "alias",
    "unalias",
    "hash",
    "compgen",
    "complete",
    "compopt",
    "mapfile",
    "readarray",
    "declare",
    "typeset",
    "local",
    "readonly",
    "let",
    "shopt",
    "jobs",
    "bg",
    "fg",
    "disown",
    "suspend",
    "bind",
    "fc",
    "history",
    "caller",
    "getopts",
    "ulimit",
    "umask",
    "kill",
    "pushd",
    "popd",
    "dirs",
    "help",
    "logout",
    "times",
    "coproc",
];

/// Options of `set` that only make a line stricter or louder.
const SET_OPTIONS: &[&str] = &[
    "-e", "-u", "-x", "-f", "-eu", "-ex", "-eux", "-euo", "-eo", "-o", "-euxo", "-uo", "+e", "+u", "+x", "+f", "pipefail", "errexit",
    "nounset",
];

/// Variables that programs of the list read harmlessly.
const EXPORTABLE: &[&str] = &["LANG", "TZ", "NO_COLOR", "FORCE_COLOR", "CI", "COLUMNS", "RUST_BACKTRACE"];

/// Beginnings of the names that bash or programs take for more than data.
const TAKEN: &[&str] = &[
    "GIT",
    "LD_",
    "DYLD",
    "BASH",
    "PS",
    "PWD",
    "OLDPWD",
    "PROMPT",
    "PATH",
    "ENV",
    "SHELL",
    "CDPATH",
    "HIST",
    "GLOB",
    "FUNC",
    "EXEC",
    "FIGNORE",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "LESS",
    "MAN",
    "HOME",
    "TMP",
    "TEMP",
    "PYTHON",
    "NODE",
    "NPM",
    "PERL",
    "RUBY",
    "GEM",
    "JAVA",
    "CLASSPATH",
    "CARGO",
    "RUST",
    "GO",
    "MAKE",
    "CC",
    "CXX",
    "AWK",
    "GREP",
    "TAR",
    "GZIP",
    "SSH",
    "GPG",
    "SUDO",
    "XDG",
    "DISPLAY",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "SRANDOM",
    "EPOCH",
    "OPT",
    "UID",
    "EUID",
    "PPID",
    "DIRSTACK",
    "GROUPS",
    "MAIL",
    "TIMEFORMAT",
    "POSIX",
    "COMP",
    "INPUTRC",
    "TERM",
    "GCONV",
    "LOCPATH",
    "NLSPATH",
    "MALLOC",
    "RES_",
    "HOSTALIASES",
    "IFS",
    "REPLY",
    "MAPFILE",
    "COPROC",
    "RIPGREP",
    "FZF",
    "BAT",
    "DELTA",
];

/// Whether a name is a builtin of bash.
pub(super) fn known(name: &str) -> bool {
    [PLAIN, CHECKED, REFUSED].iter().any(|list| list.contains(&name))
}

/// Judges that a variable is set. `exported`: programs see it.
pub(super) fn assignable(name: &str, exported: bool) -> Judged {
    let locale = name.starts_with("LC_");
    let own = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && !name.starts_with("npm_") && !name.contains("proxy");
    let taken = TAKEN.iter().any(|front| name.starts_with(front));
    if locale || EXPORTABLE.contains(&name) || own || !exported && !taken || name == "IFS" && !exported {
        return Ok(());
    }
    Err(format!("the variable {name} is not set here, since programs take it for more than data; use a name in lower case"))
}

impl Walk<'_> {
    pub(super) fn builtin(&mut self, name: &str, args: &[Text]) -> Judged {
        if PLAIN.contains(&name) {
            return Ok(());
        }
        match name {
            "cd" => {
                self.strays |= !args.iter().all(|arg| arg.known().is_some_and(|dir| dir == "-" || beneath(dir))) || args.is_empty();
                Ok(())
            }
            // `wait -p` assigns, and evaluates the subscript of what it assigns to.
            "wait" if args.iter().all(|arg| matches!(arg, Text::Static(id) if id.bytes().all(|b| b.is_ascii_digit()))) => Ok(()),
            "wait" => Err("wait takes no arguments here, or the number of a process".into()),
            "printf" if args.first().is_some_and(|a| begins(a, "-v")) => Err("printf -v is not run; use x=$(printf …)".into()),
            "printf" => Ok(()),
            "test" | "[" => tested(args),
            "read" => self.read(args),
            "export" => args.iter().try_for_each(exported),
            "unset" => args.iter().try_for_each(|a| match a.known() {
                Some(variable) if is_name(variable) && assignable(variable, true).is_ok() => Ok(()),
                _ => Err("unset takes plain variables of the line's own".into()),
            }),
            "set" if args.iter().all(|a| a.known().is_some_and(|a| SET_OPTIONS.contains(&a))) => Ok(()),
            "set" => Err("set takes -e, -u, -x, -f and -o pipefail here".into()),
            "command" | "type" if name == "type" || args.first().and_then(Text::known) == Some("-v") => Ok(()),
            _ => Err(format!(
                "the builtin `{name}` is not run here; call the program itself{}",
                if name == "kill" { ", or let the line end" } else { "" }
            )),
        }
    }

    /// `read` splits a line into variables, which then hold anything.
    fn read(&mut self, args: &[Text]) -> Judged {
        let mut takes_value = false;
        for arg in args {
            let Some(word) = arg.known() else { return Err("read takes names that are written out".into()) };
            if std::mem::take(&mut takes_value) {
                continue;
            }
            match word.strip_prefix('-') {
                Some(options) if !options.is_empty() && options.bytes().all(|b| b"rsdntNp".contains(&b)) => {
                    takes_value = options.ends_with(['d', 'n', 't', 'N', 'p']);
                }
                None if is_name(word) && assignable(word, true).is_ok() => self.assign(word, false)?,
                _ => return Err(format!("read takes -r, -d, -n, -t and plain variables, not `{word}`")),
            }
        }
        Ok(())
    }
}

/// The operators of `test` between two words.
const BETWEEN: &[&str] = &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

/// `test -v` evaluates its word. Where a word is computed, it must stand where it cannot be that operator.
fn tested(args: &[Text]) -> Judged {
    if args.iter().any(|a| matches!(a, Text::Dynamic { breadth, .. } if *breadth > Breadth::One)) {
        return Err("a computed word of a test stands in double quotes, since it would be split otherwise: [ -n \"$x\" ]".into());
    }
    if args.iter().any(|a| matches!(a.known(), Some("-v" | "-R"))) {
        return Err("test -v evaluates its word; test the value with -n".into());
    }
    let closed = if args.last().and_then(Text::known) == Some("]") { &args[..args.len() - 1] } else { args };
    let words = if closed.first().and_then(Text::known) == Some("!") { &closed[1..] } else { closed };
    let sound = match words {
        [] | [_] => true,
        [operator, _] => operator.known().is_some(),
        [_, operator, _] => operator.known().is_some_and(|o| BETWEEN.contains(&o)),
        all => all.iter().all(|word| word.known().is_some()),
    };
    if sound { Ok(()) } else { Err("a test with computed words has the form [ A OP B ] or [ -OP A ]; join several with && and ||".into()) }
}

fn exported(arg: &Text) -> Judged {
    let word = match arg {
        Text::Static(text) => text,
        Text::Dynamic { front, breadth: Breadth::One } => front,
        Text::Dynamic { front, .. } => return Err(format!("quote what is exported: export NAME=\"…\", not `{front}…`")),
    };
    let name = word.split('=').next().unwrap_or_default();
    if !is_name(name) || arg.known().is_none() && !word.contains('=') {
        return Err(format!("export takes NAME or NAME=value, not `{word}`"));
    }
    assignable(name, true)
}

/// Whether a word does, or may, begin so.
pub(super) fn begins(text: &Text, front: &str) -> bool {
    match text {
        Text::Static(text) => text.starts_with(front),
        Text::Dynamic { front: known, .. } => known.starts_with(front) || front.starts_with(known.as_str()),
    }
}
