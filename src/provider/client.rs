//! The HTTP client: one kept connection to one server, with a time-out on every wait.
//!
//! It knows no vendor: it is given a base URL, headers and bytes. The answer's body is handed on as it arrives. Dropping a call
//! closes its connection, so that the server stops generating.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;

use super::body::Chain;
use super::error::{Class, ProviderError};
use super::tls::{Tls, TlsError, TlsRoots};
use crate::limits;
use crate::rt::{self, Elapsed};

/// Where and how a client connects.
#[derive(Clone, Debug)]
pub struct ClientSetup {
    /// `http` or `https`, with a host; a path is put before the wire's own.
    pub base_url: Uri,
    /// Sent with every request; they win over the wire's of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Further TLS roots.
    pub tls: TlsRoots,
    /// Bound on name look-up, connection and handshake together.
    pub connect_timeout: Duration,
    /// Bound on each wait for the server: for the answer's head, and for each piece of its body.
    pub idle_timeout: Duration,
}

/// A client of one server.
pub struct Client {
    setup: ClientSetup,
    tls: Tls,
    sender: Option<http1::SendRequest<Chain>>,
}

/// The body of an answer.
pub struct Body {
    incoming: Incoming,
    idle_timeout: Duration,
    host: String,
}

impl Client {
    /// A client without a connection yet.
    pub fn new(setup: ClientSetup) -> Client {
        Client { tls: Tls::new(setup.tls.clone()), setup, sender: None }
    }

