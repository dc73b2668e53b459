//! One model call: attempts over a transport, until one is whole or the failure is final.
//!
//! A call is atomic. The reply comes out only when its stream ended properly; whatever a failed attempt sent is forgotten but
//! for the usage that it stated, since that is paid for.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::body_error::plain_text;
use super::cassette::{CallKey, HEADERS_KEPT, Played, Recorder, Replay, SECRET_BYTES_MIN, Take};
use super::client::{Body, Client};
use super::error::{Class, ProviderError};
use super::retry::{self, Verdict};
use super::sse::{Splitter, TooLong};
use super::types::{Codec, Decoder, Progress, Reply, Usage};
use crate::limits;
use crate::rt::{self, Cancel, Clock, Either};
use crate::secret::Secret;

/// How a session's bytes travel.
pub enum Transport {
    /// To a server.
    Live(Box<Client>),
    /// From a cassette.
    Replay(Replay),
}

/// One agent's line to its model.
pub struct Session {
    codec: Box<dyn Codec>,
    transport: Transport,
    agent: String,
    key: Option<Secret>,
    recorder: Option<Recorder>,
    random: u64,
}

/// A model call that ended well.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The whole turn.
    pub reply: Reply,
    /// HTTP attempts it took.
    pub attempts: u32,
    /// From the start of the last attempt to the first byte of its body.
    pub ttft_ms: u64,
    /// All attempts and the waits between them.
    pub duration_ms: u64,
    /// What failed attempts stated to have cost.
    pub failed_usage: Usage,
}

/// A failed attempt that is going to be repeated.
#[derive(Clone, Debug)]
pub struct RetryNote {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// The kind of the failure.
    pub class: Class,
    /// The status, when there was an answer.
    pub status: Option<u16>,
    /// The wait before the next attempt.
    pub delay_ms: u64,
    /// What happened.
    pub message: String,
}

/// One call as an agent asks for it.
pub struct Call<'a> {
    /// The whole request body, in pieces.
    pub body: &'a [Bytes],
    /// The agent's turn, from 0.
    pub turn: u32,
    /// The ids of the calls whose results the body brings.
    pub answers: &'a [String],
    /// The end of the run.
    pub deadline: Instant,
    /// Ends the call from outside.
    pub cancel: &'a Cancel,
}

/// The head of an answer and the rest of it.
struct Incoming {
    status: u16,
    headers: HeaderMap,
    body: Source,
}

enum Source {
    Live(Body),
    Played { chunks: std::vec::IntoIter<Bytes>, cut: bool },
}

/// What an attempt left behind besides its result.
#[derive(Default)]
struct Trace {
    first_byte: Option<Instant>,
    usage: Option<Usage>,
}

impl Session {
    /// A session of one agent. `random` seeds the jitter of its back-off.
    pub fn new(
        codec: Box<dyn Codec>,
        transport: Transport,
        agent: &str,
        key: Option<Secret>,
        recorder: Option<Recorder>,
        random: u64,
    ) -> Session {
        Session { codec, transport, agent: agent.to_owned(), key, recorder, random: random | 1 }
    }

    /// The codec, for encoding what the next call sends.
    pub fn codec(&self) -> &dyn Codec {
        &*self.codec
    }

