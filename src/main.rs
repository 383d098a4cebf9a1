//! The `schedscope` binary.

use std::process::ExitCode;

/// Gives memory back when a queue has drained. The C library's allocator keeps it, and `memory_limiter`, which goes by
/// resident memory, then refused data for ever after an outage.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    schedscope::cli::main(&schedscope::components::COMPONENTS)
}
