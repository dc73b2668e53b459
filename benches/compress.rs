//! Wall time of what every tool result passes through: escaping, the line index, the layout, the stash. The count of line feeds
//! by memchr stands beside it as the speed at which this machine reads memory.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use gantry::compress::{Lines, Rules, compress};
use gantry::json::write::push_str;
use gantry::limits::{KIB, TOOL_OUTPUT_BYTES_MAX};
use gantry::transcript::stash::Stash;

/// Real source code, cut or repeated to a size.
fn code(bytes: usize) -> String {
    sized(include_str!("../src/agent/turn.rs"), bytes)
}

fn sized(text: &str, bytes: usize) -> String {
    let mut out = text.repeat(bytes / text.len() + 1);
    out.truncate(out.floor_char_boundary(bytes));
    out
}

fn group<'c>(c: &'c mut Criterion, name: &str, bytes: usize) -> BenchmarkGroup<'c, WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes as u64));
    group
}

fn escaping(c: &mut Criterion) {
    let bytes = 10 * KIB;
    for (name, text) in [
        ("plain", sized("the quick brown fox jumps over the lazy dog ", bytes)),
        ("code", code(bytes)),
        ("cjk", sized("漢字とかな交じり文、", bytes)),
        ("log of short lines", sized("[info] x=1 ok\n", bytes)),
        ("json in json", sized(r#"{"path":"src/main.rs","content":"fn main() {\n    run()\n}","n":12},"#, bytes)),
        ("escapes alone", sized("\\\"\n\t", bytes)),
    ] {
        let mut out = Vec::with_capacity(8 * bytes);
        group(c, "push_str 10 KiB", text.len()).bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                push_str(&mut out, black_box(&text));
                black_box(out.len())
            });
        });
    }
}

fn index(c: &mut Criterion) {
    for (name, text) in [
        ("code, 4 KiB", code(4 * KIB)),
        ("code, 256 KiB", code(TOOL_OUTPUT_BYTES_MAX)),
        ("lines of 14 bytes, 256 KiB", sized("[info] x=1 ok\n", TOOL_OUTPUT_BYTES_MAX)),
    ] {
        group(c, "lines", text.len()).bench_function(name, |b| b.iter(|| Lines::of(black_box(&text)).len()));
        group(c, "memchr count", text.len())
            .bench_function(name, |b| b.iter(|| memchr::memchr_iter(b'\n', black_box(text.as_bytes())).count()));
    }
}

fn layout(c: &mut Criterion) {
    for (name, noisy, text) in [
        ("whole, 4 KiB of code", false, code(4 * KIB)),
        ("noisy whole, 4 KiB of code", true, code(4 * KIB)),
        ("head and tail, 256 KiB of code", false, code(TOOL_OUTPUT_BYTES_MAX)),
        ("one line of 256 KiB", false, sized("0123456789abcdef", TOOL_OUTPUT_BYTES_MAX)),
        ("folded, 256 KiB of equal lines", true, sized("waiting for the server to come up ...\n", TOOL_OUTPUT_BYTES_MAX)),
    ] {
        let rules = Rules::new(noisy);
        group(c, "compress", text.len()).bench_function(name, |b| {
            b.iter(|| compress(black_box(&text), &rules, &mut || "shell/0123456789ab".into()).text.len());
        });
    }
}

fn stash(c: &mut Criterion) {
    let text = code(TOOL_OUTPUT_BYTES_MAX);
    group(c, "stash", text.len()).bench_function("put 256 KiB", |b| b.iter(|| Stash::new(KIB).put("shell", black_box(&text))));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300));
    targets = escaping, index, layout, stash
}
criterion_main!(benches);
