//! The `schedscope` binary.

fn main() {}
