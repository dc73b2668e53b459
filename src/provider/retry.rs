//! Decides whether a failed attempt is repeated, and when. Pure: time left and randomness are given.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::error::{Class, ProviderError};
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
/// `same_again` tells that the attempt before failed with the very same words, which a server that is merely busy seldom does.
pub(super) fn judge(error: &ProviderError, attempt: u32, left: Duration, random: u64, same_again: bool) -> Verdict {
    let deterministic = same_again && error.class == Class::Server && error.status == Some(500);
    if !error.class.retryable() || attempt >= limits::ATTEMPTS_MAX || deterministic {
        return Verdict::Final;
    }
    let ceiling = (limits::BACKOFF_MS_START << (attempt - 1).min(16)).min(limits::BACKOFF_MS_MAX);
    // Full jitter: a fleet that was refused together does not come back together.
    let jitter = Duration::from_millis(random % (ceiling + 1));
    // The provider's own hint is the floor, and the jitter comes on top.
    let delay = error.retry_after.map_or(jitter, |hint| hint + jitter);
    if delay >= left { Verdict::Final } else { Verdict::Again(delay) }
}

/// The provider's hint how long to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn hint(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| text.parse::<f64>().ok().and_then(|n| Duration::try_from_secs_f64(n * unit).ok());
    if let Some(hint) = text("retry-after-ms").and_then(|t| number(t, 0.001)) {
        return Some(hint);
    }
    let stated = text("retry-after")?;
    number(stated, 1.0).or_else(|| Some(httpdate::parse_http_date(stated).ok()?.duration_since(now).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn a_server_that_fails_twice_with_the_same_words_is_believed() {
        assert_eq!(judge(&error(Class::Server, 500), 2, LONG, 7, true), Verdict::Final);
        assert!(matches!(judge(&error(Class::Server, 503), 2, LONG, 7, true), Verdict::Again(_)));
    }

    #[test]
    fn hints_come_as_milliseconds_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let at = |pairs: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.insert(*name, value.parse().unwrap());
            }
            hint(&map, now)
        };
        assert_eq!(at(&[("retry-after", "12")]), Some(Duration::from_secs(12)));
        assert_eq!(at(&[("retry-after", "1.5"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        assert_eq!(at(&[("retry-after", &date)]), Some(Duration::from_secs(90)));
        assert_eq!(at(&[("retry-after", "Mon, 01 Jan 1990 00:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(at(&[("retry-after", "soon")]), None);
        assert_eq!(at(&[("retry-after", "-3")]), None);
        assert_eq!(at(&[]), None);
    }
}
