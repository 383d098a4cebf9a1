//! The generated skeletons of `bpf/sched.bpf.c` and `bpf/events.bpf.c`: the objects, their maps, programs and types.

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

/// Of the classic tracepoints.
pub(super) mod events {
    include!(concat!(env!("OUT_DIR"), "/events.skel.rs"));
}
