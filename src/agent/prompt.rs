//! What the model is told beside the user's prompt. The texts themselves lie in `.md` files beside this one.

use std::fmt::Write;

/// The system prompt when none is given.
const SYSTEM_DEFAULT: &str = include_str!("system.md");
/// The user line of the last call at the turn cap.
pub(super) const LAST_CALL: &str = include_str!("last_call.md");
/// The user line after an answer with neither text nor calls.
pub(super) const EMPTY_ANSWER: &str = include_str!("empty_answer.md");
/// The result of a call that was not run because the answer was cut.
pub(super) const CUT_CALL: &str = include_str!("cut_call.md");

/// A skill's text, ready for the system prompt.
#[derive(Clone, Debug)]
pub struct Skill {
    /// Its name, valid by the rule for names.
    pub name: String,
    /// Its whole text.
    pub text: String,
}

/// The system prompt: injected skills first, then the persona (or the neutral default).
pub fn system(skills: &[Skill], persona: Option<&str>) -> String {
    let mut out = String::new();
    for skill in skills {
        let _ = write!(out, "<skill name=\"{}\">\n{}\n</skill>\n\n", skill.name, skill.text.trim_end());
    }
    out.push_str(persona.unwrap_or(SYSTEM_DEFAULT).trim_end());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_come_before_the_persona() {
        let skills = [Skill { name: "a".into(), text: "one\n".into() }];
        assert_eq!(system(&skills, Some("be brief\n")), "<skill name=\"a\">\none\n</skill>\n\nbe brief");
    }

    #[test]
    fn the_default_names_the_harness_and_has_no_edge_blanks() {
        let text = system(&[], None);
        assert!(text.contains("gantry"));
        assert_eq!(text, text.trim());
    }
}
