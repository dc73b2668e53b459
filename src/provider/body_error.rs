//! Types a failure from its status and the error object in its body, as all vendors shape it more or less.
//!
//! The class comes from the status and from the vendor's own code or type, never from words in a message. Two things are
//! exceptions, since most vendors have nothing but a sentence for them: an overflowing context ([`OVERFLOW_PHRASES`], looked
//! for only where the status leaves it open) and a quota of a day ([`DAILY_QUOTA_PHRASES`], only under 429). Whoever shows
//! the message takes the key out of it; a provider may quote the key that it refuses.

use serde_json::Value;

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
    // The model's call did not pass the server's own check; the next sample may.
    ("tool_use_failed", Class::Server),
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
    "maximum prompt length",
    "maximum model length",
    "longer than the model's context length",
    "inputs tokens + max_new_tokens",
    "when context the overflows",
];

/// How vendors say that a quota of a whole day is used up, where their code says no more than "rate limit".
static DAILY_QUOTA_PHRASES: &[&str] = &["PerDay", "free-models-per-day"];

/// What an error object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stated {
    /// The most telling of its code and type.
    code: Option<String>,
    /// A status in the object; gateways put the upstream's there.
    status: Option<u16>,
    /// Its message, with the upstream's own words behind it where a gateway passes them on.
    message: String,
}

/// The failure behind an HTTP status that is not 2xx, and its body.
pub(super) fn from_status(vendor: &str, status: u16, body: &[u8]) -> ProviderError {
    let said = parsed(body).and_then(|value| stated(&value)).unwrap_or_else(|| plain(body));
    let class = class_of(Some(status), &said);
    described(class, status, &format!("{vendor} answered {status}"), said)
}

/// The failure that an event is about, if it is about one: it is named `error`, or it is an object with an error in it.
///
/// Also for a body that came whole under a status of 200.
pub(super) fn in_answer(vendor: &str, event: &[u8], data: &[u8]) -> Option<ProviderError> {
    let named = event == b"error";
    let may_be = memchr::memmem::find(data, b"\"error\"").is_some() && data.len() <= limits::ERROR_BODY_BYTES_MAX;
    if !named && !may_be {
        return None;
    }
    let value = Some(data).filter(|data| data.len() <= limits::ERROR_BODY_BYTES_MAX).and_then(parsed);
    let is = |value: &Value| {
        error_in(value).is_some() || ["type", "object"].iter().any(|key| value.get(key).and_then(Value::as_str) == Some("error"))
    };
    if !named && !value.as_ref().is_some_and(is) {
        return None;
    }
    let said = value.as_ref().and_then(stated).unwrap_or_else(|| plain(data));
    let status = said.status.filter(|status| *status >= 400);
    let class = class_of(status, &said);
    let status_text = status.map(|status| format!(" with {status}")).unwrap_or_default();
    Some(described(class, 200, &format!("{vendor} failed{status_text} inside its answer"), said))
}

fn described(class: Class, status: u16, what: &str, said: Stated) -> ProviderError {
    let code = said.code.map(|code| bounded(&code, limits::PROVIDER_CODE_BYTES_MAX).to_owned());
    let shown = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    let text = match bounded(said.message.trim(), limits::ERROR_TEXT_BYTES_MAX) {
        "" => "no text",
        text => text,
    };
    ProviderError { class, status: Some(status), message: format!("{what}{shown}: {text}"), code, retry_after: None }
}

/// The JSON in a body. Bytes that are no UTF-8 spoil a text, not the object around it.
fn parsed(body: &[u8]) -> Option<Value> {
    serde_json::from_str(&String::from_utf8_lossy(body)).ok()
}

/// Reads `{"error": {…}}`, `{"error": "text"}`, the same in an array, and `{"message": …}`, or nothing when it is none of these.
fn stated(value: &Value) -> Option<Stated> {
    let value = value.get(0).unwrap_or(value);
    match error_in(value) {
        Some(Value::String(text)) => {
            let message = value.get("message").and_then(Value::as_str).unwrap_or(text);
            Some(Stated { message: message.to_owned(), ..Stated::default() })
        }
        Some(error @ Value::Object(_)) => Some(read_object(error)),
        _ if ["message", "detail"].iter().any(|key| value.get(key).is_some()) => Some(read_object(value)),
        _ => None,
    }
}

