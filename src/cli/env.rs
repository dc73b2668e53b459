//! The only reader of the process environment. It is read once, by name, and handed down as data.
//!
//! Nothing in a workdir is ever taken for the environment: a `.env` of the repository cannot send a key elsewhere.

use std::ffi::{OsStr, OsString};

use super::fault::Fault;
use crate::provider::VENDORS;

/// One variable that is read, apart from those that the vendors' rows name.
pub(super) struct Variable {
    /// Its name.
    pub(super) name: &'static str,
    /// One sentence for the help.
    pub(super) doc: &'static str,
}

/// Which driver runs the core: `auto`, `uring` or `epoll`.
pub(super) const DRIVER: &str = "GANTRY_DRIVER";
/// Where programs are found.
pub(super) const PATH: &str = "PATH";
/// A PEM file of TLS roots.
pub(super) const CERT_FILE: &str = "SSL_CERT_FILE";
/// Directories of TLS roots.
pub(super) const CERT_DIR: &str = "SSL_CERT_DIR";

/// Variables of our own and of the system.
pub(super) static VARIABLES: &[Variable] = &[
    Variable { name: DRIVER, doc: "The core's driver: `auto` (io_uring where the kernel grants it, else epoll), `uring` or `epoll`." },
    Variable { name: PATH, doc: "Where the programs of the shell tool are found; directories in the workdir are passed over." },
    Variable { name: CERT_DIR, doc: "Directories of PEM files with further TLS roots, separated by colons." },
    Variable { name: CERT_FILE, doc: "A PEM file with further TLS roots." },
];

/// The variables that were set, with their values. Not `Debug`: there are keys in it.
#[derive(Default)]
pub(super) struct Env {
    vars: Vec<(&'static str, OsString)>,
}

/// The words of the command line after the program's name.
pub fn args() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip(1)
}

/// The name of every variable that is read.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let vendors = VENDORS.iter().flat_map(|vendor| {
        let headers = vendor.header_vars.iter().map(|(_, variable)| *variable);
        vendor.key_var.into_iter().chain(vendor.base_var).chain(headers)
    });
    vendors.chain(VARIABLES.iter().map(|variable| variable.name))
}

impl Env {
    /// Reads the process environment, and takes the keys out of it: a command of the shell tool can look at its ancestors'. Once
    /// per process, while there is one thread.
    pub(super) fn collect() -> Env {
        let env = Env { vars: names().filter_map(|name| Some((name, std::env::var_os(name)?))).collect() };
        crate::rt::conceal(VENDORS.iter().filter_map(|vendor| vendor.key_var));
        env
    }

    /// The value of a variable; one that is blank counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.vars.iter().find(|(known, _)| *known == name)?;
        (!value.to_string_lossy().trim().is_empty()).then_some(value.as_os_str())
    }

    /// The same as text. The fault does not repeat the value, for it may be a key.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Fault> {
        match self.get(name).map(|value| value.to_str()) {
            Some(None) => Err(Fault::new(name, "the value is not UTF-8; set it again")),
            Some(text) => Ok(text),
            None => Ok(None),
        }
    }

    /// The paths of a list separated by colons.
    pub(super) fn paths(&self, name: &str) -> Vec<std::path::PathBuf> {
        self.get(name).map(|list| std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()).unwrap_or_default()
    }
}

#[cfg(test)]
impl Env {
    /// A made-up environment.
    pub(super) fn of(pairs: &[(&'static str, &str)]) -> Env {
        Env { vars: pairs.iter().map(|(name, value)| (*name, OsString::from(value))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn names_are_unique_and_documented() {
        let all: Vec<_> = names().collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(VARIABLES.iter().all(|variable| variable.doc.ends_with('.')));
    }

    #[test]
    fn a_blank_variable_is_not_set_and_a_binary_one_is_a_fault_without_its_value() {
        let mut env = Env::of(&[(DRIVER, " \n"), (CERT_DIR, "/a::/b")]);
        assert_eq!(env.get(DRIVER), None);
        assert_eq!(env.text("NOT_THERE"), Ok(None));
        assert_eq!(env.paths(CERT_DIR), [std::path::Path::new("/a"), std::path::Path::new("/b")]);
        env.vars.push((CERT_FILE, OsString::from_vec(b"hidden\xff".to_vec())));
        assert!(!env.text(CERT_FILE).expect_err("binary").to_string().contains("hidden"));
    }
}
