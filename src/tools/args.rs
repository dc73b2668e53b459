//! The arguments of a call: read leniently by the tool's own schema, refused precisely.
//!
//! Models send numbers as text, lists as JSON in a string, whole objects encoded twice, and null for what they leave out. What
//! can only mean one thing is taken as that; anything else is an error that names the field and what it should be.

use serde_json::{Map, Value};

use super::ToolError;
use crate::limits;

/// Names quoted when one is missing.
const SHOWN_NAMES_MAX: usize = 10;

/// The arguments of one call, of the types that the schema names.
pub struct Args(Map<String, Value>);

impl Args {
    /// Reads JSON text by a schema.
    ///
    /// # Errors
    /// [`ToolError::InvalidInput`] with the field and its type.
    pub fn parse(text: &str, schema: &str) -> Result<Args, ToolError> {
        if text.len() > limits::CALL_ARGS_BYTES_MAX {
            return Err(invalid(format!("the arguments have {} bytes; at most {} are read", text.len(), limits::CALL_ARGS_BYTES_MAX)));
        }
        let mut given = object(if text.trim().is_empty() { "{}" } else { text })?;
        let schema: Value = serde_json::from_str(schema).expect("a test parses every schema");
        let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
        let mut taken = Map::new();
        for (name, property) in schema["properties"].as_object().expect("a test checks every schema") {
            match given.remove(name).unwrap_or_default() {
                Value::Null if required(name) => return Err(missing(name, &given, &taken)),
                Value::Null => {}
                // Some models fill in every parameter. No optional one has a use for an empty string.
                Value::String(text) if text.is_empty() && !required(name) => {}
                value => {
                    taken.insert(name.clone(), coerce(name, value, property)?);
                }
            }
        }
        Ok(Args(taken))
    }

    /// A string.
    pub fn str(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A switch; off when it is absent.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The strings of a list; none when it is absent.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

fn invalid(what: String) -> ToolError {
    ToolError::InvalidInput(what)
}

/// The names that were given instead tell the model what it mixed up.
fn missing(name: &str, given: &Map<String, Value>, taken: &Map<String, Value>) -> ToolError {
    let got: Vec<&str> = taken.keys().chain(given.keys()).map(|key| cut(key, limits::SHOWN_CHARS_MAX)).take(SHOWN_NAMES_MAX).collect();
    invalid(format!("`{name}` is required; got {got:?}"))
}

/// The object in a text, which may have been encoded as a string once more.
fn object(text: &str) -> Result<Map<String, Value>, ToolError> {
    let value = match serde_json::from_str(text) {
        Ok(Value::String(inner)) => serde_json::from_str(&inner).unwrap_or(Value::String(inner)),
        Ok(value) => value,
        Err(error) => return Err(invalid(format!("the arguments are no JSON: {error}"))),
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::String(text) if text.is_empty() => Ok(Map::new()),
        _ => Err(invalid("the arguments must be one JSON object".into())),
    }
}

/// A value as the type of its property, when it can only mean one thing.
fn coerce(name: &str, value: Value, property: &Value) -> Result<Value, ToolError> {
    let kind = property["type"].as_str().unwrap_or_default();
    let wanted = match kind {
        "array" => "a list of strings",
        "integer" => "a whole number, not negative",
        "boolean" => "true or false",
        _ => "a string",
    };
    let taken = match (kind, &value) {
        // The longest values, a file's content among them, are not copied.
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => return Ok(value),
        // A fraction may have been written in more than one way.
        ("string", Value::Number(n)) if !n.is_f64() => Some(Value::String(n.to_string())),
        ("integer", Value::Number(n)) => whole(n.as_u64(), n.as_f64()),
        ("integer", Value::String(s)) => whole(s.trim().parse().ok(), s.trim().parse().ok()),
        ("boolean", Value::String(s)) => s.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::Bool),
        ("array", Value::Array(items)) => items.iter().all(Value::is_string).then(|| value.clone()),
        ("array", Value::String(s)) => Some(match serde_json::from_str(s) {
            Ok(Value::Array(items)) if items.iter().all(Value::is_string) => Value::Array(items),
            _ => Value::Array(vec![value.clone()]),
        }),
        _ => None,
    };
    taken.ok_or_else(|| invalid(format!("`{name}` must be {wanted}; got {}", cut(&value.to_string(), limits::SHOWN_CHARS_MAX))))
}

fn whole(exact: Option<u64>, float: Option<f64>) -> Option<Value> {
    // Up to 2^53 a float stands for one whole number only.
    let rounded = float.filter(|f| f.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(f)).map(|f| f as u64);
    exact.or(rounded).map(Value::from)
}

/// The front of a text that an error quotes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"start":{"type":"integer"},"all":{"type":"boolean"},"paths":{"type":"array","items":{"type":"string"}}},"required":["path"]}"#;

