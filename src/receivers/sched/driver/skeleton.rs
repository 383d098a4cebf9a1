//! The generated skeleton of `bpf/sched.bpf.c`: the object, its maps and programs, its types.

// Generated code calls libbpf's C functions; its own comments state each reason.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction
)]

include!(concat!(env!("OUT_DIR"), "/sched.skel.rs"));
