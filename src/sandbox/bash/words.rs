//! What a word would become: its text where that is certain, and what stands in it otherwise.

use brush_parser::ParserOptions;
use brush_parser::ast::Word;
use brush_parser::word::{self, Parameter, ParameterExpr, SpecialParameter, WordPiece, WordPieceWithSource};

use super::{Judged, Walk, arithmetic, is_name};

/// The text of a word as bash would make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// Exactly this.
    Static(String),
    /// Something that begins with `front`.
    Dynamic { front: String, breadth: Breadth },
}

/// How many words an expansion can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Breadth {
    /// One.
    One,
    /// Several, each of which begins with the front: a pattern of names, or braces.
    Names,
    /// Several, and only the first begins with the front: bash splits a value that stands outside quotes.
    Any,
}

impl Text {
    pub(super) fn dynamic(front: &str) -> Text {
        Text::Dynamic { front: front.to_owned(), breadth: Breadth::One }
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
///
/// Braces and patterns may reach over quotes (`{-ex"e"c,id}`), so they are looked for in the shape of the whole word: its text
/// outside quotes, with a filler for everything else.
struct Builder {
    front: String,
    shape: String,
    certain: bool,
    breadth: Breadth,
}

impl Builder {
    fn new() -> Builder {
        Builder { front: String::new(), shape: String::new(), certain: true, breadth: Breadth::One }
    }

    fn plain(&mut self, text: &str) {
        self.shape.push_str(text);
        if self.certain {
            self.front.push_str(text);
        }
    }

    fn quoted(&mut self, text: &str) {
        self.shape.extend(std::iter::repeat_n('q', text.len()));
        if self.certain {
            self.front.push_str(text);
        }
    }

    fn unknown(&mut self, breadth: Breadth) {
        self.shape.push('q');
        self.certain = false;
        self.breadth = self.breadth.max(breadth);
    }

    fn finish(mut self) -> Text {
        if let Some(at) = expands_at(&self.shape) {
            self.unknown(Breadth::Names);
            // As long as the text is certain, it is as long as its shape.
            self.front.truncate(at);
        }
        let Builder { front, certain, breadth, .. } = self;
        if certain { Text::Static(front) } else { Text::Dynamic { front, breadth } }
    }
}

/// What an expansion becomes where it stands.
fn split_outside(in_quotes: bool) -> Breadth {
    if in_quotes { Breadth::One } else { Breadth::Any }
}

impl Walk<'_> {
    /// Judges what a word expands, and gives its text.
    pub(super) fn word(&mut self, word: &Word) -> Result<Text, String> {
        if names_a_descriptor(&word.value) {
            return Err(format!("`{}` may open a file under a variable; redirect by number", word.value));
        }
        let pieces = word::parse(&word.value, &ParserOptions::default()).map_err(|e| format!("`{}` cannot be parsed ({e})", word.value))?;
        let mut builder = Builder::new();
        self.pieces(&pieces, false, &mut builder)?;
        Ok(builder.finish())
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
        if document.value.contains("\\\n") {
            return Err("a line of a here-document does not end in a backslash, unless its delimiter is quoted ('EOF')".into());
        }
        let pieces = word::parse_heredoc(&document.value, &ParserOptions::default())
            .map_err(|e| format!("the here-document cannot be parsed ({e})"))?;
        self.pieces(&pieces, true, &mut Builder::new())
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], in_quotes: bool, builder: &mut Builder) -> Judged {
        pieces.iter().try_for_each(|piece| self.piece(&piece.piece, in_quotes, builder))
    }

    fn piece(&mut self, piece: &WordPiece, in_quotes: bool, builder: &mut Builder) -> Judged {
        match piece {
            WordPiece::Text(text) => {
                if in_quotes {
                    builder.quoted(text)
                } else {
                    builder.plain(text)
                }
                Ok(())
            }
            WordPiece::SingleQuotedText(text) => {
                builder.quoted(text);
                Ok(())
            }
            WordPiece::AnsiCQuotedText(text) => {
                if text.contains('\\') {
                    builder.unknown(Breadth::One)
                } else {
                    builder.quoted(text)
                }
                Ok(())
            }
            WordPiece::EscapeSequence(text) => {
                builder.quoted(text.strip_prefix('\\').unwrap_or(text));
                Ok(())
            }
            WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => self.pieces(inner, true, builder),
            WordPiece::TildeExpansion(_) => {
                builder.quoted("/");
                builder.unknown(Breadth::One);
                Ok(())
            }
            WordPiece::ParameterExpansion(expansion) => {
                builder.unknown(breadth(expansion, in_quotes));
                self.parameter(expansion)
            }
            WordPiece::CommandSubstitution(line) => {
                builder.unknown(split_outside(in_quotes));
                self.program(line)
            }
            WordPiece::BackquotedCommandSubstitution(_) => Err("backquotes are not run; use $(…)".into()),
            WordPiece::ArithmeticExpression(expression) => {
                // A number has nothing in it that could be split off and mean something.
                builder.unknown(Breadth::One);
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
        // Between double quotes, and in a here-document, these quotes quote nothing.
        if text.contains('\'') && text.contains(['$', '`']) {
            return Err("single quotes in ${…} may not quote; give the text to a variable first".into());
        }
        self.word(&Word { value: text.to_owned(), loc: None }).map(drop)
    }
}

/// How many words a parameter becomes. Those that bash itself sets hold numbers; `"$@"` is several words in spite of the quotes.
fn breadth(expansion: &ParameterExpr, in_quotes: bool) -> Breadth {
    use SpecialParameter as S;
    let numbers =
        |special: &S| matches!(special, S::PositionalParameterCount | S::LastExitStatus | S::ProcessId | S::LastBackgroundProcessId);
    match expansion {
        ParameterExpr::Parameter { parameter: Parameter::Special(special), .. } if numbers(special) => Breadth::One,
        ParameterExpr::ParameterLength { .. } => Breadth::One,
        _ if in_quotes && !spreads(expansion) => Breadth::One,
        _ => Breadth::Any,
    }
}

/// Whether an expansion is several words also in quotes.
fn spreads(expansion: &ParameterExpr) -> bool {
    use ParameterExpr as E;
    let parameter = match expansion {
        E::Parameter { parameter, .. }
        | E::UseDefaultValues { parameter, .. }
        | E::IndicateErrorIfNullOrUnset { parameter, .. }
        | E::UseAlternativeValue { parameter, .. }
        | E::RemoveSmallestSuffixPattern { parameter, .. }
        | E::RemoveLargestSuffixPattern { parameter, .. }
        | E::RemoveSmallestPrefixPattern { parameter, .. }
        | E::RemoveLargestPrefixPattern { parameter, .. }
        | E::UppercaseFirstChar { parameter, .. }
        | E::UppercasePattern { parameter, .. }
        | E::LowercaseFirstChar { parameter, .. }
        | E::LowercasePattern { parameter, .. }
        | E::ReplaceSubstring { parameter, .. }
        | E::Substring { parameter, .. } => parameter,
        // The rest is refused, or a number.
        _ => return false,
    };
    let inner = match expansion {
        E::UseDefaultValues { default_value: text, .. } | E::UseAlternativeValue { alternative_value: text, .. } => text.as_deref(),
        _ => None,
    };
    inner.is_some_and(|text| text.contains('@'))
        || matches!(
            parameter,
            Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate: false })
                | Parameter::NamedWithAllIndices { concatenate: false, .. }
        )
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