    /// Posts a body and waits for the head of the answer.
    ///
    /// # Errors
    /// Transport, time-out and certificate failures. Statuses are not judged here.
    pub async fn post(&mut self, path: &str, headers: &[(&'static str, String)], body: &[Bytes]) -> Result<Response<Body>, ProviderError> {
        let kept = self.sender.take();
        if let Some(sender) = kept
            && !sender.is_closed()
        {
            match self.post_on(sender, path, headers, body).await {
                // The server closed a kept connection before it saw this request: that is no failed attempt.
                Err(Failure::Stale) => {}
                done => return done.map_err(|failure| self.explain(failure)),
            }
        }
        let sender = self.connect().await?;
        self.post_on(sender, path, headers, body).await.map_err(|failure| self.explain(failure))
    }

    async fn post_on(
        &mut self,
        mut sender: http1::SendRequest<Chain>,
        path: &str,
        headers: &[(&'static str, String)],
        body: &[Bytes],
    ) -> Result<Response<Body>, Failure> {
        sender.ready().await.map_err(|_| Failure::Stale)?;
        let request = self.request(path, headers, body)?;
        let sent = rt::timeout(self.setup.idle_timeout, sender.send_request(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failure::of(error)),
            Err(Elapsed) => return Err(Failure::FirstByte),
        };
        self.sender = Some(sender);
        let Setup { idle_timeout, host } = self.body_setup();
        Ok(response.map(|incoming| Body { incoming, idle_timeout, host }))
    }

    fn body_setup(&self) -> Setup {
        Setup { idle_timeout: self.setup.idle_timeout, host: self.host().to_owned() }
    }

    fn request(&self, path: &str, headers: &[(&'static str, String)], body: &[Bytes]) -> Result<Request<Chain>, Failure> {
        let base = self.setup.base_url.path().trim_end_matches('/');
        let authority = self.setup.base_url.authority().map_or("", |a| a.as_str());
        let mut map = HeaderMap::with_capacity(12);
        map.insert(header::HOST, HeaderValue::from_str(authority).map_err(|_| Failure::Request("the host"))?);
        map.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        map.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        map.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        map.insert(header::USER_AGENT, HeaderValue::from_static(concat!("gantry/", env!("CARGO_PKG_VERSION"))));
        let given = |name: &str| self.setup.headers.iter().any(|(n, _)| n == name);
        for (name, value) in headers.iter().filter(|(name, _)| !given(name)) {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).map_err(|_| Failure::Request("a header"))?);
        }
        for (name, value) in &self.setup.headers {
            map.insert(name.clone(), value.clone());
        }
        let mut request = Request::new(Chain::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::try_from(format!("{base}{path}")).map_err(|_| Failure::Request("the path"))?;
        *request.headers_mut() = map;
        Ok(request)
    }

    async fn connect(&mut self) -> Result<http1::SendRequest<Chain>, ProviderError> {
        let bound = self.setup.connect_timeout;
        let done = rt::timeout(bound, self.connect_unbounded(bound)).await;
        done.unwrap_or_else(|Elapsed| {
            let message =
                format!("no connection to {} within {} ms", self.setup.base_url.authority().map_or("", |a| a.as_str()), bound.as_millis());
            Err(ProviderError::new(Class::Timeout, message))
        })
    }

    async fn connect_unbounded(&mut self, bound: Duration) -> Result<http1::SendRequest<Chain>, ProviderError> {
        let stream = self.dial(bound).await?;
        if self.setup.base_url.scheme_str() != Some("https") {
            return handshake(stream).await.map_err(|e| self.refused(&e.to_string()));
        }
        let host = self.host().to_owned();
        let secured = match self.tls.connect(&host, stream).await {
            Err(TlsError::UnknownIssuer) if self.tls.add_system_store().await => {
                let stream = self.dial(bound).await?;
                self.tls.connect(&host, stream).await
            }
            done => done,
        };
        let secured = secured.map_err(|error| tls_failure(&host, error))?;
        handshake(secured).await.map_err(|e| self.refused(&e.to_string()))
    }

    async fn dial(&self, bound: Duration) -> Result<rt::Stream, ProviderError> {
        let url = &self.setup.base_url;
        let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
        let addrs = rt::resolve(self.host(), port).await.map_err(|e| self.refused(&format!("name look-up failed: {e}")))?;
        rt::connect(&addrs, bound).await.map_err(|e| self.refused(&e.to_string()))
    }

    fn host(&self) -> &str {
        self.setup.base_url.host().unwrap_or_default()
    }

    fn refused(&self, why: &str) -> ProviderError {
        let authority = self.setup.base_url.authority().map_or("", |a| a.as_str());
        ProviderError::new(
            Class::Transport,
            format!("cannot connect to {authority}: {why}; is the server running, and the base URL right?"),
        )
    }

    fn explain(&self, failure: Failure) -> ProviderError {
        let host = self.host();
        match failure {
            Failure::Stale => ProviderError::new(Class::Transport, format!("{host} closed the connection before it answered")),
            Failure::FirstByte => ProviderError::new(
                Class::Timeout,
                format!("{host} sent no answer within {} ms (--idle-timeout-ms)", self.setup.idle_timeout.as_millis()),
            ),
            Failure::Request(what) => {
                ProviderError::new(Class::BadRequest, format!("{what} of the request holds characters that HTTP does not take"))
            }
            Failure::Http(error) => http_failure(host, &error),
        }
    }
}

struct Setup {
    idle_timeout: Duration,
    host: String,
}

/// Why a request has no answer.
enum Failure {
    /// The connection was closed before any byte of an answer.
    Stale,
    /// The head of the answer did not come in time.
    FirstByte,
    /// The request cannot be put as HTTP.
    Request(&'static str),
    /// Anything else.
    Http(hyper::Error),
}

impl Failure {
    fn of(error: hyper::Error) -> Failure {
        if error.is_canceled() || error.is_closed() || error.is_incomplete_message() || io_kind(&error).is_some_and(is_hang_up) {
            Failure::Stale
        } else {
            Failure::Http(error)
        }
    }
}

fn is_hang_up(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted | io::ErrorKind::NotConnected
    )
}

fn io_kind(error: &hyper::Error) -> Option<io::ErrorKind> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        source = error.source();
    }
    None
}

fn http_failure(host: &str, error: &hyper::Error) -> ProviderError {
    let why = std::error::Error::source(error).map(|s| format!(": {s}")).unwrap_or_default();
    if error.is_parse() {
        return ProviderError::new(Class::Protocol, format!("{host} does not answer in HTTP ({error}{why})"));
    }
    ProviderError::new(Class::Transport, format!("the connection to {host} broke ({error}{why})"))
}

fn tls_failure(host: &str, error: TlsError) -> ProviderError {
    match error {
        TlsError::UnknownIssuer => ProviderError::new(
            Class::BadRequest,
            format!(
                "the certificate of {host} has an unknown issuer; if a proxy inspects traffic here, name its CA bundle in SSL_CERT_FILE"
            ),
        ),
        TlsError::Certificate(why) => ProviderError::new(Class::BadRequest, format!("the certificate of {host} is not acceptable: {why}")),
        TlsError::Roots(why) => ProviderError::new(Class::BadRequest, why),
        TlsError::Io(error) => ProviderError::new(Class::Transport, format!("the TLS handshake with {host} failed: {error}")),
    }
}

async fn handshake<S>(stream: S) -> hyper::Result<http1::SendRequest<Chain>>
where
    rt::hyper::Io<S>: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    let (sender, connection) =
        http1::Builder::new().max_buf_size(limits::RESPONSE_HEAD_BYTES_MAX).handshake(rt::hyper::Io::new(stream)).await?;
    rt::spawn(async move {
        // Its failure reaches whoever waits for an answer on it.
        let _ = connection.await;
    });
    Ok(sender)
}

impl Body {
    /// The next piece, or nothing at the end.
    ///
    /// # Errors
    /// The connection broke or the server sent nothing in time.
    pub async fn next_chunk(&mut self) -> Option<Result<Bytes, ProviderError>> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.incoming).poll_frame(cx));
            return match rt::timeout(self.idle_timeout, frame).await {
                Ok(None) => None,
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // Trailers say nothing that a reply needs.
                    Err(_) => continue,
                },
                Ok(Some(Err(error))) => Some(Err(http_failure(&self.host, &error))),
                Err(Elapsed) => {
                    let message = format!("{} sent nothing for {} ms (--idle-timeout-ms)", self.host, self.idle_timeout.as_millis());
                    Some(Err(ProviderError::new(Class::Timeout, message)))
                }
            };
        }
    }

    /// Reads what is left when that is little and already there, so that the connection can be kept.
    pub async fn settle(mut self) {
        let mut left = limits::SETTLE_BYTES_MAX;
        let settle = async {
            while let Some(Ok(chunk)) = self.next_chunk().await
                && chunk.len() <= left
            {
                left -= chunk.len();
            }
        };
        // A server that holds the body open costs this much and its connection, no more.
        let _ = rt::timeout(Duration::from_millis(limits::SETTLE_MS), settle).await;
    }
}
