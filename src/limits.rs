//! Every bound of the program with its reason. A number that limits something stands here and nowhere else.

/// One KiB in bytes.
pub const KIB: usize = 1024;
/// One MiB in bytes.
pub const MIB: usize = 1024 * KIB;

/// A tool's output beyond this is cut before compression (bytes). From the contract: 256 KiB.
pub const TOOL_OUTPUT_BYTES_MAX: usize = 256 * KIB;
/// Lines of a tool's result that the model gets (the contract's 500: 400 at the front, 100 at the end).
pub const RESULT_LINES_MAX: usize = 500;
/// See [`RESULT_LINES_MAX`].
pub const RESULT_LINES_HEAD: usize = 400;
/// Bytes of a tool's result that the model gets: about 8,000 tokens, which 500 ordinary lines of 65 bytes stay below.
pub const RESULT_BYTES_MAX: usize = 32 * KIB;
/// Bytes of one line: no line that a person wrote is longer, minified code and data are.
pub const RESULT_LINE_BYTES_MAX: usize = 2 * KIB;
/// What `read_file` gives at once (bytes): with its note it stays below the contract's cut, which would say nothing of lines.
pub const READ_BYTES_MAX: usize = TOOL_OUTPUT_BYTES_MAX - KIB;
/// What `read_file` looks through to say how many lines there are beyond those that it gives (bytes): some 50 ms.
pub const COUNTED_BYTES_MAX: usize = 256 * MIB;
/// The largest file that is read on the core when the kernel has it in memory (bytes): copying it takes some ten microseconds.
pub const READ_CACHED_BYTES_MAX: usize = 64 * KIB;
/// Files that `edit_file` takes (bytes).
pub const EDIT_BYTES_MAX: usize = 16 * MIB;
/// Lines that `edit_file` shows of what it wrote.
pub const EDIT_REPORT_LINES_MAX: usize = 30;
/// A tool's failure as the model reads it (bytes): a reason, and a few lines that show it.
pub const TOOL_ERROR_BYTES_MAX: usize = 4 * KIB;
/// What an error shows of a path (bytes).
pub const SHOWN_PATH_BYTES_MAX: usize = 300;
/// Entries of the tree that one call looks at: larger than any source tree, walked in about two seconds.
pub const WALK_ENTRIES_MAX: usize = 1_000_000;
/// What is read of an ignore file (bytes); people write some hundreds.
pub const IGNORE_FILE_BYTES_MAX: usize = 256 * KIB;
/// Entries that `list_files` names: with its note as many lines as the model gets, so that nothing is cut twice.
pub const LISTED_MAX: usize = RESULT_LINES_MAX - 1;
/// Files that `find_files` names.
pub const FOUND_MAX: usize = 1_000;
/// A pattern of `grep`, or a glob (bytes): a longer one is a slip, and compiling takes memory by its length.
pub const PATTERN_BYTES_MAX: usize = 4 * KIB;
/// Memory of a model's pattern when it is compiled (bytes). A search may take as many steps as that holds states for each byte of a
/// text that is one line: a hostile pattern kept a worker of a test build busy for 20 s at this bound, for 120 s at 8 MiB.
pub const REGEX_BYTES_MAX: usize = MIB;
/// Memory of the cache with which `grep` runs it (bytes): enough that ordinary patterns never fill it.
pub const REGEX_CACHE_BYTES_MAX: usize = 8 * MIB;
/// The longest line that `grep` looks into (bytes): the searcher holds a whole one.
pub const SEARCHED_LINE_BYTES_MAX: usize = 4 * MIB;
/// Matching lines that `grep` shows.
pub const MATCHES_MAX: usize = 200;
/// Matching lines beyond those that `grep` still counts.
pub const MATCHES_COUNTED_MAX: usize = 10_000;
/// A page of `retrieve` (bytes) without the note on how to go on; with it a page is no longer than any other result.
pub const RETRIEVE_BYTES_MAX: usize = RESULT_BYTES_MAX - KIB;
/// The pattern of `retrieve` (bytes): an error quotes it, and a longer one is a slip.
pub const RETRIEVE_PATTERN_BYTES_MAX: usize = KIB;
/// Entries of the skills directory that are looked at to name those there are.
pub const SKILLS_MAX: usize = 1_000;
/// A skill's text (bytes).
pub const SKILL_BYTES_MAX: usize = 256 * KIB;
/// What the originals of shortened results may take in memory (bytes).
pub const STASH_BYTES_MAX: usize = 32 * MIB;
/// `tool_call.args` is emitted whole up to this (bytes), then cut on a character boundary.
pub const EVENT_ARGS_BYTES_MAX: usize = 16 * KIB;
/// The prompt file (bytes). Larger than any model's window; a binary given by mistake is refused early.
pub const PROMPT_BYTES_MAX: usize = 64 * MIB;
/// A cassette (bytes): the answers of a long run, many times over.
pub const CASSETTE_BYTES_MAX: usize = 256 * MIB;
/// A file of TLS roots (bytes): what systems ship is a quarter of a MiB.
pub const CERTIFICATES_BYTES_MAX: usize = 16 * MIB;
/// Default of `--max-turns`: model calls of one pass.
pub const TURNS_DEFAULT: u32 = 100;
/// The longest wall clock that can be asked for (ms): ten years. It fits every clock and timer; more is a slip of the unit.
pub const TIMEOUT_MS_MAX: u64 = 10 * 365 * 24 * 3_600 * 1_000;
/// Default of `--idle-timeout-ms`: a large prompt on slow hardware may take minutes to its first token.
pub const IDLE_TIMEOUT_MS_DEFAULT: u64 = 300_000;
/// For a TCP connection and the TLS handshake on it (ms).
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Default of `--shell-timeout-ms`. From the contract: 120 s.
pub const SHELL_TIMEOUT_MS_DEFAULT: u64 = 120_000;
/// Headers of the user's in one request.
pub const HEADERS_MAX: usize = 32;
/// The name of a skill (characters). From the contract.
pub const SKILL_NAME_CHARS_MAX: usize = 64;
/// Configuration errors that are told in one go; a person mends no more at once.
pub const CONFIG_FAULTS_MAX: usize = 32;
/// What an error message shows of a word of the command line (characters).
pub const SHOWN_CHARS_MAX: usize = 80;
/// The smallest rest of the budget (tokens) that a model call is worth; below it no useful answer fits.
pub const OUTPUT_TOKENS_MIN: u64 = 256;
/// Output tokens of one call where the wire wants a number and none was given: every current model takes it, and a large file
/// fits in it.
pub const OUTPUT_TOKENS_DEFAULT: u64 = 16_384;
/// Tool calls of one turn that are run; a model that asks for more gets an error result for the rest.
pub const CALLS_PER_TURN_MAX: usize = 256;
/// Arguments of one call (bytes). A write of this size is plausible, more is a runaway.
pub const CALL_ARGS_BYTES_MAX: usize = 16 * MIB;
/// A whole reply of the model (bytes of decoded text, thinking and arguments together).
pub const REPLY_BYTES_MAX: usize = 32 * MIB;
/// One SSE line (bytes): a write of 16 MiB escaped twice fits, an endless line does not.
pub const SSE_LINE_BYTES_MAX: usize = 64 * MIB;
/// A whole streamed answer (bytes as sent): 128,000 tokens in events of 350 bytes each take 45 MB.
pub const STREAM_BYTES_MAX: usize = 256 * MIB;
/// Values in one event or body. A long answer is a long string; a million values would take forty times their text in memory.
pub const JSON_VALUES_MAX: usize = 1_000_000;
/// The head of a response (bytes): hyper's buffer, which bounds endless headers.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 256 * KIB;
/// What is read behind the last event of an answer to keep the connection (bytes).
pub const SETTLE_BYTES_MAX: usize = 16 * KIB;
/// How long that may take, and how long a kept connection may take to be ready again (ms).
pub const SETTLE_MS: u64 = 50;
/// Attempts of one model call, the first included. From the contract.
pub const ATTEMPTS_MAX: u32 = 4;
/// First back-off (ms); doubles with each attempt.
pub const BACKOFF_MS_START: u64 = 500;
/// Longest back-off of our own (ms); a provider's hint may be longer.
pub const BACKOFF_MS_MAX: u64 = 30_000;
/// What is read of an error body (bytes).
pub const ERROR_BODY_BYTES_MAX: usize = 64 * KIB;
/// What is kept of a provider's code, type or stop reason (bytes); real ones are below 50.
pub const PROVIDER_CODE_BYTES_MAX: usize = 100;
/// What `error.message` quotes of a provider (bytes).
pub const ERROR_TEXT_BYTES_MAX: usize = 2 * KIB;
/// The emitter's buffer at which emitters wait (bytes): a slow reader bounds our memory.
pub const SINK_BUFFER_BYTES_HIGH: usize = MIB;
/// Grace after cancellation until the warden ends the process (ms). The contract allows 2 s in all.
pub const CANCEL_GRACE_MS: u64 = 1_500;
/// How long the warden tries to write the last line when the core did not (ms).
pub const LAST_WRITE_MS: u64 = 300;
/// How long a finished run waits for its reader to take what is pending (ms).
pub const FINISH_MS: u64 = 2_000;
/// Transcript chunks double from the small to the large size (bytes): an idle agent stays small, and a
/// request body goes out in pieces large enough for HTTP/2 frames.
pub const CHUNK_BYTES_MIN: usize = 8 * KIB;
/// See [`CHUNK_BYTES_MIN`].
pub const CHUNK_BYTES_MAX: usize = 64 * KIB;

