//! What is rendered from code must be what lies in the repository. `GANTRY_RENDER=1` writes it anew.

use std::path::Path;

fn compare(file: &str, rendered: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("GANTRY_RENDER").is_some() {
        std::fs::write(&path, rendered).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == rendered, "{file} is not what the code renders; run GANTRY_RENDER=1 cargo test --test it rendered");
}

/// Replaces what stands between the two marks of a name in a page.
fn within(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("{begin} is in the page")) + begin.len();
    let to = page.find(&end).unwrap_or_else(|| panic!("{end} is in the page"));
    format!("{}{table}{}", &page[..from], &page[to..])
}

#[test]
fn rendered_pages_are_what_the_code_says() {
    compare("docs/EVENTS.md", &gantry::emit::events_page());
    compare("docs/CLI.md", &gantry::cli::cli_page());
}

#[test]
fn rendered_tables_of_the_readme_are_what_the_code_says() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let page = within(&page, "events", &gantry::emit::events_table());
    compare("README.md", &within(&page, "exits", &gantry::emit::exit_table()));
}

/// The fenced code under a mark of the README.
fn sample(name: &str) -> String {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let behind = page.split(&format!("<!-- sample: {name} -->\n```")).nth(1).unwrap_or_else(|| panic!("the README has a {name} sample"));
    let (_, code) = behind.split_once('\n').unwrap();
    code.split("\n```").next().unwrap().to_owned()
}

fn run_sample(interpreter: &str, name: &str, file: &str) {
    if std::process::Command::new(interpreter).arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI has {interpreter}");
        println!("skipped: this machine has no {interpreter}");
        return;
    }
    let bed = crate::gantry::Bed::new();
    std::fs::write(bed.beside(file), sample(name)).unwrap();
    let mut command = std::process::Command::new(interpreter);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).arg(bed.beside(file)).arg(crate::gantry::BIN).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("calls grep") && text.ends_with("ended ok completed\n"), "{text}");
}

#[test]
fn the_samples_of_the_readme_run_as_they_stand() {
    run_sample("python3", "python", "sample.py");
    run_sample("node", "node", "sample.js");
}

#[test]
fn the_first_command_of_the_readme_does_real_work_without_key_or_network() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let line = page.lines().find(|l| l.starts_with("cargo run --release -- ")).expect("the README has its first command");
    let mut command = crate::gantry::bare();
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(line.trim_start_matches("cargo run --release -- ").split(' '));
    let done = crate::gantry::run(&mut command);
    assert_eq!((done.code, done.stream.all("agent_turn").len(), done.stream.all("tool_call").len()), (Some(0), 4, 6));
    assert!(done.stream.all("tool_result").iter().all(|r| r.get("error").is_none()), "{:?}", done.stream.events());
}
