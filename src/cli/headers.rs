//! `--header` and keys: what may stand in a request header, said without ever repeating the value.

use std::ffi::OsString;

use http::header::{self, HeaderName, HeaderValue};

use crate::limits;

/// Headers that frame the request or choose its format. A wrong one would corrupt the exchange, so they stay ours.
const OWN: [HeaderName; 13] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers by which the wires carry a key.
const AUTH: [HeaderName; 2] = [header::AUTHORIZATION, HeaderName::from_static("x-api-key")];

/// Whether a header takes the place of the key.
pub(super) fn is_auth(name: &HeaderName) -> bool {
    AUTH.contains(name)
}

/// Adds `NAME: VALUE` to the list.
pub(super) fn add_header(list: &mut Vec<(HeaderName, HeaderValue)>, value: OsString) -> Result<(), String> {
    let text = value.into_string().map_err(|_| "the value is not UTF-8; give 'NAME: VALUE' as text".to_string())?;
    let (name, value) = text.split_once(':').ok_or("there is no colon; write 'NAME: VALUE'")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| "the part before the colon is not a header name; write 'NAME: VALUE'".to_string())?;
    if OWN.contains(&name) {
        return Err(format!("{name} is set by gantry itself and cannot be given"));
    }
    if list.iter().any(|(other, _)| *other == name) {
        return Err(format!("{name} is given more than once; give each header once"));
    }
    if list.len() == limits::HEADERS_MAX {
        return Err(format!("there are more than {} headers; give fewer", limits::HEADERS_MAX));
    }
    let value = sensitive(value.trim()).map_err(|fault| format!("the value of {name} {fault}"))?;
    list.push((name, value));
    Ok(())
}

/// A value that Debug output and HTTP tables must not show.
pub(super) fn sensitive(text: &str) -> Result<HeaderValue, &'static str> {
    check(text)?;
    let mut value = HeaderValue::from_str(text).map_err(|_| "cannot stand in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

/// What keeps a text out of a header, without the text.
pub(super) fn check(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("is empty; give one")
    } else if text.trim() != text {
        Err("begins or ends with white space or a line break; remove it (`$(cat FILE)` drops it, most editors add it)")
    } else if text.chars().any(char::is_control) {
        Err("contains a control character or a line break; remove it")
    } else if !text.is_ascii() {
        Err("contains characters outside ASCII; copy it again")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn add(text: impl Into<OsString>) -> Result<(HeaderName, HeaderValue), String> {
        let mut list = Vec::new();
        add_header(&mut list, text.into())?;
        Ok(list.remove(0))
    }

    #[test]
    fn a_header_is_split_at_its_first_colon_and_trimmed() {
        let (name, value) = add("X-Route:  http://a:1 ").expect("valid");
        assert_eq!((name.as_str(), value.as_bytes()), ("x-route", b"http://a:1".as_slice()));
        assert!(value.is_sensitive() && !format!("{value:?}").contains("http"));
    }

    #[test]
    fn a_bad_header_is_refused_without_repeating_its_value() {
        for bad in [
            "",
            "X-Key",
            "X-Key sk-hidden",
            ": sk-hidden",
            ":authority: sk-hidden",
            "X Key: sk-hidden",
            "X-Key:",
            "X-Key: sk-hidden\r\nHost: x",
            "X-Key: sk-hidden\u{7f}",
            "X-Key: sk-hiddén",
            "Host: sk-hidden",
            "content-length: 5",
        ] {
            let error = add(bad).expect_err(bad);
            assert!(!error.contains("hidd"), "{error}");
        }
        assert!(add(OsString::from_vec(b"X-Key: sk-hidden\xff".to_vec())).is_err_and(|e| !e.contains("hidden")));
    }

    #[test]
    fn a_header_is_given_once_whatever_its_case_and_their_number_is_bounded() {
        let mut list = Vec::new();
        add_header(&mut list, "X-A: 1".into()).expect("valid");
        assert!(add_header(&mut list, "x-a: 2".into()).is_err());
        for n in 1..limits::HEADERS_MAX {
            add_header(&mut list, format!("x-{n}: 1").into()).expect("valid");
        }
        assert!(add_header(&mut list, "x-one-too-many: 1".into()).is_err());
    }
}
