//! A strict reader of the event stream, written from docs/EVENTS.md and not from the sources.

use serde_json::Value;

/// Every event with its keys in order, as documented; `?` marks one that may be absent.
const EVENTS: &[(&str, &str)] = &[
    ("start", "schema_version model provider mode workdir version run_id tools context_limit? isolate sandbox driver"),
    ("skill_loaded", "name bytes"),
    ("agent_turn", "role turn input_tokens output_tokens cache_read cache_write duration_ms stop_reason attempts ttft_ms usage_estimated?"),
    ("assistant_text", "role text"),
    ("tool_call", "role turn tool args call_id args_bytes? args_truncated?"),
    ("tool_result", "role turn tool bytes bytes_out truncated error? handle? call_id duration_ms exit_code? bytes_saved?"),
    ("retry", "role turn attempt class status? delay_ms message"),
    ("warning", "code message"),
    ("budget_exceeded", "limit total"),
    ("error", "kind message recoverable retry_after_ms? code?"),
    (
        "result",
        "exit total_input total_output total_cache_read total_cache_write duration_ms stop_reason turns tool_calls text? structured?",
    ),
];

/// The exit words and their codes.
const EXITS: [(&str, i32); 6] = [("ok", 0), ("error", 1), ("budget", 2), ("timeout", 3), ("config", 4), ("rate_limited", 5)];

/// A whole stream that kept all the rules.
pub struct Stream {
    events: Vec<Value>,
}

impl Stream {
    /// Reads a stream.
    ///
    /// # Panics
    /// At the first rule that is broken.
    pub fn read(bytes: &[u8]) -> Stream {
        let text = std::str::from_utf8(bytes).expect("the stream is UTF-8");
        assert!(
            text.ends_with('\n') && !text.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}']),
            "whole lines: {:?}",
            text.chars().rev().take(200).collect::<String>()
        );
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
        for (at, event) in events.iter().enumerate() {
            check_keys(event, at as u64);
        }
        let stream = Stream { events };
        stream.check_order();
        stream.check_pairs();
        stream.check_totals();
        stream
    }

    /// All events.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// The events of a name.
    pub fn all(&self, name: &str) -> Vec<&Value> {
        self.events.iter().filter(|e| e["event"] == name).collect()
    }

    /// The one event of a name.
    pub fn one(&self, name: &str) -> &Value {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "one {name} in {:#?}", self.events);
        all[0]
    }

    /// The result.
    pub fn last(&self) -> &Value {
        self.events.last().expect("there is a result")
    }

    /// The code that the result's exit stands for.
    pub fn exit_code(&self) -> i32 {
        let exit = self.last()["exit"].as_str().unwrap_or_default();
        EXITS.iter().find(|row| row.0 == exit).unwrap_or_else(|| panic!("exit {exit:?} is documented")).1
    }

    fn check_order(&self) {
        let results = self.all("result").len();
        assert_eq!((results, &self.last()["event"]), (1, &"result".into()), "one result, the last line: {:#?}", self.events);
        let starts = self.all("start").len();
        if self.exit_code() == 4 {
            assert_eq!(starts, 0, "exit 4 never follows a start");
            assert!(!self.all("error").is_empty(), "exit 4 tells why");
        } else if starts > 0 {
            assert_eq!((starts, &self.events[0]["event"]), (1, &"start".into()));
        }
    }

    fn check_pairs(&self) {
        let calls: Vec<&Value> = self.all("tool_call");
        let results: Vec<&Value> = self.all("tool_result");
        let key = |e: &Value| (e["role"].to_string(), e["turn"].to_string(), e["tool"].to_string(), e["call_id"].to_string());
        assert_eq!(calls.iter().map(|e| key(e)).collect::<Vec<_>>(), results.iter().map(|e| key(e)).collect::<Vec<_>>());
        let mut ids: Vec<String> = calls.iter().map(|e| e["call_id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), calls.len(), "call ids are unique");
        for result in results {
            if let Some(error) = result.get("error") {
                assert!(error.as_str().is_some_and(|e| e.starts_with("error: ")), "{error}");
            }
        }
    }

    fn check_totals(&self) {
        let turns = self.all("agent_turn");
        for (total, part) in [
            ("total_input", "input_tokens"),
            ("total_output", "output_tokens"),
            ("total_cache_read", "cache_read"),
            ("total_cache_write", "cache_write"),
        ] {
            let sum: u64 = turns.iter().map(|t| t[part].as_u64().unwrap_or_default()).sum();
            assert_eq!(self.last()[total].as_u64(), Some(sum), "{total} is the sum over the turns");
        }
        assert_eq!(self.last()["turns"].as_u64(), Some(turns.len() as u64));
    }
}

fn check_keys(event: &Value, seq: u64) {
    let name = event["event"].as_str().unwrap_or_default();
    let (_, fields) = EVENTS.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name:?} is documented"));
    let keys: Vec<&str> = event.as_object().expect("a line is an object").keys().map(String::as_str).collect();
    let mut wanted = vec!["event", "ts", "seq"];
    for field in fields.split(' ') {
        match field.strip_suffix('?') {
            Some(optional) if keys.contains(&optional) => wanted.push(optional),
            Some(_) => {}
            None => wanted.push(field),
        }
    }
    assert_eq!(keys, wanted, "{event}");
    assert_eq!(event["seq"].as_u64(), Some(seq), "seq counts without gaps");
    assert!(event.as_object().is_some_and(|o| o.values().all(|v| !v.is_null())), "no field is null: {event}");
}
