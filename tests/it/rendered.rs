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
