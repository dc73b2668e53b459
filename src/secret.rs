//! A key in memory, so that no format string can print it by accident.

use std::fmt;

/// A text that must not reach stdout, a log, an error or a recording.
///
/// `Debug` and `Display` write a fixed mask. The text leaves only through [`Secret::expose`], so every place where it does
/// can be found by that name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text over.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for a request header or for finding it in bytes that are to be recorded.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_format_shows_the_text() {
        let secret = Secret::new("sk-live-7");
        for shown in [format!("{secret}"), format!("{secret:?}"), format!("{secret:#?}"), format!("{:?}", Some(&secret))] {
            assert!(!shown.contains("sk-live-7") && shown.contains("***"), "{shown}");
        }
        assert_eq!(secret.expose(), "sk-live-7");
    }
}
