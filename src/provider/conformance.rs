//! Decodes answers that real providers gave, and compares them with what the providers' own libraries made of them.
//!
//! The recordings lie beside the repository and not in it; without them the test says so and passes. Each stream is decoded
//! whole, byte by byte, and in random pieces.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Class;
use super::feed::{Random, codec_of, stream};
use super::types::{Block, Reply, Wire};

/// Folders of recordings, and the vendor whose codec reads them.
const FOLDERS: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("openai-chat", "openai"),
    ("azure-openai", "openai"),
    ("openrouter", "openrouter"),
    ("cerebras", "local"),
    ("cloudflare", "local"),
    ("databricks", "local"),
    ("deepseek", "local"),
    ("groq", "local"),
    ("huggingface", "local"),
    ("mistral", "local"),
    ("ollama", "local"),
    ("other-openai-compatible", "local"),
    ("together", "local"),
    ("xai", "local"),
];

/// Where we mean to differ, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("openai-chat/1129", "text", "a refusal's words are the answer's text, and its stop says that it is one"),
    ("openai-chat/1345", "text", "a refusal's words are the answer's text, and its stop says that it is one"),
    ("groq/001", "usage", "the library does not look into x_groq"),
    ("groq/037", "usage", "the library does not look into x_groq"),
];

/// Bodies that answer what we never ask.
const NOT_OURS: &[(&str, &str)] = &[
    ("anthropic/125", "a count of tokens"),
    ("openai-chat/1391", "the function call that came before tool calls"),
    ("cloudflare/001", "a JSON object as the content"),
    ("ollama/003", "Ollama's own wire"),
];

/// How a failure is to be classed.
const FAILURES: &[(&str, Class)] = &[
    ("anthropic/259", Class::Auth),
    ("openai-chat/1032", Class::Auth),
    ("openai-chat/1441", Class::BadRequest),
    ("openrouter/013", Class::Auth),
    ("mistral/048", Class::Auth),
    ("groq/031", Class::BadRequest),
    ("groq/032", Class::Server),
    ("groq/035", Class::Server),
    ("azure-openai/059", Class::BadRequest),
    ("azure-openai/078", Class::ContentFilter),
];

struct Case {
    name: String,
    vendor: &'static str,
    status: u16,
    streamed: bool,
    body: Vec<u8>,
    expected: Option<Value>,
}

fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../shared/cases", "../../shared/cases"].map(|path| root.join(path));
    std::env::var_os("GANTRY_CASES").map(PathBuf::from).into_iter().chain(beside).map(|path| path.join("wire")).find(|path| path.is_dir())
}

fn cases(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for (dir, vendor) in FOLDERS {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder.join(dir)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let file = path.file_name().unwrap().to_str().unwrap();
            let Some((number, kind)) = file.split_once(".response.") else { continue };
            let json = |what: &str| serde_json::from_slice(&std::fs::read(path.with_file_name(format!("{number}.{what}.json"))).ok()?).ok();
            let meta: Value = json("meta").unwrap();
            cases.push(Case {
                name: format!("{dir}/{number}"),
                vendor,
                status: meta["status"].as_u64().unwrap() as u16,
                streamed: kind == "sse",
                body: std::fs::read(&path).unwrap(),
                expected: json("expected"),
            });
        }
    }
    cases
}

/// What the provider's library would say of a body that came whole.
fn expected_of_whole(wire: Wire, body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap();
    if wire == Wire::OpenAiChat {
        let choice = &body["choices"][0];
        let message = &choice["message"];
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let args = call["function"]["arguments"].as_str().unwrap();
            serde_json::json!({"id": call["id"], "name": call["function"]["name"], "args": serde_json::from_str::<Value>(args).unwrap()})
        });
        let thinking = message["reasoning"].as_str().or(message["reasoning_content"].as_str()).unwrap_or_default();
        return serde_json::json!({
            "text": message["content"].as_str().unwrap_or_default(), "thinking": thinking, "tool_calls": calls.collect::<Vec<_>>(),
            "stop_reason": choice["finish_reason"], "usage": body["usage"],
        });
    }
    let of = |kind: &str, key: &str| {
        let blocks = body["content"].as_array().unwrap().iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[key].as_str().unwrap()).collect::<String>()
    };
    let calls = body["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
    let calls = calls.map(|call| serde_json::json!({"id": call["id"], "name": call["name"], "args": call["input"]}));
    serde_json::json!({
        "text": of("text", "text"), "thinking": of("thinking", "thinking"), "tool_calls": calls.collect::<Vec<_>>(),
        "stop_reason": body["stop_reason"], "usage": body["usage"],
    })
}

