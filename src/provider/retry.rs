//! Decides whether a failed attempt is repeated, and when. Pure: time left and randomness are given.

use std::time::Duration;

use super::error::ProviderError;
use crate::limits;

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another attempt after this wait.
    Again(Duration),
    /// The failure stands.
    Final,
}

/// Judges the failure of attempt number `attempt` (from 1). `left` is the time to the deadline; `random` any number;
/// `same_again` tells that the attempt before got the very same JSON body under a 500, as from a template that cannot take the
/// request; a server that is merely in trouble says so with a request id, or without JSON.
pub(super) fn judge(error: &ProviderError, attempt: u32, left: Duration, random: u64, same_again: bool) -> Verdict {
    if !error.class.retryable() || attempt >= limits::ATTEMPTS_MAX || same_again {
        return Verdict::Final;
    }
    let ceiling = (limits::BACKOFF_MS_START << (attempt - 1).min(16)).min(limits::BACKOFF_MS_MAX);
    // Full jitter: a fleet that was refused together does not come back together.
    let jitter = Duration::from_millis(random % (ceiling + 1));
    // The provider's own hint is the floor, and the jitter comes on top.
    let delay = error.retry_after.map_or(jitter, |hint| hint.saturating_add(jitter));
    if delay >= left { Verdict::Final } else { Verdict::Again(delay) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Class;

    const LONG: Duration = Duration::from_secs(3_600);

    fn error(class: Class, status: u16) -> ProviderError {
        ProviderError { status: Some(status), ..ProviderError::new(class, "x") }
    }

    #[test]
    fn only_what_may_pass_by_itself_is_repeated() {
        for class in [Class::RateLimited, Class::Overloaded, Class::Server, Class::Transport, Class::Protocol, Class::Timeout] {
            assert!(matches!(judge(&error(class, 503), 1, LONG, 7, false), Verdict::Again(_)), "{class:?}");
        }
        for class in
            [Class::Quota, Class::Auth, Class::ContextOverflow, Class::BadRequest, Class::ContentFilter, Class::Deadline, Class::ReplayMiss]
        {
            assert_eq!(judge(&error(class, 400), 1, LONG, 7, false), Verdict::Final, "{class:?}");
        }
    }

    #[test]
    fn the_last_attempt_is_final() {
        assert_eq!(judge(&error(Class::Server, 503), limits::ATTEMPTS_MAX, LONG, 7, false), Verdict::Final);
    }

    #[test]
    fn the_back_off_doubles_and_is_bounded() {
        for (attempt, ceiling) in [(1, 500), (2, 1_000), (3, 2_000)] {
            let Verdict::Again(longest) = judge(&error(Class::Server, 503), attempt, LONG, ceiling, false) else { panic!() };
            assert_eq!(longest, Duration::from_millis(ceiling));
            let Verdict::Again(none) = judge(&error(Class::Server, 503), attempt, LONG, ceiling + 1, false) else { panic!() };
            assert_eq!(none, Duration::ZERO);
        }
    }

    #[test]
    fn a_hint_is_the_floor_and_must_fit_the_time_left() {
        let limited = ProviderError { retry_after: Some(Duration::from_secs(30)), ..error(Class::RateLimited, 429) };
        assert_eq!(judge(&limited, 1, LONG, 100, false), Verdict::Again(Duration::from_millis(30_100)));
        assert_eq!(judge(&limited, 1, Duration::from_secs(30), 100, false), Verdict::Final);
        let never = ProviderError { retry_after: Some(Duration::MAX), ..limited };
        assert_eq!(judge(&never, 1, LONG, 100, false), Verdict::Final);
    }

    #[test]
    fn a_server_that_fails_twice_with_the_same_words_is_believed() {
        assert_eq!(judge(&error(Class::Server, 500), 2, LONG, 7, true), Verdict::Final);
        assert!(matches!(judge(&error(Class::Server, 500), 2, LONG, 7, false), Verdict::Again(_)));
    }
}
