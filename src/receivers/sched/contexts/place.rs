//! Where the threads of one process keep the pointer to their record: its maps, its files, and the words that its
//! loader filled in. Refuses to know: the kernel side, when to look.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::symbol::{self, Access, Symbol};
use crate::process_context;

/// Files of one process that are opened.
const FILES_MAX: usize = 1_000;
/// Offsets from the thread pointer are small; anything else in a descriptor is an address.
const STATIC_MAX: i64 = 1 << 30;

/// Where the pointer is, as the kernel side wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the thread pointer, or within the module's block.
    pub(crate) offset: i64,
    /// 0: the static block.
    pub(crate) module: u32,
    /// Of the pointer to the vector of blocks, from the thread pointer.
    pub(crate) vector_at: i32,
    /// Of one entry of that vector.
    pub(crate) entry_bytes: u32,
}

/// A file that a process has mapped, at its lowest address.
struct Mapped {
    start: u64,
    path: String,
}

/// Looks at the process of this folder of `/proc`.
pub(super) fn find(folder: &Path) -> Option<Place> {
    let memory = File::open(folder.join("mem")).ok()?;
    let word = |at: u64| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, at).ok().map(|()| u64::from_ne_bytes(bytes))
    };
    let program = File::open(folder.join("exe")).ok().and_then(|file| symbol::find(file, true));
    if let Some(Symbol { access: Access::Program { offset }, .. }) = program {
        return Some(Place { offset, module: 0, vector_at: 0, entry_bytes: 0 });
    }
    let files = mapped(folder);
    let musl = files.iter().any(|file| file.path.contains("/ld-musl-"));
    files.iter().find_map(|file| {
        let opened = File::open(folder.join("root").join(file.path.trim_start_matches('/'))).ok()?;
        let found = symbol::find(opened, false)?;
        place(found, file.start, musl, word)
    })
}

fn mapped(folder: &Path) -> Vec<Mapped> {
    let Ok(maps) = process_context::maps(folder) else { return Vec::new() };
    let mut files: Vec<Mapped> = Vec::new();
    for line in maps.map_while(Result::ok) {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(offset), Some(path)) = (fields.next(), fields.nth(1), fields.nth(2)) else { continue };
        let path = path.trim_start();
        let begins = offset.bytes().all(|digit| digit == b'0');
        let start = range.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok());
        if let (true, true, Some(start)) = (begins, path.starts_with('/'), start)
            && files.last().is_none_or(|last| last.path != path)
        {
            files.push(Mapped { start, path: path.to_owned() });
        }
        if files.len() >= FILES_MAX {
            break;
        }
    }
    files
}

/// The loader's words make a place; `None` where it has not filled them in so far.
fn place(symbol: Symbol, start: u64, musl: bool, word: impl Fn(u64) -> Option<u64>) -> Option<Place> {
    let there = |at: u64| start.wrapping_add(at.wrapping_sub(symbol.base));
    let fixed = |offset: i64| {
        let usable = offset != 0 && offset.abs() < STATIC_MAX;
        usable.then_some(Place { offset, module: 0, vector_at: 0, entry_bytes: 0 })
    };
    let dynamic = |module: u64, offset: u64| {
        let (vector_at, entry_bytes) = vector(musl);
        let module = u32::try_from(module).ok().filter(|module| *module > 0)?;
        Some(Place { offset: i64::try_from(offset).ok()?, module, vector_at, entry_bytes })
    };
    match symbol.access {
        Access::Program { offset } => fixed(offset),
        Access::Offset { at } => fixed(word(there(at))? as i64),
        Access::Pair { at } => dynamic(word(there(at))?, word(there(at) + 8)?),
        Access::Descriptor { at } => {
            let argument = word(there(at) + 8)?;
            // an offset, or the address of {module, offset} where the block is made at need
            fixed(argument as i64).or_else(|| dynamic(word(argument)?, word(argument.checked_add(8)?)?))
        }
    }
}

/// Where the C libraries keep the vector of blocks: from the thread pointer, and the bytes of an entry.
fn vector(musl: bool) -> (i32, u32) {
    match (cfg!(target_arch = "aarch64"), musl) {
        (true, false) => (0, 16),
        (true, true) => (-8, 8),
        (false, false) => (8, 16),
        (false, true) => (8, 8),
    }
}
