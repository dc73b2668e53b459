//! The style of `docs/STYLE.md` and the walls of `docs/ARCHITECTURE.md`, as failing tests.
//!
//! Sources are read by a parser and not by patterns, so a word in a comment or a string is not mistaken for code. What stands under
//! `#[cfg(test)]` is exempt from doors and layers.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may unwrap: its panic is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The modules of a layer, low to high. A module imports only from lower layers, and from its own.
const LAYERS: &[&[&str]] = &[
    &["limits", "error", "secret"],
    &["json", "rt"],
    &["emit", "compress", "sandbox"],
    &["transcript"],
    &["provider"],
    &["tools"],
    &["agent"],
    &["run"],
    &["cli"],
];

/// A path of code that only some files may name: its beginning, and the files (or folders) that may.
const DOORS: &[(&str, &[&str])] = &[
    ("std::env", &["src/cli/env.rs"]),
    ("env::var", &["src/cli/env.rs"]),
    ("Instant::now", &["src/rt/clock.rs"]),
    ("SystemTime::now", &["src/rt/clock.rs"]),
    ("io::stdout", &["src/emit/sink.rs", "src/cli/out.rs"]),
    ("io::stdin", &["src/cli/", "src/sandbox/helper.rs"]),
    ("process::Command", &["src/sandbox/"]),
    ("Command::new", &["src/sandbox/"]),
    ("thread::spawn", &["src/rt/"]),
    ("thread::Builder", &["src/rt/"]),
    ("thread::sleep", &["src/rt/"]),
    ("libc::_exit", &["src/rt/warden.rs"]),
    ("process::exit", &[]),
    ("monoio", &["src/rt/"]),
    ("monoio_compat", &["src/rt/"]),
    ("hyper", &["src/provider/client.rs", "src/provider/line.rs", "src/provider/body.rs", "src/rt/"]),
    ("rustls", &["src/provider/tls.rs"]),
    ("tokio_rustls", &["src/provider/tls.rs"]),
    ("rustls_native_certs", &["src/provider/tls.rs"]),
    ("webpki_roots", &["src/provider/tls.rs"]),
    ("simd_json", &["src/json/read.rs"]),
    ("lexopt", &["src/cli/"]),
    ("blake3", &["src/transcript/stash.rs"]),
    ("brush_parser", &["src/sandbox/"]),
    ("ignore", &["src/tools/walk.rs"]),
    ("grep_regex", &["src/tools/grep.rs"]),
    ("grep_searcher", &["src/tools/grep.rs"]),
    ("rustix", &["src/rt/", "src/sandbox/", "src/tools/workdir.rs", "src/tools/atomic.rs", "src/cli/"]),
    ("libc", &["src/rt/", "src/sandbox/", "src/cli/sys.rs"]),
];

/// Files that are compiled for tests only.
const TEST_FILES: &[&str] = &[
    "src/cli/scratch.rs",
    "src/compress/random.rs",
    "src/provider/conformance.rs",
    "src/provider/feed.rs",
    "src/provider/raw.rs",
    "src/tools/testdir.rs",
];
/// Files of tables, which may be as long as their rows.
const TABLES: &[&str] = &["src/cli/table.rs"];
/// Words that say nothing about what a thing is.
const BANNED: &[&str] = &["manager", "handler", "helper", "util", "utils", "service", "misc", "common"];

const FILE_LINES_MAX: usize = 600;
const FILE_LINES_MEDIAN_MAX: usize = 200;
const FUNCTION_LINES_MAX: usize = 70;
const FUNCTION_LINES_USUAL: usize = 60;

struct Source {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
    ast: syn::File,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(dir: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root().join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources(dirs: &[&str]) -> Vec<Source> {
    let paths = dirs.iter().flat_map(|dir| files_below(dir, "rs"));
    paths
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let ast = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            Source { path: path.strip_prefix(root()).unwrap().to_string_lossy().into_owned(), text, ast }
        })
        .collect()
}

/// Fails with all that was found, so that one run tells everything.
fn none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("test") || a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|i| i == "test"))
}

/// Every path of the code outside tests, with its line: imports flattened, expressions, types, macros' names.
#[derive(Default)]
struct Paths {
    found: Vec<(String, usize)>,
}

impl Paths {
    fn of(source: &Source) -> Vec<(String, usize)> {
        let mut paths = Paths::default();
        if !is_test(&source.ast.attrs) {
            paths.visit_file(&source.ast);
        }
        paths.found
    }

