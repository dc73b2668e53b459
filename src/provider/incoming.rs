//! One answer: what its head means, and its body decoded piece by piece, from a server as from a cassette.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::HeaderMap;

use super::body_error::plain_text;
use super::cassette::Take;
use super::client::Body;
use super::error::{Class, ProviderError};
use super::hint;
use super::mask::Mask;
use super::sse::{Splitter, TooLong};
use super::types::{Codec, Decoder, Progress, Reply, Usage};
use crate::limits;
use crate::rt::Clock;

/// The head of an answer and the rest of it.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Source,
}

/// Where a body comes from.
pub(super) enum Source {
    Live(Body),
    Played { chunks: std::vec::IntoIter<Bytes>, failed: Option<ProviderError> },
}

/// What an attempt leaves behind besides its result.
#[derive(Default)]
pub(super) struct Trace {
    /// When the first piece of the body came.
    pub(super) first_byte: Option<Instant>,
    /// What the server stated that it cost so far.
    pub(super) usage: Option<Usage>,
    /// The JSON that stood under a 500.
    pub(super) fault: Option<Vec<u8>>,
    /// The recording of it, if there is one.
    pub(super) take: Option<Take>,
}

impl Incoming {
    /// Judges the head and decodes the body.
    ///
    /// # Errors
    /// What the server answered in place of a reply, or what broke the answer off.
    pub(super) async fn read(&mut self, codec: &dyn Codec, mask: &Mask, trace: &mut Trace) -> Result<Reply, ProviderError> {
        let status = self.status;
        if (300..400).contains(&status) {
            return Err(redirected(status, &self.headers));
        }
        if !(200..300).contains(&status) {
            return Err(self.refused(codec, mask, trace).await);
        }
        if let Some(encoding) = encoding(&self.headers) {
            let message = format!("the server compressed its answer ({encoding}) although it was asked not to");
            return Err(ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) });
        }
        let kind = text(&self.headers, "content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("text/html") {
            let body = read_whole(None, &mut self.body, limits::ERROR_BODY_BYTES_MAX, trace).await.unwrap_or_else(|(body, _)| body);
            let message =
                format!("the server answered {status} with {}, not with a model's answer; is the base URL right?", plain_text(&body));
            return Err(ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) });
        }
        // Servers label streams as objects and objects as streams; the first byte tells which it is.
        let first = self.body.next_chunk().await.transpose()?;
        let begins = first.as_ref().and_then(|piece| piece.trim_ascii_start().first());
        if begins.map_or(kind.starts_with("application/json"), |byte| *byte == b'{') {
            let body = read_whole(first, &mut self.body, limits::REPLY_BYTES_MAX, trace).await.map_err(|(_, error)| error)?;
            return codec.whole(&body);
        }
        stream(codec, first, &mut self.body, trace).await
    }

    /// Reads the failure behind a status.
    async fn refused(&mut self, codec: &dyn Codec, mask: &Mask, trace: &mut Trace) -> ProviderError {
        let Incoming { status, headers, body } = self;
        let mut body = read_whole(None, body, limits::ERROR_BODY_BYTES_MAX, trace).await.unwrap_or_else(|(body, _)| body);
        if let Some(encoding) = encoding(headers) {
            body = format!("the text is compressed ({encoding})").into_bytes();
        }
        // A key is taken out before the text is cut, or half of it might stay.
        let mut error = codec.error(*status, &mask.bytes(&body));
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(Clock::epoch_ms());
        let window_end = || if error.class == Class::RateLimited { hint::window_end(headers, now) } else { None };
        error.retry_after = hint::retry_after(headers, now).or_else(window_end);
        if let Some(id) = text(headers, "request-id").or_else(|| text(headers, "x-request-id")) {
            error.message.push_str(&format!(" [request {}]", &id[..id.floor_char_boundary(100)]));
        }
        let may_be_final = *status == 500 && error.class == Class::Server;
        trace.fault = Some(body).filter(|body| may_be_final && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok());
        error
    }
}

impl Source {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, ProviderError>> {
        match self {
            Source::Live(body) => body.next_chunk().await,
            Source::Played { chunks, failed } => chunks.next().map(Ok).or_else(|| failed.take().map(Err)),
        }
    }
}

/// An error that came while a stream was decoded, or the bound on its lines.
struct Broken(ProviderError);

impl From<TooLong> for Broken {
    fn from(_: TooLong) -> Broken {
        let message = format!("the server sent a line of more than {} MiB", limits::SSE_LINE_BYTES_MAX / limits::MIB);
        Broken(ProviderError::new(Class::Protocol, message))
    }
}

