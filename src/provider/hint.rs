//! Reads from an answer's headers how long its server asks us to wait.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// The windows of a rate limit: the header with their end, and the one with what is left in them.
const WINDOWS: [(&str, &str); 7] = [
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
];
/// Larger plain numbers are no seconds from now but the time of day: in seconds since 1970, or from the second bound on in
/// milliseconds.
const EPOCH_SECONDS_MIN: f64 = 1e9;
const EPOCH_MILLIS_MIN: f64 = 1e12;

/// What the server says itself: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    if let Some(hint) = text(headers, "retry-after-ms").and_then(|ms| seconds(ms.parse::<f64>().ok()? / 1e3)) {
        return Some(hint);
    }
    let stated = text(headers, "retry-after")?;
    match stated.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => Some(httpdate::parse_http_date(stated).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// When a rate limit ends: with the last of the windows that are used up. Where none says so, with the first to end, since
/// others may have room for this request.
pub(super) fn window_end(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let end = |(reset, remaining): &(&str, &str)| {
        let used_up = text(headers, remaining).is_some_and(|left| left == "0");
        Some((used_up, from_now(text(headers, reset)?, now)?))
    };
    let ends: Vec<(bool, Duration)> = WINDOWS.iter().filter_map(end).collect();
    let used_up = ends.iter().filter(|end| end.0).map(|end| end.1).max();
    used_up.or_else(|| ends.iter().map(|end| end.1).min())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// None for what is negative, no number, or beyond all times.
fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Reads `12`, `1700000000`, `1m30.5s`, `2026-12-01T10:00:00Z`.
fn from_now(stated: &str, now: SystemTime) -> Option<Duration> {
    let until = |since_1970: f64| Some((SystemTime::UNIX_EPOCH.checked_add(seconds(since_1970)?)?).duration_since(now).unwrap_or_default());
    match stated.parse::<f64>() {
        Ok(number) if number >= EPOCH_MILLIS_MIN => until(number / 1e3),
        Ok(number) if number >= EPOCH_SECONDS_MIN => until(number),
        Ok(number) => seconds(number),
        Err(_) => units(stated).or_else(|| until(timestamp(stated)?)),
    }
}

/// The duration in `1h2m3.5s` or `20ms`.
fn units(mut stated: &str) -> Option<Duration> {
    let mut sum = 0.0;
    if stated.is_empty() {
        return None;
    }
    while !stated.is_empty() {
        let (number, rest) = stated.split_at(stated.find(|c: char| c.is_ascii_alphabetic())?);
        let (unit, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()));
        let factor = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)].iter().find(|row| row.0 == unit)?.1;
        sum += number.parse::<f64>().ok()? * factor;
        stated = rest;
    }
    seconds(sum)
}

/// Seconds since 1970 of an RFC 3339 time.
fn timestamp(stated: &str) -> Option<f64> {
    let (date, time) = stated.split_once(['T', 't', ' '])?;
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone_at);
    let numbers = |text: &str, separator: char| text.split(separator).map(|n| n.parse::<f64>().ok()).collect::<Option<Vec<f64>>>();
    let (&[year, month, day], &[hour, minute, second]) = (&*numbers(date, '-')?, &*numbers(time, ':')?) else { return None };
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0.0,
        (sign, zone) => {
            let &[hours, minutes] = &*numbers(zone, ':')? else { return None };
            (hours * 3_600.0 + minutes * 60.0) * if sign == "-" { -1.0 } else { 1.0 }
        }
    };
    if !(1.0..=12.0).contains(&month) {
        return None;
    }
    // Years begin in March here, so that the leap day is their last; 719,468 days lie between such a year 0 and 1970.
    let (year, month) = if month > 2.0 { (year, month - 3.0) } else { (year - 1.0, month + 9.0) };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = year * 365.0 + leap_days + ((153.0 * month + 2.0) / 5.0).floor() + day - 1.0 - 719_468.0;
    Some(days * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S)
    }

    #[test]
    fn a_hint_is_milliseconds_seconds_or_a_date() {
        let at = |pairs: &[(&'static str, &str)]| retry_after(&headers(pairs), now());
        assert_eq!(at(&[("retry-after", "12")]), Some(Duration::from_secs(12)));
        assert_eq!(at(&[("retry-after", "1.5"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        assert_eq!(at(&[("retry-after", "7"), ("retry-after-ms", "soon")]), Some(Duration::from_secs(7)));
        assert_eq!(at(&[("retry-after", "0")]), Some(Duration::ZERO));
        assert_eq!(at(&[("retry-after", "86400")]), Some(Duration::from_secs(86_400)));
        let date = httpdate::fmt_http_date(now() + Duration::from_secs(90));
        assert_eq!(at(&[("retry-after", &date)]), Some(Duration::from_secs(90)));
        assert_eq!(at(&[("retry-after", "Mon, 01 Jan 1990 00:00:00 GMT")]), Some(Duration::ZERO));
        for nonsense in ["soon", "-3", "", "1e300", "inf", "NaN"] {
            assert_eq!(at(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn the_end_of_a_window_is_read_in_every_form() {
        for (text, millis) in [
            ("12", Some(12_000)),
            ("0.25", Some(250)),
            ("1700000030", Some(30_000)),
            ("1700000030500", Some(30_500)),
            ("1600000000", Some(0)),
            ("20ms", Some(20)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("2023-11-14T22:14:20Z", Some(60_000)),
            ("2023-11-14T22:14:20.5Z", Some(60_500)),
            ("2023-11-14T23:14:20+01:00", Some(60_000)),
            ("2023-11-14T21:44:20-00:30", Some(60_000)),
            ("2024-02-29T22:13:20Z", Some(107 * 86_400_000)),
            ("2023-03-01T00:00:00Z", Some(0)),
            ("2023-13-01T00:00:00Z", None),
            ("2023-11-14", None),
            ("5 apples", None),
            ("m", None),
            ("-5", None),
            ("", None),
            ("9e99", None),
            ("T+", None),
        ] {
            let end = window_end(&headers(&[("x-ratelimit-reset", text)]), now());
            assert_eq!(end.map(|d| d.as_millis()), millis, "{text}");
        }
    }

    #[test]
    fn the_window_that_is_used_up_decides() {
        let requests = ("x-ratelimit-reset-requests", "300s");
        let tokens = ("x-ratelimit-reset-tokens", "2s");
        for (pairs, want) in [
            (&[requests, tokens, ("x-ratelimit-remaining-requests", "0")][..], Some(300)),
            (&[requests, tokens, ("x-ratelimit-remaining-tokens", "0")], Some(2)),
            (&[requests, tokens, ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-remaining-requests", "0")], Some(300)),
            (&[requests, tokens, ("x-ratelimit-remaining-tokens", "40")], Some(2)),
            (&[("anthropic-ratelimit-tokens-reset", "2023-11-14T22:13:29Z")], Some(9)),
            (&[], None),
        ] {
            assert_eq!(window_end(&headers(pairs), now()), want.map(Duration::from_secs), "{pairs:?}");
        }
    }
}