    /// Calls the model. `on_retry` hears of each attempt that is going to be repeated.
    ///
    /// # Errors
    /// The last attempt's failure, when it is final; [`Class::Deadline`] when the run's end came first.
    pub async fn call(&mut self, call: &Call<'_>, on_retry: &mut dyn FnMut(&RetryNote)) -> Result<Answer, ProviderError> {
        let started = Clock::now();
        let mut failed_usage = Usage::default();
        let mut last_message = String::new();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let attempt_start = Clock::now();
            let mut trace = Trace::default();
            let tried = rt::select(ended(call), self.attempt(call, attempt, &mut trace)).await;
            let error = match tried {
                Either::Left(error) => return Err(error),
                Either::Right(Ok(reply)) => {
                    let ttft_ms = ms(trace.first_byte.unwrap_or(attempt_start).saturating_duration_since(attempt_start));
                    let duration_ms = ms(Clock::now().saturating_duration_since(started));
                    return Ok(Answer { reply, attempts: attempt, ttft_ms, duration_ms, failed_usage });
                }
                Either::Right(Err(error)) => self.redacted(error),
            };
            failed_usage = failed_usage + trace.usage.unwrap_or_default();
            let left = call.deadline.saturating_duration_since(Clock::now());
            let same_again = last_message == error.message;
            let Verdict::Again(delay) = retry::judge(&error, attempt, left, self.next_random(), same_again) else { return Err(error) };
            let ProviderError { class, status, message, .. } = error;
            on_retry(&RetryNote { attempt, class, status, delay_ms: ms(delay), message: message.clone() });
            last_message = message;
            if let Either::Left(error) = rt::select(ended(call), rt::sleep(delay)).await {
                return Err(error);
            }
        }
    }

    async fn attempt(&mut self, call: &Call<'_>, attempt: u32, trace: &mut Trace) -> Result<Reply, ProviderError> {
        let key = CallKey { agent: self.agent.clone(), turn: call.turn, attempt };
        let mut incoming = self.send(call, &key).await?;
        let mut take = self.recorder.is_some().then(|| Take {
            key,
            answers: call.answers.to_vec(),
            status: incoming.status,
            headers: kept_headers(&incoming.headers),
            chunks: Vec::new(),
            body: Vec::new(),
            cut: true,
        });
        let read = self.read(&mut incoming, trace, &mut take).await;
        if let (Some(recorder), Some(mut take)) = (&mut self.recorder, take) {
            take.cut = matches!(&read, Err(error) if matches!(error.class, Class::Transport | Class::Timeout));
            recorder.append(take).map_err(|e| ProviderError::new(Class::BadRequest, format!("the recording cannot be written: {e}")))?;
        }
        let reply = read?;
        if let Source::Live(body) = incoming.body {
            body.settle().await;
        }
        Ok(reply)
    }

    async fn send(&mut self, call: &Call<'_>, key: &CallKey) -> Result<Incoming, ProviderError> {
        match &mut self.transport {
            Transport::Live(client) => {
                let mut headers = Vec::with_capacity(4);
                self.codec.headers(self.key.as_ref().map(Secret::expose), &mut headers);
                let (head, body) = client.post(self.codec.path(), &headers, call.body).await?.into_parts();
                Ok(Incoming { status: head.status.as_u16(), headers: head.headers, body: Source::Live(body) })
            }
            Transport::Replay(replay) => {
                let Played { status, headers, chunks, cut } = replay.play(key, call.answers)?;
                let pair = |(n, v): &(String, String)| Some((n.parse::<HeaderName>().ok()?, v.parse::<HeaderValue>().ok()?));
                let headers = headers.iter().filter_map(pair).collect();
                Ok(Incoming { status, headers, body: Source::Played { chunks: chunks.into_iter(), cut } })
            }
        }
    }

    /// Judges the head and decodes the body.
    async fn read(&self, incoming: &mut Incoming, trace: &mut Trace, take: &mut Option<Take>) -> Result<Reply, ProviderError> {
        let status = incoming.status;
        if (300..400).contains(&status) {
            return Err(self.redirected(status, &incoming.headers));
        }
        if let Some(encoding) = text(&incoming.headers, "content-encoding").filter(|e| *e != "identity") {
            let message = format!("the server compressed its answer ({encoding}) although it was asked not to");
            return Err(ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) });
        }
        if !(200..300).contains(&status) {
            let body = read_whole(&mut incoming.body, limits::ERROR_BODY_BYTES_MAX, trace, take).await.unwrap_or_else(|(body, _)| body);
            let mut error = self.codec.error(status, &body);
            error.retry_after = retry::hint(&incoming.headers, SystemTime::UNIX_EPOCH + Duration::from_millis(Clock::epoch_ms()));
            if let Some(id) = text(&incoming.headers, "request-id").or_else(|| text(&incoming.headers, "x-request-id")) {
                error.message.push_str(&format!(" [request {}]", &id[..id.floor_char_boundary(100)]));
            }
            return Err(error);
        }
        let kind = text(&incoming.headers, "content-type").unwrap_or("text/event-stream").to_ascii_lowercase();
        if kind.starts_with("application/json") {
            let body = read_whole(&mut incoming.body, limits::REPLY_BYTES_MAX, trace, take).await.map_err(|(_, error)| error)?;
            return self.codec.whole(&body);
        }
        if kind.starts_with("text/html") {
            let body = read_whole(&mut incoming.body, limits::ERROR_BODY_BYTES_MAX, trace, take).await.unwrap_or_else(|(body, _)| body);
            let message =
                format!("the server answered {status} with {}, not with a model's answer; is the base URL right?", plain_text(&body));
            return Err(ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) });
        }
        self.stream(&mut incoming.body, trace, take).await
    }

    async fn stream(&self, body: &mut Source, trace: &mut Trace, take: &mut Option<Take>) -> Result<Reply, ProviderError> {
        let mut decoder = self.codec.decoder();
        let mut splitter = Splitter::default();
        let read = drive(&mut *decoder, &mut splitter, body, trace, take).await;
        trace.usage = decoder.usage();
        read?;
        decoder.finish()
    }

    fn redirected(&self, status: u16, headers: &HeaderMap) -> ProviderError {
        let target = text(headers, "location").and_then(|l| l.parse::<http::Uri>().ok());
        let host = target.as_ref().and_then(http::Uri::host).unwrap_or("nowhere");
        let message = format!(
            "the server answered {status} and sends us to {host}; redirects are not followed, since the key would go along. Set the base URL to where the API is"
        );
        ProviderError { status: Some(status), ..ProviderError::new(Class::BadRequest, message) }
    }

    /// A provider may quote the key that it refuses.
    fn redacted(&self, mut error: ProviderError) -> ProviderError {
        if let Some(key) = self.key.as_ref().map(Secret::expose).filter(|k| k.len() >= SECRET_BYTES_MIN && error.message.contains(*k)) {
            error.message = error.message.replace(key, "[secret]");
        }
        error
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Source {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, ProviderError>> {
        match self {
            Source::Live(body) => body.next_chunk().await,
            Source::Played { chunks, cut } => match chunks.next() {
                Some(chunk) => Some(Ok(chunk)),
                None if std::mem::take(cut) => Some(Err(ProviderError::new(Class::Transport, "the recorded body breaks off here"))),
                None => None,
            },
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
    body: &mut Source,
    trace: &mut Trace,
    take: &mut Option<Take>,
) -> Result<(), ProviderError> {
    let mut progress = Progress::More;
    while progress == Progress::More {
        let mut feed = |event: &[u8], data: &mut [u8]| -> Result<(), Broken> {
            if progress == Progress::More {
                progress = decoder.event(event, data).map_err(Broken)?;
            }
            Ok(())
        };
        let Some(chunk) = body.next_chunk().await else {
            // A line that breaks off is no event; whether the answer was complete without it, the decoder knows.
            return match splitter.finish(&mut feed) {
                Err(Broken(error)) if error.class != Class::Protocol => Err(error),
                _ => Ok(()),
            };
        };
        let chunk = chunk?;
        note(&chunk, trace, take);
        splitter.feed(&chunk, &mut feed).map_err(|broken| broken.0)?;
    }
    Ok(())
}

/// Reads a body up to a bound; what lies beyond is left.
async fn read_whole(
    body: &mut Source,
    bytes_max: usize,
    trace: &mut Trace,
    take: &mut Option<Take>,
) -> Result<Vec<u8>, (Vec<u8>, ProviderError)> {
    let mut out = Vec::new();
    while out.len() < bytes_max {
        match body.next_chunk().await {
            None => break,
            Some(Ok(chunk)) => {
                note(&chunk, trace, take);
                out.extend_from_slice(&chunk[..chunk.len().min(bytes_max - out.len())]);
            }
            Some(Err(error)) => return Err((out, error)),
        }
    }
    Ok(out)
}

fn note(chunk: &Bytes, trace: &mut Trace, take: &mut Option<Take>) {
    trace.first_byte.get_or_insert_with(Clock::now);
    if let Some(take) = take {
        take.chunks.push(chunk.len());
        take.body.extend_from_slice(chunk);
    }
}

/// Waits for whatever ends the run before the call does.
async fn ended(call: &Call<'_>) -> ProviderError {
    let left = call.deadline.saturating_duration_since(Clock::now());
    let why = match rt::select(call.cancel.cancelled(), rt::sleep(left)).await {
        Either::Left(_) => "the run was cancelled",
        Either::Right(()) => "the deadline passed",
    };
    ProviderError::new(Class::Deadline, why)
}

fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    HEADERS_KEPT.iter().filter_map(|name| Some(((*name).to_owned(), text(headers, name)?.to_owned()))).collect()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
