//! Reads JSON through a tape that is kept, so that the many small messages of a stream cost no allocation each.

use simd_json::prelude::{ValueAsScalar as _, ValueIntoString as _};
use simd_json::{Buffers, Tape};

use crate::limits;

/// Parses documents one after the other over the same memory.
#[derive(Default)]
pub struct Reader {
    buffers: Buffers,
    tape: Option<Tape<'static>>,
}

/// Why a document was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

/// A value of the document at hand.
#[derive(Clone, Copy)]
pub struct Value<'t, 'd>(simd_json::tape::Value<'t, 'd>);

impl Reader {
    /// A reader without memory yet.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Parses `json`, which is overwritten, and hands its value to `read`.
    ///
    /// # Errors
    /// When it is no JSON, with the reason and the place; when it nests or lists more than any answer does.
    pub fn with<T>(&mut self, json: &mut [u8], read: impl FnOnce(Value<'_, '_>) -> T) -> Result<T, Invalid> {
        if json.len() > limits::JSON_VALUES_MAX && has_more_values(json, limits::JSON_VALUES_MAX) {
            return Err(Invalid(format!("more than {} values", limits::JSON_VALUES_MAX)));
        }
        let Reader { buffers, tape } = self;
        mend_surrogates(json);
        let mut current = tape.take().unwrap_or_else(Tape::null).reset();
        let done = simd_json::fill_tape(json, buffers, &mut current).map(|()| read(Value(current.as_value())));
        *tape = Some(current.reset());
        done.map_err(|error| Invalid(error.to_string()))
    }
}

impl<'t, 'd> Value<'t, 'd> {
    /// A field of an object that is there and not null.
    pub fn get(self, key: &str) -> Option<Value<'t, 'd>> {
        self.0.get(key).map(Value).filter(|v| v.0.as_null().is_none())
    }

    /// A string.
    pub fn as_str(self) -> Option<&'d str> {
        self.0.into_string()
    }

    /// A string field.
    pub fn str(self, key: &str) -> Option<&'d str> {
        self.get(key).and_then(Value::as_str)
    }

    /// A whole number, also when it came as 3.0.
    pub fn as_u64(self) -> Option<u64> {
        self.0.as_u64().or_else(|| self.0.as_f64().filter(|f| *f >= 0.0 && f.fract() == 0.0 && *f <= 9e15).map(|f| f as u64))
    }

    /// A whole number field.
    pub fn u64(self, key: &str) -> Option<u64> {
        self.get(key).and_then(Value::as_u64)
    }

    /// The items of an array; nothing for any other value.
    pub fn items(self) -> impl Iterator<Item = Value<'t, 'd>> {
        let array = self.0.as_array();
        let len = array.as_ref().map_or(0, |a| a.len());
        (0..len).filter_map(move |i| array.as_ref().and_then(|a| a.get(i)).map(Value))
    }

    /// The value as JSON text again. Recurses, but the parser takes no more than 1,024 levels.
    pub fn to_json(self) -> String {
        simd_json::prelude::Writable::encode(&self.0)
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.0.as_object().is_some()
    }
}

/// Whether a document has more than so many values side by side; nesting is the parser's to bound. Counts commas outside of
/// strings.
fn has_more_values(json: &[u8], values_max: usize) -> bool {
    let (mut at, mut count, mut in_string) = (0, 0, false);
    while let Some(found) = memchr::memchr2(b'"', if in_string { b'\\' } else { b',' }, json.get(at..).unwrap_or_default()) {
        at += found + 1;
        match json[at - 1] {
            b'"' => in_string = !in_string,
            b',' => count += 1,
            _ => at += 1,
        }
        if count > values_max {
            return true;
        }
    }
    false
}

