//! Where a program or library keeps `otel_thread_ctx_v1` (OTEP 4947): the ELF file says by which of the access
//! models of thread-local storage. Refuses to know: processes, memory.

use std::fs::File;

use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, RelocationFlags, RelocationTarget};

/// The symbol that the specification names.
const SYMBOL: &str = "otel_thread_ctx_v1";
/// Symbols and relocations of one file that are looked at.
const ENTRIES_MAX: usize = 2_000_000;
/// The thread control block of arm64 lies before the first thread-local block.
#[cfg(target_arch = "aarch64")]
const CONTROL_BLOCK_BYTES: u64 = 16;

/// How the address is had. `at` is a virtual address of the file, of words that the loader fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// In the program itself: fixed from the thread pointer.
    Program {
        /// Bytes from the thread pointer.
        offset: i64,
    },
    /// A word with the offset from the thread pointer.
    Offset {
        /// Its address.
        at: u64,
    },
    /// A descriptor: a function and its argument.
    Descriptor {
        /// Its address.
        at: u64,
    },
    /// Module number and offset within its block.
    Pair {
        /// Its address.
        at: u64,
    },
}

/// The symbol in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    /// How to reach it.
    pub(super) access: Access,
    /// The lowest virtual address that is loaded.
    pub(super) base: u64,
}

#[cfg(target_arch = "aarch64")]
mod relocation {
    use super::elf;
    pub(super) const DESCRIPTOR: elf::RelocationType = elf::R_AARCH64_TLSDESC;
    pub(super) const MODULE: elf::RelocationType = elf::R_AARCH64_TLS_DTPMOD;
    pub(super) const OFFSET: elf::RelocationType = elf::R_AARCH64_TLS_TPREL;
}
#[cfg(not(target_arch = "aarch64"))]
mod relocation {
    use super::elf;
    pub(super) const DESCRIPTOR: elf::RelocationType = elf::R_X86_64_TLSDESC;
    pub(super) const MODULE: elf::RelocationType = elf::R_X86_64_DTPMOD64;
    pub(super) const OFFSET: elf::RelocationType = elf::R_X86_64_TPOFF64;
}

/// Looks for the symbol; `None` where the file does not define it, is no ELF file of 64 bits, or gives no way to it.
pub(super) fn find(file: File, is_program: bool) -> Option<Symbol> {
    let cache = ReadCache::new(file);
    let elf: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).ok()?;
    let symbol = elf
        .dynamic_symbols()
        .take(ENTRIES_MAX)
        .find(|symbol| !symbol.is_undefined() && symbol.name().is_ok_and(|name| name == SYMBOL))?;
    let endian = elf.endian();
    let loads = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let base = loads.map(|header| header.p_vaddr(endian)).min()?;
    if is_program {
        let block = elf.elf_program_headers().iter().find(|header| header.p_type(endian) == elf::PT_TLS)?;
        let offset = program_offset(symbol.address(), block.p_memsz(endian), block.p_align(endian))?;
        return Some(Symbol { access: Access::Program { offset }, base });
    }
    let mut found = None;
    for (at, relocation) in elf.dynamic_relocations()?.take(ENTRIES_MAX) {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        // a symbol that binds within its file is named by its place alone
        let ours = match relocation.target() {
            RelocationTarget::Symbol(index) => index == symbol.index(),
            _ => relocation.addend() as u64 == symbol.address(),
        };
        if !ours {
            continue;
        }
        let access = match r_type {
            relocation::OFFSET => Access::Offset { at },
            relocation::DESCRIPTOR => Access::Descriptor { at },
            relocation::MODULE => Access::Pair { at },
            _ => continue,
        };
        found = found.or(Some(access));
    }
    Some(Symbol { access: found?, base })
}

/// The main program's block ends at the thread pointer on x86-64, and begins behind the control block on arm64.
fn program_offset(value: u64, block_bytes: u64, align: u64) -> Option<i64> {
    let align = align.max(1);
    #[cfg(target_arch = "aarch64")]
    {
        let _ = block_bytes;
        i64::try_from(CONTROL_BLOCK_BYTES.checked_next_multiple_of(align)?.checked_add(value)?).ok()
    }
    #[cfg(not(target_arch = "aarch64"))]
    {
        i64::try_from(value).ok()?.checked_sub(i64::try_from(block_bytes.checked_next_multiple_of(align)?).ok()?)
    }
}
