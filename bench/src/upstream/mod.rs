//! The scripted upstream: a provider's server under the test's control.
//!
//! ```no_run
//! use gantry_bench::upstream::{Answer, Script, Turn, Upstream, Wire};
//! let script = Script::turns(Wire::Anthropic, vec![
//!     Turn::new().text("Looking.").call("read_file", r#"{"path":"a"}"#).into(),
//!     Turn::new().text("Done.").into(),
//! ]);
//! let upstream = Upstream::start(script);
//! // … run a client against upstream.base_url() …
//! assert_eq!(upstream.ledger().len(), 2);
//! ```

mod answer;
mod render;
mod server;
mod tls;
mod verify;

pub use answer::{Answer, Piece};
pub use render::{Turn, Wire};
pub use server::{Received, Upstream};
pub use tls::Certificate;
pub use verify::violations;

use std::sync::Arc;

/// Decides the answer to a request. The number counts requests from 0.
type Decide = dyn Fn(usize, &Received) -> Answer + Send + Sync;

/// What an upstream answers.
#[derive(Clone)]
pub struct Script {
    decide: Arc<Decide>,
    tls: Option<Arc<Certificate>>,
    strict: Option<Wire>,
    /// Answers from the head of a request alone, before its body is read.
    early: Option<Answer>,
}

impl Script {
    /// Answers by a function of the request's number and content.
    pub fn by(decide: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Script {
        Script { decide: Arc::new(decide), tls: None, strict: None, early: None }
    }

    /// Plays answers in order; the last one again for every further request.
    pub fn answers(answers: Vec<Answer>) -> Script {
        assert!(!answers.is_empty(), "a script has an answer");
        Script::by(move |n, _| answers[n.min(answers.len() - 1)].clone())
    }

    /// Plays turns on a wire, and holds the client to the wire's rules (see [`violations`]).
    pub fn turns(wire: Wire, turns: Vec<Turn>) -> Script {
        Script::answers(turns.iter().map(|turn| turn.on(wire)).collect()).strict(wire)
    }

    /// Answers every request before its body is read, and closes the connection.
    pub fn early(answer: Answer) -> Script {
        Script { early: Some(answer.closing()), ..Script::by(|_, _| unreachable!("the early answer is the answer")) }
    }

    /// Answers 400 with the reason to a request that breaks a rule of the wire.
    pub fn strict(mut self, wire: Wire) -> Script {
        self.strict = Some(wire);
        self
    }

    /// Speaks TLS with this certificate.
    pub fn tls(mut self, certificate: Arc<Certificate>) -> Script {
        self.tls = Some(certificate);
        self
    }
}
