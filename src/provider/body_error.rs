//! Types a failure from its status and the error object in its body, as all vendors shape it more or less.
//!
//! The class comes from the status and from the vendor's own code or type, never from words in a message. The one exception is
//! an overflowing context, for which most vendors have nothing but a sentence: those are listed in [`OVERFLOW_PHRASES`], and
//! looked for only where a status says that the request was at fault.

use super::error::{Class, ProviderError};
use crate::limits;

/// The vendor's code or type, and what it means. The first row that matches holds.
static CODES: &[(&str, Class)] = &[
    ("context_length_exceeded", Class::ContextOverflow),
    ("model_context_window_exceeded", Class::ContextOverflow),
    ("exceed_context_size_error", Class::ContextOverflow),
    ("request_too_large", Class::ContextOverflow),
    ("insufficient_quota", Class::Quota),
    ("billing_hard_limit_reached", Class::Quota),
    ("billing_error", Class::Quota),
    ("usage_limit_reached", Class::Quota),
    ("credit_balance_too_low", Class::Quota),
    ("rate_limit_error", Class::RateLimited),
    ("rate_limit_exceeded", Class::RateLimited),
    ("tokens", Class::RateLimited),
    ("requests", Class::RateLimited),
    ("too_many_requests", Class::RateLimited),
    ("overloaded_error", Class::Overloaded),
    ("server_overloaded", Class::Overloaded),
    ("service_unavailable", Class::Overloaded),
    ("authentication_error", Class::Auth),
    ("permission_error", Class::Auth),
    ("invalid_api_key", Class::Auth),
    ("content_filter", Class::ContentFilter),
    ("content_policy_violation", Class::ContentFilter),
    ("not_found_error", Class::BadRequest),
    ("model_not_found", Class::BadRequest),
    ("invalid_request_error", Class::BadRequest),
    ("api_error", Class::Server),
    ("server_error", Class::Server),
    ("internal_server_error", Class::Server),
    ("timeout_error", Class::Server),
];

/// How vendors say that the transcript does not fit, where they give no code for it. Lower case.
static OVERFLOW_PHRASES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "context length exceeded",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
    "input is too long for requested model",
    "context window exceeds limit",
    "reduce the length of the messages",
];

/// What an error object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    /// The most telling of its code and type.
    pub(super) code: Option<String>,
    /// A numeric code, which some gateways put there in place of a status.
    pub(super) status: Option<u16>,
    /// Its message, with the upstream's own words behind it where a gateway passes them on.
    pub(super) message: String,
}

/// Reads `{"error": {...}}`, `{"error": "text"}` and `{"message": …}`, or nothing when the body is none of these.
pub(super) fn stated(body: &[u8]) -> Option<Stated> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let value = if value.is_array() { value.get(0)?.clone() } else { value };
    let error = value.get("error").unwrap_or(&value);
    if let Some(text) = error.as_str() {
        let message = value.get("message").and_then(|m| m.as_str()).unwrap_or(text);
        return Some(Stated { code: None, status: None, message: message.to_owned() });
    }
    let text = |key: &str| error.get(key).and_then(|v| v.as_str()).map(str::to_owned);
    let message = text("message").or_else(|| text("detail"))?;
    let raw = error.pointer("/metadata/raw").map(|raw| raw.as_str().map_or_else(|| raw.to_string(), str::to_owned));
    let status = error.get("code").and_then(serde_json::Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let known = |code: &String| CODES.iter().any(|row| row.0 == code);
    let (code, kind) = (text("code"), text("type"));
    let code = code.clone().filter(known).or(kind.clone().filter(known)).or(code).or(kind).filter(|c| !c.is_empty());
    let message = match raw {
        Some(raw) if !raw.is_empty() => format!("{message}: {raw}"),
        _ => message,
    };
    Some(Stated { code, status, message })
}

/// The failure behind an HTTP status and its body.
pub(super) fn from_status(vendor: &str, status: u16, body: &[u8]) -> ProviderError {
    let said = stated(body).unwrap_or_else(|| Stated { message: plain_text(body), ..Stated::default() });
    finish(vendor, status, said, "")
}

/// The failure behind an error object inside a stream that began with 200.
pub(super) fn in_stream(vendor: &str, said: Stated) -> ProviderError {
    let status = said.status.filter(|s| *s >= 400).unwrap_or(500);
    let mut error = finish(vendor, status, said, " inside the stream");
    error.status = Some(200);
    error
}

