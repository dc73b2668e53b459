//! What the embedder sees: the event model in one definition, and the one writer of stdout.
//!
//! `event` defines every event once; the writer, the JSON Schema (`schema`), `docs/EVENTS.md` and the tables of the
//! README come from that definition. `sink` owns stdout. `ward` is what the warden thread may do to a run.

mod docs;
mod event;
mod field;
mod schema;
mod sink;
mod ward;

pub use docs::{events_page, events_table, exit_table};
pub use event::{Event, EventSpec, SPECS};
pub use field::{FieldSpec, FileChange, Head, Json, Shape};
pub use schema::events_schema;
pub use sink::{Sink, Totals};
pub use ward::RunWard;

/// `start.schema_version`: MAJOR when a field or event is removed, renamed or changes meaning, MINOR when one is added.
pub const SCHEMA_VERSION: &str = "1.2";