/// The error in a body or event; OpenRouter puts that of an upstream into the choice.
fn error_in(value: &Value) -> Option<&Value> {
    value.get("error").or_else(|| value.pointer("/choices/0/error")).filter(|error| !error.is_null())
}

fn read_object(error: &Value) -> Stated {
    let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let number = |key: &str| error.get(key).and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()));
    let status = ["code", "status_code", "status"].iter().find_map(|key| number(key)).and_then(|n| u16::try_from(n).ok());
    let words = [text("code"), text("type"), text("status")].into_iter().flatten().filter(|word| word.parse::<u16>().is_err());
    let mut code = words.clone().find(|word| class_of_code(word).is_some()).or_else(|| words.clone().next()).map(str::to_owned);
    let mut message = text("message").or_else(|| text("detail")).map_or_else(|| error.to_string(), str::to_owned);
    // Some servers name the field that they refuse here alone.
    if let Some(param) = text("param").filter(|param| !message.contains(param)) {
        message = format!("{message} (parameter {param})");
    }
    // What a gateway's upstream said: an error body of its own, or plain text.
    if let Some(raw) = error.pointer("/metadata/raw").map(|raw| raw.as_str().map_or_else(|| raw.to_string(), str::to_owned)) {
        let upstream = parsed(raw.as_bytes()).filter(Value::is_object).map(|inner| read_object(inner.get("error").unwrap_or(&inner)));
        let Stated { code: inner_code, message: inner, .. } = upstream.unwrap_or(Stated { message: raw, ..Stated::default() });
        if !inner.is_empty() {
            message = format!("{message}: {inner}");
        }
        if code.as_deref().and_then(class_of_code).is_none() {
            code = inner_code.or(code);
        }
    }
    // Google names the quota that is used up by an id.
    let violations = error.get("details").and_then(Value::as_array).into_iter().flatten().filter_map(|d| d.get("violations")?.as_array());
    if let Some(id) = violations.flatten().find_map(|v| v.get("quotaId")?.as_str()) {
        message = format!("{message} (quota {id})");
    }
    Stated { code, status, message }
}

fn class_of_code(code: &str) -> Option<Class> {
    CODES.iter().find(|row| row.0 == code).map(|row| row.1)
}

/// `status` is none when the answer began well and the error object names none.
fn class_of(status: Option<u16>, said: &Stated) -> Class {
    let of_code = said.code.as_deref().and_then(class_of_code);
    match (status, of_code) {
        (Some(413), _) => Class::ContextOverflow,
        (None | Some(400 | 422 | 500), _) if overflows(&said.message) => Class::ContextOverflow,
        (Some(429), _) if DAILY_QUOTA_PHRASES.iter().any(|phrase| said.message.contains(phrase)) => Class::Quota,
        // Some servers call every failure an invalid request; their status knows better.
        (Some(429..), Some(Class::BadRequest)) | (Some(_), None) => of_status(status.unwrap_or(500)),
        (_, Some(class)) => class,
        (None, None) => Class::Server,
    }
}

