//! A directory for one test, in memory where possible, gone with the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Args, Context, ToolError, Work, Workdir};
use crate::sandbox::ShellPolicy;
use crate::transcript::stash::Stash;

pub(super) struct TestDir {
    base: PathBuf,
    root: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl TestDir {
    pub(super) fn new() -> TestDir {
        let home = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let base = home.join(format!("gantry-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let root = base.join("app");
        std::fs::create_dir_all(&root).unwrap();
        TestDir { base, root }
    }

    pub(super) fn path(&self) -> &Path {
        &self.root
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root.join(path)).unwrap()
    }

    /// What a tool answers to a call, as text.
    pub(super) fn call(&self, run: fn(&Context, &Args) -> Result<Work, ToolError>, schema: &str, args: &str) -> Result<String, ToolError> {
        match run(&self.context(), &Args::parse(args, schema)?)? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(order) => panic!("{order:?} is to be started"),
        }
    }

    pub(super) fn workdir(&self) -> Workdir {
        Workdir::new(std::fs::File::open(&self.root).unwrap().into(), self.root.clone())
    }

    pub(super) fn context(&self) -> Context {
        Context {
            workdir: self.workdir(),
            skills_root: self.root.join(".claude/skills"),
            shell: ShellPolicy {
                allow: ["git".to_owned()].into(),
                timeout: std::time::Duration::from_secs(10),
                path: "/usr/bin:/bin".into(),
                helpers: Arc::default(),
            },
            stash: Stash::new(1_000_000),
        }
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}
