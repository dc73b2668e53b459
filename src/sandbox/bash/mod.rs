//! Judges a line before bash gets it: every program that it would run must be on the list, and what cannot be proven is refused.
//!
//! The line is parsed by a real bash grammar and walked whole: pipelines, substitutions, here-documents, loops, functions. A
//! refusal names the word and says what to write instead, since a model is going to read it. What looks harmless but evaluates
//! text as code (arithmetic on variables, subscripts, prompts, traps, options of programs that start others) is refused by kind,
//! not by example: only known forms pass.

mod arithmetic;
mod builtins;
mod programs;
mod words;

use brush_parser::ast::{
    AndOr, AndOrList, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, ExtendedTestExpr,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, SimpleCommand, UnaryPredicate, Word,
};
use brush_parser::{Parser, ParserOptions};

use words::Text;

/// A judgement: fine, or why not.
type Judged = Result<(), String>;

/// Judges a line by the programs that it may run. `path` is where they are found.
///
/// # Errors
/// For the model: the offending word, and what to write instead.
pub(super) fn check(line: &str, allow: &[String], path: &str) -> Judged {
    let mut walk = Walk {
        allow,
        path,
        functions: Vec::new(),
        numbers: Vec::new(),
        others: Vec::new(),
        computed: Vec::new(),
        strays: false,
        writes: false,
    };
    walk.program(line)?;
    if walk.strays && walk.writes {
        return Err("a line that goes out of the working directory by cd writes no files; name the file from where the line begins".into());
    }
    walk.arithmetic_is_literal()
}

/// The walk over one line.
struct Walk<'a> {
    allow: &'a [String],
    path: &'a str,
    /// Functions that the line has defined so far.
    functions: Vec<String>,
    /// Variables that get whole numbers, written out.
    numbers: Vec<String>,
    /// Variables that get anything else.
    others: Vec<String>,
    /// Variables that arithmetic looks at.
    computed: Vec<String>,
    /// A `cd` leads, or may lead, out of the working directory or into git's own.
    strays: bool,
    /// A redirection writes a file.
    writes: bool,
}

