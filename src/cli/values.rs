//! From a word of the command line to a value: no I/O, only what the word itself can tell.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::fault::shown;

/// Puts what was read where it belongs.
pub(super) fn put<T>(slot: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *slot = Some(value?);
    Ok(())
}

/// Adds what was read to a list, once: a name given twice means the same as once.
pub(super) fn add<T: PartialEq>(list: &mut Vec<T>, value: Result<T, String>) -> Result<(), String> {
    let value = value?;
    if !list.contains(&value) {
        list.push(value);
    }
    Ok(())
}

/// A text in UTF-8 that is not blank.
pub(super) fn text(value: OsString) -> Result<String, String> {
    let text = value.into_string().map_err(|value| format!("{} is not UTF-8; give it as UTF-8 text", shown(value)))?;
    if text.trim().is_empty() {
        return Err("the value is empty; give one, or leave the flag out where it is optional".into());
    }
    Ok(text)
}

/// A path in any bytes.
pub(super) fn path(value: OsString) -> Result<PathBuf, String> {
    if value.is_empty() {
        return Err("the path is empty; give one, or leave the flag out where it is optional".into());
    }
    Ok(PathBuf::from(value))
}

/// A whole number in decimal digits. A sign, a separator, an exponent or a number out of range is refused, never rounded.
pub(super) fn whole(value: OsString, range: RangeInclusive<u64>) -> Result<u64, String> {
    let text = text(value)?;
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if digits && range.contains(&number) => Ok(number),
        _ => Err(format!("{} is not a whole number from {} to {}; write plain digits", shown(&text), range.start(), range.end())),
    }
}

/// A number with a fraction, finite and in range.
pub(super) fn fraction(value: OsString, range: RangeInclusive<f32>) -> Result<f32, String> {
    let text = text(value)?;
    match text.parse::<f32>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("{} is not a number from {} to {}", shown(&text), range.start(), range.end())),
    }
}

/// A name of letters, digits, `_` and `-`, as tools and skills have.
pub(super) fn name(value: OsString, chars_max: usize) -> Result<String, String> {
    let text = text(value)?;
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !plain || text.len() > chars_max {
        return Err(format!("{} is not a name; use 1 to {chars_max} of A-Z a-z 0-9 _ -", shown(&text)));
    }
    Ok(text)
}

/// The name of a program as `PATH` finds it.
pub(super) fn program(value: OsString) -> Result<String, String> {
    let text = text(value)?;
    if text.contains('/') || text.starts_with('-') || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("{} is not the name of a program; give the name alone, without a path or arguments", shown(&text)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_plain_digits_in_range_is_refused() {
        for bad in ["", " ", "-1", "+1", "0", "1e6", "1_000", "1,000", "0x10", "1.0", " 7", "7 ", "NaN", "٣", "18446744073709551616"] {
            assert!(whole(bad.into(), 1..=u64::MAX).is_err(), "{bad:?}");
        }
        assert_eq!(whole("18446744073709551615".into(), 1..=u64::MAX), Ok(u64::MAX));
        assert_eq!(whole("007".into(), 1..=9), Ok(7));
        assert!(whole("10".into(), 1..=9).expect_err("out of range").contains("from 1 to 9"));
    }

    #[test]
    fn a_fraction_is_finite_and_in_range() {
        for bad in ["", "NaN", "inf", "-inf", "-0.1", "2.1", "1,5", "hot"] {
            assert!(fraction(bad.into(), 0.0..=2.0).is_err(), "{bad:?}");
        }
        for (good, value) in [("0", 0.0), ("0.7", 0.7), ("2", 2.0), ("1e-1", 0.1)] {
            assert_eq!(fraction(good.into(), 0.0..=2.0), Ok(value));
        }
    }

    #[test]
    fn a_program_is_a_bare_name() {
        for bad in ["", "./git", "/bin/ls", "git status", "-c", "a\nb"] {
            assert!(program(bad.into()).is_err(), "{bad:?}");
        }
        assert_eq!(program("g++".into()), Ok("g++".into()));
    }

    #[test]
    fn a_name_has_no_dots_and_no_slashes() {
        for bad in ["..", "a/b", "a b", "", "é"] {
            assert!(name(bad.into(), 64).is_err(), "{bad:?}");
        }
        assert!(name("a".repeat(65).into(), 64).is_err());
        assert_eq!(name("code-review_2".into(), 64), Ok("code-review_2".into()));
    }

    #[test]
    fn a_name_given_twice_is_kept_once_in_the_first_place() {
        let mut list = Vec::new();
        for word in ["b", "a", "b"] {
            add(&mut list, Ok(word)).expect("valid");
        }
        assert_eq!(list, ["b", "a"]);
    }
}
