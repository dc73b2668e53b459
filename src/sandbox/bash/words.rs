//! What a word would become: its text where that is certain, and what stands in it otherwise.

use brush_parser::ParserOptions;
use brush_parser::ast::Word;
use brush_parser::word::{self, Parameter, ParameterExpr, WordPiece, WordPieceWithSource};

use super::{Judged, Walk, arithmetic, is_name};

/// The text of a word as bash would make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Exactly this.
    Static(String),
    /// Something that begins with `front`; more than one word unless it is `quoted`.
    Dynamic { front: String, quoted: bool },
}

impl Text {
    pub(super) fn dynamic(front: &str) -> Text {
        Text::Dynamic { front: front.to_owned(), quoted: true }
    }

    /// The text where it is certain.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Text::Static(text) => Some(text),
            Text::Dynamic { .. } => None,
        }
    }
}

/// Builds a text from pieces.
struct Builder {
    front: String,
    certain: bool,
    quoted: bool,
}

impl Builder {
    fn add(&mut self, text: &str) {
        if self.certain {
            self.front.push_str(text);
        }
    }

    fn unknown(&mut self, in_quotes: bool) {
        self.certain = false;
        self.quoted &= in_quotes;
    }
}

impl Walk<'_> {
    /// Judges what a word expands, and gives its text.
    pub(super) fn word(&mut self, word: &Word) -> Result<Text, String> {
        if names_a_descriptor(&word.value) {
            return Err(format!("`{}` may open a file under a variable; redirect by number", word.value));
        }
        let pieces = word::parse(&word.value, &ParserOptions::default()).map_err(|e| format!("`{}` cannot be parsed ({e})", word.value))?;
        let mut builder = Builder { front: String::new(), certain: true, quoted: true };
        self.pieces(&pieces, false, &mut builder)?;
        let Builder { front, certain, quoted } = builder;
        Ok(if certain { Text::Static(front) } else { Text::Dynamic { front, quoted } })
    }

    /// A word that must be written out.
    pub(super) fn literal(&mut self, word: &Word, what: &str) -> Result<String, String> {
        match self.word(word)? {
            Text::Static(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("{what} must be written out, not computed: `{}`", word.value)),
        }
    }

    pub(super) fn here_document(&mut self, document: &Word) -> Judged {
        if document.value.contains('`') {
            return Err("backquotes in a here-document are not run; use $(…), or quote the delimiter ('EOF')".into());
        }
        let pieces = word::parse_heredoc(&document.value, &ParserOptions::default())
            .map_err(|e| format!("the here-document cannot be parsed ({e})"))?;
        self.pieces(&pieces, true, &mut Builder { front: String::new(), certain: true, quoted: true })
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], in_quotes: bool, builder: &mut Builder) -> Judged {
        pieces.iter().try_for_each(|piece| self.piece(&piece.piece, in_quotes, builder))
    }

    fn piece(&mut self, piece: &WordPiece, in_quotes: bool, builder: &mut Builder) -> Judged {
        match piece {
            WordPiece::Text(text) => {
                match expands_at(text).filter(|_| !in_quotes) {
                    Some(at) => {
                        builder.add(&text[..at]);
                        builder.unknown(false);
                    }
                    None => builder.add(text),
                }
                Ok(())
            }
            WordPiece::SingleQuotedText(text) => {
                builder.add(text);
                Ok(())
            }
            WordPiece::AnsiCQuotedText(text) => {
                if text.contains('\\') {
                    builder.unknown(true)
                } else {
                    builder.add(text)
                }
                Ok(())
            }
            WordPiece::EscapeSequence(text) => {
                builder.add(text.strip_prefix('\\').unwrap_or(text));
                Ok(())
            }
            WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => self.pieces(inner, true, builder),
            WordPiece::TildeExpansion(_) => {
                builder.add("/");
                builder.unknown(true);
                Ok(())
            }
            WordPiece::ParameterExpansion(expansion) => {
                builder.unknown(in_quotes);
                self.parameter(expansion)
            }
            WordPiece::CommandSubstitution(line) => {
                builder.unknown(in_quotes);
                self.program(line)
            }
            WordPiece::BackquotedCommandSubstitution(_) => Err("backquotes are not run; use $(…)".into()),
            WordPiece::ArithmeticExpression(expression) => {
                builder.unknown(in_quotes);
                self.arithmetic(&expression.value)
            }
        }
    }

    fn parameter(&mut self, expansion: &ParameterExpr) -> Judged {
        use ParameterExpr as E;
        match expansion {
            E::Parameter { parameter, indirect } | E::ParameterLength { parameter, indirect } => self.plain(parameter, *indirect),
            E::UseDefaultValues { parameter, indirect, default_value: text, .. }
            | E::IndicateErrorIfNullOrUnset { parameter, indirect, error_message: text, .. }
            | E::UseAlternativeValue { parameter, indirect, alternative_value: text, .. }
            | E::RemoveSmallestSuffixPattern { parameter, indirect, pattern: text }
            | E::RemoveLargestSuffixPattern { parameter, indirect, pattern: text }
            | E::RemoveSmallestPrefixPattern { parameter, indirect, pattern: text }
            | E::RemoveLargestPrefixPattern { parameter, indirect, pattern: text }
            | E::UppercaseFirstChar { parameter, indirect, pattern: text }
            | E::UppercasePattern { parameter, indirect, pattern: text }
            | E::LowercaseFirstChar { parameter, indirect, pattern: text }
            | E::LowercasePattern { parameter, indirect, pattern: text } => {
                self.plain(parameter, *indirect)?;
                self.nested(text.as_deref())
            }
            E::ReplaceSubstring { parameter, indirect, pattern, replacement, .. } => {
                self.plain(parameter, *indirect)?;
                self.nested(Some(pattern))?;
                self.nested(replacement.as_deref())
            }
            E::Substring { parameter, indirect, offset, length } => {
                self.plain(parameter, *indirect)?;
                let texts = [Some(offset), length.as_ref()].into_iter().flatten();
                match texts.map(|t| t.value.trim()).all(arithmetic::is_number) {
                    true => Ok(()),
                    false => Err("${…:offset:length} takes numbers that are written out".into()),
                }
            }
            E::AssignDefaultValues { .. } => Err("${…:=…} assigns; use ${…:-…}, or an assignment".into()),
            E::Transform { .. } => Err("${…@…} may evaluate its value; use the value as it is".into()),
            E::VariableNames { .. } | E::MemberKeys { .. } => Err("${!…} is not expanded; name the variable".into()),
        }
    }

    fn plain(&self, parameter: &Parameter, indirect: bool) -> Judged {
        if indirect {
            return Err("${!…} is not expanded; name the variable".into());
        }
        match parameter {
            Parameter::NamedWithIndex { index, .. } if !arithmetic::is_number(index) => {
                Err("a subscript must be a number that is written out".into())
            }
            _ => Ok(()),
        }
    }

    fn nested(&mut self, text: Option<&str>) -> Judged {
        let Some(text) = text else { return Ok(()) };
        self.word(&Word { value: text.to_owned(), loc: None }).map(drop)
    }
}

/// Where a text begins to stand for other words: a pattern of names, or braces with alternatives.
fn expands_at(text: &str) -> Option<usize> {
    let braces = |at: usize| text[at..].contains(',') || text[at..].contains("..");
    text.char_indices()
        .find(|(at, c)| match c {
            '*' | '?' => true,
            '[' => text[*at..].contains(']'),
            '{' => braces(*at),
            _ => false,
        })
        .map(|(at, _)| at)
}

/// `{name}` and `{name[…]}` before a redirection assign to that variable, and a subscript is computed.
fn names_a_descriptor(word: &str) -> bool {
    let Some(inner) = word.strip_prefix('{').and_then(|w| w.strip_suffix('}')) else { return false };
    is_name(inner.split('[').next().unwrap_or_default())
}
