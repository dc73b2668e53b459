//! Which tools an agent has: the same answer for what is offered and for what is run.

use super::{Group, TOOLS, Tool};

/// The tools of one agent, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    names: Vec<&'static str>,
}

impl ToolSet {
    /// The set that the words of `--tool` name. `NAME` narrows to the named ones, `+NAME` adds to the default; without any, it is
    /// the default: every base tool. Control tools come with the mode and are always there.
    ///
    /// # Errors
    /// One text for each word that names nothing, with what was meant.
    pub fn resolve(words: &[String]) -> Result<ToolSet, Vec<String>> {
        let mut faults = Vec::new();
        let mut plain = Vec::new();
        let mut added = Vec::new();
        for word in words {
            let name = word.strip_prefix('+').unwrap_or(word);
            match find(name) {
                Ok(tool) if word.starts_with('+') => added.push(tool.name),
                Ok(tool) => plain.push(tool.name),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let chosen = |tool: &Tool| match tool.group {
            Group::Control => true,
            Group::Base => plain.is_empty() || plain.contains(&tool.name) || added.contains(&tool.name),
            Group::OptIn => plain.contains(&tool.name) || added.contains(&tool.name),
        };
        Ok(ToolSet { names: TOOLS.iter().filter(|t| chosen(t)).map(|t| t.name).collect() })
    }

    /// The tools, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &'static Tool> + '_ {
        TOOLS.iter().filter(|t| self.names.contains(&t.name))
    }

    /// The names, in the order of the table.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The tool of that name, if the agent has it.
    pub fn get(&self, name: &str) -> Option<&'static Tool> {
        self.iter().find(|t| t.name == name)
    }
}

fn find(name: &str) -> Result<&'static Tool, String> {
    let nameable = || TOOLS.iter().filter(|t| t.group != Group::Control);
    if let Some(tool) = nameable().find(|t| t.name == name) {
        return Ok(tool);
    }
    if TOOLS.iter().any(|t| t.name == name) {
        return Err(format!("`{name}` is granted by the harness and cannot be named"));
    }
    let near = nameable().map(|t| (strsim::jaro_winkler(t.name, name), t.name)).filter(|n| n.0 > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    let near = near.map(|n| format!("did you mean `{}`? ", n.1)).unwrap_or_default();
    let known: Vec<&str> = nameable().map(|t| t.name).collect();
    Err(format!("unknown tool `{name}`; {near}known are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<&'static str> {
        ToolSet::resolve(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).unwrap().names
    }

    #[test]
    fn a_plain_name_narrows_and_a_plus_adds() {
        let base = ["read_file", "list_files", "find_files", "grep", "git_diff", "shell", "skill_load", "retrieve"];
        assert_eq!(names(&[]), base);
        assert_eq!(names(&["write_file"]), ["write_file", "retrieve"]);
        assert_eq!(names(&["grep", "+edit_file"]), ["grep", "edit_file", "retrieve"]);
        let mut more = base.to_vec();
        more.insert(7, "edit_file");
        assert_eq!(names(&["+edit_file"]), more);
    }

    #[test]
    fn each_unknown_word_is_told() {
        let faults = ToolSet::resolve(&["red_file".into(), "shell".into(), "retrieve".into(), "+".into()]).unwrap_err();
        assert_eq!(faults.len(), 3);
        assert!(faults[0].contains("did you mean `read_file`?") && faults[1].contains("granted by the harness"), "{faults:?}");
    }
}
