//! The arguments of a call: read leniently by the tool's own schema, refused precisely.
//!
//! Models send numbers as text, lists as JSON in a string, whole objects encoded twice, and null for what they leave out. What
//! can only mean one thing is taken as that; anything else is an error that names the field and what it should be.

use serde_json::{Map, Value};

use super::ToolError;
use crate::limits;

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
        let given = object(if text.trim().is_empty() { "{}" } else { text })?;
        let schema: Value = serde_json::from_str(schema).expect("a test parses every schema");
        let mut taken = Map::new();
        for (name, property) in schema["properties"].as_object().expect("a test checks every schema") {
            match given.get(name) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    taken.insert(name.clone(), coerce(name, value, property)?);
                }
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !taken.contains_key(name) {
                let got: Vec<&str> = given.keys().map(String::as_str).collect();
                return Err(invalid(format!("`{name}` is required; got {got:?}")));
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

/// The object in a text, which may have been encoded as a string once more.
fn object(text: &str) -> Result<Map<String, Value>, ToolError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::String(inner)) if matches!(serde_json::from_str(&inner), Ok(Value::Object(_))) => object(&inner),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(invalid("the arguments must be one JSON object".into())),
        Err(error) => Err(invalid(format!("the arguments are no JSON: {error}"))),
    }
}

fn coerce(name: &str, value: &Value, property: &Value) -> Result<Value, ToolError> {
    let kind = property["type"].as_str().unwrap_or_default();
    let taken = match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => Some(value.clone()),
        ("string", Value::Number(n)) => Some(Value::String(n.to_string())),
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
    taken.ok_or_else(|| {
        let wanted = match kind {
            "array" => "a list of strings".to_owned(),
            "integer" => "a whole number, not negative".to_owned(),
            kind => format!("a {kind}"),
        };
        let mut shown = value.to_string();
        shown.truncate(shown.floor_char_boundary(100));
        invalid(format!("`{name}` must be {wanted}; got {shown}"))
    })
}

fn whole(exact: Option<u64>, float: Option<f64>) -> Option<Value> {
    let rounded = float.filter(|f| f.fract() == 0.0 && (0.0..=9e15).contains(f)).map(|f| f as u64);
    exact.or(rounded).map(Value::from)
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
        let args = parse(r#"{"path":"a","start":null}"#).unwrap();
        assert_eq!((args.int("start"), args.flag("all"), args.list("paths").count()), (None, false, 0));
    }

    #[test]
    fn anything_else_names_the_field_and_its_type() {
        for (text, part) in [
            ("", "`path` is required"),
            ("null", "`path` is required"),
            ("[]", "one JSON object"),
            ("{\"path\":", "no JSON"),
            (r#"{"path":["a"]}"#, "`path` must be a string; got [\"a\"]"),
            (r#"{"path":"a","start":-1}"#, "`start` must be a whole number"),
            (r#"{"path":"a","start":2.5}"#, "`start` must be"),
            (r#"{"path":"a","all":1}"#, "`all` must be a boolean"),
            (r#"{"path":"a","paths":[1]}"#, "`paths` must be a list of strings"),
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!("{{\"path\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).is_err());
    }
}
