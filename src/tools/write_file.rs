//! `write_file`: creates a file or replaces its content.

use super::{Args, Context, ToolError, Work, atomic};

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or_default();
    let content = args.str("content").unwrap_or_default();
    if path.trim().is_empty() {
        return Err(ToolError::InvalidInput("the path is blank".into()));
    }
    let place = context.workdir.place(path).map_err(|e| e.at(path))?;
    atomic::replace(&place, content.as_bytes()).map_err(|e| ToolError::Io(format!("{path}: {}", std::io::Error::from(e))))?;
    let verb = if place.found.is_some() { "replaced" } else { "created" };
    Ok(format!("{verb} {path} ({} bytes)", content.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn write(dir: &TestDir, path: &str, content: &str) -> Result<String, ToolError> {
        let args = serde_json::json!({"path": path, "content": content}).to_string();
        match run(&dir.context(), &Args::parse(&args, include_str!("write_file.json")).unwrap())? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("write_file starts nothing"),
        }
    }

    #[test]
    fn files_are_created_with_their_directories_and_replaced() {
        let dir = TestDir::new();
        assert_eq!(write(&dir, "a/b/c.txt", "one\0ä").unwrap(), "created a/b/c.txt (6 bytes)");
        assert_eq!(write(&dir, "a/b/c.txt", "").unwrap(), "replaced a/b/c.txt (0 bytes)");
        assert_eq!(dir.read("a/b/c.txt"), b"");
    }

    #[test]
    fn nothing_is_written_outside_or_over_what_is_no_file() {
        let dir = TestDir::new();
        std::os::unix::fs::symlink("../escaped", dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink("/tmp/gantry-escaped", dir.path().join("dangling")).unwrap();
        for path in ["../x", "/etc/x", "out", "out/x", "dangling", "a/../../x"] {
            assert!(matches!(write(&dir, path, "x"), Err(ToolError::OutsideWorkdir(_))), "{path}");
        }
        for path in ["", " ", ".", "x\0y"] {
            assert!(matches!(write(&dir, path, "x"), Err(ToolError::InvalidInput(_))), "{path:?}");
        }
    }
}
