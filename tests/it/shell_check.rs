//! Lines that bash takes for something else than they seem: none may run a program that is not on the list, or write where no
//! line may write.

use std::process::Command;

use serde_json::json;

use crate::gantry::Bed;
use crate::tools::call;

/// Each would make a file of this name, if it got through.
const MARK: &str = "REACHED";

/// A definition that is not reached, is made in another shell, or does not last: then the name is the program's.
const FUNCTIONS: &[&str] = &[
    "(touch() { :; }); touch REACHED",
    "if false; then touch() { :; }; fi; touch REACHED",
    "false && touch() { :; }; touch REACHED",
    "touch() { :; } | cat; touch REACHED",
    "touch() { :; } & touch REACHED",
    "touch() { :; }; unset touch; touch REACHED",
    "for i in; do touch() { :; }; done; touch REACHED",
    "f() { touch() { :; }; }; touch REACHED",
    "x=$(touch() { :; }); touch REACHED",
];

/// Variables that mean something, set by a loop or by a value that is split; and words that evaluate subscripts.
const VARIABLES: &[&str] = &[
    "for GIT_CONFIG_VALUE_0 in 'touch REACHED; false'; do git status; done",
    "for PATH in ./bin; do ls; done",
    "for PS4 in '$(touch REACHED)'; do set -x; echo hi; done",
    "x='1 GIT_CONFIG_VALUE_0=touch${IFS}REACHED;'; export \"a\"=$x; git status",
    "true & wait -n -p 'a[$(touch REACHED)]'",
    "x='-v a[$(touch${IFS}REACHED)]'; test $x",
    "x='-v a[$(touch${IFS}REACHED)]'; [ $x ]",
];

/// Braces and patterns that reach over quotes, and values that are split behind a harmless beginning.
const WORDS: &[&str] = &[
    "find . -maxdepth 0 {-e\"x\"ec,touch} REACHED \\;",
    "find . -maxdepth 0 {-exec'',touch} REACHED \\;",
    "x=.; find {\"$x\",-exec} touch REACHED \\;",
    "echo > ./-exec; find . -maxdepth 0 ['-']exec touch REACHED \\;",
    "x='. -maxdepth 0 -exec touch REACHED ;'; find ./$x",
    "x='1 . -maxdepth 0 -exec touch REACHED ;'; find x=$x",
    "f() { find ./\"$@\"; }; f . -maxdepth 0 -exec touch REACHED \\;",
    "f() { find ./\"${x:-$@}\"; }; f . -maxdepth 0 -exec touch REACHED \\;",
];

/// Quotes that quote nothing where they stand, and ends of here-documents that bash sees earlier.
const QUOTES: &[&str] = &[
    "echo \"${x:-'$(touch REACHED)'}\"",
    "x=1; echo \"${x+'$(touch REACHED)'}\"",
    "echo \"${x:-'`touch REACHED`'}\"",
    "echo \"${x:-$'\\x24(touch REACHED)'}\"",
    "cat <<EOF\n${x:-'$(touch REACHED)'}\nEOF",
    "cat <<EOF\nEO\\\nF\ntouch REACHED\nEOF\n",
    "cat <<$'EOF'\nEOF\ntouch REACHED\n$EOF\n",
    "cat <<$\"EOF\"\nEOF\ntouch REACHED\n$EOF\n",
    "cat <<\"E\\OF\"\nE\\OF\ntouch REACHED\nEOF\n",
];

/// Ways into git's own files and out of the workdir.
const PLACES: &[&str] = &[
    "cd .git && echo x > REACHED",
    "f() { cd .git; }; f; echo x > REACHED",
    "for i in 1 2; do echo x > REACHED; cd .git; done; rm REACHED",
    "d=.git; cd $d; echo x >> REACHED",
    "OLDPWD=$PWD/.git; cd -; echo x > REACHED",
    "cd .. && echo x > REACHED",
    "git mv -f a .git/REACHED",
    "git mv -f a {.git,x}/REACHED",
    "git mv -f a ./.gi?/REACHED",
];

fn repository(bed: &Bed) {
    bed.write("a", "one\n").write("sub/b", "two\n").write("bin/ls", "#!/bin/sh\ntouch REACHED\n");
    let make = "chmod +x bin/ls; git init -q && git add . && git -c user.email=a@b -c user.name=n commit -qm x";
    assert!(Command::new("bash").args(["-c", make]).current_dir(bed.work()).status().unwrap().success());
}

fn runs(bed: &Bed, lines: &[&str]) -> Vec<String> {
    let calls: Vec<_> = lines.iter().map(|line| ("shell", json!({ "command": line }))).collect();
    call(bed, &calls, &[]).1
}

#[test]
fn what_bash_would_take_for_a_program_or_a_place_is_refused() {
    let bed = Bed::new();
    repository(&bed);
    for line in [FUNCTIONS, VARIABLES, WORDS, QUOTES, PLACES].concat() {
        let result = runs(&bed, &[line]).remove(0);
        let reached = ["", "sub", ".git", ".."].iter().any(|dir| bed.work().join(dir).join(MARK).exists());
        assert!(!reached, "{line}: {result}");
        assert!(result.starts_with("error: invalid input: "), "{line}: {result}");
    }
}

#[test]
fn the_ordinary_forms_beside_them_run() {
    let bed = Bed::new();
    repository(&bed);
    for (line, said) in [
        ("f() { echo \"in $1\"; }; f x", "in x\n"),
        ("cd sub && cat b; cd - > /dev/null; cat a", "two\none\n"),
        ("cd sub && cat b > c && cat c", "two\n"),
        ("cd / && pwd", "/\n"),
        ("false; [ $? -eq 1 ] && echo yes", "yes\n"),
        ("x='a b'; [ -n \"$x\" ] && [ \"$x\" = 'a b' ] && echo yes", "yes\n"),
        ("for f in a sub/b; do cat < \"./$f\"; done", "one\ntwo\n"),
        ("find ./su* -name b", "./sub/b\n"),
        ("cat <<'END' > d\nE\\\nx $y\nEND\ncat d", "E\\\nx $y\n"),
        ("x=\"y z\"; export v=\"$x\"; echo \"${v:-none}${w:-'none'}\"", "y z'none'\n"),
        ("sub() { echo $#; }; sub a b & wait", "2\n"),
    ] {
        assert_eq!(runs(&bed, &[line]), [said], "{line}");
    }
}

#[test]
fn a_command_does_not_find_the_key_at_its_ancestors() {
    let bed = Bed::new();
    let line = "read -r pid name state parent rest < /proc/$PPID/stat; cat /proc/$parent/cmdline; cat /proc/$parent/environ";
    let result = runs(&bed, &[line]).remove(0);
    assert!(result.contains("--prompt-file") && result.contains("API_KEY=\0"), "the harness itself is looked at: {result:?}");
    assert!(!result.contains("secret"), "{result:?}");
}
