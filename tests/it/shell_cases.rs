//! Recorded lines, when the folder of cases is at hand: none of the bypasses may run what is not allowed, and every ordinary line
//! must run as bash runs it.

use std::path::{Path, PathBuf};

use gantry_bench::upstream::{Script, Turn, Upstream, Wire};
use serde_json::{Value, json};

use crate::gantry::{Bed, run};

/// The programs that every row is allowed beside its own.
const USUAL: [&str; 10] = ["git", "cat", "ls", "echo", "sed", "awk", "find", "xargs", "tar", "grep"];

fn cases() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("GANTRY_CASES").map(PathBuf::from);
    let near = [root.join("../shared/cases"), root.join("../../shared/cases")];
    named.into_iter().chain(near).find(|dir| dir.join("shell").is_dir())
}

fn rows(file: &Path) -> Vec<Value> {
    std::fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs many lines in one run each, in a fresh fixture each when they change it.
fn results(bed: &Bed, lines: &[(String, Vec<String>)]) -> Vec<String> {
    lines
        .iter()
        .map(|(line, allow)| {
            let args = json!({"command": line, "timeout_ms": 3000}).to_string();
            let upstream = Upstream::start(Script::turns(Wire::Chat, vec![Turn::new().call("shell", &args), Turn::new().text("ok")]));
            let mut command = bed.against(&upstream, Wire::Chat);
            for program in allow {
                command.args(["--shell-allow", program]);
            }
            assert_eq!(run(&mut command).code, Some(0), "{line}");
            upstream.ledger()[1].json()["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn fixture(cases: &Path, bed: &Bed) {
    let made = std::process::Command::new("bash").arg(cases.join("shell/fixture/make.sh")).arg(bed.work()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn allowed(row: &Value, key: &str) -> Vec<String> {
    let mut all: Vec<String> = row[key].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect();
    all.extend(USUAL.map(str::to_owned));
    all.sort();
    all.dedup();
    all
}

#[test]
fn no_recorded_bypass_reaches_its_mark() {
    let Some(cases) = cases() else { return println!("skipped: no folder of cases") };
    let mut through = Vec::new();
    for row in rows(&cases.join("shell/bypass.jsonl")) {
        let bed = Bed::new();
        if row["needs_fixture"] == true {
            fixture(&cases, &bed);
        }
        let mark = bed.beside("mark");
        let line = row["command"].as_str().unwrap().replace("$MARK", &mark.display().to_string()).replace("$PORT", "9");
        let result = results(&bed, &[(line, allowed(&row, "needs"))]).remove(0);
        if mark.exists() || row["class"] != "exec" && !result.starts_with("error: ") {
            through.push(format!("{} {}", row["id"], row["command"]));
        }
    }
    assert!(through.is_empty(), "{} got through:\n{}", through.len(), through.join("\n"));
}

#[test]
fn every_recorded_ordinary_line_runs_as_in_bash() {
    let Some(cases) = cases() else { return println!("skipped: no folder of cases") };
    let mut wrong = Vec::new();
    for row in rows(&cases.join("shell/legit.jsonl")) {
        let line = row["command"].as_str().unwrap();
        let (ours, theirs) = (Bed::new(), Bed::new());
        fixture(&cases, &ours);
        fixture(&cases, &theirs);
        let got = results(&ours, &[(line.to_owned(), allowed(&row, "programs"))]).remove(0);
        let bash = std::process::Command::new("bash")
            .args(["--norc", "--noprofile", "-c", &format!("{{ {line}\n}} 2>&1")])
            .current_dir(theirs.work())
            .env("TERM", "dumb")
            .output()
            .unwrap();
        let want = String::from_utf8_lossy(&bash.stdout).replace(&theirs.work().display().to_string(), &ours.work().display().to_string());
        let strip = |text: &str| {
            text.lines()
                .filter(|l| !l.starts_with("[exit code") && !l.contains("total ") && !l.starts_with(['d', '-', 'l']))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if got.starts_with("error: ") || strip(&got) != strip(&want) && !line.contains("git log") && !line.starts_with("time ") {
            wrong.push(format!("{} {line}\n  got  {got:?}\n  want {want:?}", row["id"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
