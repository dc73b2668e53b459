//! `skill_load`: the text of a skill, from the skills root and nowhere else.

use std::fmt;
use std::io::Read;
use std::path::Path;

use super::{Args, Context, ToolError, Work};
use crate::limits;

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
    let unreadable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => SkillError::NotFound,
        _ => SkillError::Unreadable(e.to_string()),
    };
    let root = root.canonicalize().map_err(unreadable)?;
    let file = root.join(name).join("SKILL.md").canonicalize().map_err(unreadable)?;
    if !file.starts_with(&root) {
        return Err(SkillError::Outside);
    }
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(SkillError::Unreadable("SKILL.md is no regular file".into()));
    }
    let mut text = Vec::new();
    std::fs::File::open(file).and_then(|f| f.take(limits::SKILL_BYTES_MAX as u64 + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() > limits::SKILL_BYTES_MAX {
        return Err(SkillError::Unreadable(format!("SKILL.md is larger than {} KiB", limits::SKILL_BYTES_MAX / limits::KIB)));
    }
    String::from_utf8(text).map_err(|e| SkillError::Unreadable(format!("SKILL.md is no UTF-8 at byte {}", e.utf8_error().valid_up_to())))
}

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let name = args.str("name").unwrap_or_default();
    let text = read_skill(&context.skills_root, name).map_err(|e| match e {
        SkillError::Outside => ToolError::OutsideWorkdir(format!("skill {name}")),
        e => ToolError::InvalidInput(format!("skill {name:?}: {e}")),
    })?;
    Ok(format!("<skill name=\"{name}\">\n{}\n</skill>", text.trim_end()).into())
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
        for name in ["", "..", "../secret", "a/b", "a b", &"x".repeat(65)] {
            assert_eq!(read_skill(&root, name), Err(SkillError::Name), "{name}");
        }
        for name in ["large", "latin"] {
            assert!(matches!(read_skill(&root, name), Err(SkillError::Unreadable(_))), "{name}");
        }
    }
}
