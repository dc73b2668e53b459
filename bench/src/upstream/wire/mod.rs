//! The wires that the upstream speaks: a row each, so that a further one is a file and a row.

mod anthropic;
mod chat;

use serde_json::Value;

use super::turn::Turn;

/// A provider's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
}

/// What the upstream knows of a wire.
pub(super) struct Row {
    wire: Wire,
    /// What a person calls it.
    name: &'static str,
    /// A turn as a stream of events.
    pub(super) render: fn(&Turn) -> Vec<u8>,
    /// The event by which the provider breaks a stream off: kind and message.
    pub(super) error_event: fn(&str, &str) -> Vec<u8>,
    /// An event that the wire's clients have not heard of, and must pass over.
    pub(super) unknown_event: &'static str,
    /// What a request breaks of the rules that the real API enforces.
    pub(super) rules: fn(&Value) -> Vec<String>,
}

const ROWS: &[Row] = &[anthropic::ROW, chat::ROW];

impl Wire {
    /// All wires.
    pub const ALL: &[Wire] = &[Wire::Anthropic, Wire::Chat];

    /// The wire of a name: `anthropic`, `chat`.
    pub fn named(name: &str) -> Option<Wire> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.wire)
    }

    pub(super) fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.wire == self).expect("every wire has a row")
    }
}

/// Collects what is wrong with a request.
#[derive(Default)]
struct Faults {
    found: Vec<String>,
}

impl Faults {
    fn say(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    fn when(&mut self, wrong: bool, what: &str) {
        if wrong {
            self.say(what);
        }
    }
}

/// What both wires ask of a tool's name.
fn name_fits(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// What both wires ask of the tools: names that are allowed and different, and schemas of objects.
fn check_tools(tools: &[(&Value, &Value)], faults: &mut Faults) {
    let mut names: Vec<&str> = Vec::new();
    for (name, schema) in tools {
        let name = name.as_str().unwrap_or_default();
        faults.when(!name_fits(name), &format!("tools: {name:?} is no name"));
        faults.when(names.contains(&name), &format!("tools: {name:?} stands there twice"));
        faults.when(schema["type"] != "object", &format!("tools: the schema of {name:?} is not of an object"));
        names.push(name);
    }
}

/// How often a key occurs in a value, at any depth.
fn count_key(value: &Value, key: &str) -> usize {
    match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| usize::from(k == key) + count_key(v, key)).sum(),
        Value::Array(items) => items.iter().map(|v| count_key(v, key)).sum(),
        _ => 0,
    }
}

/// A value's items; none when it is no array.
fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A value's text; empty when it is none.
fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_has_its_row_and_its_name() {
        for wire in Wire::ALL {
            assert_eq!(Wire::named(wire.row().name), Some(*wire));
        }
        assert_eq!((ROWS.len(), Wire::named("telegraph")), (Wire::ALL.len(), None));
    }
}
