//! Renders what people read about the stream from the event table and the exit codes.

use std::fmt::Write;

use super::event::SPECS;
use super::field::{FieldSpec, Shape};
use crate::error::Exit;

/// `docs/EVENTS.md`, whole.
pub fn events_page() -> String {
    let mut page = String::from(include_str!("events_head.md"));
    let _ = writeln!(page, "\nSchema version: `{}`.\n\n## Exit codes\n\n{}\n## Events\n", super::SCHEMA_VERSION, exit_table());
    for spec in SPECS {
        let _ = writeln!(page, "### `{}`\n\n{}\n\n| field | type | meaning |\n|---|---|---|", spec.name, spec.doc);
        for field in spec.fields {
            let _ = writeln!(page, "| `{}`{} | {} | {} |", field.name, optional_mark(field), shape_name(field.shape), field.doc);
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// One row per event: name, when, fields.
pub fn events_table() -> String {
    let mut table = String::from("| event | when | fields |\n|---|---|---|\n");
    for spec in SPECS {
        let fields: Vec<String> = spec.fields.iter().map(|f| format!("`{}`{}", f.name, optional_mark(f))).collect();
        let _ = writeln!(table, "| `{}` | {} | {} |", spec.name, spec.doc, fields.join(", "));
    }
    table
}

/// One row per exit code.
pub fn exit_table() -> String {
    let mut table = String::from("| code | `result.exit` | meaning |\n|---|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(table, "| {} | `{}` | {} |", exit.code(), exit.name(), exit.meaning());
    }
    table
}

fn optional_mark(field: &FieldSpec) -> &'static str {
    if field.optional { "?" } else { "" }
}

fn shape_name(shape: Shape) -> String {
    match shape {
        Shape::String => "string".into(),
        Shape::OneOf(names) => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" "),
        Shape::Integer => "integer ≥ 0".into(),
        Shape::Signed => "integer".into(),
        Shape::Bool => "boolean".into(),
        Shape::Strings => "array of strings".into(),
        Shape::Any => "any JSON".into(),
        Shape::Files => "array of `{path, kind, bytes?, mode?}`".into(),
    }
}