impl Walk<'_> {
    fn program(&mut self, line: &str) -> Judged {
        let mut parser = Parser::new(std::io::Cursor::new(line), &ParserOptions::default());
        let program = parser.parse_program().map_err(|e| format!("the line cannot be parsed as bash ({e})"))?;
        program.complete_commands.iter().try_for_each(|list| self.list(list))
    }

    fn list(&mut self, list: &CompoundList) -> Judged {
        list.0.iter().try_for_each(|item| self.and_or(&item.0))
    }

    fn and_or(&mut self, list: &AndOrList) -> Judged {
        self.pipeline(&list.first)?;
        list.additional.iter().try_for_each(|next| match next {
            AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
        })
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Judged {
        pipeline.seq.iter().try_for_each(|command| self.command(command))
    }

    fn command(&mut self, command: &Command) -> Judged {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound)?;
                redirects.iter().flat_map(|list| &list.0).try_for_each(|redirect| self.redirect(redirect))
            }
            Command::Function(function) => {
                let name = self.literal(&function.fname, "a function's name")?;
                if !is_name(&name) || builtins::known(&name) || self.allow.contains(&name) {
                    return Err(format!("the function name `{name}` is taken; give it another"));
                }
                // Whether the definition is reached, in which shell, and whether it lasts cannot be told. Without it the name
                // must mean nothing.
                if self.find(&name).is_some() {
                    return Err(format!("`{name}` is a program as well; give the function another name"));
                }
                self.functions.push(name);
                self.compound(&function.body.0)?;
                function.body.1.iter().flat_map(|list| &list.0).try_for_each(|redirect| self.redirect(redirect))
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr)?;
                redirects.iter().flat_map(|list| &list.0).try_for_each(|redirect| self.redirect(redirect))
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Judged {
        match compound {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(each) => {
                let values = each.values.as_deref().unwrap_or_default();
                builtins::assignable(&each.variable_name, true)?;
                let all_numbers = each.values.is_some() && values.iter().all(|v| arithmetic::is_number(&v.value));
                self.assign(&each.variable_name, all_numbers)?;
                values.iter().try_for_each(|value| self.word(value).map(drop))?;
                self.list(&each.body.list)
            }
            CompoundCommand::CaseClause(case) => {
                self.word(&case.value)?;
                case.cases.iter().try_for_each(|item| {
                    item.patterns.iter().try_for_each(|pattern| self.word(pattern).map(drop))?;
                    item.cmd.iter().try_for_each(|list| self.list(list))
                })
            }
            CompoundCommand::IfClause(branch) => {
                self.list(&branch.condition)?;
                self.list(&branch.then)?;
                branch.elses.iter().flatten().try_for_each(|other| {
                    other.condition.iter().try_for_each(|list| self.list(list))?;
                    self.list(&other.body)
                })
            }
            CompoundCommand::WhileClause(cycle) | CompoundCommand::UntilClause(cycle) => {
                self.list(&cycle.0)?;
                self.list(&cycle.1.list)
            }
            CompoundCommand::Arithmetic(_) | CompoundCommand::ArithmeticForClause(_) => {
                Err("(( … )) is not run; use $((…)) on numbers, or `for i in 1 2 3`".into())
            }
            CompoundCommand::Coprocess(_) => Err("coproc is not run; use a pipe".into()),
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) -> Judged {
        let name = match &simple.word_or_name {
            Some(word) => Some(self.literal(word, "the name of a command")?),
            None => None,
        };
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut Vec::new(), name.as_deref())?;
        }
        let mut args = Vec::new();
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut args, name.as_deref())?;
        }
        match name {
            Some(name) => self.call(&name, &args),
            None => Ok(()),
        }
    }

    /// One part of a simple command: an assignment, a redirection, or an argument, which is added to the list.
    fn item(&mut self, item: &CommandPrefixOrSuffixItem, args: &mut Vec<Text>, name: Option<&str>) -> Judged {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect),
            CommandPrefixOrSuffixItem::Word(word) => {
                args.push(self.word(word)?);
                Ok(())
            }
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                // Behind the name of a command it is an argument of that command.
                args.push(self.word(word)?);
                let AssignmentName::VariableName(variable) = &assignment.name else {
                    return Err(format!("`{}` assigns to an element of an array; use a plain variable", word.value));
                };
                let AssignmentValue::Scalar(value) = &assignment.value else {
                    return Err(format!("`{}` makes an array; use plain variables, or a loop over words", word.value));
                };
                self.word(value)?;
                let exported = name.is_some() && name != Some("read");
                builtins::assignable(variable, exported)?;
                self.assign(variable, arithmetic::is_number(&value.value) && !assignment.append)
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                args.push(Text::dynamic("/dev/fd/"));
                self.list(&subshell.list)
            }
        }
    }

    /// Notes what a variable gets, for the sake of arithmetic.
    fn assign(&mut self, variable: &str, number: bool) -> Judged {
        if !is_name(variable) {
            return Err(format!("`{variable}` is no plain variable"));
        }
        if number { &mut self.numbers } else { &mut self.others }.push(variable.to_owned());
        Ok(())
    }

    /// A command by its name: a function of the line, a builtin, or a program of the list.
    fn call(&mut self, name: &str, args: &[Text]) -> Judged {
        if self.functions.iter().any(|f| f == name) {
            return Ok(());
        }
        if builtins::known(name) {
            return self.builtin(name, args);
        }
        self.run_program(name, args)
    }

    fn redirect(&mut self, redirect: &IoRedirect) -> Judged {
        match redirect {
            IoRedirect::File(_, kind, target) => self.redirect_file(kind, target),
            IoRedirect::HereDocument(_, document) => {
                // Where bash and this grammar disagree about a document's end, text would be run.
                let end = &document.here_end.value;
                let bare = ['\'', '"'].iter().find_map(|q| end.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(end);
                if bare.is_empty() || !bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return Err(format!("the end of a here-document is one plain word, as in <<EOF or <<'EOF', not `{end}`"));
                }
                match document.requires_expansion {
                    true => self.here_document(&document.doc),
                    false => Ok(()),
                }
            }
            IoRedirect::HereString(_, word) => self.word(word).map(drop),
            IoRedirect::OutputAndError(word, _) => self.output_file(word),
        }
    }

    fn redirect_file(&mut self, kind: &IoFileRedirectKind, target: &IoFileRedirectTarget) -> Judged {
        match (kind, target) {
            (_, IoFileRedirectTarget::Fd(_)) => Ok(()),
            (_, IoFileRedirectTarget::ProcessSubstitution(_, subshell)) => self.list(&subshell.list),
            (_, IoFileRedirectTarget::Duplicate(word)) => match self.word(word)? {
                Text::Static(text) if text == "-" || text.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
                Text::Static(_) => self.output_file(word),
                Text::Dynamic { .. } => Err(format!("`{}` is no number of an open file; write it out", word.value)),
            },
            (IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput, IoFileRedirectTarget::Filename(word)) => {
                match self.word(word)? {
                    Text::Static(text) if text == "/dev/null" => Ok(()),
                    // Below /dev bash makes connections of its own.
                    text if !builtins::begins(&text, "/dev/") => Ok(()),
                    _ => Err(format!("`{}` cannot be read from; name a file outright, or begin with ./", word.value)),
                }
            }
            (_, IoFileRedirectTarget::Filename(word)) => self.output_file(word),
        }
    }

    /// What may be written by a redirection: a file beneath, named outright, and not git's own.
    fn output_file(&mut self, word: &Word) -> Judged {
        let refuse = || Err(format!("output cannot go to `{}`; name a file in the working directory outright", word.value));
        let Text::Static(path) = self.word(word)? else { return refuse() };
        if path == "/dev/null" || path == "/dev/stderr" || path == "/dev/stdout" {
            return Ok(());
        }
        self.writes = true;
        if beneath(&path) { Ok(()) } else { refuse() }
    }

    fn test(&mut self, test: &ExtendedTestExpr) -> Judged {
        match test {
            ExtendedTestExpr::And(a, b) | ExtendedTestExpr::Or(a, b) => {
                self.test(a)?;
                self.test(b)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner),
            ExtendedTestExpr::UnaryTest(predicate, word) => match predicate {
                UnaryPredicate::ShellVariableIsSetAndAssigned | UnaryPredicate::ShellVariableIsSetAndNameRef => {
                    Err("[[ -v … ]] evaluates its word; test the value with [[ -n … ]]".into())
                }
                _ => self.word(word).map(drop),
            },
            ExtendedTestExpr::BinaryTest(predicate, a, b) => {
                if arithmetic::compares(predicate) && !(arithmetic::is_number(&a.value) && arithmetic::is_number(&b.value)) {
                    return Err("[[ … ]] computes with what stands at -eq, -lt …; use [ … ] for that".into());
                }
                self.word(a)?;
                self.word(b).map(drop)
            }
        }
    }
}

/// Whether a path stays beneath the directory that it is taken from, and out of git's own.
fn beneath(path: &str) -> bool {
    !path.is_empty() && !path.starts_with(['/', '~']) && !path.split('/').any(|part| part == ".." || part.eq_ignore_ascii_case(".git"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
