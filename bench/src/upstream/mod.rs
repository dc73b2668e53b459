//! The scripted upstream: a provider's server under the test's control.
//!
//! A [`Script`] says what is answered: [`Turn`]s that are rendered on a [`Wire`], [`Answer`]s of exact bytes, waits and ends, or
//! a function of what was received. The [`Upstream`] plays it over plain sockets and keeps a ledger. What usually goes wrong has
//! a name in [`FAULTS`].
//!
//! ```no_run
//! use gantry_bench::upstream::{Answer, Script, Turn, Upstream, Wire};
//! let script = Script::turns(Wire::Anthropic, vec![
//!     Turn::new().text("Looking.").call("read_file", r#"{"path":"a"}"#),
//!     Turn::new().text("Done."),
//! ]);
//! let upstream = Upstream::start(script);
//! // … run a client against upstream.base_url() …
//! assert_eq!(upstream.ledger().len(), 2);
//! assert_eq!(upstream.violations(), Vec::<String>::new());
//! ```

mod answer;
mod connection;
mod cut;
mod fault;
mod gzip;
mod received;
mod request;
mod server;
mod tls;
mod turn;
mod verify;
mod wire;

pub use answer::{Answer, Piece, crlf};
pub use cut::Cut;
pub use fault::{FAULTS, Fault};
pub use received::Received;
pub use server::Upstream;
pub use tls::Certificate;
pub use turn::Turn;
pub use verify::violations;
pub use wire::Wire;

use std::sync::Arc;
use std::time::Duration;

/// Decides the answer to a request. The number counts requests from 0.
type Decide = dyn Fn(usize, &Received) -> Answer + Send + Sync;

#[derive(Clone)]
enum Plan {
    By(Arc<Decide>),
    /// In order, and the last one for every further request.
    List(Arc<Vec<Answer>>),
}

/// What an upstream answers.
#[derive(Clone)]
pub struct Script {
    plan: Plan,
    tls: Option<Arc<Certificate>>,
    strict: Option<Wire>,
    accept_after: Duration,
}

impl Script {
    fn new(plan: Plan) -> Script {
        Script { plan, tls: None, strict: None, accept_after: Duration::ZERO }
    }

    /// Answers by a function of the request's number and content. A panic in it is a violation, and the client gets a 500.
    pub fn by(decide: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Script {
        Script::new(Plan::By(Arc::new(decide)))
    }

    /// Plays answers in order; the last one again for every further request.
    pub fn answers(answers: Vec<Answer>) -> Script {
        assert!(!answers.is_empty(), "a script has an answer");
        Script::new(Plan::List(Arc::new(answers)))
    }

    /// Plays turns on a wire, and holds the client to the wire's rules (see [`violations`]).
    pub fn turns(wire: Wire, turns: Vec<Turn>) -> Script {
        Script::answers(turns.iter().map(|turn| turn.on(wire)).collect()).strict(wire)
    }

    /// Answers every request before its body is read, and closes the connection.
    pub fn early(answer: Answer) -> Script {
        Script::answers(vec![answer.early()])
    }

    /// Answers 400 with the reason to a request that breaks a rule of the wire, or that does not continue the one before it.
    pub fn strict(mut self, wire: Wire) -> Script {
        self.strict = Some(wire);
        self
    }

    /// Speaks TLS with this certificate.
    pub fn tls(mut self, certificate: Arc<Certificate>) -> Script {
        self.tls = Some(certificate);
        self
    }

    /// Lets every connection wait in the kernel's queue for so long.
    pub fn accept_after(mut self, wait: Duration) -> Script {
        self.accept_after = wait;
        self
    }

    /// The answer to the request of this number, when it is given before the body.
    fn before_body(&self, number: usize) -> Option<Answer> {
        match &self.plan {
            Plan::By(_) => None,
            Plan::List(answers) => Some(nth(answers, number)).filter(|answer| answer.early),
        }
    }

    fn answer(&self, number: usize, received: &Received) -> Answer {
        match &self.plan {
            Plan::By(decide) => decide(number, received),
            Plan::List(answers) => nth(answers, number),
        }
    }
}

fn nth(answers: &[Answer], number: usize) -> Answer {
    answers[number.min(answers.len() - 1)].clone()
}
