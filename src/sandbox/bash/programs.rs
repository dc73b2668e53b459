//! The programs of the list, and what those of them that can start others may be told.
//!
//! A program without a row is run with any arguments. One with a row can be made to run something else, or to write where it
//! should not, by its arguments; those are let pass only in known forms, and only where their text is certain.

use std::path::{Path, PathBuf};

use super::words::{Breadth, Text};
use super::{Judged, Walk};

/// How the arguments of a program are judged.
type Rule = fn(&mut Walk<'_>, &[&str]) -> Judged;

/// The programs whose arguments can start others. Shells and interpreters run whatever they are given: they pass when the user
/// has put them on the list, but not with code on the line, which says nothing about what it runs.
static RULES: &[(&str, Rule)] = &[
    ("git", git),
    ("find", find),
    ("xargs", |walk, args| wrapper(walk, args, &["-0", "-r", "-t"], &["-n", "-L", "-P", "-I", "-d", "-s"])),
    ("sed", sed),
    ("awk", awk),
    ("gawk", awk),
    ("mawk", awk),
    ("nawk", awk),
    ("sort", |_, args| none_of("sort", args, &["--output", "--compress-program", "--temporary-directory", "--files0-from"], "oT")),
    ("uniq", uniq),
    ("tar", tar),
    ("rg", |_, args| none_of("rg", args, &["--pre", "--pre-glob", "--hostname-bin", "--search-zip"], "z")),
    ("env", |walk, args| wrapper(walk, args, &["-i"], &["-u"])),
    ("nice", |walk, args| wrapper(walk, args, &[], &["-n"])),
    ("nohup", |walk, args| wrapper(walk, args, &[], &[])),
    ("setsid", |walk, args| wrapper(walk, args, &["-w"], &[])),
    ("time", |walk, args| wrapper(walk, args, &["-p"], &[])),
    ("timeout", timeout),
    ("stdbuf", |walk, args| wrapper(walk, args, &[], &["-o", "-e", "-i"])),
    ("split", |_, args| none_of("split", args, &["--filter"], "")),
    ("install", |_, args| none_of("install", args, &["--strip-program", "--strip"], "s")),
    ("gcc", compiler),
    ("cc", compiler),
    ("g++", compiler),
    ("c++", compiler),
    ("clang", compiler),
    ("clang++", compiler),
];

/// Programs whose whole purpose is to run another, under some condition or in some other place, and those with a command line of
/// their own that can.
const RUNNERS: &[&str] = &[
    "flock",
    "sudo",
    "doas",
    "su",
    "runuser",
    "setpriv",
    "capsh",
    "unshare",
    "nsenter",
    "chroot",
    "script",
    "expect",
    "watch",
    "parallel",
    "ionice",
    "taskset",
    "chrt",
    "numactl",
    "prlimit",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "valgrind",
    "perf",
    "systemd-run",
    "start-stop-daemon",
    "dbus-run-session",
    "ssh-agent",
    "xvfb-run",
    "entr",
    "vi",
    "vim",
    "view",
    "ex",
    "ed",
    "emacs",
    "nano",
    "less",
    "more",
    "most",
    "man",
    "info",
    "m4",
    "dc",
    "sqlite3",
    "psql",
    "mysql",
    "ftp",
    "telnet",
    "nc",
    "ncat",
    "socat",
    "rsync",
    "ssh",
    "scp",
    "sftp",
    "at",
    "batch",
    "crontab",
    "screen",
    "tmux",
    "run-parts",
    "logrotate",
    "openssl",
    "gpg",
    "zip",
    "cpio",
    "pax",
    "ipython",
    "irb",
    "ghci",
    "scala",
    "wish",
];

/// Programs that run the code they are given. On the list they stand for everything; a line may only give them a file.
const INTERPRETERS: &[&str] = &[
    "bash", "sh", "dash", "zsh", "ksh", "fish", "busybox", "python", "python3", "perl", "ruby", "node", "deno", "bun", "php", "lua",
    "tclsh",
];

impl Walk<'_> {
    pub(super) fn run_program(&mut self, name: &str, args: &[Text]) -> Judged {
        let listed = self.listed(name)?;
        let base = listed.rsplit('/').next().unwrap_or_default().to_owned();
        if INTERPRETERS.contains(&base.as_str()) {
            return Err(format!("`{base}` runs whatever it is given, so a line with it cannot be checked; {}", self.instead()));
        }
        if RUNNERS.contains(&base.as_str()) {
            return Err(format!("`{base}` runs other programs, so a line with it cannot be checked; {}", self.instead()));
        }
        let Some((_, rule)) = RULES.iter().find(|row| row.0 == base) else { return Ok(()) };
        if base == "git" && args.first().and_then(Text::known) == Some("mv") && args.iter().any(|arg| arg.known().is_none()) {
            return Err("git mv takes names that are written out, since it moves files over git's own as well".into());
        }
        let known: Option<Vec<&str>> = args.iter().map(settled).collect();
        match known {
            Some(args) => rule(self, &args),
            None => Err(format!(
                "`{base}` can start other programs, so its arguments must be written out; quote what is computed and put ./ or text before it"
            )),
        }
    }

    /// The entry of the list that a name means. One with a slash must lead to the very program that the list's name finds.
    fn listed(&self, name: &str) -> Result<String, String> {
        if self.allow.iter().any(|allowed| allowed == name) && !name.contains('/') {
            return Ok(name.to_owned());
        }
        let base = name.rsplit('/').next().unwrap_or_default();
        let meant = self.allow.iter().any(|allowed| allowed == base).then(|| self.find(base)).flatten();
        let same =
            name.starts_with('/') && meant.is_some() && Path::new(name).canonicalize().ok() == meant.and_then(|p| p.canonicalize().ok());
        if same { Ok(base.to_owned()) } else { Err(format!("`{name}` is not allowed; {}", self.instead())) }
    }

    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        self.path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| Path::new(dir).join(name)).find(|file| file.is_file())
    }

    fn instead(&self) -> String {
        format!("allowed programs are {}", self.allow.join(", "))
    }
}

