//! Which model, where it answers and with which key. A key goes only to the address that its own variables name.

use http::{HeaderName, HeaderValue, Uri};

use super::env::{self, Env};
use super::fault::{Fault, Faults, shown};
use super::headers;
use super::inputs;
use super::raw::RawArgs;
use crate::limits;
use crate::provider::{ModelSlug, TlsRoots, Vendor};
use crate::run::plan::Notice;
use crate::secret::Secret;

/// How the provider is reached.
pub(super) struct Endpoint {
    /// The key, if there is one.
    pub(super) key: Option<Secret>,
    /// The base URL; None where nothing is called.
    pub(super) base_url: Option<Uri>,
    /// Headers of the user's.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Further TLS roots.
    pub(super) tls: TlsRoots,
    /// What should be said after `start`.
    pub(super) notices: Vec<Notice>,
}

/// Reads `--model`.
pub(super) fn model(text: &str) -> Result<ModelSlug, Fault> {
    let fault = |what: String| Fault::new("--model", what);
    if text.chars().count() > limits::SHOWN_CHARS_MAX * 4 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(fault(format!("{} is too long, or has white space in it; write PROVIDER/MODEL", shown(text))));
    }
    ModelSlug::parse(text).map_err(fault)
}

/// Finds out how a model is reached; each thing that is wrong is kept in `faults`.
pub(super) fn endpoint(model: &ModelSlug, raw: &mut RawArgs, env: &Env, faults: &mut Faults) -> Endpoint {
    let vendor = model.vendor;
    let mut headers = std::mem::take(&mut raw.headers);
    for (name, variable) in vendor.header_vars {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("the row names a header");
        let value = env.text(variable).and_then(|text| text.map(|text| header(variable, text.trim())).transpose());
        if let Some(Some(value)) = faults.keep(value)
            && !headers.iter().any(|(given, _)| *given == name)
        {
            headers.push((name, value));
        }
    }
    let auth = headers.iter().map(|(name, _)| name).find(|name| headers::is_auth(name));
    let notices = auth.map(|name| Notice {
        code: "auth_header",
        message: format!("--header {name} goes to {} in place of the key, which is not sent", vendor.name),
    });
    let notices = Vec::from_iter(notices);
    let key = if auth.is_some() { None } else { faults.keep(key(vendor, env)).flatten() };
    let base_url = faults.keep(base_url(vendor, raw.base_url.as_deref(), env)).flatten();
    let tls = match &base_url {
        Some(url) if url.scheme_str() == Some("https") => tls_roots(env, faults),
        _ => TlsRoots::default(),
    };
    Endpoint { key, base_url, headers, tls, notices }
}

fn header(variable: &str, text: &str) -> Result<HeaderValue, Fault> {
    headers::sensitive(text).map_err(|what| Fault::new(variable, format!("the value {what}")))
}

fn key(vendor: &Vendor, env: &Env) -> Result<Option<Secret>, Fault> {
    let Some(variable) = vendor.key_var else { return Ok(None) };
    match env.text(variable)? {
        Some(key) => match headers::check(key) {
            Ok(()) => Ok(Some(Secret::new(key))),
            Err(what) => Err(Fault::new(variable, format!("the key {what}"))),
        },
        None if vendor.key_required => {
            Err(Fault::new("", format!("{variable} not set: export it with your {} key, or choose another provider", vendor.name)))
        }
        None => Ok(None),
    }
}

fn base_url(vendor: &Vendor, flag: Option<&str>, env: &Env) -> Result<Option<Uri>, Fault> {
    if let Some(url) = flag {
        if !vendor.base_flag {
            let mend = match vendor.base_var {
                Some(variable) => format!("set {variable} instead"),
                None => "leave it out".into(),
            };
            return Err(Fault::new("--base-url", format!("it is not for {}/ models; {mend}", vendor.name)));
        }
        return http_url("--base-url", url).map(Some);
    }
    let Some(variable) = vendor.base_var else { return Ok(None) };
    match env.text(variable)?.or(vendor.base_default) {
        Some(url) => http_url(variable, url).map(Some),
        None => Err(Fault::new(variable, "not set; give the URL where the provider answers")),
    }
}

/// Checks a base URL. A URL with a password in it is not repeated.
pub(super) fn http_url(subject: &str, text: &str) -> Result<Uri, Fault> {
    let text = text.trim();
    let fault = |what: &str| {
        let value = if text.contains('@') { "the URL".into() } else { shown(text) };
        Fault::new(subject, format!("{value} {what}, such as http://localhost:8000/v1"))
    };
    let uri: Uri = text.parse().map_err(|_| fault("is not a URL; write one with scheme and host"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(fault("does not begin with http:// or https://; write one that does"));
    }
    let authority = uri.authority().ok_or_else(|| fault("has no host; write one with a host"))?;
    if authority.as_str().contains('@') {
        return Err(fault("carries a user or password; leave it out and use --header, write a plain one"));
    }
    let port = &authority.as_str()[authority.host().len()..];
    if authority.host().is_empty() || !(port.is_empty() || uri.port_u16().is_some_and(|port| port > 0)) {
        return Err(fault("has no valid host and port; write one that has"));
    }
    if text.contains(['?', '#']) {
        return Err(fault("carries a query or fragment; write one without"));
    }
    Ok(uri)
}

fn tls_roots(env: &Env, faults: &mut Faults) -> TlsRoots {
    let cert_file = env.get(env::CERT_FILE).map(std::path::PathBuf::from);
    let cert_file = cert_file.filter(|path| faults.keep(inputs::certificates(env::CERT_FILE, path)).is_some());
    let mut cert_dirs = env.paths(env::CERT_DIR);
    cert_dirs.retain(|path| faults.keep(inputs::directory(env::CERT_DIR, path)).is_some());
    TlsRoots { cert_file, cert_dirs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_a_scheme_a_host_and_nothing_that_would_be_lost() {
        for bad in [
            "localhost:8000",
            "localhost",
            "/v1",
            "ftp://a/v1",
            "http://",
            "http:///v1",
            "http://:80/v1",
            "http://a:0/v1",
            "http://a:99999/v1",
            "http://a:b/v1",
            "http://a b/v1",
            "http://a/v1?key=1",
            "http://a/v1#x",
            "http://a/\u{7f}",
            "https://é.example/v1",
            "file:///etc/passwd",
            "unix:/run/x",
        ] {
            let fault = http_url("--base-url", bad).expect_err(bad).to_string();
            assert!(fault.starts_with("--base-url: ") && fault.contains("such as http://"), "{fault}");
        }
        for good in ["http://a", "HTTPS://a.example:8443/v1/", "http://127.0.0.1:1", "http://[::1]:8000/v1"] {
            http_url("--base-url", good).expect(good);
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for bad in ["http://user:hidden@a/v1", "http://hidden@a", "user:hidden@a:80"] {
            let fault = http_url("OPENAI_BASE_URL", bad).expect_err(bad).to_string();
            assert!(!fault.contains("hidden"), "{fault}");
        }
    }

    #[test]
    fn a_model_is_a_provider_a_slash_and_a_name() {
        for bad in ["", "gpt", "/m", "openai/", "antropic/m", "openai/a b", "openai/a\n", " openai/m"] {
            assert!(model(bad).is_err(), "{bad:?}");
        }
        assert!(model(&format!("openai/{}", "m".repeat(1 << 16))).is_err_and(|fault| fault.to_string().len() < 500));
    }
}
