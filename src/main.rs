//! argv to the library to an exit code; nothing else.

fn main() -> std::process::ExitCode {
    gantry::cli::main(gantry::cli::args())
}
