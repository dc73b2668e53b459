//! Scripts as files: an answer a line, so that a test, a benchmark and a person can play the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::upstream::{Answer, Cut, Fault, Script, Turn, Wire, crlf};

/// One line: a turn by its parts, or a whole answer by `status`, or a fault by its name; and how it is sent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Line {
    text: String,
    thinking: Option<(String, String)>,
    calls: Vec<Call>,
    stop: Option<String>,
    usage: Option<[u64; 4]>,
    no_usage: bool,
    noise: bool,
    crlf: bool,
    cut: Option<CutText>,

    status: Option<u16>,
    headers: BTreeMap<String, String>,
    body: String,

    fault: Option<String>,

    after_ms: u64,
    after_head_ms: u64,
    between_ms: u64,
    early: bool,
    close: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Option<String>,
    name: String,
    /// A value, or the text of one, which need not be JSON then.
    args: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CutText {
    Every(usize),
    Sizes(Vec<usize>),
    Seed { seed: u64 },
    Name(CutName),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CutName {
    Awkward,
}

/// Reads a script, which holds the client to the rules of its wire.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(wire: Wire, text: &str) -> Result<Script, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let answers = lines.map(|(at, text)| {
        let line = serde_json::from_str::<Line>(text).map_err(|e| e.to_string());
        line.and_then(|line| line.answer(wire, at)).map_err(|e| format!("line {}: {e}", at + 1))
    });
    let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
    if answers.is_empty() { Err("the script has no line".into()) } else { Ok(Script::answers(answers).strict(wire)) }
}

impl Line {
    fn answer(&self, wire: Wire, at: usize) -> Result<Answer, String> {
        let mut answer = match (&self.fault, self.status) {
            (Some(name), _) => Fault::named(name).ok_or_else(|| format!("no fault has the name {name:?}"))?.on(wire),
            (None, Some(status)) => {
                let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                Answer::http(status, &headers, &self.body)
            }
            (None, None) => self.turn(wire, at),
        };
        let ms = Duration::from_millis;
        if self.between_ms > 0 {
            answer = answer.paced(ms(self.between_ms));
        }
        if self.after_head_ms > 0 {
            answer = answer.after_head(ms(self.after_head_ms));
        }
        if self.after_ms > 0 {
            answer = answer.after(ms(self.after_ms));
        }
        Ok(match (self.early, self.close) {
            (true, _) => answer.early(),
            (false, true) => answer.closing(),
            (false, false) => answer,
        })
    }

    fn turn(&self, wire: Wire, at: usize) -> Answer {
        let mut turn = Turn::new().text(&self.text);
        for (n, call) in self.calls.iter().enumerate() {
            let id = call.id.clone().unwrap_or_else(|| format!("toolu_{at:02}_{n:02}"));
            let args = call.args.as_str().map_or_else(|| call.args.to_string(), str::to_owned);
            turn = turn.call_with_id(&id, &call.name, &args);
        }
        if let Some((text, signature)) = &self.thinking {
            turn = turn.thinking(text, signature);
        }
        if let Some(usage) = self.usage {
            turn = turn.usage(usage);
        }
        if let Some(stop) = &self.stop {
            turn = turn.stop(stop);
        }
        let turn = if self.no_usage { turn.no_usage() } else { turn };
        let turn = if self.noise { turn.noise() } else { turn };
        let events = turn.events(wire);
        Answer::sse_cut(if self.crlf { crlf(&events) } else { events }, &self.cut())
    }

    fn cut(&self) -> Cut {
        match &self.cut {
            None => Cut::Whole,
            Some(CutText::Every(bytes)) => Cut::Every(*bytes),
            Some(CutText::Sizes(sizes)) => Cut::Sizes(sizes.clone()),
            Some(CutText::Seed { seed }) => Cut::Random(*seed),
            Some(CutText::Name(CutName::Awkward)) => Cut::Awkward,
        }
    }
}

/// A model that reads the same file again and again, and then answers: `turns` model calls in all, and then from the start for
/// the next run. Rendered beforehand, and not strict, so that an answer costs the upstream next to nothing.
pub fn read_loop(wire: Wire, turns: usize, path: &str) -> Script {
    let args = serde_json::json!({ "path": path }).to_string();
    let call = move |n: usize| Turn::new().call_with_id(&format!("toolu_{n:06}"), "read_file", &args).on(wire);
    let mut answers: Vec<_> = (0..turns.saturating_sub(1)).map(call).collect();
    answers.push(Turn::new().text("Done.").on(wire));
    Script::round(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_here_are_readable() {
        parse(Wire::Anthropic, include_str!("../scripts/demo.ndjson")).unwrap();
        parse(Wire::Chat, include_str!("../scripts/faults.ndjson")).unwrap();
    }

    #[test]
    fn what_is_wrong_names_its_line() {
        for (text, part) in [
            ("{\"text\":\"a\"}\n\n{\"txt\":1}", "line 3: unknown field `txt`"),
            ("{\"fault\":\"gremlins\"}", "line 1: no fault has the name \"gremlins\""),
            ("{\"cut\":\"small\"}", "line 1: "),
            ("\n", "no line"),
        ] {
            let error = parse(Wire::Chat, text).err().unwrap();
            assert!(error.starts_with(part) || error.contains(part), "{error}");
        }
    }
}