/// The text of an argument where nothing in it can make it an option or more than one word.
fn settled(arg: &Text) -> Option<&str> {
    match arg {
        Text::Static(text) => Some(text),
        Text::Dynamic { front, breadth: Breadth::One } if !front.is_empty() && !front.starts_with('-') => Some(front),
        // A pattern of names that begins with a directory is no option either.
        Text::Dynamic { front, breadth: Breadth::Names } if front.contains('/') && !front.starts_with('-') => Some(front),
        Text::Dynamic { .. } => None,
    }
}

/// Refuses long options by any abbreviation, and short ones in any bundle.
fn none_of(program: &str, args: &[&str], long: &[&str], short: &str) -> Judged {
    for arg in args.iter().take_while(|a| **a != "--") {
        let name = arg.split('=').next().unwrap_or_default();
        let is_long = name.len() > 2 && name.starts_with("--") && long.iter().any(|option| option.starts_with(name));
        let is_short = arg.starts_with('-') && !arg.starts_with("--") && arg.contains(|c| short.contains(c));
        if is_long || is_short {
            return Err(format!("`{program} {arg}` may start a program or write a file; leave it out"));
        }
    }
    Ok(())
}

/// A program that runs the rest of its line.
fn wrapper(walk: &mut Walk<'_>, args: &[&str], flags: &[&str], with_value: &[&str]) -> Judged {
    let mut rest = args;
    while let [first, more @ ..] = rest {
        if flags.contains(first) {
            rest = more;
        } else if with_value.contains(first) {
            rest = more.get(1..).unwrap_or_default();
        } else if with_value.iter().any(|o| first.starts_with(o) && first.len() > o.len()) {
            rest = more;
        } else {
            break;
        }
    }
    inner(walk, rest)
}

fn inner(walk: &mut Walk<'_>, words: &[&str]) -> Judged {
    let Some((name, args)) = words.split_first() else { return Ok(()) };
    if name.starts_with('-') || name.contains('=') {
        return Err(format!("`{name}` is not understood here; call the program itself"));
    }
    // What the wrapper adds behind is data of unknown text, which a program with rules must not get.
    let args: Vec<Text> = args.iter().map(|a| Text::Static((*a).to_owned())).collect();
    if RULES.iter().any(|row| row.0 == *name) {
        return Err(format!("`{name}` can start other programs, so it is not run by another; call it itself"));
    }
    if super::builtins::known(name) && !["echo", "printf", "test", "[", "true", "false", "pwd"].contains(name) {
        return Err(format!("`{name}` is no program"));
    }
    if super::builtins::known(name) { Ok(()) } else { walk.run_program(name, &args) }
}

