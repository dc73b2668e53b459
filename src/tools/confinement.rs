//! Nothing leaves the workdir: every tool that takes a path, every spelling of one, both ways of resolution, and while the tree
//! changes underneath.

#![cfg(test)]

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::testdir::TestDir;
use super::{Args, Context, TOOLS, ToolError, Work, Workdir};

const SECRET: &str = "top secret";

/// A workdir with every kind of way out, and a secret beside it.
fn tempting() -> TestDir {
    let dir = TestDir::new();
    let root = dir.path();
    dir.write("../app-evil/secret", SECRET);
    dir.write("../app-evil/secrets/SKILL.md", SECRET);
    dir.write("sub/plain", "plain");
    dir.write(".claude/skills/x/SKILL.md", "x");
    for (target, link) in [
        ("../app-evil/secret", "out"),
        ("../app-evil", "out_dir"),
        ("out", "sub/../chain"),
        ("../../app-evil/secret", "sub/out"),
        ("../app/sub/../../app-evil/secret", "through"),
        ("/proc/self/root", "magic"),
        ("/proc/self/cwd", "cwd"),
        ("../../../app-evil/secrets", ".claude/skills/out"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink(root.join("../app-evil/secret"), root.join("out_absolute")).unwrap();
    symlink(root.parent().unwrap().join("app-evil"), root.join("out_absolute_dir")).unwrap();
    dir
}

/// What a tool says to a call, or what it would start.
fn call(context: &Context, name: &str, args: &serde_json::Value) -> Result<String, ToolError> {
    let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
    match (tool.run)(context, &Args::parse(&args.to_string(), tool.schema)?)? {
        Work::Done(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Work::Spawn(order) => Ok(format!("{:?}", order.program)),
    }
}

/// A call of each tool that takes a path.
fn calls(path: &str) -> [(&'static str, serde_json::Value); 8] {
    [
        ("read_file", serde_json::json!({ "path": path })),
        ("list_files", serde_json::json!({ "path": path })),
        ("find_files", serde_json::json!({"pattern": "*", "path": path})),
        ("grep", serde_json::json!({"pattern": "secret", "path": path})),
        ("git_diff", serde_json::json!({ "paths": [path] })),
        ("skill_load", serde_json::json!({ "name": path })),
        ("write_file", serde_json::json!({"path": path, "content": "overwritten"})),
        ("edit_file", serde_json::json!({"path": path, "search": SECRET, "replace": "overwritten"})),
    ]
}

#[test]
fn no_spelling_of_a_path_leads_any_tool_out() {
    let dir = tempting();
    let root = dir.path().display().to_string();
    let evil = format!("{root}-evil/secret");
    let up = format!("{root}/../app-evil/secret");
    let doubled = format!("/{root}/../app-evil/secret");
    let words = [
        "../app-evil/secret",
        "..",
        "../",
        "../app-evil",
        "sub/../../app-evil/secret",
        "./sub/./../.././app-evil//secret",
        "sub/../../app/../app-evil/secret",
        "/etc/passwd",
        "/",
        &evil,
        &up,
        &doubled,
    ];
    let links = ["out", "chain", "sub/out", "through", "out_absolute", "out_dir/secret", "out_absolute_dir/secret", "magic/etc/passwd"];
    let odd =
        ["", "a\0b", "~/x", "$HOME", "%2e%2e/app-evil/secret", "file:///etc/passwd", "..\\app-evil\\secret", "cwd/src", "magic", "out/"];
    for path in words.into_iter().chain(links).chain(odd) {
        let context = dir.context();
        for (tool, args) in calls(path) {
            let said = call(&context, tool, &args);
            let text = format!("{said:?}");
            assert!(!text.contains(SECRET) && !text.contains("root:"), "{tool} {path:?}: {text}");
            // git shows what a link says and never follows one, so for git_diff a link is a path like any other.
            if words.contains(&path) || links.contains(&path) && tool != "git_diff" {
                let outside = matches!(said, Err(ToolError::OutsideWorkdir(_)));
                assert!(outside || tool == "skill_load" && matches!(said, Err(ToolError::InvalidInput(_))), "{tool} {path:?}: {text}");
            }
        }
    }
    assert_eq!(dir.read("../app-evil/secret"), SECRET.as_bytes());
    let beside = std::fs::read_dir(dir.path().parent().unwrap()).unwrap().count();
    assert_eq!(beside, 2, "nothing was made beside the workdir");
    assert!(matches!(call(&dir.context(), "skill_load", &serde_json::json!({"name": "out"})), Err(ToolError::OutsideWorkdir(_))));
}

#[test]
fn what_is_no_file_is_refused_at_once_by_every_tool() {
    let dir = TestDir::new();
    let at = |name: &str| dir.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink("fifo", at("to_fifo")).unwrap();
    symlink("/dev/zero", at("zero")).unwrap();
    symlink("loop_b", at("loop_a")).unwrap();
    symlink("loop_a", at("loop_b")).unwrap();
    let device = rustix::fs::FileType::CharacterDevice;
    let made = rustix::fs::mknodat(rustix::fs::CWD, at("device"), device, rustix::fs::Mode::RWXU, rustix::fs::makedev(1, 5));
    if made.is_err() {
        println!("without a device: only root can make one");
    }
    let context = dir.context();
    for path in ["fifo", "socket", "to_fifo", "zero", "loop_a", "device", "fifo/x"] {
        for (tool, args) in calls(path) {
            if !matches!(tool, "git_diff" | "skill_load") && (path != "device" || made.is_ok()) {
                assert!(call(&context, tool, &args).is_err(), "{tool} {path}");
            }
        }
    }
    assert_eq!(call(&context, "grep", &serde_json::json!({"pattern": "."})).unwrap(), "no line matches\n");
    assert_eq!(call(&context, "list_files", &serde_json::json!({})).unwrap().lines().count(), 6 + usize::from(made.is_ok()));
}

#[test]
fn a_deleted_workdir_is_told_by_every_tool() {
    let dir = tempting();
    let context = dir.context();
    std::fs::remove_dir_all(dir.path()).unwrap();
    for (tool, args) in calls("sub/plain").into_iter().chain(calls(".")) {
        if !matches!(tool, "git_diff" | "skill_load") && (tool, &args["path"]) != ("write_file", &".".into()) {
            let said = call(&context, tool, &args).unwrap_err().to_string();
            assert!(said.contains("the working directory was deleted") || said.contains("is a directory"), "{tool} {args}: {said}");
        }
    }
}

#[test]
fn nothing_is_written_where_only_git_writes() {
    let dir = TestDir::new();
    dir.write(".git/config", SECRET);
    dir.write("module/.git", SECRET);
    symlink(".git/hooks", dir.path().join("hooks")).unwrap();
    symlink(dir.path().join(".git"), dir.path().join("absolute")).unwrap();
    let context = dir.context();
    for path in [".git/config", "sub/../.git/hooks/x", "hooks/post-commit", "absolute/config", "module/.git", ".GIT/x", "a/.git/config"] {
        for (tool, args) in calls(path) {
            if matches!(tool, "write_file" | "edit_file") {
                assert!(call(&context, tool, &args).is_err(), "{tool} {path}");
            }
        }
    }
    assert_eq!((dir.read(".git/config"), dir.read("module/.git")), (SECRET.into(), SECRET.into()));
    assert!(call(&context, "write_file", &serde_json::json!({"path": ".gitignore", "content": ""})).is_ok());
}

/// A source of numbers that is the same in every run.
struct Random(u64);

impl Random {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(self.0 >> 33) as usize % of.len()]
    }

    fn path(&mut self, root: &str) -> String {
        let mut path = self.pick(&["", "", "", root, "/"]).to_owned();
        for _ in 0..self.pick(&[1, 1, 2, 2, 3, 5]) {
            if !path.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(self.pick(&["a", "b", "c", "f", "f", "f", "l0", "l1", "l2", "..", ".", "", "f/", "a/", "app", "app-evil"]));
        }
        path
    }
}

fn content(workdir: &Workdir, path: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut file = workdir.open_file(path).map_err(|e| e.to_string())?;
    file.read_to_string(&mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

/// The kernel's resolution, our own, and the plain one by names, over random trees of links.
#[test]
fn both_ways_resolve_alike_and_neither_further_than_the_plain_one() {
    let mut random = Random(42);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..60 {
        let dir = TestDir::new();
        let root = dir.path().display().to_string();
        dir.write("../app-evil/f", "outside");
        dir.write("../f", "outside");
        for path in ["f", "a/f", "a/b/f", "b/f", "c/a/f"] {
            dir.write(path, path);
        }
        for place in ["", "a/", "a/b/", "b/", "c/", "../app-evil/"] {
            for link in ["l0", "l1", "l2"] {
                // An empty target cannot be made; every other one may come.
                let _ = symlink(random.path(&root), dir.path().join(format!("{place}{link}")));
            }
        }
        let kernel = dir.workdir();
        let walker = dir.workdir().without_openat2();
        for _ in 0..400 {
            let path = random.path(&root);
            let (by_kernel, by_hand) = (content(&kernel, &path), content(&walker, &path));
            assert_eq!(by_kernel, by_hand, "{path}");
            match by_kernel {
                Ok(text) => {
                    read += 1;
                    let plain = dir.path().join(&path).canonicalize().unwrap();
                    assert!(plain.starts_with(dir.path()), "{path} is {}", plain.display());
                    assert_eq!(text, std::fs::read_to_string(plain).unwrap(), "{path}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
}

/// Another process swaps a directory and a file for links that lead out, as fast as it can.
#[test]
fn a_tree_that_changes_underneath_never_lets_anything_out() {
    let dir = TestDir::new();
    dir.write("../app-evil/file", SECRET);
    dir.write("sub/file", "inside");
    symlink("../app-evil", dir.path().join("evil_dir")).unwrap();
    symlink("../../app-evil/file", dir.path().join("sub/evil_file")).unwrap();
    let swap = |one: &Path, other: &Path| {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, flags).is_ok()
    };
    let stopped = AtomicBool::new(false);
    let context = dir.context();
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = |name: &str| dir.path().join(name);
            while !stopped.load(Ordering::Relaxed) {
                assert!(swap(&at("sub"), &at("evil_dir")) && swap(&at("sub"), &at("evil_dir")));
                assert!(swap(&at("sub/file"), &at("sub/evil_file")) && swap(&at("sub/file"), &at("sub/evil_file")));
            }
        });
        // Also when an assertion fails here.
        let _stop = Stop(&stopped);
        let walker = dir.workdir().without_openat2();
        for i in 0..10_000_000 {
            if i >= 30_000 && inside >= 1_000 && refused >= 1_000 {
                break;
            }
            let got = if i % 2 == 0 { content(&context.workdir, "sub/file") } else { content(&walker, "sub/file") };
            match got {
                Ok(text) if text == "inside" => inside += 1,
                Ok(text) => panic!("{text} was read"),
                Err(_) => refused += 1,
            }
            if i % 100 == 0 {
                let _ = call(&context, "write_file", &serde_json::json!({"path": "sub/file", "content": "inside"}));
                let said = call(&context, "grep", &serde_json::json!({"pattern": SECRET})).unwrap();
                assert!(said.starts_with("no line matches"), "{said}");
            }
        }
    });
    assert_eq!(dir.read("../app-evil/file"), SECRET.as_bytes());
    assert!(inside >= 1_000 && refused >= 1_000, "{inside} {refused}");
}

/// Ends another thread's loop.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
