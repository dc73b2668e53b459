//! The shapes that event fields can have, each with its way onto the wire.
//!
//! A field type knows its JSON Schema shape and how it is written, so that the event table in `event.rs` is the only
//! place where an event is declared.

use crate::error::{Exit, Kind, Stop};
use crate::json::write;

/// What stands at the front of every line.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Milliseconds since the Unix epoch, by the wall clock.
    pub ts: u64,
    /// Counts the lines of one run from 0, without gaps.
    pub seq: u64,
    /// The job's id, in a fleet only.
    pub run: Option<&'a str>,
}

/// The JSON shape of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A JSON string.
    String,
    /// A string of a closed set.
    OneOf(&'static [&'static str]),
    /// A whole number, not negative.
    Integer,
    /// A signed whole number.
    Signed,
    /// true or false.
    Bool,
    /// An array of strings.
    Strings,
    /// Any JSON value, passed through.
    Any,
    /// The list of a `changes` event.
    Files,
}

/// One field of an event, for docs and schema.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// The key on the wire.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Its JSON shape.
    pub shape: Shape,
    /// Left out when there is nothing to say; never null.
    pub optional: bool,
}

/// A JSON text that is valid already.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(pub &'a str);

/// One file of a `changes` event.
#[derive(Clone, Copy, Debug)]
pub struct FileChange<'a> {
    /// Relative to the workdir, `/` as separator.
    pub path: &'a str,
    /// `added`, `modified` or `removed`.
    pub kind: &'a str,
    /// Size after the change, for added and modified files.
    pub bytes: Option<u64>,
    /// Permission bits after the change, in octal.
    pub mode: Option<u32>,
}

/// A type that an event field can have.
pub(super) trait Field {
    const SHAPE: Shape;
    const OPTIONAL: bool = false;
    /// Whether the field goes onto the line at all.
    fn present(&self) -> bool {
        true
    }
    /// Appends the JSON value.
    fn put(&self, out: &mut Vec<u8>);
}

impl Field for &str {
    const SHAPE: Shape = Shape::String;
    fn put(&self, out: &mut Vec<u8>) {
        write::push_str(out, self);
    }
}

impl Field for u64 {
    const SHAPE: Shape = Shape::Integer;
    fn put(&self, out: &mut Vec<u8>) {
        write::push_u64(out, *self);
    }
}

impl Field for u32 {
    const SHAPE: Shape = Shape::Integer;
    fn put(&self, out: &mut Vec<u8>) {
        write::push_u64(out, u64::from(*self));
    }
}

impl Field for i32 {
    const SHAPE: Shape = Shape::Signed;
    fn put(&self, out: &mut Vec<u8>) {
        if *self < 0 {
            out.push(b'-');
        }
        write::push_u64(out, u64::from(self.unsigned_abs()));
    }
}

impl Field for bool {
    const SHAPE: Shape = Shape::Bool;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl Field for Json<'_> {
    const SHAPE: Shape = Shape::Any;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl Field for &[&str] {
    const SHAPE: Shape = Shape::Strings;
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (i, s) in self.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write::push_str(out, s);
        }
        out.push(b']');
    }
}

impl Field for &[FileChange<'_>] {
    const SHAPE: Shape = Shape::Files;
    fn put(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (i, file) in self.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b",{\"path\":" } else { b"{\"path\":" });
            write::push_str(out, file.path);
            out.extend_from_slice(b",\"kind\":");
            write::push_str(out, file.kind);
            if let Some(bytes) = file.bytes {
                out.extend_from_slice(b",\"bytes\":");
                write::push_u64(out, bytes);
            }
            if let Some(mode) = file.mode {
                out.extend_from_slice(format!(",\"mode\":\"{mode:o}\"").as_bytes());
            }
            out.push(b'}');
        }
        out.push(b']');
    }
}

/// `const` tables of the names of an enum's values.
macro_rules! named {
    ($type:ty, $names:ident, $all:expr) => {
        const $names: [&str; $all.len()] = {
            let mut names = [""; $all.len()];
            let mut i = 0;
            while i < names.len() {
                names[i] = $all[i].name();
                i += 1;
            }
            names
        };
        impl Field for $type {
            const SHAPE: Shape = Shape::OneOf(&$names);
            fn put(&self, out: &mut Vec<u8>) {
                write::push_str(out, self.name());
            }
        }
    };
}

named!(Exit, EXITS, Exit::ALL);
named!(Stop, STOPS, Stop::ALL);
named!(Kind, KINDS, Kind::ALL);

impl<T: Field> Field for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const OPTIONAL: bool = true;
    fn present(&self) -> bool {
        self.is_some()
    }
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.put(out);
        }
    }
}