    fn flatten(&mut self, tree: &syn::UseTree, before: &str) {
        match tree {
            syn::UseTree::Path(path) => self.flatten(&path.tree, &format!("{before}{}::", path.ident)),
            syn::UseTree::Name(name) => self.found.push((format!("{before}{}", name.ident), name.span().start().line)),
            syn::UseTree::Rename(name) => self.found.push((format!("{before}{}", name.ident), name.span().start().line)),
            syn::UseTree::Glob(glob) => self.found.push((format!("{before}*"), glob.span().start().line)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.flatten(item, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.flatten(&item.tree, "");
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.found.push((words.join("::"), path.span().start().line));
        visit::visit_path(self, path);
    }
}

/// The functions outside tests, with their lines.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, name: &syn::Ident, whole: proc_macro2::Span) {
        self.found.push((name.to_string(), whole.end().line - name.span().start().line + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig.ident, item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig.ident, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }
}

/// Unsafe blocks, and the names of types and modules.
#[derive(Default)]
struct Names {
    unsafe_lines: Vec<usize>,
    names: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_expr_unsafe(&mut self, item: &'ast syn::ExprUnsafe) {
        self.unsafe_lines.push(item.span().start().line);
        visit::visit_expr_unsafe(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.unsafe_lines.push(item.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.names.push((item.ident.to_string(), item.span().start().line));
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.names.push((item.ident.to_string(), item.span().start().line));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.names.push((item.ident.to_string(), item.span().start().line));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names.push((item.ident.to_string(), item.span().start().line));
        visit::visit_item_trait(self, item);
    }
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

#[test]
fn a_module_imports_only_from_lower_layers() {
    let mut found = Vec::new();
    for source in sources(&["src"]) {
        let Some(module) = source.path.strip_prefix("src/").map(|p| p.split(['/', '.']).next().unwrap_or_default().to_owned()) else {
            continue;
        };
        if module == "main" || module == "lib" {
            continue;
        }
        let own = layer_of(&module).unwrap_or_else(|| panic!("src/{module} has a layer in tests/tidy.rs"));
        for (path, line) in Paths::of(&source) {
            let Some(other) = path.strip_prefix("crate::").and_then(|p| p.split("::").next()) else { continue };
            if other != module && layer_of(other).is_some_and(|layer| layer >= own) {
                found.push(format!("{}:{line}: {module} (layer {own}) imports {other}", source.path));
            }
        }
    }
    none("imports against the layers", found);
}

#[test]
fn every_foreign_power_has_one_door() {
    let mut found = Vec::new();
    for source in sources(&["src"]).into_iter().filter(|s| !TEST_FILES.contains(&s.path.as_str())) {
        for (path, line) in Paths::of(&source) {
            for (door, files) in DOORS {
                let through =
                    path == *door || path.starts_with(&format!("{door}::")) || door.contains("::") && path.ends_with(&format!("::{door}"));
                if through && !files.iter().any(|file| source.path.starts_with(file)) {
                    found.push(format!("{}:{line}: {path}", source.path));
                }
            }
        }
    }
    found.dedup();
    none("foreign powers beside their doors", found);
}

#[test]
fn files_are_short() {
    let mut sizes: Vec<(usize, String)> =
        sources(&["src", "bench/src", "tests"]).into_iter().map(|s| (s.text.lines().count(), s.path)).collect();
    sizes.sort();
    let long = sizes.iter().filter(|(lines, path)| *lines > FILE_LINES_MAX && !TABLES.contains(&path.as_str()));
    none("files over the bound", long.map(|(lines, path)| format!("{path}: {lines} lines")).collect());
    let median = sizes[sizes.len() / 2].0;
    assert!(median <= FILE_LINES_MEDIAN_MAX, "the median file has {median} lines");
}

#[test]
fn functions_are_short() {
    let mut all = Vec::new();
    for source in sources(&["src", "bench/src"]) {
        let mut functions = Functions::default();
        functions.visit_file(&source.ast);
        all.extend(functions.found.into_iter().map(|(name, lines)| (lines, format!("{}: {name}", source.path))));
    }
    none(
        "functions over the bound",
        all.iter().filter(|f| f.0 > FUNCTION_LINES_MAX).map(|(lines, name)| format!("{name}: {lines} lines")).collect(),
    );
    let long = all.iter().filter(|f| f.0 > FUNCTION_LINES_USUAL).count();
    assert!(long * 100 <= all.len(), "{long} of {} functions have more than {FUNCTION_LINES_USUAL} lines", all.len());
}

#[test]
fn every_file_begins_with_why_it_exists() {
    let bare = sources(&["src", "bench/src", "tests"]).into_iter().filter(|s| !s.text.starts_with("//! "));
    none("files without a first line of `//!`", bare.map(|s| s.path).collect());
}

#[test]
fn every_unsafe_block_is_argued() {
    let mut found = Vec::new();
    for source in sources(&["src", "bench/src"]) {
        let mut names = Names::default();
        names.visit_file(&source.ast);
        let lines: Vec<&str> = source.text.lines().collect();
        for at in names.unsafe_lines {
            let near = &lines[at.saturating_sub(5)..at];
            if !near.iter().any(|line| line.contains("SAFETY:")) {
                found.push(format!("{}:{at}", source.path));
            }
        }
    }
    none("unsafe without an argument", found);
}

#[test]
fn names_say_what_a_thing_is() {
    let mut found = Vec::new();
    for source in sources(&["src", "bench/src"]) {
        let mut names = Names::default();
        names.visit_file(&source.ast);
        let file = Path::new(&source.path).file_stem().unwrap().to_string_lossy().into_owned();
        // The process that runs one command is called the helper everywhere.
        let banned =
            |lower: &str| BANNED.iter().any(|word| lower.contains(word) && !(*word == "helper" && source.path.starts_with("src/sandbox/")));
        names.names.push((file, 1));
        for (name, line) in names.names {
            if banned(&name.to_ascii_lowercase()) {
                found.push(format!("{}:{line}: {name}", source.path));
            }
        }
    }
    none("names that say nothing", found);
}

#[test]
fn no_work_is_left_as_a_note() {
    let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME"];
    let found = sources(&["src", "bench/src", "tests"]).into_iter().flat_map(|s| {
        let hits: Vec<String> = s
            .text
            .lines()
            .enumerate()
            .filter(|(_, l)| marks.iter().any(|m| l.contains(m.as_str())))
            .map(|(n, _)| format!("{}:{}", s.path, n + 1))
            .collect();
        hits
    });
    none("notes in place of work", found.collect());
}

#[test]
fn every_path_named_in_the_docs_exists() {
    let mut pages: Vec<PathBuf> = files_below("docs", "md");
    pages.extend(files_below(".github", "md"));
    pages.extend([root().join("README.md"), root().join("bench/README.md")]);
    let mut found = Vec::new();
    for page in pages.iter().filter(|p| p.exists()) {
        let text = std::fs::read_to_string(page).unwrap();
        let quoted = text.split('`').skip(1).step_by(2).map(str::to_owned);
        let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned);
        let roots = ["src/", "tests/", "docs/", "bench/", "benches/", ".github/", ".ci/", "fuzz/", "profiles/"];
        for name in quoted.filter(|q| roots.iter().any(|r| q.starts_with(r))) {
            let plain = !name.contains(['*', '<', ' ', '{', '…']) && !name.ends_with("NNNN");
            if plain && !root().join(&name).exists() {
                found.push(format!("{}: {name}", page.display()));
            }
        }
        for name in linked.filter(|l| !l.contains("://") && !l.starts_with('#')) {
            if !page.parent().unwrap().join(&name).exists() {
                found.push(format!("{}: link to {name}", page.display()));
            }
        }
    }
    none("paths in the docs that are not there", found);
}

#[test]
fn every_dependency_has_its_reason() {
    let mut found = Vec::new();
    for manifest in ["Cargo.toml", "bench/Cargo.toml"] {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        let mut reasons: BTreeMap<&str, bool> = BTreeMap::new();
        let mut in_dependencies = false;
        let mut reason = false;
        for line in text.lines() {
            if line.starts_with('[') {
                in_dependencies = line == "[dependencies]" || line == "[dev-dependencies]";
            }
            let name = line.split([' ', '=']).next().unwrap_or_default();
            match line {
                "" => reason = false,
                line if line.starts_with('#') => reason = true,
                _ if in_dependencies && !line.starts_with('[') => drop(reasons.insert(name, reason || line.contains("path ="))),
                _ => {}
            }
        }
        found.extend(reasons.into_iter().filter(|(_, has)| !has).map(|(name, _)| format!("{manifest}: {name}")));
    }
    none("dependencies without a reason", found);
}
