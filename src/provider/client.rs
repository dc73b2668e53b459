//! The HTTP client: one kept connection to one server, with a time-out on every wait.
//!
//! It knows no vendor: it is given a base URL, headers and bytes. The answer's body is handed on as it arrives. Dropping a call
//! closes its connection, so that the server stops generating.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use hyper::body::Incoming;

use super::body::Chain;
use super::error::{Class, ProviderError};
use super::line::{Line, is_hang_up};
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
    kept: Option<Line>,
}

/// The body of an answer, with the connection that it comes by.
pub(super) struct Body {
    line: Line,
    incoming: Incoming,
    idle_timeout: Duration,
    host: String,
}

impl Client {
    /// A client without a connection yet.
    pub fn new(setup: ClientSetup) -> Client {
        Client { tls: Tls::new(setup.tls.clone()), setup, kept: None }
    }

    /// Posts a body and waits for the head of the answer.
    ///
    /// # Errors
    /// Transport, time-out and certificate failures. Statuses are not judged here.
    pub(super) async fn post(
        &mut self,
        path: &str,
        headers: &[(&'static str, String)],
        body: &[Bytes],
    ) -> Result<Response<Body>, ProviderError> {
        if let Some(mut line) = self.kept.take()
            && line.is_ready().await
        {
            match self.post_on(line, path, headers, body).await {
                // The server closed a kept connection before it saw this request: that is no failed attempt.
                Err(Failure::Stale) => {}
                done => return done.map_err(|failure| self.explain(failure)),
            }
        }
        let line = self.connect().await?;
        self.post_on(line, path, headers, body).await.map_err(|failure| self.explain(failure))
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(&mut self, line: Line) {
        self.kept = Some(line);
    }

    /// The values of the headers that were given, which no message repeats.
    pub(super) fn header_values(&self) -> impl Iterator<Item = &str> {
        self.setup.headers.iter().filter_map(|(_, value)| value.to_str().ok())
    }

    async fn post_on(
        &self,
        mut line: Line,
        path: &str,
        headers: &[(&'static str, String)],
        body: &[Bytes],
    ) -> Result<Response<Body>, Failure> {
        let request = self.request(path, headers, body)?;
        let idle_timeout = self.setup.idle_timeout;
        let response = match rt::timeout(idle_timeout, line.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failure::of(error)),
            Err(Elapsed) => return Err(Failure::FirstByte),
        };
        let host = self.host().to_owned();
        Ok(response.map(|incoming| Body { line, incoming, idle_timeout, host }))
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

    async fn connect(&mut self) -> Result<Line, ProviderError> {
        let bound = self.setup.connect_timeout;
        // Boxed, since every agent's future would hold room for it all the time.
        let done = rt::timeout(bound, Box::pin(self.connect_unbounded(bound))).await;
        done.unwrap_or_else(|Elapsed| {
            let message =
                format!("no connection to {} within {} ms", self.setup.base_url.authority().map_or("", |a| a.as_str()), bound.as_millis());
            Err(ProviderError::new(Class::Timeout, message))
        })
    }

    async fn connect_unbounded(&mut self, bound: Duration) -> Result<Line, ProviderError> {
        let stream = self.dial(bound).await?;
        if self.setup.base_url.scheme_str() != Some("https") {
            return Line::open(stream).await.map_err(|e| self.refused(&e.to_string()));
        }
        let host = self.host().to_owned();
        let secured = match self.tls.connect(&host, stream).await {
            Err(TlsError::UnknownIssuer) if self.tls.add_system_store() => {
                let stream = self.dial(bound).await?;
                self.tls.connect(&host, stream).await
            }
            done => done,
        };
        let secured = secured.map_err(|error| tls_failure(&host, error))?;
        Line::open(secured).await.map_err(|e| self.refused(&e.to_string()))
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

impl Body {
    /// The next piece, or nothing at the end.
    ///
    /// # Errors
    /// The connection broke or the server sent nothing in time.
    pub(super) async fn next_chunk(&mut self) -> Option<Result<Bytes, ProviderError>> {
        loop {
            return match rt::timeout(self.idle_timeout, self.line.frame(&mut self.incoming)).await {
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

    /// Reads what is left when that is little and already there, and gives the connection back. A server that holds the body
    /// open costs a moment and its connection, no more.
    pub(super) async fn settle(mut self) -> Option<Line> {
        let mut left = limits::SETTLE_BYTES_MAX;
        let settle = async {
            loop {
                match self.next_chunk().await {
                    None => return true,
                    Some(Ok(chunk)) if chunk.len() <= left => left -= chunk.len(),
                    Some(_) => return false,
                }
            }
        };
        let settled = rt::timeout(Duration::from_millis(limits::SETTLE_MS), settle).await;
        (settled == Ok(true)).then_some(self.line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read, Write};
    use std::sync::{Barrier, mpsc};

    use super::*;
    use crate::provider::raw::{Raw, answer, head, request};
    use crate::rt::{DriverChoice, block_on};

    /// Longer than anything here takes; reached only when something hangs.
    const PATIENCE: Duration = Duration::from_secs(20);
    /// Far more than the buffers of two sockets hold.
    const BIG: usize = 16 * limits::MIB;

    fn both(test: impl AsyncFn()) {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, async |_| rt::timeout(PATIENCE, test()).await.expect("nothing hangs")).unwrap();
        }
    }

    fn client(server: &Raw) -> Client {
        impatient(server, PATIENCE)
    }

    fn impatient(server: &Raw, idle_timeout: Duration) -> Client {
        Client::new(ClientSetup {
            base_url: format!("http://{}/base/", server.addr).parse().unwrap(),
            headers: vec![(HeaderName::from_static("x-extra"), HeaderValue::from_static("given"))],
            tls: TlsRoots::default(),
            connect_timeout: PATIENCE,
            idle_timeout,
        })
    }

    fn chunks(bytes: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![b'x'; 64 * limits::KIB]); bytes.div_ceil(64 * limits::KIB)]
    }

    /// Status and body of one exchange, after which the connection is kept.
    async fn exchange(client: &mut Client, body: &[Bytes]) -> Result<(u16, String), ProviderError> {
        let (head, mut body) = client.post("/path", &[("x-wire", "its own".into()), ("x-extra", "lost".into())], body).await?.into_parts();
        let mut text = Vec::new();
        while let Some(chunk) = body.next_chunk().await {
            text.extend_from_slice(&chunk?);
        }
        if let Some(line) = body.settle().await {
            client.keep(line);
        }
        Ok((head.status.as_u16(), String::from_utf8(text).unwrap()))
    }

    fn ok<E>(text: &str) -> Result<(u16, String), E> {
        Ok((200, text.to_owned()))
    }

    #[test]
    fn a_request_is_one_body_of_stated_length_under_the_path_of_the_base() {
        both(async || {
            let (told, asked) = mpsc::channel();
            let server = Raw::start(move |_, mut stream| {
                told.send(request(&stream)).unwrap();
                stream.write_all(&answer("200 OK", &[], "fine")).unwrap();
            });
            let body = [Bytes::from_static(b"{\"a\":"), Bytes::new(), Bytes::from_static(b"1}")];
            assert_eq!(exchange(&mut client(&server), &body).await, ok("fine"));
            let (head, body) = asked.recv().unwrap();
            assert_eq!(body, b"{\"a\":1}");
            assert!(head.starts_with("post /base/path http/1.1\r\n"), "{head}");
            let version = env!("CARGO_PKG_VERSION");
            for line in [
                &format!("host: {}", server.addr),
                "content-length: 7",
                "accept-encoding: identity",
                &format!("user-agent: gantry/{version}"),
                "x-wire: its own",
                "x-extra: given",
            ] {
                assert!(head.lines().any(|found| found == line), "{line} in {head}");
            }
            assert!(!head.contains("transfer-encoding") && !head.contains("lost"), "{head}");
        });
    }

    #[test]
    fn a_connection_is_kept_and_one_that_was_closed_meanwhile_replaced() {
        both(async || {
            let server = Raw::start(|number, mut stream| {
                // Two answers each; then the close that a client learns of only when it writes, or just before.
                for turn in 0..2 {
                    request(&stream);
                    stream.write_all(&answer("200 OK", &[], &format!("{number}.{turn}"))).unwrap();
                }
            });
            let mut client = client(&server);
            for text in ["0.0", "0.1", "1.0", "1.1", "2.0"] {
                assert_eq!(exchange(&mut client, &chunks(1)).await, ok(text));
            }
            assert_eq!(server.accepted(), 3);
        });
    }

    #[test]
    fn a_kept_connection_that_dies_under_the_request_is_replaced_once() {
        both(async || {
            let server = Raw::start(|number, mut stream| {
                request(&stream);
                if number == 0 {
                    stream.write_all(&answer("200 OK", &[], "first")).unwrap();
                    request(&stream);
                }
            });
            let mut client = client(&server);
            assert_eq!(exchange(&mut client, &chunks(1)).await, ok("first"));
            let error = exchange(&mut client, &chunks(1)).await.unwrap_err();
            assert_eq!((error.class, server.accepted()), (Class::Transport, 2));
        });
    }

    #[test]
    fn an_answer_is_heard_although_the_server_hung_up_on_the_request() {
        both(async || {
            // Whether the reset overtakes the answer is a matter of microseconds.
            for _ in 0..50 {
                let server = Raw::start(|_, mut stream| {
                    head(&mut BufReader::new(&stream));
                    stream.write_all(&answer("413 Too Large", &[], "too much")).unwrap();
                });
                assert_eq!(exchange(&mut client(&server), &chunks(BIG)).await, Ok((413, "too much".into())));
            }
        });
    }

    #[test]
    fn an_early_answer_does_not_hold_up_the_next_request() {
        both(async || {
            // The first connection stays open, and nothing more is read from it, until the second one has been served.
            let served = Barrier::new(2);
            let server = Raw::start(move |number, mut stream| {
                if number == 0 {
                    head(&mut BufReader::new(&stream));
                    stream.write_all(&answer("429 Too Many", &[], "wait")).unwrap();
                } else {
                    request(&stream);
                    stream.write_all(&answer("200 OK", &[], "now")).unwrap();
                }
                served.wait();
            });
            let mut client = client(&server);
            assert_eq!(exchange(&mut client, &chunks(BIG)).await, Ok((429, "wait".into())));
            assert_eq!(exchange(&mut client, &chunks(BIG)).await, ok("now"));
        });
    }

    #[test]
    fn a_body_that_breaks_off_is_told_from_one_that_ends() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\n";
        both(async || {
            for (rest, want) in [
                ("content-length: 4\r\n\r\nfour", ok("four")),
                ("transfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n", ok("four")),
                ("transfer-encoding: chunked\r\n\r\n4;x=y\r\nfour\r\n0\r\nx-trailer: 1\r\n\r\n", ok("four")),
                ("\r\nuntil the close", ok("until the close")),
                ("content-length: 5\r\n\r\nfour", Err(Class::Transport)),
                ("transfer-encoding: chunked\r\n\r\n4\r\nfour\r\n", Err(Class::Transport)),
                ("transfer-encoding: chunked\r\n\r\n4\r\nfo", Err(Class::Transport)),
                ("transfer-encoding: chunked\r\n\r\nxyz\r\nfour\r\n0\r\n\r\n", Err(Class::Transport)),
                ("content-length: 4\r\ncontent-length: 5\r\n\r\nfour", Err(Class::Protocol)),
                ("\0", Err(Class::Protocol)),
            ] {
                let server = Raw::answering(vec![format!("{HEAD}{rest}").into_bytes()]);
                let got = exchange(&mut client(&server), &chunks(1)).await;
                assert_eq!(got.map_err(|e| e.class), want, "{rest:?}");
            }
        });
    }

    #[test]
    fn every_wait_has_an_end_with_a_name() {
        both(async || {
            for (sent, part) in [
                ("", "sent no answer within 60 ms"),
                ("HTTP/1.1 200 OK\r\ncontent-le", "sent no answer within 60 ms"),
                ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfo", "sent nothing for 60 ms"),
            ] {
                let server = Raw::start(move |_, mut stream| {
                    request(&stream);
                    stream.write_all(sent.as_bytes()).unwrap();
                    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the client goes away");
                });
                let error = exchange(&mut impatient(&server, Duration::from_millis(60)), &chunks(1)).await.unwrap_err();
                assert!(error.class == Class::Timeout && error.message.contains(part), "{error:?}");
                assert!(error.message.contains("127.0.0.1") && error.message.contains("--idle-timeout-ms"), "{error:?}");
            }
        });
    }

    #[test]
    fn a_connection_that_does_not_come_about_names_the_address() {
        both(async || {
            let server = Raw::start(|_, mut stream| while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {});
            let mut client = client(&server);
            client.setup.base_url = format!("https://{}", server.addr).parse().unwrap();
            client.setup.connect_timeout = Duration::from_millis(60);
            let error = exchange(&mut client, &[]).await.unwrap_err();
            let want = format!("no connection to {} within 60 ms", server.addr);
            assert_eq!((error.class, error.message), (Class::Timeout, want));

            client.setup.base_url = "http://no-such-host.invalid:8/v1".parse().unwrap();
            client.setup.connect_timeout = PATIENCE;
            let error = exchange(&mut client, &[]).await.unwrap_err();
            assert!(error.class == Class::Transport && error.message.contains("no-such-host.invalid:8: name look-up failed"), "{error:?}");
        });
    }

    #[test]
    fn a_head_without_end_is_refused() {
        both(async || {
            let server = Raw::start(|_, mut stream| {
                request(&stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\nx-more: ").unwrap();
                while stream.write_all(&[b'y'; 4_096]).is_ok() {}
            });
            assert_eq!(exchange(&mut client(&server), &[]).await.unwrap_err().class, Class::Protocol);
        });
    }

    #[test]
    fn whoever_drops_a_call_closes_its_connection() {
        both(async || {
            for (sent, reads_body) in [("", true), ("", false), ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfo", true)] {
                let (told, closed) = mpsc::channel();
                let server = Raw::start(move |_, mut stream| {
                    if reads_body {
                        drop(request(&stream))
                    } else {
                        drop(head(&mut BufReader::new(&stream)))
                    }
                    stream.write_all(sent.as_bytes()).unwrap();
                    told.send("asked").unwrap();
                    while stream.read(&mut [0; 4_096]).unwrap_or(0) > 0 {}
                    told.send("closed").unwrap();
                });
                let mut client = client(&server);
                {
                    let big = chunks(BIG);
                    let call = exchange(&mut client, if reads_body { &big[..1] } else { &big });
                    let asked = rt::blocking(move || (closed.recv().unwrap(), closed));
                    let rt::Either::Right(Ok((_, closed))) = rt::select(call, asked).await else { panic!("the call cannot end") };
                    // The call is dropped with the select, while the client lives on.
                    let told = rt::blocking(move || closed.recv_timeout(PATIENCE)).await.unwrap();
                    assert_eq!(told, Ok("closed"));
                }
                drop(client);
            }
        });
    }
}
