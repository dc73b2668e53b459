//! Splits a stream of bytes into server-sent events, without any I/O.
//!
//! Bytes are gathered until a line is whole, and only whole lines are looked at; so a character or a CRLF that a network chunk
//! cuts in two is never seen in halves. An event's data is copied once, into a scratch that is reused.

use crate::limits;

/// The stream went beyond a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Gathers bytes and gives events. Holds one event at a time.
#[derive(Default)]
pub struct Splitter {
    /// The line that is not whole yet.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: an LF right after it ends no further line.
    after_cr: bool,
    /// Something was read already, so a byte order mark can no longer come.
    begun: bool,
}

impl Splitter {
    /// Feeds a chunk. `take` gets each event's name (empty when it has none) and its data, which it may overwrite; it ends the
    /// feeding by an error.
    ///
    /// # Errors
    /// [`TooLong`] through `From` when a line or event goes beyond the bound; otherwise what `take` gave.
    pub fn feed<E: From<TooLong>>(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8], &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if let Some(first) = bytes.first() {
            let ends_crlf = std::mem::take(&mut self.after_cr) && *first == b'\n';
            bytes = &bytes[usize::from(ends_crlf)..];
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (front, rest) = (&bytes[..end], &bytes[end + 1..]);
            let cr = bytes[end] == b'\r';
            bytes = if cr && rest.first() == Some(&b'\n') { &rest[1..] } else { rest };
            self.after_cr = cr && rest.is_empty();
            if self.line.is_empty() {
                self.on_line(front, &mut take)?;
            } else {
                self.grow(front)?;
                let line = std::mem::take(&mut self.line);
                let done = self.on_line(&line, &mut take);
                self.line = line;
                self.line.clear();
                done?;
            }
        }
        self.grow(bytes)?;
        Ok(())
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > limits::SSE_LINE_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn on_line<E: From<TooLong>>(&mut self, mut line: &[u8], take: &mut impl FnMut(&[u8], &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(take);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.data.len() + value.len() > limits::SSE_LINE_BYTES_MAX {
                    return Err(TooLong.into());
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            // Comments have an empty field name; `id` and `retry` are for reconnecting, which a turn never does.
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E: From<TooLong>>(&mut self, take: &mut impl FnMut(&[u8], &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let done = if self.has_data { take(&self.event, &mut self.data) } else { Ok(()) };
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        done
    }

    /// The end of the body: an event that lacks only its blank line is given too, since some servers leave that out.
    ///
    /// # Errors
    /// What `take` gave.
    pub fn finish<E: From<TooLong>>(&mut self, mut take: impl FnMut(&[u8], &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.on_line(&line, &mut take)?;
        }
        self.dispatch(&mut take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::feed::Random;

    type Events = Vec<(String, String)>;

    impl From<TooLong> for String {
        fn from(_: TooLong) -> String {
            "too long".into()
        }
    }

    fn split(chunks: &[&[u8]]) -> Events {
        let mut splitter = Splitter::default();
        let mut out = Vec::new();
        let mut take = |event: &[u8], data: &mut [u8]| -> Result<(), String> {
            out.push((String::from_utf8(event.to_vec()).unwrap(), String::from_utf8(data.to_vec()).unwrap()));
            Ok(())
        };
        for chunk in chunks {
            splitter.feed(chunk, &mut take).unwrap();
        }
        splitter.finish(&mut take).unwrap();
        out
    }

    /// The same by the plainest means, on the whole text.
    fn oracle(text: &[u8]) -> Events {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
        let mut out = Vec::new();
        for block in format!("{text}\n\n").split("\n\n") {
            let (mut event, mut data) = (String::new(), Vec::new());
            for line in block.split('\n') {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "data" => data.push(value.to_owned()),
                    "event" => event = value.to_owned(),
                    _ => {}
                }
            }
            if !data.is_empty() {
                out.push((event, data.join("\n")));
            }
        }
        out
    }

    #[test]
    fn every_line_end_comments_and_fields_without_a_space() {
        let text =
            b": hi\r\n\r\nevent: a\r\ndata:1\r\ndata: 2\r\n\r\nid: 7\ndata\n\nevent:b\rdata: {\"x\":\"\xf0\x9f\x98\x80\"}\r\rdata: last";
        let got = split(&[text]);
        assert_eq!(
            got,
            vec![
                ("a".into(), "1\n2".into()),
                (String::new(), String::new()),
                ("b".into(), "{\"x\":\"😀\"}".into()),
                (String::new(), "last".into())
            ]
        );
        assert_eq!(got, oracle(text));
    }

    #[test]
    fn any_document_in_any_chunking_gives_the_oracles_events() {
        const PARTS: [&str; 18] = [
            "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "data:", "data: ", "data", "event:", "event: a", "id: 1", ": c", ":", " ", "x", "é漢",
            "😀", "\u{feff}",
        ];
        let mut random = Random(0x1234_5678_9abc_def1);
        for _ in 0..10_000 {
            let text: String = (0..random.below(24)).map(|_| PARTS[random.below(PARTS.len())]).collect();
            let text = text.as_bytes();
            let expected = oracle(text);
            assert_eq!(split(&[text]), expected, "{text:?} whole");
            assert_eq!(split(&text.chunks(1).collect::<Vec<_>>()), expected, "{text:?} byte by byte");
            let pieces = random.pieces(text, 6);
            assert_eq!(split(&pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut splitter = Splitter::default();
        let chunk = vec![b'x'; limits::MIB];
        let fed = (0..100).try_for_each(|_| splitter.feed(&chunk, |_, _| Ok::<(), String>(())));
        assert_eq!(fed, Err("too long".to_owned()));
        assert!(splitter.line.len() <= limits::SSE_LINE_BYTES_MAX);
    }
}
