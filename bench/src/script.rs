//! Scripts as files: a turn a line, so that a test, a benchmark and a person can play the same.

use serde::Deserialize;

use crate::upstream::{Script, Turn, Wire};

/// One line of a script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    usage: Option<[u64; 4]>,
    stop: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    args: serde_json::Value,
}

/// Reads a script of turns.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Turn>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let line: Line = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", at + 1))?;
            let mut turn = Turn::new().text(&line.text);
            for (n, call) in line.calls.iter().enumerate() {
                turn = turn.call_with_id(&format!("toolu_{at:02}_{n:02}"), &call.name, &call.args.to_string());
            }
            if let Some(usage) = line.usage {
                turn = turn.usage(usage);
            }
            Ok(match &line.stop {
                Some(stop) => turn.stop(stop),
                None => turn,
            })
        })
        .collect()
}

/// A model that reads the same file again and again, and then answers: `turns` model calls in all, and then from the start for
/// the next run.
pub fn read_loop(wire: Wire, turns: usize, path: &str) -> Script {
    let args = serde_json::json!({ "path": path }).to_string();
    let call = move |n: usize| Turn::new().call_with_id(&format!("toolu_{n:06}"), "read_file", &args).on(wire);
    let mut answers: Vec<_> = (0..turns.saturating_sub(1)).map(call).collect();
    answers.push(Turn::new().text("Done.").on(wire));
    Script::by(move |n, _| answers[n % answers.len()].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_here_are_readable_and_a_fault_names_its_line() {
        assert_eq!(parse(include_str!("../scripts/demo.ndjson")).unwrap().len(), 4);
        assert!(parse("{\"text\":\"a\"}\n\n{\"txt\":1}").unwrap_err().starts_with("line 3: "));
    }
}