async fn drive(
    decoder: &mut dyn Decoder,
    splitter: &mut Splitter,
    mut first: Option<Bytes>,
    body: &mut Source,
    trace: &mut Trace,
) -> Result<(), ProviderError> {
    let mut progress = Progress::More;
    let mut left = limits::STREAM_BYTES_MAX;
    while progress == Progress::More {
        let mut feed = |event: &[u8], data: &mut [u8]| -> Result<(), Broken> {
            if progress == Progress::More {
                progress = decoder.event(event, data).map_err(Broken)?;
            }
            Ok(())
        };
        let Some(chunk) = next(&mut first, body).await else {
            // A line that breaks off is no event; whether the answer was complete without it, the decoder knows.
            return match splitter.finish(&mut feed) {
                Err(Broken(error)) if error.class != Class::Protocol => Err(error),
                _ => Ok(()),
            };
        };
        let chunk = chunk?;
        left = left.checked_sub(chunk.len()).ok_or_else(|| {
            ProviderError::new(Class::Protocol, format!("the server sent more than {} MiB", limits::STREAM_BYTES_MAX / limits::MIB))
        })?;
        note(&chunk, trace);
        splitter.feed(&chunk, &mut feed).map_err(|broken| broken.0)?;
    }
    Ok(())
}

/// The next piece, where the first may have been looked at already.
async fn next(first: &mut Option<Bytes>, body: &mut Source) -> Option<Result<Bytes, ProviderError>> {
    match first.take() {
        Some(piece) => Some(Ok(piece)),
        None => body.next_chunk().await,
    }
}

/// Reads a body up to a bound; what lies beyond is left.
async fn read_whole(
    mut first: Option<Bytes>,
    body: &mut Source,
    bytes_max: usize,
    trace: &mut Trace,
) -> Result<Vec<u8>, (Vec<u8>, ProviderError)> {
    let mut out = Vec::new();
    while out.len() < bytes_max {
        match next(&mut first, body).await {
            None => break,
            Some(Ok(chunk)) => {
                note(&chunk, trace);
                out.extend_from_slice(&chunk[..chunk.len().min(bytes_max - out.len())]);
            }
            Some(Err(error)) => return Err((out, error)),
        }
    }
    Ok(out)
}

fn note(chunk: &Bytes, trace: &mut Trace) {
    trace.first_byte.get_or_insert_with(Clock::now);
    if let Some(take) = &mut trace.take {
        take.chunk(chunk);
    }
}

async fn stream(codec: &dyn Codec, first: Option<Bytes>, body: &mut Source, trace: &mut Trace) -> Result<Reply, ProviderError> {
    let mut decoder = codec.decoder();
    let mut splitter = Splitter::default();
    let read = drive(&mut *decoder, &mut splitter, first, body, trace).await;
    trace.usage = decoder.usage();
    read?;
    decoder.finish()
}

fn redirected(status: u16, headers: &HeaderMap) -> ProviderError {
    let target = text(headers, "location").map(str::parse::<http::Uri>);
    let whereto = match &target {
        Some(Ok(uri)) => uri.host().unwrap_or("another path of its own"),
        _ => "a place that it does not name",
    };
    let message = format!(
        "the server answered {status} and sends us to {whereto}; redirects are not followed, since the key would go along. Set the base URL to where the API is"
    );
    ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) }
}

/// How the body is compressed, if it is.
fn encoding(headers: &HeaderMap) -> Option<&str> {
    text(headers, "content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{VENDORS, Wire, codec};
    use crate::rt::{DriverChoice, block_on};

    #[test]
    fn a_stream_without_end_is_refused() {
        let mut comment = vec![b':'; limits::MIB];
        comment[limits::MIB - 1] = b'\n';
        let chunks = vec![Bytes::from(comment); limits::STREAM_BYTES_MAX / limits::MIB + 1];
        let body = Source::Played { chunks: chunks.into_iter(), failed: None };
        let mut incoming = Incoming { status: 200, headers: HeaderMap::new(), body };
        let codec = codec(Wire::OpenAiChat, &VENDORS[1]);
        let mask = Mask::new([]);
        let mut trace = Trace::default();
        let error = block_on(DriverChoice::Auto, |_| incoming.read(&*codec, &mask, &mut trace)).unwrap().unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (Class::Protocol, "the server sent more than 256 MiB"));
    }
}
