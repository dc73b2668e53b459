//! Arithmetic evaluates the values of variables as expressions again, subscripts and substitutions in them included. So only
//! numbers that the line itself writes out may take part.

use brush_parser::ast::BinaryPredicate;

use super::{Judged, Walk, is_name};

impl Walk<'_> {
    /// Judges the text of `$((…))`.
    pub(super) fn arithmetic(&mut self, text: &str) -> Judged {
        let fits = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "_+-*/%()<>=!&|^~?:,".contains(c);
        let assigns = text.contains("++") || text.contains("--") || assigns(text);
        if !text.chars().all(fits) || assigns {
            return Err(format!("$(({text})) is not computed: use numbers, variables that hold numbers, and + - * / %"));
        }
        let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_name(word));
        self.computed.extend(names.map(str::to_owned));
        Ok(())
    }

    /// After the whole line: each variable that arithmetic looked at got nothing but numbers.
    pub(super) fn arithmetic_is_literal(&self) -> Judged {
        match self.computed.iter().find(|name| !self.numbers.contains(name) || self.others.contains(name)) {
            Some(name) => Err(format!(
                "$((… {name} …)) is not computed, since `{name}` may hold something else than a number that this line writes out"
            )),
            None => Ok(()),
        }
    }
}

/// A single `=` that is no comparison.
fn assigns(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|at| {
        let before = at.checked_sub(1).map_or(b' ', |at| bytes[at]);
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        bytes[at] == b'=' && after != b'=' && !matches!(before, b'=' | b'!' | b'<' | b'>')
            || bytes[at] == b'=' && matches!(before, b'<' | b'>') && at >= 2 && bytes[at - 2] == before
    })
}

/// A whole number as it is written, with a sign perhaps.
pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.len() < 19 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a test computes both of its words.
pub(super) fn compares(predicate: &BinaryPredicate) -> bool {
    matches!(
        predicate,
        BinaryPredicate::ArithmeticEqualTo
            | BinaryPredicate::ArithmeticNotEqualTo
            | BinaryPredicate::ArithmeticLessThan
            | BinaryPredicate::ArithmeticLessThanOrEqualTo
            | BinaryPredicate::ArithmeticGreaterThan
            | BinaryPredicate::ArithmeticGreaterThanOrEqualTo
    )
}
