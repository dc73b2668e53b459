//! The providers that a model slug can name, a row each.

use super::types::Wire;

/// One provider. A server that speaks a known wire is a new row and nothing else.
#[derive(Debug)]
pub struct Vendor {
    /// The part of the slug before the first `/`, and the value of `start.provider`.
    pub name: &'static str,
    /// What it speaks; none for the cassette player, which answers in the wire that was recorded.
    pub wire: Option<Wire>,
    /// The variable with the key.
    pub key_var: Option<&'static str>,
    /// Whether there must be a key.
    pub key_required: bool,
    /// What is sent as the key when there need not be one.
    pub key_default: Option<&'static str>,
    /// The variable with the base URL.
    pub base_var: Option<&'static str>,
    /// The base URL when none is given.
    pub base_default: Option<&'static str>,
    /// Whether `--base-url` is allowed.
    pub base_flag: bool,
    /// Variables whose values go out as headers.
    pub header_vars: &'static [(&'static str, &'static str)],
    /// The name of the output bound on this vendor's servers.
    pub max_tokens_key: &'static str,
    /// Whether reasoning that came as a field goes back in the assistant's message.
    pub replays_reasoning: bool,
}

const NONE: Vendor = Vendor {
    name: "",
    wire: None,
    key_var: None,
    key_required: false,
    key_default: None,
    base_var: None,
    base_default: None,
    base_flag: false,
    header_vars: &[],
    max_tokens_key: "max_tokens",
    replays_reasoning: false,
};

/// Every provider, in the order of the docs.
pub static VENDORS: &[Vendor] = &[
    Vendor {
        name: "anthropic",
        wire: Some(Wire::AnthropicMessages),
        key_var: Some("ANTHROPIC_API_KEY"),
        key_required: true,
        base_var: Some("ANTHROPIC_API_BASE"),
        base_default: Some("https://api.anthropic.com"),
        ..NONE
    },
    Vendor {
        name: "openai",
        wire: Some(Wire::OpenAiChat),
        key_var: Some("OPENAI_API_KEY"),
        key_required: true,
        base_var: Some("OPENAI_BASE_URL"),
        base_default: Some("https://api.openai.com/v1"),
        max_tokens_key: "max_completion_tokens",
        ..NONE
    },
    Vendor {
        name: "openrouter",
        wire: Some(Wire::OpenAiChat),
        key_var: Some("OPENROUTER_API_KEY"),
        key_required: true,
        base_var: Some("OPENROUTER_BASE_URL"),
        base_default: Some("https://openrouter.ai/api/v1"),
        header_vars: &[("HTTP-Referer", "OPENROUTER_HTTP_REFERER"), ("X-Title", "OPENROUTER_X_TITLE")],
        replays_reasoning: true,
        ..NONE
    },
    Vendor {
        name: "local",
        wire: Some(Wire::OpenAiChat),
        key_var: Some("GANTRY_LOCAL_API_KEY"),
        key_default: Some("local"),
        base_var: Some("GANTRY_LOCAL_BASE_URL"),
        base_default: Some("http://localhost:8000/v1"),
        base_flag: true,
        replays_reasoning: true,
        ..NONE
    },
    Vendor { name: "replay", ..NONE },
];

/// A parsed `--model`.
#[derive(Clone, Debug)]
pub struct ModelSlug {
    /// As given.
    pub slug: String,
    /// The row of the part before the first `/`.
    pub vendor: &'static Vendor,
    /// The rest, sent as it is.
    pub model: String,
}

impl ModelSlug {
    /// Splits at the first `/`.
    ///
    /// # Errors
    /// What is wrong and what was meant, for a person.
    pub fn parse(slug: &str) -> Result<ModelSlug, String> {
        let names = || VENDORS.iter().map(|v| v.name).collect::<Vec<_>>().join(", ");
        let Some((name, model)) = slug.split_once('/') else {
            return Err(format!("`{slug}` has no provider prefix; write PROVIDER/MODEL, with one of {}", names()));
        };
        let Some(vendor) = VENDORS.iter().find(|v| v.name == name) else {
            let near = VENDORS
                .iter()
                .map(|v| v.name)
                .find(|known| strsim::jaro_winkler(known, name) > 0.8)
                .map(|n| format!("; did you mean `{n}`?"));
            return Err(format!("unknown provider `{name}`; known are {}{}", names(), near.unwrap_or_default()));
        };
        if model.trim().is_empty() {
            return Err(format!("`{slug}` names no model after `{name}/`"));
        }
        Ok(ModelSlug { slug: slug.to_owned(), vendor, model: model.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_slash_splits() {
        let slug = ModelSlug::parse("openrouter/anthropic/claude-3.5-sonnet").unwrap();
        assert_eq!((slug.vendor.name, slug.model.as_str()), ("openrouter", "anthropic/claude-3.5-sonnet"));
    }

    #[test]
    fn a_wrong_slug_is_told_what_was_meant() {
        for (slug, part) in [
            ("gpt-4o", "PROVIDER/MODEL"),
            ("antropic/x", "did you mean `anthropic`?"),
            ("openai/", "names no model"),
            ("OpenAI/x", "unknown provider"),
        ] {
            let error = ModelSlug::parse(slug).unwrap_err();
            assert!(error.contains(part), "{slug}: {error}");
        }
    }

    #[test]
    fn names_are_unique_and_keys_are_named_where_they_are_required() {
        for (i, vendor) in VENDORS.iter().enumerate() {
            assert!(VENDORS[i + 1..].iter().all(|v| v.name != vendor.name));
            assert!(!vendor.key_required || vendor.key_var.is_some());
        }
    }
}
