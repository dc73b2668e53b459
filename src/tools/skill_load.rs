//! `skill_load`: the text of a skill, from the skills root and nowhere else.

use std::fmt;
use std::io::Read;
use std::path::Path;

use super::workdir::{Kind, PathError, Workdir};
use super::{Args, Context, ToolError, Work};
use crate::limits;

/// Skills named when one is not found.
const NAMES_SHOWN_MAX: usize = 30;

/// Why a skill cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillError {
    /// The name breaks the rule.
    Name,
    /// There is none of that name.
    NotFound,
    /// Its file lies outside the root, by a link.
    Outside,
    /// It cannot be read, or is larger than the bound.
    Unreadable(String),
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkillError::Name => write!(f, "a skill's name has 1 to {} of A-Z a-z 0-9 _ -", limits::SKILL_NAME_CHARS_MAX),
            SkillError::NotFound => f.write_str("skill not found"),
            SkillError::Outside => f.write_str("its file lies outside the skills directory"),
            SkillError::Unreadable(why) => f.write_str(why),
        }
    }
}

/// The rule for names.
pub fn valid_name(name: &str) -> bool {
    (1..=limits::SKILL_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Reads `<root>/<name>/SKILL.md`. A link may point anywhere beneath the root, not out of it.
///
/// # Errors
/// See [`SkillError`].
pub fn read_skill(root: &Path, name: &str) -> Result<String, SkillError> {
    if !valid_name(name) {
        return Err(SkillError::Name);
    }
    let refused = |e: PathError| match e {
        PathError::Outside => SkillError::Outside,
        e if e.is_absent() => SkillError::NotFound,
        e => SkillError::Unreadable(format!("SKILL.md {e}")),
    };
    let file = Workdir::at(root).and_then(|root| root.open_file(Path::new(name).join("SKILL.md"))).map_err(refused)?;
    let mut text = Vec::new();
    file.take(limits::SKILL_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(|e| SkillError::Unreadable(format!("SKILL.md: {e}")))?;
    if text.len() > limits::SKILL_BYTES_MAX {
        return Err(SkillError::Unreadable(format!("SKILL.md is larger than {} KiB", limits::SKILL_BYTES_MAX / limits::KIB)));
    }
    String::from_utf8(text).map_err(|e| SkillError::Unreadable(format!("SKILL.md is no UTF-8 at byte {}", e.utf8_error().valid_up_to())))
}

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let name = args.str("name").unwrap_or_default();
    let shown = &name[..name.floor_char_boundary(limits::SHOWN_CHARS_MAX)];
    let text = read_skill(&context.skills_root, name).map_err(|e| match e {
        SkillError::Outside => ToolError::OutsideWorkdir(format!("skill {name}")),
        SkillError::NotFound => ToolError::InvalidInput(format!("skill {shown:?}: {e}; {}", known(&context.skills_root))),
        e => ToolError::InvalidInput(format!("skill {shown:?}: {e}")),
    })?;
    Ok(format!("<skill name=\"{name}\">\n{}\n</skill>", text.trim_end()).into())
}

/// Which skills there are, for a model that guessed.
fn known(root: &Path) -> String {
    let entries = Workdir::at(root).and_then(|root| root.read_dir(".", limits::SKILLS_MAX)).unwrap_or_default();
    let names = entries.into_iter().filter(|(_, kind)| *kind != Kind::File).filter_map(|(name, _)| name.into_string().ok());
    let names: Vec<String> = names.filter(|name| valid_name(name)).take(NAMES_SHOWN_MAX).collect();
    if names.is_empty() { "there are none".into() } else { format!("there are {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    #[test]
    fn a_skill_is_read_and_every_way_out_refused() {
        let dir = TestDir::new();
        let root = dir.path().join("skills");
        dir.write("skills/good/SKILL.md", "be good\n");
        dir.write("secret/SKILL.md", "secret");
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        std::os::unix::fs::symlink("good", root.join("alias")).unwrap();
        dir.write("skills/large/SKILL.md", vec![b'x'; limits::SKILL_BYTES_MAX + 1]);
        dir.write("skills/latin/SKILL.md", b"caf\xe9");
        assert_eq!(read_skill(&root, "good").as_deref(), Ok("be good\n"));
        assert_eq!(read_skill(&root, "alias").as_deref(), Ok("be good\n"));
        assert_eq!(read_skill(&root, "link"), Err(SkillError::Outside));
        assert_eq!(read_skill(&root, "absent"), Err(SkillError::NotFound));
        assert_eq!(read_skill(&dir.path().join("no/root"), "good"), Err(SkillError::NotFound));
        dir.write("skills/fifo/x", "");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo/SKILL.md"), rustix::fs::Mode::RWXU).unwrap();
        dir.write("skills/dir/SKILL.md/x", "");
        for name in ["", "..", "../secret", "a/b", "a b", &"x".repeat(65)] {
            assert_eq!(read_skill(&root, name), Err(SkillError::Name), "{name}");
        }
        for name in ["large", "latin", "fifo", "dir"] {
            assert!(matches!(read_skill(&root, name), Err(SkillError::Unreadable(_))), "{name}");
        }
    }

    #[test]
    fn the_model_gets_a_skill_in_an_element_or_the_names_of_those_there_are() {
        let dir = TestDir::new();
        let load = |name: &str| dir.call(run, include_str!("skill_load.json"), &serde_json::json!({ "name": name }).to_string());
        assert_eq!(load("x").unwrap_err().to_string(), "invalid input: skill \"x\": skill not found; there are none");
        dir.write(".claude/skills/good/SKILL.md", "---\nname: good\n---\nbe good\n\n");
        dir.write(".claude/skills/better/SKILL.md", "");
        dir.write(".claude/skills/README.md", "");
        assert_eq!(load("good").unwrap(), "<skill name=\"good\">\n---\nname: good\n---\nbe good\n</skill>");
        assert_eq!(load("x").unwrap_err().to_string(), "invalid input: skill \"x\": skill not found; there are better, good");
        assert!(matches!(load("../good"), Err(ToolError::InvalidInput(_))));
    }
}