/// Makes a document readable that holds half surrogates (`\ud83d` alone). They are no Unicode, and models write them when they
/// are cut. They become `\ufffd`, which is as long; everything else stays.
pub fn mend_surrogates(json: &mut [u8]) {
    if !memchr::memmem::find_iter(json, b"\\u").any(|at| surrogate(json, at).is_some()) {
        return;
    }
    let mut at = 0;
    while let Some(skipped) = memchr::memchr(b'\\', &json[at..]) {
        at += skipped;
        at += match (surrogate(json, at), surrogate(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                json[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Any other escape is two bytes at least, so an escaped backslash does not begin one.
            (None, _) => 2,
        };
        if at >= json.len() {
            break;
        }
    }
}

/// The code unit of a `\uXXXX` escape at this place, if it is a surrogate.
fn surrogate(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(json: &str) -> Option<String> {
        Reader::new().with(&mut json.as_bytes().to_vec(), |v| v.str("a").map(str::to_owned)).unwrap()
    }

    #[test]
    fn one_reader_reads_many_documents() {
        let mut reader = Reader::new();
        for i in 0..100u64 {
            let mut json = format!("{{\"n\":{i},\"f\":{i}.0,\"list\":[{{\"a\":\"x{i}\"}},null,7],\"none\":null}}").into_bytes();
            reader
                .with(&mut json, |v| {
                    assert_eq!((v.u64("n"), v.u64("f"), v.u64("none"), v.str("n")), (Some(i), Some(i), None, None));
                    let items: Vec<_> = v.get("list").unwrap().items().collect();
                    assert_eq!(items.len(), 3);
                    assert_eq!(items[0].str("a"), Some(format!("x{i}").as_str()));
                    assert!(v.get("none").is_none() && v.get("missing").is_none() && v.is_object());
                })
                .unwrap();
            assert!(reader.with(&mut b"{\"a\":".to_vec(), |_| ()).is_err());
        }
    }

    #[test]
    fn half_surrogates_are_mended_and_pairs_kept() {
        assert_eq!(text_of(r#"{"a":"x\ud83d\ude00y"}"#).unwrap(), "x😀y");
        assert_eq!(text_of(r#"{"a":"x\ud83dy"}"#).unwrap(), "x\u{fffd}y");
        assert_eq!(text_of(r#"{"a":"\udc00\uD800\ud83d\uDE00"}"#).unwrap(), "\u{fffd}\u{fffd}😀");
        assert_eq!(text_of(r#"{"a":"\\ud83d and \\\ud83d"}"#).unwrap(), "\\ud83d and \\\u{fffd}");
    }

    #[test]
    fn a_document_nested_beyond_all_reason_is_refused() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
        let again = Reader::new().with(&mut nested(1_000), |v| v.get("a").unwrap().to_json()).unwrap();
        assert_eq!(again.len(), 2_000);
        assert!(Reader::new().with(&mut nested(1_000_000), |_| ()).is_err());
    }

    #[test]
    fn a_document_of_values_without_end_is_refused_and_one_of_text_is_not() {
        let list = |values: usize| format!("[0{}]", ",0".repeat(values - 1)).into_bytes();
        assert!(Reader::new().with(&mut list(limits::JSON_VALUES_MAX), |_| ()).is_ok());
        assert!(Reader::new().with(&mut list(limits::JSON_VALUES_MAX + 2), |_| ()).is_err());
        let text = format!("{{\"a\":\"{}\"}}", "\\\",\\\\,".repeat(limits::JSON_VALUES_MAX));
        assert_eq!(text_of(&text).unwrap().len(), 4 * limits::JSON_VALUES_MAX);
    }

    #[test]
    fn a_value_becomes_the_same_text_again() {
        let json = r#"{"a":{"q\"\\\n\u0001é":[1,-2,3.5,true,null,"x\ty"]}}"#;
        let again = Reader::new().with(&mut json.as_bytes().to_vec(), |v| v.get("a").unwrap().to_json()).unwrap();
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&again).unwrap(), value["a"]);
    }

    #[test]
    fn the_reader_agrees_with_serde_json_on_what_is_json() {
        const PARTS: [&str; 26] = [
            "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\\", "\\n", "\\u00e9", "\\ud83d", "\\ude00", "é", "\u{1}", " ", "\n", "0", "1",
            "-", ".5", "e3", "true", "null", "nul", "\"a\":",
        ];
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut below = |bound: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % bound as u64) as usize
        };
        let mut reader = Reader::new();
        let mut read = 0;
        for _ in 0..100_000 {
            let inner: String = (0..below(8)).map(|_| PARTS[below(PARTS.len())]).collect();
            let json = match below(3) {
                0 => inner,
                1 => format!("{{\"a\":{inner}}}"),
                _ => format!("{{\"a\":\"{inner}\"}}"),
            };
            if json.contains("-0") {
                // The tape has no negative zero; nobody counts with one.
                continue;
            }
            let mut mended = json.clone().into_bytes();
            mend_surrogates(&mut mended);
            let theirs = serde_json::from_slice::<serde_json::Value>(&mended).ok();
            let ours = reader.with(&mut json.clone().into_bytes(), |v| v.to_json()).ok();
            let ours = ours.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
            assert_eq!(ours, theirs, "{json}");
            read += usize::from(theirs.is_some());
        }
        assert!(read > 5_000, "only {read} documents were JSON");
    }
}
