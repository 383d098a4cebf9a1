//! Publishes a thread's active span where an agent on the host can read it (OTEP 4947), and the process' Resource
//! (OTEP 4719). Self-contained: copy it into a service that uses `opentelemetry`, call [`publish_resource`] once and
//! hold an [`Active`] wherever a span is active on the thread.
//!
//! A runtime that moves tasks between threads has to enter and leave at every poll; work that stays on its thread
//! (`spawn_blocking`, a thread pool) needs one guard.

// The specification is about raw memory: a thread-local pointer to a record, and a mapping with a header.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::set_virtual_memory_region_name;
use rustix::time::{ClockId, clock_gettime};

// `otel_thread_ctx_v1`, the symbol that readers look for: one pointer a thread. Stable Rust cannot name a
// thread-local symbol, hence assembly; the linker argument `--export-dynamic-symbol=otel_thread_ctx_v1` shows it.
// The thread's one record comes right behind it: a reader gets both at once.
std::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".globl otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1, @tls_object",
    ".size otel_thread_ctx_v1, 8",
    ".balign 8",
    "otel_thread_ctx_v1:",
    ".zero 36",
    ".popsection",
);

/// The record, as the specification lays it out.
#[repr(C, packed(2))]
#[derive(Clone, Copy, Default)]
struct Record {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    valid: u8,
    flags: u8,
    attributes_bytes: u16,
}

/// Where this thread keeps its pointer.
fn slot() -> *mut *const Cell<Record> {
    let at: *mut *const Cell<Record>;
    // SAFETY: computes an address from the thread pointer; the block of the main program is always there.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {0}, qword ptr fs:[0]", "lea {0}, [{0} + otel_thread_ctx_v1@tpoff]", out(reg) at, options(nostack, pure, readonly));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", "add {0}, {0}, :tprel_hi12:otel_thread_ctx_v1, lsl #12",
            "add {0}, {0}, :tprel_lo12_nc:otel_thread_ctx_v1", out(reg) at, options(nostack, pure, readonly));
    }
    at
}

/// This thread's record; the outer span is kept by the guard.
fn record() -> &'static Cell<Record> {
    let slot = slot();
    // SAFETY: this thread's own memory behind its slot, zero at first, which nobody else writes and only it uses.
    unsafe {
        let record = &*slot.add(1).cast::<Cell<Record>>();
        slot.write_volatile(record);
        record
    }
}

/// The span that is active while this lives; then the one before is again.
pub(crate) struct Active {
    outer: Record,
}

impl Active {
    /// Publishes the span of the current `opentelemetry` context.
    pub(crate) fn current() -> Self {
        Self::of(opentelemetry::Context::current().span().span_context())
    }

    /// Publishes this span.
    pub(crate) fn of(span: &SpanContext) -> Self {
        let outer = record().get();
        put(Record {
            trace_id: span.trace_id().to_bytes(),
            span_id: span.span_id().to_bytes(),
            valid: u8::from(span.is_valid()),
            flags: span.trace_flags().to_u8(),
            attributes_bytes: 0,
        });
        Self { outer }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        put(self.outer);
    }
}

/// A reader sees this thread stopped: the record must be invalid while it changes, in program order.
fn put(new: Record) {
    let of = record();
    let mut old = of.get();
    old.valid = 0;
    of.set(old);
    compiler_fence(Ordering::SeqCst);
    of.set(Record { valid: 0, ..new });
    compiler_fence(Ordering::SeqCst);
    of.set(new);
}

#[derive(Clone, PartialEq, Message)]
struct ProcessContext {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<KeyValue>,
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// Publishes the Resource and says that threads publish their spans. Once a process; it stays until the end.
///
/// # Errors
/// What the kernel says to a memory file and its mapping.
pub(crate) fn publish_resource(attributes: &[(&str, &str)]) -> io::Result<()> {
    let context = ProcessContext {
        resource: Some(Resource {
            attributes: attributes.iter().map(|(key, value)| text(key, value)).collect(),
            ..Resource::default()
        }),
        attributes: vec![text("threadlocal.schema_version", "tlsdesc_v1_dev")],
    };
    let payload: &'static [u8] = Box::leak(context.encode_to_vec().into_boxed_slice());
    let file = memfd_create("OTEL_CTX", MemfdFlags::CLOEXEC)?;
    let bytes = rustix::param::page_size();
    ftruncate(&file, bytes as u64)?;
    // SAFETY: a fresh mapping of a fresh file that is never unmapped.
    let header =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
    let put = |at: usize, bytes: &[u8]| {
        // SAFETY: within the first 32 bytes of the page.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), header.cast::<u8>().add(at), bytes.len()) }
    };
    put(8, &2u32.to_ne_bytes());
    put(12, &(payload.len() as u32).to_ne_bytes());
    put(24, &(payload.as_ptr() as u64).to_ne_bytes());
    put(0, b"OTEL_CTX");
    let now = clock_gettime(ClockId::Boottime);
    // SAFETY: aligned, within the page; the time comes last, since it says that the rest is there.
    let published = unsafe { AtomicU64::from_ptr(header.cast::<c_void>().byte_add(16).cast::<u64>()) };
    published.store(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, Ordering::Release);
    // readers listen for this call, also where the kernel keeps no names; whether it does is all one
    // SAFETY: the page that was mapped above.
    let page = unsafe { std::slice::from_raw_parts(header.cast::<u8>(), bytes) };
    let _ = set_virtual_memory_region_name(page, Some(c"OTEL_CTX"));
    Ok(())
}