fn finish(vendor: &str, status: u16, said: Stated, place: &str) -> ProviderError {
    let class = class_of(status, &said);
    let code = said.code.as_ref().map(|code| format!(" ({})", bounded(code, 100))).unwrap_or_default();
    let text = bounded(said.message.trim(), limits::ERROR_TEXT_BYTES_MAX);
    let text = if text.is_empty() { "no text" } else { text };
    ProviderError {
        class,
        status: Some(status),
        message: format!("{vendor} answered {status}{place}{code}: {text}"),
        code: said.code,
        retry_after: None,
    }
}

fn class_of(status: u16, said: &Stated) -> Class {
    let request_at_fault = matches!(status, 400 | 413 | 422 | 500);
    if request_at_fault && overflows(&said.message) {
        return Class::ContextOverflow;
    }
    if daily_quota(&said.message) && status == 429 {
        return Class::Quota;
    }
    if let Some(code) = &said.code
        && let Some(row) = CODES.iter().find(|row| row.0 == code)
        && !(row.1 == Class::BadRequest && status >= 429)
    {
        return row.1;
    }
    match status {
        401 | 403 => Class::Auth,
        402 => Class::Quota,
        408 | 409 | 425 => Class::Server,
        413 => Class::ContextOverflow,
        429 => Class::RateLimited,
        503 | 529 => Class::Overloaded,
        500.. => Class::Server,
        _ => Class::BadRequest,
    }
}

fn overflows(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    OVERFLOW_PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// Google names the exhausted quota by an id that ends so; it is the only place where the day shows.
fn daily_quota(message: &str) -> bool {
    message.contains("PerDay")
}

/// The text of a body that is no JSON: a page's title, else its first bytes.
pub(super) fn plain_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(limits::ERROR_TEXT_BYTES_MAX)]);
    let lower = text.to_ascii_lowercase();
    if let (Some(from), Some(to)) = (lower.find("<title>"), lower.find("</title>"))
        && from + 7 <= to
    {
        return format!("an HTML page titled \"{}\"", text[from + 7..to].trim());
    }
    if lower.trim_start().starts_with('<') { "a page of markup".to_owned() } else { text.trim().to_owned() }
}

/// The front of a text, cut before a character that would cross the bound.
fn bounded(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_comes_from_status_and_code() {
        let cases: &[(u16, &str, Class)] = &[
            (429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#, Class::RateLimited),
            (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Class::Overloaded),
            (429, r#"{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}"#, Class::Quota),
            (429, r#"{"error":{"message":"Quota exceeded for GenerateRequestsPerDayPerProject","code":429}}"#, Class::Quota),
            (402, r#"{"error":{"message":"pay","code":402}}"#, Class::Quota),
            (401, r#"{"error":{"message":"no","type":"invalid_request_error","code":"invalid_api_key"}}"#, Class::Auth),
            (
                400,
                r#"{"error":{"message":"long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                Class::ContextOverflow,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
                Class::ContextOverflow,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size","type":"server_error"}}"#,
                Class::ContextOverflow,
            ),
            (400, r#"{"error":{"message":"temperature 429 is 500 too high","type":"invalid_request_error"}}"#, Class::BadRequest),
            (429, r#"{"error":{"message":"x","type":"invalid_request_error"}}"#, Class::RateLimited),
            (503, "busy", Class::Overloaded),
            (502, "<html><head><title>Bad gateway</title>", Class::Server),
            (404, "", Class::BadRequest),
            (413, "<html>", Class::ContextOverflow),
        ];
        for (status, body, class) in cases {
            assert_eq!(from_status("acme", *status, body.as_bytes()).class, *class, "{status} {body}");
        }
    }

    #[test]
    fn the_message_names_vendor_status_code_and_the_upstreams_words() {
        let body = br#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream died","provider_name":"x"}}}"#;
        let error = from_status("openrouter", 502, body);
        assert_eq!(error.message, "openrouter answered 502: Provider returned error: upstream died");
        let html = from_status("acme", 502, b"<html><TITLE> Bad gateway </TITLE>");
        assert_eq!(html.message, "acme answered 502: an HTML page titled \"Bad gateway\"");
    }

    #[test]
    fn a_long_text_is_bounded() {
        let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "ä".repeat(1_000_000));
        assert!(from_status("acme", 400, body.as_bytes()).message.len() < limits::ERROR_TEXT_BYTES_MAX + 100);
    }
}