fn timeout(walk: &mut Walk<'_>, args: &[&str]) -> Judged {
    match args {
        [duration, rest @ ..] if duration.starts_with(|c: char| c.is_ascii_digit()) => inner(walk, rest),
        _ => Err("timeout takes a duration and a command here".into()),
    }
}

fn find(walk: &mut Walk<'_>, args: &[&str]) -> Judged {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        match *arg {
            "-exec" | "-execdir" => {
                let rest = &args[at..];
                let end = rest.iter().position(|a| *a == ";" || *a == "+").ok_or("find -exec has no end; write \\; or +")?;
                inner(walk, &rest[..end])?;
                at += end + 1;
            }
            "-ok" | "-okdir" | "-delete" | "-fprint" | "-fprint0" | "-fprintf" | "-fls" | "-files0-from" => {
                return Err(format!("`find {arg}` asks, deletes or writes; print the names and use them"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Options by which a compiler starts programs or loads plug-ins.
fn compiler(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let bad = [
        "-wrapper", "-fplugin", "-specs", "--specs", "-B", "@", "-Wl,", "-Xlinker", "-load", "-Xclang", "-fuse-ld", "--config", "-ld-path",
    ];
    match args.iter().find(|arg| bad.iter().any(|front| arg.starts_with(front))) {
        Some(arg) => Err(format!("`{arg}` makes the compiler start or load something else; leave it out")),
        None => Ok(()),
    }
}

fn uniq(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let operands = args.iter().filter(|a| !a.starts_with('-')).count();
    if operands > 1 { Err("uniq's second file would be written; use a pipe".into()) } else { Ok(()) }
}

fn tar(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let listing = args.first().is_some_and(|a| {
        let letters = a.trim_start_matches('-');
        letters.contains('t') && letters.bytes().all(|b| b"tvzjJf".contains(&b))
    });
    if listing && args[1..].iter().all(|a| !a.starts_with('-')) { Ok(()) } else { Err("tar only lists here: tar -tf FILE".into()) }
}

/// Commands of sed's language that neither write nor run: printing, deleting, and plain substitutions.
fn sed(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let mut scripts = Vec::new();
    let mut words = args.iter();
    let mut operand_seen = false;
    while let Some(word) = words.next() {
        match *word {
            "-n" | "-E" | "-r" | "-s" | "-z" | "-nE" | "-En" | "-nr" | "--quiet" | "--regexp-extended" => {}
            "-e" | "-ne" => scripts.extend(words.next()),
            option if option.starts_with('-') && option.len() > 1 => {
                return Err(format!("`sed {option}` is not run; sed prints here, and edit_file edits"));
            }
            script if scripts.is_empty() && !operand_seen => {
                scripts.push(word);
                operand_seen = script.is_empty();
            }
            _ => operand_seen = true,
        }
    }
    match scripts.iter().all(|script| script.split([';', '\n']).all(|part| sed_command(part.trim()))) {
        true => Ok(()),
        false => Err("this script of sed may write files or run programs; use addresses with p, d, q, = or s/…/…/ with the flags g, p, i and numbers".into()),
    }
}

fn sed_command(command: &str) -> bool {
    let is_address = |c: char| c.is_ascii_digit() || ",$!~ +".contains(c);
    let rest = command.trim_start_matches(is_address);
    let rest = match rest.strip_prefix('/').and_then(|r| r.split_once('/')) {
        Some((pattern, rest)) if !pattern.contains('\\') => rest.trim_start_matches(|c: char| is_address(c) || c == 'I'),
        _ => rest,
    };
    if matches!(rest, "" | "p" | "d" | "q" | "=") {
        return true;
    }
    let Some(delimiter) = rest.strip_prefix('s').and_then(|r| r.chars().next()).filter(|d| "/|#,:".contains(*d)) else { return false };
    let parts: Vec<&str> = rest[2..].split(delimiter).collect();
    let [pattern, replacement, flags] = parts[..] else { return false };
    !pattern.ends_with('\\') && !replacement.ends_with('\\') && flags.bytes().all(|b| b"gpiI0123456789".contains(&b))
}

/// Awk's language runs and writes by a few words; a program without them only computes.
fn awk(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let mut words = args.iter();
    let mut program = None;
    while let Some(word) = words.next() {
        match *word {
            "-F" | "-v" => drop(words.next()),
            option if option.starts_with("-F") || option.starts_with("-v") => {}
            option if option.starts_with('-') => return Err(format!("`awk {option}` is not run; use -F and -v")),
            _ if program.is_none() => program = Some(*word),
            _ => {}
        }
    }
    let text = program.unwrap_or_default().replace("||", "").replace(">=", "");
    let bad = ["system", "getline", "|", ">", "@", "extension", "/inet", "close", "fflush", "printf >"];
    match bad.iter().find(|word| text.contains(**word)) {
        Some(word) => {
            Err(format!("`{word}` in an awk program may write or run something; print, and use pipes of the shell (for a > b write b < a)"))
        }
        None => Ok(()),
    }
}

/// Subcommands of git that work on the repository at hand.
const GIT_COMMANDS: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "branch",
    "tag",
    "ls-files",
    "ls-tree",
    "rev-parse",
    "rev-list",
    "blame",
    "annotate",
    "grep",
    "cat-file",
    "describe",
    "shortlog",
    "reflog",
    "name-rev",
    "merge-base",
    "diff-tree",
    "diff-index",
    "diff-files",
    "show-ref",
    "for-each-ref",
    "symbolic-ref",
    "count-objects",
    "check-ignore",
    "whatchanged",
    "show-branch",
    "cherry",
    "range-diff",
    "var",
    "version",
    "add",
    "commit",
    "mv",
    "rm",
    "restore",
    "reset",
    "stash",
    "checkout",
    "switch",
    "config",
    "remote",
];
/// Options by which git starts a program, reads another configuration, or writes outside.
const GIT_REFUSED: &[&str] = &[
    "--exec",
    "--exec-path",
    "--upload-pack",
    "--receive-pack",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--output",
    "--output-directory",
    "--template",
    "--config-env",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--run",
    "--extcmd",
    "--tool",
    "--edit",
    "--paginate",
    "--interactive",
    "--patch",
    "--gpg-sign",
    "--sign",
    "--local-user",
    "--verify",
    "--show-signature",
    "--file",
    "--pathspec-from-file",
    "--separate-git-dir",
    "--recurse-submodules",
    "--trailer",
];

fn git(_: &mut Walk<'_>, args: &[&str]) -> Judged {
    let Some((command, rest)) = args.split_first() else { return Ok(()) };
    if !GIT_COMMANDS.contains(command) {
        return Err(format!("`git {command}` is not run; allowed are {}", GIT_COMMANDS.join(", ")));
    }
    let short = match *command {
        "grep" => "O",
        "add" | "commit" | "checkout" | "restore" | "reset" | "stash" => "pieS",
        "tag" => "suv",
        "log" | "show" | "diff" | "whatchanged" => "O",
        "config" => "ef",
        _ => "",
    };
    none_of(&format!("git {command}"), rest, GIT_REFUSED, short)?;
    let first = rest.first().copied().unwrap_or_default();
    match *command {
        "mv" if rest.iter().any(|arg| arg.split('/').any(|part| part.eq_ignore_ascii_case(".git"))) => {
            Err("git mv does not move what is git's own".into())
        }
        "config" if !matches!(first, "--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "get" | "list") => {
            Err("git config only reads here: git config --get NAME".into())
        }
        "remote" if !matches!(first, "" | "-v" | "show" | "get-url") || first == "show" && rest.len() > 1 => {
            Err("git remote only lists here".into())
        }
        "stash" if !matches!(first, "" | "list" | "show" | "push" | "pop" | "apply" | "drop") => {
            Err("git stash takes list, show, push, pop, apply or drop here".into())
        }
        "symbolic-ref" | "var" if rest.iter().filter(|a| !a.starts_with('-')).count() > 1 => Err(format!("git {command} only reads here")),
        _ => Ok(()),
    }
}
