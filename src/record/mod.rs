//! Raw scheduler events in a file of our own, the reading of every input that replay takes, and the batches that
//! come of them ([`Feed`]).
//!
//! A file is a head, then blocks that each stand alone: compressed, counted, with checksums. What is cut
//! off or damaged costs the blocks it touches and no more. Memory does not grow with the file's length.
//! Refuses to know: where bytes come from, what events mean.
//!
//! Layout, all numbers little endian; [`wire`] has the records:
//!
//! ```text
//! file   magic[10] version:u16 | block*
//! block  magic[4] kind:u8 codec:u8 0:u16 index:u32 raw_bytes:u32 stored_bytes:u32 records:u32
//!        payload_crc32:u32 header_crc32:u32 | payload[stored_bytes]
//! kinds  1 facts (JSON), first   2 records   3 end (the sum of all records), last
//! ```

mod block;
mod facts;
mod feed;
mod input;
mod ledger;
mod reader;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use facts::Facts;
pub use feed::{Feed, FeedSettings, Unowned};
pub use input::{Chunk, Input, InputKind, Place};
pub use reader::{Damage, Part, Reader};
pub use wire::Entry;
pub use writer::Writer;