/// Our four counts, from the provider's own.
fn counts(wire: Wire, usage: &Value) -> Option<[u64; 4]> {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    if !usage.is_object() {
        return None;
    }
    if wire == Wire::AnthropicMessages {
        return Some(["/input_tokens", "/output_tokens", "/cache_read_input_tokens", "/cache_creation_input_tokens"].map(count));
    }
    let cached = count("/prompt_tokens_details/cached_tokens").max(count("/prompt_cache_hit_tokens"));
    Some([count("/prompt_tokens") - cached, count("/completion_tokens"), cached, 0])
}

/// The fields in which a reply is not what was expected.
fn differences(wire: Wire, reply: &Reply, expected: &Value) -> Vec<(&'static str, String)> {
    let thinking: String =
        reply.blocks.iter().filter_map(|b| if let Block::Thinking { text, .. } = b { Some(text.as_str()) } else { None }).collect();
    let calls = reply.calls().map(|call| {
        let args = serde_json::from_str::<Value>(&call.args).unwrap();
        serde_json::json!({"id": call.id, "name": call.name, "args": args})
    });
    let ours = reply.usage.map(|u| [u.input, u.output, u.cache_read, u.cache_write]);
    let theirs = counts(wire, &expected["usage"]);
    let fields = [
        ("text", Value::from(reply.text()), expected["text"].clone()),
        ("thinking", Value::from(thinking), expected["thinking"].clone()),
        ("tool_calls", Value::from(calls.collect::<Vec<_>>()), expected["tool_calls"].clone()),
        ("stop_reason", Value::from(reply.stop_raw.as_str()), expected["stop_reason"].clone()),
        ("usage", serde_json::json!(ours), serde_json::json!(theirs)),
    ];
    fields
        .into_iter()
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(field, ours, theirs)| (field, format!("{ours}, not {theirs}")))
        .collect()
}

fn check(case: &Case, random: &mut Random) -> Result<(), String> {
    let codec = codec_of(case.vendor);
    let decode = |pieces: &[&[u8]]| stream(&*codec_of(case.vendor), pieces.iter().copied());
    let decoded = match (case.status, case.streamed) {
        (200, true) => decode(&[&case.body]),
        (200, false) => codec.whole(&case.body),
        (status, _) => Err(codec.error(status, &case.body)),
    };
    if case.status == 200 && case.streamed {
        if decode(&case.body.chunks(1).collect::<Vec<_>>()) != decoded {
            return Err("byte by byte it is another answer".to_owned());
        }
        for piece_bytes_max in [2, 3, 7, 16, 64, 256, 1_024, 16_384] {
            let pieces = random.pieces(&case.body, piece_bytes_max);
            if decode(&pieces) != decoded {
                return Err(format!("in pieces of up to {piece_bytes_max} bytes it is another answer"));
            }
        }
    }
    let class = FAILURES.iter().find(|row| row.0 == case.name).map(|row| row.1);
    let reply = match (decoded, class) {
        (Err(error), Some(class)) if error.class == class && !error.message.ends_with("no text") => return Ok(()),
        (Ok(reply), None) => reply,
        (decoded, class) => return Err(format!("{decoded:?}, expected {class:?}")),
    };
    let wire = codec.wire();
    let expected = case.expected.clone().unwrap_or_else(|| expected_of_whole(wire, &case.body));
    let meant: Vec<&str> = DIFFERENCES.iter().filter(|row| row.0 == case.name).map(|row| row.1).collect();
    let found = differences(wire, &reply, &expected);
    match found.iter().map(|(field, _)| *field).eq(meant) {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}

#[test]
fn real_answers_mean_what_the_providers_libraries_make_of_them() {
    let Some(folder) = folder() else {
        println!("skipped: no recordings; set GANTRY_CASES to the folder that has `wire/`");
        return;
    };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let cases: Vec<Case> = cases(&folder).into_iter().filter(|case| NOT_OURS.iter().all(|row| row.0 != case.name)).collect();
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| check(case, &mut random).err().map(|why| format!("{}: {why}", case.name))).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let streams = cases.iter().filter(|case| case.streamed).count();
    println!("{} recordings, {streams} of them streams", cases.len());
    assert!(streams > 0);
}