/// Memory of the process that parses a line for the shell, while it does (bytes): ordinary lines take one MiB of it.
pub const CHECK_MEMORY_BYTES_MAX: u64 = 256 * MIB as u64;
/// Time of that process, while it parses (CPU seconds): ordinary lines take microseconds.
pub const CHECK_CPU_SECONDS_MAX: u64 = 1;
/// How long the helper may take from the request to end to its report (ms).
pub const KILL_MS_MAX: u64 = 3_000;
/// A line for the shell (bytes). One argument of execve(2) holds 128 KiB, and bash takes the line as one.
pub const SHELL_COMMAND_BYTES_MAX: usize = 120 * KIB;
/// A descriptor that is always ready is read or written for so much (bytes), 0.2 ms of copying, before timers get their turn.
pub const BURST_BYTES_MAX: usize = MIB;
/// Addresses of one host that are tried; the largest providers publish about eight of each family.
pub const HOST_ADDRESSES_MAX: usize = 16;
/// A second signal so soon after the first (ms) is its echo: timeout(1) signals its child, and then its child's group.
pub const SIGNAL_ECHO_MS: u64 = 50;

const _: () = assert!(CALL_ARGS_BYTES_MAX * 2 <= SSE_LINE_BYTES_MAX);
const _: () = assert!(CALL_ARGS_BYTES_MAX <= REPLY_BYTES_MAX);
const _: () = assert!(REPLY_BYTES_MAX < STREAM_BYTES_MAX && SSE_LINE_BYTES_MAX < STREAM_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX);
const _: () = assert!(CANCEL_GRACE_MS + LAST_WRITE_MS <= 2_000);
