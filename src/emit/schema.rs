//! Renders the event table as a JSON Schema, for readers in any language.

use serde_json::{Map, Value, json};

use super::event::{EventSpec, SPECS};
use super::field::Shape;

/// JSON Schema (draft 2020-12) of one line of the stream.
pub fn events_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gantry event",
        "description": format!("One line of gantry's stdout, schema version {}. Unknown events and fields are to be ignored.", super::SCHEMA_VERSION),
        "oneOf": SPECS.iter().map(event).collect::<Vec<_>>(),
    })
}

fn event(spec: &EventSpec) -> Value {
    let mut properties = Map::new();
    let mut required = vec!["event", "ts", "seq"];
    properties.insert("event".into(), json!({"const": spec.name}));
    properties.insert("ts".into(), json!({"type": "integer", "minimum": 0}));
    properties.insert("seq".into(), json!({"type": "integer", "minimum": 0}));
    properties.insert("run".into(), json!({"type": "string", "description": "The job's id, in a fleet only."}));
    for field in spec.fields {
        let mut shape = shape(field.shape);
        if let Value::Object(object) = &mut shape {
            object.insert("description".into(), field.doc.into());
        }
        properties.insert(field.name.into(), shape);
        if !field.optional {
            required.push(field.name);
        }
    }
    json!({"title": spec.name, "description": spec.doc, "type": "object", "properties": properties, "required": required})
}

fn shape(shape: Shape) -> Value {
    match shape {
        Shape::String => json!({"type": "string"}),
        Shape::OneOf(names) => json!({"enum": names}),
        Shape::Integer => json!({"type": "integer", "minimum": 0}),
        Shape::Signed => json!({"type": "integer"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Strings => json!({"type": "array", "items": {"type": "string"}}),
        Shape::Any => json!({}),
        Shape::Files => json!({"type": "array", "items": {"type": "object", "required": ["path", "kind"], "properties": {
            "path": {"type": "string"},
            "kind": {"enum": ["added", "modified", "removed"]},
            "bytes": {"type": "integer", "minimum": 0},
            "mode": {"type": "string"},
        }}}),
    }
}
