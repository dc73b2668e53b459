//! One model call: attempts over a transport, until one is whole or the failure is final.
//!
//! A call is atomic. The reply comes out only when its stream ended properly; whatever a failed attempt sent is forgotten but
//! for the usage that it stated, since that is paid for.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::cassette::{CallKey, Recorder, Replay, Take};
use super::client::Client;
use super::error::{Class, ProviderError};
use super::incoming::{Incoming, Source, Trace};
use super::mask::Mask;
use super::optional::Refused;
use super::retry::{self, Verdict};
use super::types::{Codec, Reply, Tail, Usage};
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
    mask: Mask,
    recorder: Option<Recorder>,
    refused: Refused,
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
    /// The request body in pieces, but for its tail.
    pub body: Vec<Bytes>,
    /// What the tail says.
    pub tail: Tail,
    /// The agent's turn, from 0.
    pub turn: u32,
    /// The ids of the calls whose results the body brings.
    pub answers: &'a [String],
    /// The end of the run.
    pub deadline: Instant,
    /// Ends the call from outside.
    pub cancel: &'a Cancel,
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
        let mask = Mask::new(match &transport {
            Transport::Live(client) => key.iter().cloned().chain(client.header_values().map(Secret::new)).collect(),
            Transport::Replay(_) => Vec::new(),
        });
        Session { codec, transport, agent: agent.to_owned(), key, mask, recorder, refused: Refused::default(), random: random | 1 }
    }

    /// The codec, for encoding what the next call sends.
    pub fn codec(&self) -> &dyn Codec {
        &*self.codec
    }

    /// Calls the model. `on_retry` hears of each attempt that is going to be repeated.
    ///
    /// # Errors
    /// The last attempt's failure, when it is final; [`Class::Deadline`] when the run's end came first.
    pub async fn call(&mut self, mut call: Call<'_>, on_retry: &mut dyn FnMut(&RetryNote)) -> Result<Answer, ProviderError> {
        let started = Clock::now();
        let mut failed_usage = Usage::default();
        let mut last_fault = None;
        let mut attempt = 0;
        let mut fields_dropped = 0;
        call.body.push(self.tail(&call.tail));
        loop {
            attempt += 1;
            let attempt_start = Clock::now();
            let mut trace = Trace::default();
            let mut error = match self.attempt(&call, attempt, &mut trace).await {
                Ok(reply) => {
                    let ttft_ms = ms(trace.first_byte.unwrap_or(attempt_start).saturating_duration_since(attempt_start));
                    let duration_ms = ms(Clock::now().saturating_duration_since(started));
                    return Ok(Answer { reply, attempts: attempt, ttft_ms, duration_ms, failed_usage });
                }
                Err(error) => error,
            };
            error.message = self.mask.text(&error.message);
            failed_usage = failed_usage + trace.usage.unwrap_or_default();
            let left = call.deadline.saturating_duration_since(Clock::now());
            let same_again = trace.fault.is_some() && trace.fault == last_fault;
            let delay = match self.drop_field(&mut call, &error) {
                // The server is well, and the request another one: that is no reason to wait, and counts for no failure.
                Some(field) => {
                    fields_dropped += 1;
                    error.message.push_str(&format!("; trying again without that `{field}`"));
                    Duration::ZERO
                }
                None => match retry::judge(&error, attempt - fields_dropped, left, self.next_random(), same_again) {
                    Verdict::Again(delay) => delay,
                    Verdict::Final => return Err(error),
                },
            };
            let ProviderError { class, status, message, .. } = error;
            on_retry(&RetryNote { attempt, class, status, delay_ms: ms(delay), message });
            last_fault = trace.fault;
            if let Either::Left(error) = rt::select(ended(&call), rt::sleep(delay)).await {
                return Err(error);
            }
        }
    }

    /// The end of a body, as this server takes it.
    fn tail(&self, tail: &Tail) -> Bytes {
        let mut out = Vec::with_capacity(256);
        self.codec.tail(tail, &self.refused, &mut out);
        Bytes::from(out)
    }

    /// Takes the field out of the request, and of all that follow, for which it was refused, if it was and can do without.
    fn drop_field(&mut self, call: &mut Call<'_>, error: &ProviderError) -> Option<&'static str> {
        let sent = call.body.pop().expect("a body has a tail");
        let field = self.refused.learn(error, &sent);
        call.body.push(self.tail(&call.tail));
        field.filter(|_| call.body.last() != Some(&sent))
    }

    /// One attempt; it is recorded however it ends.
    async fn attempt(&mut self, call: &Call<'_>, attempt: u32, trace: &mut Trace) -> Result<Reply, ProviderError> {
        let key = CallKey { agent: self.agent.clone(), turn: call.turn, attempt };
        trace.take = self.recorder.is_some().then(|| Take::begin(key.clone(), call.answers));
        let mut incoming = None;
        let read = match rt::select(ended(call), self.exchange(call, &key, &mut incoming, trace)).await {
            Either::Left(error) => Err(error),
            Either::Right(read) => read,
        };
        if let (Some(recorder), Some(mut take)) = (&mut self.recorder, trace.take.take()) {
            if let Err(error) = &read {
                take.end(error);
            }
            let written = recorder.append(take);
            // A failure of the attempt's own tells more; and when there is none, the recording is what was asked for.
            if let (Ok(_), Err(error)) = (&read, written) {
                return Err(ProviderError::new(Class::BadRequest, format!("the recording cannot be written: {error}")));
            }
        }
        let broken = matches!(&read, Err(error) if matches!(error.class, Class::Transport | Class::Timeout | Class::Deadline));
        if let (Transport::Live(client), Some(Incoming { body: Source::Live(body), .. })) = (&mut self.transport, incoming)
            && !broken
            && let Some(line) = body.settle().await
        {
            client.keep(line);
        }
        read
    }

    /// Sends the request and reads the answer, which stays in `incoming`.
    async fn exchange(
        &mut self,
        call: &Call<'_>,
        key: &CallKey,
        incoming: &mut Option<Incoming>,
        trace: &mut Trace,
    ) -> Result<Reply, ProviderError> {
        let incoming = incoming.insert(self.send(call, key).await?);
        if let Some(take) = &mut trace.take {
            take.head(incoming.status, &incoming.headers);
        }
        incoming.read(&*self.codec, &self.mask, trace).await
    }

    async fn send(&mut self, call: &Call<'_>, key: &CallKey) -> Result<Incoming, ProviderError> {
        match &mut self.transport {
            Transport::Live(client) => {
                let mut headers = Vec::with_capacity(4);
                self.codec.headers(self.key.as_ref().map(Secret::expose), &mut headers);
                let (head, body) = client.post(self.codec.path(), &headers, &call.body).await?.into_parts();
                Ok(Incoming { status: head.status.as_u16(), headers: head.headers, body: Source::Live(body) })
            }
            Transport::Replay(replay) => {
                let take = replay.play(key, call.answers)?;
                let failed = take.failed.clone();
                let Some(status) = take.status else { return Err(failed.expect("what has no answer has failed")) };
                let body = Source::Played { chunks: take.pieces().into_iter(), failed };
                Ok(Incoming { status, headers: take.headers.clone(), body })
            }
        }
    }

    fn next_random(&mut self) -> u64 {
        self.random = shuffled(self.random);
        self.random
    }
}

