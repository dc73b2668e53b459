//! The environment of a command: built from nothing, so that no key and no hook of the user's is in it.

/// What every command gets.
static VARIABLES: &[(&str, &str)] = &[
    // A home that holds nothing: no dotfile decides what a program does.
    ("HOME", "/nonexistent"),
    ("TMPDIR", "/tmp"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    // Nobody is there to be asked, and nothing is paged.
    ("PAGER", "cat"),
    ("EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Settings of git that win over the repository's own, so that it starts no program that the repository names, and works in a
/// repository of another owner, since its settings are harmless then.
static GIT_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("safe.bareRepository", "explicit"),
    ("safe.directory", "*"),
    ("protocol.ext.allow", "never"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
];

/// The whole environment.
pub(super) fn variables(path: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = VARIABLES.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    all.push(("PATH".to_owned(), path.to_owned()));
    all.push(("GIT_CONFIG_COUNT".to_owned(), GIT_SETTINGS.len().to_string()));
    for (i, (key, value)) in GIT_SETTINGS.iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{i}"), (*key).to_owned()));
        all.push((format!("GIT_CONFIG_VALUE_{i}"), (*value).to_owned()));
    }
    all
}