    fn parse(text: &str) -> Result<Args, ToolError> {
        Args::parse(text, SCHEMA)
    }

    #[test]
    fn what_can_only_mean_one_thing_is_taken() {
        for text in [
            r#"{"path":"a","start":3,"all":true,"paths":["x"]}"#,
            r#"{"path":"a","start":"3","all":"true","paths":"[\"x\"]"}"#,
            r#"{"path":"a","start":3.0,"all":"True","paths":"x","more":{"y":1}}"#,
            r#""{\"path\":\"a\",\"start\":\" 3 \",\"all\":true,\"paths\":[\"x\"]}""#,
        ] {
            let args = parse(text).unwrap();
            assert_eq!((args.str("path"), args.int("start"), args.flag("all")), (Some("a"), Some(3), true), "{text}");
            assert_eq!(args.list("paths").collect::<Vec<_>>(), ["x"], "{text}");
        }
    }

    #[test]
    fn what_is_left_out_may_be_null_or_empty_and_what_is_unknown_is_ignored() {
        for text in
            [r#"{"path":"","start":null}"#, r#"{"path":"","start":"","all":"","paths":"","path2":"x"}"#, r#"{"path":"","paths":[]}"#]
        {
            let args = parse(text).unwrap();
            assert_eq!((args.str("path"), args.int("start"), args.flag("all"), args.list("paths").count()), (Some(""), None, false, 0));
        }
        assert_eq!(parse(r#"{"path":"a","path":"b"}"#).unwrap().str("path"), Some("b"), "the last one of a name counts");
        assert_eq!(parse(r#"{"path":7}"#).unwrap().str("path"), Some("7"));
        assert_eq!(parse(r#"{"path":"a","start":"1e3"}"#).unwrap().int("start"), Some(1_000));
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
        for text in ["", " ", "null", "\"\"", "\"{}\"", r#""null""#, "{}"] {
            assert_eq!(Args::parse(text, schema).unwrap().str("path"), None, "{text}");
        }
    }

    #[test]
    fn anything_else_names_the_field_and_its_type() {
        for (text, part) in [
            ("", "`path` is required"),
            ("null", "`path` is required"),
            (r#"{"path":null,"file_path":"a"}"#, r#"`path` is required; got ["file_path"]"#),
            ("[]", "one JSON object"),
            ("3", "one JSON object"),
            (r#""x""#, "one JSON object"),
            ("{\"path\":", "no JSON"),
            ("{'path':'a'}", "no JSON"),
            (r#"{"path":"half an emoji \ud83d"}"#, "hex escape at line 1 column 30"),
            (r#"{"path":1.10}"#, "`path` must be a string; got 1.1"),
            (r#"{"path":["a"]}"#, "`path` must be a string; got [\"a\"]"),
            (r#"{"path":"a","start":-1}"#, "`start` must be a whole number"),
            (r#"{"path":"a","start":2.5}"#, "`start` must be"),
            (r#"{"path":"a","start":1e30}"#, "`start` must be"),
            (r#"{"path":"a","start":"NaN"}"#, "`start` must be"),
            (r#"{"path":"a","all":1}"#, "`all` must be true or false"),
            (r#"{"path":"a","paths":[1]}"#, "`paths` must be a list of strings"),
            (r#"{"path":"a","paths":{"0":"x"}}"#, "`paths` must be a list of strings"),
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn deep_nesting_and_size_are_refused_in_a_few_words() {
        let deep = format!("{{\"path\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let many = format!("{{{}\"x\":1}}", (0..100_000).map(|i| format!("\"k{i}\":1,")).collect::<String>());
        let long = format!("{{\"path\":[\"{}\"]}}", "ä".repeat(100_000));
        let large = format!("\"{}\"", "x".repeat(limits::CALL_ARGS_BYTES_MAX));
        for text in [deep, many, long, large] {
            let error = parse(&text).err().unwrap().to_string();
            assert!(error.len() < 500, "{error}");
        }
    }
}