/// The next number of an xorshift generator. Jitter needs nothing better.
fn shuffled(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^ (number << 17)
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

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;

    use gantry_bench::upstream::{Turn, Wire as Scripted};
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::provider::raw::{Raw, answer, request};
    use crate::provider::{ClientSetup, TlsRoots, ToolChoice, VENDORS, Wire, codec};
    use crate::rt::{Cause, DriverChoice, block_on};

    /// Longer than anything here takes; reached only when something hangs.
    const PATIENCE: Duration = Duration::from_secs(30);
    const KEY: &str = "sk-key-1234567";
    const TOKEN: &str = "tok-1234567";

    fn both(test: impl AsyncFn()) {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, async |_| rt::timeout(PATIENCE, test()).await.expect("nothing hangs")).unwrap();
        }
    }

    /// A seed whose first three waits are short.
    fn hasty() -> u64 {
        let waits = |seed: &u64| std::iter::successors(Some(shuffled(seed | 1)), |n| Some(shuffled(*n))).zip([501, 1_001, 2_001]);
        (1..).find(|seed| waits(seed).all(|(number, ceiling)| number % ceiling < 30)).unwrap()
    }

    fn session(transport: Transport, recorder: Option<Recorder>) -> Session {
        let vendor = VENDORS.iter().find(|vendor| vendor.name == "anthropic").unwrap();
        let codec = codec(Wire::AnthropicMessages, vendor);
        Session::new(codec, transport, "single", Some(Secret::new(KEY)), recorder, hasty())
    }

    fn live(server: &Raw) -> Transport {
        Transport::Live(Box::new(Client::new(ClientSetup {
            base_url: format!("http://{}", server.addr).parse().unwrap(),
            headers: vec![(HeaderName::from_static("x-gate"), HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap())],
            tls: TlsRoots::default(),
            connect_timeout: PATIENCE,
            idle_timeout: PATIENCE,
        })))
    }

    /// One call, and what was said on the way.
    async fn ask(session: &mut Session, turn: u32, left: Duration, cancel: &Cancel) -> (Result<Answer, ProviderError>, Vec<RetryNote>) {
        let mut notes = Vec::new();
        let tail = Tail { max_output_tokens: None, tool_choice: ToolChoice::Auto, temperature: None, effort: None };
        let call =
            Call { body: vec![Bytes::from_static(b"{\"messages\":[")], tail, turn, answers: &[], deadline: Clock::now() + left, cancel };
        let answer = session.call(call, &mut |note| notes.push(note.clone())).await;
        (answer, notes)
    }

    async fn asked(answers: Vec<Vec<u8>>) -> (Result<Answer, ProviderError>, Vec<RetryNote>, usize) {
        let server = Raw::answering(answers);
        let (answer, notes) = ask(&mut session(live(&server), None), 0, PATIENCE, &Cancel::new()).await;
        (answer, notes, server.accepted())
    }

    fn events(text: &str) -> String {
        String::from_utf8(Turn::new().text(text).usage([7, 2, 0, 0]).events(Scripted::Anthropic)).unwrap()
    }

    fn sse(body: &str) -> Vec<u8> {
        answer("200 OK", &["content-type: text/event-stream"], body)
    }

    /// An answer that states its usage and then breaks off.
    fn broken() -> Vec<u8> {
        let mut bytes = sse(&events("lost"));
        bytes.truncate(bytes.len() - 40);
        bytes
    }

    #[test]
    fn a_recording_with_failures_plays_the_same_call() {
        let faults = || {
            vec![
                b"HTTP/1.1 ".to_vec(),
                answer(
                    "529 Busy",
                    &["retry-after-ms: 5", "set-cookie: a=b"],
                    "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}",
                ),
                broken(),
                sse(&events("é漢")),
            ]
        };
        both(async || {
            let path = std::env::temp_dir().join(format!("gantry-call-{}-{}", std::process::id(), hasty()));
            let recorder = Recorder::begin(Recorder::create(&path).unwrap(), Wire::AnthropicMessages, Vec::new()).unwrap();
            let server = Raw::answering(faults());
            let (lived, told) = ask(&mut session(live(&server), Some(recorder)), 3, PATIENCE, &Cancel::new()).await;
            let cassette = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(&path).unwrap();

            let mut replayed = session(Transport::Replay(Replay::parse(&cassette, "f").unwrap()), None);
            let (played, told_again) = ask(&mut replayed, 3, PATIENCE, &Cancel::new()).await;
            let (lived, played) = (lived.unwrap(), played.unwrap());
            assert_eq!((lived.reply.text().as_ref(), lived.attempts, lived.failed_usage.input), ("é漢", 4, 7));
            assert_eq!((&lived.reply, lived.attempts, lived.failed_usage), (&played.reply, played.attempts, played.failed_usage));
            let plain = |notes: &[RetryNote]| notes.iter().map(|n| (n.attempt, n.class, n.status, n.message.clone())).collect::<Vec<_>>();
            assert_eq!(plain(&told), plain(&told_again));
            assert_eq!(told.iter().map(|note| note.class).collect::<Vec<_>>(), [Class::Transport, Class::Overloaded, Class::Transport]);

            let (missed, _) = ask(&mut replayed, 4, PATIENCE, &Cancel::new()).await;
            assert_eq!(missed.unwrap_err().class, Class::ReplayMiss);
            assert_eq!(server.accepted(), 4);
        });
    }

    #[test]
    fn a_call_that_was_cancelled_ends_at_once_and_is_in_the_recording() {
        both(async || {
            for by_deadline in [false, true] {
                let path = std::env::temp_dir().join(format!("gantry-cancel-{}-{by_deadline}", std::process::id()));
                let recorder = Recorder::begin(Recorder::create(&path).unwrap(), Wire::AnthropicMessages, Vec::new()).unwrap();
                let cancel = Cancel::new();
                let theirs = cancel.clone();
                let server = Raw::start(move |_, mut stream: TcpStream| {
                    request(&stream);
                    stream.write_all(&broken()).unwrap();
                    if !by_deadline {
                        theirs.cancel(Cause::Signal);
                    }
                    // Holds the connection until the client lets it go.
                    let _ = std::io::copy(&mut stream, &mut std::io::sink());
                });
                let left = if by_deadline { Duration::from_millis(80) } else { PATIENCE };
                let (ended, _) = ask(&mut session(live(&server), Some(recorder)), 0, left, &cancel).await;
                let ended = ended.unwrap_err();
                let cassette = std::fs::read_to_string(&path).unwrap();
                std::fs::remove_file(&path).unwrap();
                let mut replayed = session(Transport::Replay(Replay::parse(&cassette, "f").unwrap()), None);
                let (played, _) = ask(&mut replayed, 0, PATIENCE, &Cancel::new()).await;
                assert_eq!((ended.class, &ended), (Class::Deadline, &played.unwrap_err()));
            }
        });
    }

    #[test]
    fn a_connection_outlives_a_failed_attempt() {
        both(async || {
            let server = Raw::start(|_, mut stream| {
                let slow = answer("429 Slow", &["retry-after-ms: 1"], "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}");
                for answer in [slow, sse(&events("one")), sse(&events("two"))] {
                    request(&stream);
                    stream.write_all(&answer).unwrap();
                }
            });
            let mut session = session(live(&server), None);
            for (turn, text, attempts) in [(0, "one", 2), (1, "two", 1)] {
                let answer = ask(&mut session, turn, PATIENCE, &Cancel::new()).await.0.unwrap();
                assert_eq!((answer.reply.text().as_ref(), answer.attempts), (text, attempts));
            }
            assert_eq!(server.accepted(), 1);
        });
    }

    #[test]
    fn the_end_of_a_used_up_window_is_waited_for() {
        both(async || {
            let headers = ["anthropic-ratelimit-tokens-reset: 2999-01-01T00:00:00Z", "anthropic-ratelimit-tokens-remaining: 0"];
            let (refused, notes, calls) = asked(vec![answer("429 Slow", &headers, "{}")]).await;
            let refused = refused.unwrap_err();
            assert_eq!((refused.class, notes.len(), calls), (Class::RateLimited, 0, 1));
            assert!(refused.retry_after > Some(Duration::from_secs(86_400)), "{refused:?}");
            let headers = ["x-ratelimit-reset-tokens: 40ms", "x-ratelimit-remaining-tokens: 0"];
            let (answered, notes, _) = asked(vec![answer("429 Slow", &headers, "{}"), sse(&events("now"))]).await;
            assert!(answered.is_ok() && notes[0].delay_ms >= 40, "{notes:?}");
        });
    }

    #[test]
    fn a_failure_is_final_only_when_its_json_is_the_same_again() {
        let fault = |n: usize, body: &str| answer("500 Broken", &[&format!("request-id: {n}")], body);
        both(async || {
            let same = (0..4).map(|n| fault(n, "{\"error\":{\"message\":\"no such template\"}}")).collect();
            let (error, notes, calls) = asked(same).await;
            assert_eq!((notes.len(), calls), (1, 2));
            let message = error.unwrap_err().message;
            assert!(message.contains("no such template") && message.contains("[request 1]"), "{message}");
            let with_id = (0..4).map(|n| fault(n, &format!("{{\"error\":{{\"message\":\"oops\"}},\"request_id\":{n}}}"))).collect();
            assert_eq!(asked(with_id).await.2, 4);
            assert_eq!(asked(vec![fault(0, "Internal Server Error")]).await.2, 4);
        });
    }

    #[test]
    fn a_redirect_is_refused_by_the_name_of_its_target() {
        both(async || {
            for (header, part) in [
                ("location: https://me:pw@there.example/v2?token=1", "sends us to there.example;"),
                ("location: /v2?token=1", "sends us to another path of its own;"),
                ("x-none: 1", "sends us to a place that it does not name;"),
            ] {
                let (error, _, calls) = asked(vec![answer("307 Moved", &[header], "")]).await;
                let message = error.unwrap_err().message;
                assert!(message.contains(part) && !message.contains("token") && !message.contains("pw"), "{message}");
                assert_eq!(calls, 1);
            }
        });
    }

    #[test]
    fn a_compressed_answer_is_refused_and_a_compressed_failure_still_passes() {
        both(async || {
            let (error, _, calls) = asked(vec![answer("200 OK", &["content-encoding: gzip"], "\x1f")]).await;
            assert!(error.unwrap_err().message.contains("(gzip)"));
            assert_eq!(calls, 1);
            let busy = answer("503 Busy", &["content-encoding: br", "content-type: text/html"], "\x1f");
            let (answered, notes, _) = asked(vec![busy, sse(&events("ok"))]).await;
            assert!(answered.is_ok() && notes[0].class == Class::Overloaded && notes[0].message.contains("compressed (br)"), "{notes:?}");
        });
    }

    #[test]
    fn no_message_repeats_a_key_not_even_where_it_is_cut() {
        both(async || {
            for front in [0, 2_028, 2_034, 2_040, 2_046] {
                let said = format!("{}{KEY} {TOKEN} {KEY}", "x".repeat(front));
                let body = format!("{{\"error\":{{\"type\":\"api_error\",\"message\":\"{said}\"}}}}");
                let (error, notes, _) = asked(vec![answer("500 Broken", &[&format!("request-id: {KEY}")], &body)]).await;
                for message in [&error.unwrap_err().message, &notes[0].message] {
                    assert!(!message.contains("sk-k") && !message.contains("tok-1") && message.contains("[secret]"), "{front} {message}");
                }
            }
            let said = format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"authentication_error\",\"message\":\"{KEY}\"}}}}\n\n"
            );
            let message = asked(vec![sse(&said)]).await.0.unwrap_err().message;
            assert!(message.contains("[secret]") && !message.contains(KEY), "{message}");
        });
    }
}