fn of_status(status: u16) -> Class {
    match status {
        401 | 403 => Class::Auth,
        402 => Class::Quota,
        408 | 409 | 425 => Class::Server,
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

fn plain(body: &[u8]) -> Stated {
    Stated { message: plain_text(body), ..Stated::default() }
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
            (401, r#"{"error":{"message":"no","type":"invalid_request_error","code":"invalid_api_key"}}"#, Class::Auth),
            (400, r#"{"error":{"message":"temperature 429 is 500 too high","type":"invalid_request_error"}}"#, Class::BadRequest),
            (400, r#"{"error":{"message":"bad call","type":"invalid_request_error","code":"tool_use_failed"}}"#, Class::Server),
            (400, r#"{"error":{"message":"x","code":"content_filter","innererror":{"code":"y"}}}"#, Class::ContentFilter),
            (429, r#"{"error":{"message":"x","type":"invalid_request_error"}}"#, Class::RateLimited),
            (500, r#"{"error":{"message":"Unknown method: keys","type":"invalid_request_error"}}"#, Class::Server),
            (404, r#"{"error":{"message":"only supported in v1/responses","type":"invalid_request_error"}}"#, Class::BadRequest),
            (401, r#"{"message":"Unauthorized","request_id":"1"}"#, Class::Auth),
            (422, r#"{"object":"error","message":{"detail":[{"type":"extra"}]},"type":"invalid_request_error"}"#, Class::BadRequest),
            (408, "", Class::Server),
            (409, "", Class::Server),
            (503, "busy", Class::Overloaded),
            (502, "<html><head><title>Bad gateway</title>", Class::Server),
            (403, "error code: 1015", Class::Auth),
            (404, "", Class::BadRequest),
        ];
        for (status, body, class) in cases {
            assert_eq!(from_status("acme", *status, body.as_bytes()).class, *class, "{status} {body}");
        }
    }

    #[test]
    fn a_spent_quota_is_told_from_a_rate_limit() {
        let cases: &[(u16, &str, Class)] = &[
            (402, r#"{"error":{"message":"pay","code":402}}"#, Class::Quota),
            (429, r#"{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}"#, Class::Quota),
            (429, r#"{"error":{"message":"Quota exceeded for GenerateRequestsPerDayPerProject","code":429}}"#, Class::Quota),
            (
                429,
                r#"{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"violations":[{"quotaId":"RequestsPerDayPerProject"}]}]}}"#,
                Class::Quota,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"Quota exceeded","details":[{"violations":[{"quotaId":"PerMinute"}]}]}}]"#,
                Class::RateLimited,
            ),
            (429, r#"{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}"#, Class::Quota),
            (429, r#"{"error":{"message":"limit of 100 PerMinute","type":"tokens","code":"rate_limit_exceeded"}}"#, Class::RateLimited),
            (400, r#"{"error":{"message":"one file PerDay"}}"#, Class::BadRequest),
        ];
        for (status, body, class) in cases {
            assert_eq!(from_status("acme", *status, body.as_bytes()).class, *class, "{status} {body}");
        }
    }

    #[test]
    fn a_full_window_is_known_by_code_or_phrase() {
        let said = |message: &str| format!("{{\"error\":{{\"message\":{message:?},\"type\":\"invalid_request_error\"}}}}");
        for phrase in [
            "prompt is too long: 9 tokens > 8 maximum",
            "input length and `max_tokens` exceed context limit: 9 + 1 > 8",
            "This model's maximum context length is 8 tokens",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            "the request exceeds the available context size",
        ] {
            for (status, class) in [(400, Class::ContextOverflow), (500, Class::ContextOverflow), (429, Class::RateLimited)] {
                assert_eq!(from_status("acme", status, said(phrase).as_bytes()).class, class, "{status} {phrase}");
            }
        }
        for (status, body) in [
            (400, r#"{"error":{"message":"long","type":"invalid_request_error","code":"context_length_exceeded"}}"#),
            (400, r#"{"error":{"code":400,"message":"long","type":"exceed_context_size_error","n_ctx":8}}"#),
            (413, "<html>"),
            (413, r#"{"error":{"message":"9 tokens are more than a minute has","type":"tokens","code":"rate_limit_exceeded"}}"#),
        ] {
            assert_eq!(from_status("acme", status, body.as_bytes()).class, Class::ContextOverflow, "{status} {body}");
        }
    }

    #[test]
    fn the_message_names_vendor_status_code_and_the_upstreams_words() {
        let cases: &[(u16, &[u8], &str)] = &[
            (
                502,
                br#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream died","provider_name":"x"}}}"#,
                "acme answered 502: Provider returned error: upstream died",
            ),
            (
                400,
                br#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"too big\",\"code\":\"context_length_exceeded\"}}"}}}"#,
                "acme answered 400 (context_length_exceeded): Provider returned error: too big",
            ),
            (502, b"<html><TITLE> Bad gateway </TITLE>", "acme answered 502: an HTML page titled \"Bad gateway\""),
            (502, b"", "acme answered 502: no text"),
            (400, b"[]", "acme answered 400: []"),
            (400, b"{\"error\":{\"message\":\"b\xffd\",\"code\":\"x\"}}", "acme answered 400 (x): b\u{fffd}d"),
            (400, br#"{"error":{"code":"x","param":"y"}}"#, r#"acme answered 400 (x): {"code":"x","param":"y"}"#),
            (400, br#"{"error":{"code":"x","message":"no","param":"y"}}"#, "acme answered 400 (x): no (parameter y)"),
        ];
        for (status, body, message) in cases {
            assert_eq!(from_status("acme", *status, body).message, *message);
        }
    }

    #[test]
    fn whatever_a_provider_says_is_bounded() {
        let body = format!("{{\"error\":{{\"message\":\"{0}\",\"code\":\"{0}\"}}}}", "ä".repeat(1_000_000));
        let error = from_status("acme", 400, body.as_bytes());
        assert!(error.message.len() < limits::ERROR_TEXT_BYTES_MAX + 200);
        assert!(error.code.unwrap().len() <= limits::PROVIDER_CODE_BYTES_MAX);
        assert!(in_answer("acme", b"error", body.as_bytes()).unwrap().message.len() < limits::ERROR_TEXT_BYTES_MAX + 200);
    }

    #[test]
    fn an_error_inside_an_answer_is_found_in_every_shape() {
        let cases: &[(&str, &str, Class, &str)] = &[
            (
                "error",
                r#"{"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"}}"#,
                Class::Overloaded,
                "acme failed inside its answer (overloaded_error): Overloaded",
            ),
            (
                "",
                r#"{ "request_id": "1", "type": "error", "error": {"type": "api_error", "message": "x"} }"#,
                Class::Server,
                "(api_error): x",
            ),
            (
                "",
                r#"{"error":{"code":502,"message":"gone"},"choices":[{"delta":{},"finish_reason":"error"}]}"#,
                Class::Server,
                "failed with 502",
            ),
            ("", r#"{"choices":[{"error":{"code":429,"message":"busy"},"finish_reason":"error"}]}"#, Class::RateLimited, "busy"),
            ("", r#"{"error":"the runner died"}"#, Class::Server, "acme failed inside its answer: the runner died"),
            ("", r#"{"object":"error","message":"x","type":"BadRequestError","code":400}"#, Class::BadRequest, "(BadRequestError): x"),
            ("error", "upstream died", Class::Server, "upstream died"),
            ("error", "", Class::Server, "no text"),
            ("error", r#"{"error":{"message":"no","type":"invalid_request_error","status_code":400}}"#, Class::BadRequest, "with 400"),
            ("", r#"{"error":{"message":"no","type":"invalid_request_error"}}"#, Class::BadRequest, "no"),
        ];
        for (event, data, class, part) in cases {
            let error = in_answer("acme", event.as_bytes(), data.as_bytes()).expect(data);
            assert_eq!((error.class, error.status), (*class, Some(200)), "{data}");
            assert!(error.message.contains(part), "{}", error.message);
        }
    }

    #[test]
    fn an_event_that_only_speaks_of_errors_is_none() {
        for data in [
            r#"{"error":null,"choices":[]}"#,
            r#"{"choices":[{"delta":{"content":"\"error\""}}]}"#,
            r#"{"choices":[{"delta":{"content":"error"},"finish_reason":"error"}]}"#,
            r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"error"}}"#,
            r#""error""#,
        ] {
            assert_eq!(in_answer("acme", b"", data.as_bytes()), None, "{data}");
        }
    }
}
