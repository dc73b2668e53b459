//! Fields that not every server takes, and how a server says so: a request goes out once more without the field that it named.
//!
//! A field counts as refused only when the request held it, the status says that the request was at fault, and the words say
//! that the field itself is not taken. A value out of range is the caller's mistake, and stays a failure.

use super::error::{Class, ProviderError};

/// The fields that a request can do without, or has another name for.
const FIELDS: [&str; 8] = [
    "temperature",
    "reasoning_effort",
    "output_config",
    "stream_options",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "cache_control",
];

/// How servers say that they do not take a field. Lower case.
static REFUSALS: &[&str] = &[
    "unsupported",
    "not supported",
    "does not support",
    "doesn't support",
    "no endpoints found that support",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra_forbidden",
    "extra inputs",
    "extra fields",
    "not permitted",
    "deprecated",
];

/// The fields that a server has refused so far; none of them is sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(Vec<&'static str>);

impl Refused {
    /// Whether a field may be sent.
    pub(super) fn takes(&self, field: &str) -> bool {
        !self.0.contains(&field)
    }

    /// Remembers the field that a failed attempt was refused for. `tail` is the end of its body, where all of them stand.
    pub(super) fn learn(&mut self, error: &ProviderError, tail: &[u8]) -> Option<&'static str> {
        let message = error.message.to_lowercase();
        if error.class != Class::BadRequest || !REFUSALS.iter().any(|words| message.contains(words)) {
            return None;
        }
        let sent = |field: &str| memchr::memmem::find(tail, format!("\"{field}\":").as_bytes()).is_some();
        let named = FIELDS.iter().filter(|field| sent(field)).filter_map(|field| Some((word(&message, field)?, *field)));
        let (_, field) = named.min()?;
        self.0.push(field);
        Some(field)
    }
}

/// Where a field stands in a message as a word of its own.
fn word(message: &str, field: &str) -> Option<usize> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    message.match_indices(field).map(|(at, _)| at).find(|at| {
        let (before, behind) = (&message[..*at], &message[at + field.len()..]);
        !before.ends_with(part) && !behind.starts_with(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &[u8] =
        br#"],"max_completion_tokens":9,"tool_choice":"none","temperature":0.5,"reasoning_effort":"low","stream":true,"stream_options":{}}"#;

    fn learnt(message: &str) -> Option<&'static str> {
        Refused::default().learn(&ProviderError::new(Class::BadRequest, message), TAIL)
    }

    #[test]
    fn a_refused_field_is_known_in_the_words_of_many_servers() {
        for (message, field) in [
            ("Unsupported parameter: 'max_completion_tokens' is not supported. Use 'max_tokens' instead.", "max_completion_tokens"),
            ("Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) is supported.", "temperature"),
            ("Unrecognized request argument supplied: stream_options", "stream_options"),
            ("property 'reasoning_effort' is unsupported", "reasoning_effort"),
            ("Unknown name \"stream_options\": Cannot find field.", "stream_options"),
            (r#"{"detail":[{"type":"extra_forbidden","loc":["body","tool_choice"],"msg":"x"}]}"#, "tool_choice"),
            ("temperature: Extra inputs are not permitted", "temperature"),
            ("No endpoints found that support the provided 'tool_choice' value.", "tool_choice"),
            ("(unsupported_parameter): {\"code\":\"unsupported_parameter\",\"param\":\"temperature\"}", "temperature"),
            ("Unknown parameter: 'tool_choice'; temperature is known", "tool_choice"),
        ] {
            assert_eq!(learnt(message), Some(field), "{message}");
        }
    }

    #[test]
    fn what_was_not_sent_or_is_only_out_of_range_is_no_refusal() {
        for message in [
            "Unsupported parameter: 'max_tokens'",
            "Unsupported parameter: 'logprobs'",
            "unknown model `temperature_1`",
            "temperature: Input should be less than or equal to 1",
            "max_completion_tokens is too large: 9 > 8",
            "stream is not supported",
        ] {
            assert_eq!(learnt(message), None, "{message}");
        }
        assert_eq!(Refused::default().learn(&ProviderError::new(Class::Server, "unsupported temperature"), TAIL), None);
    }

    #[test]
    fn a_field_is_learnt_for_good() {
        let mut refused = Refused::default();
        assert!(refused.takes("temperature"));
        refused.learn(&ProviderError::new(Class::BadRequest, "temperature is not supported"), TAIL);
        assert!(!refused.takes("temperature") && refused.takes("tool_choice"));
    }
}
