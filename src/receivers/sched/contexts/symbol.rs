//! Where a program or library keeps `otel_thread_ctx_v1` (OTEP 4947): the ELF file says by which of the access
//! models of thread-local storage. Refuses to know: processes, memory.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, ReadRef, RelocationFlags, RelocationTarget};

/// The symbol that the specification names.
const SYMBOL: &str = "otel_thread_ctx_v1";
/// Symbols and relocations of one file that are looked at.
const ENTRIES_MAX: usize = 2_000_000;
/// Bytes of one file that are read: headers, symbols and relocations of the largest programs are less. A file may say
/// anything of itself, and have holes where a table of gigabytes would be.
const BYTES_MAX: u64 = 64 << 20;
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

/// A file, as long as its budget lasts.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    file: &'a ReadCache<File>,
    left: &'a Cell<u64>,
}

impl Bounded<'_> {
    fn spend(self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let bytes = self.file.read_bytes_at_until(range, delimiter)?;
        self.spend(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// Looks for the symbol; `None` where the file does not define it, is no ELF file of 64 bits, or gives no way to it.
pub(super) fn find(file: File, is_program: bool) -> Option<Symbol> {
    let (cache, left) = (ReadCache::new(file), Cell::new(BYTES_MAX));
    let elf: ElfFile64<'_, Endianness, _> = ElfFile64::parse(Bounded { file: &cache, left: &left }).ok()?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// A library that has the symbol, and where it is.
    fn library(folder: &tempfile::TempDir) -> PathBuf {
        let (source, library) = (folder.path().join("x.c"), folder.path().join("x.so"));
        fs::write(&source, "__thread void *otel_thread_ctx_v1; void *now(void) { return otel_thread_ctx_v1; }")
            .unwrap();
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
        assert!(made.success());
        library
    }

    /// Check that a file of any bytes gives a place or none. What is found in a damaged file may be wrong: it is only
    /// an address, of whose memory the kernel side reads what is there.
    #[test]
    fn damaged_files_are_read_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let whole = fs::read(library(&folder)).unwrap();
        let path = folder.path().join("damaged");
        let found = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            [true, false].map(|is_program| find(File::open(&path).unwrap(), is_program).is_some())
        };
        assert_eq!(found(&whole), [true, true]);
        let mut random = fastrand::Rng::with_seed(11);
        let mut still = 0;
        for _ in 0..2_000 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..8) {
                // headers are at both ends
                let from = [0, 0, bytes.len() - 2_048][random.usize(0..3)];
                let at = random.usize(from..(from + 2_048).min(bytes.len()));
                bytes[at] = random.u8(..);
            }
            if random.u8(0..10) == 0 {
                bytes.truncate(random.usize(0..whole.len()));
            }
            still += usize::from(found(&bytes)[1]);
        }
        assert!(still > 0 && still < 2_000, "{still} of 2,000 still have it");
    }

    /// Eight gigabytes of symbols that are one hole in the file: not read, not held in memory.
    #[test]
    fn a_table_without_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::options().read(true).write(true).open(library(&folder)).unwrap();
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0x28).unwrap();
        let sections = u64::from_le_bytes(bytes);
        let mut has_grown = false;
        for at in (0..40).map(|section| sections + section * 64) {
            let mut kind = [0; 4];
            if file.read_exact_at(&mut kind, at + 4).is_ok() && u32::from_le_bytes(kind) == elf::SHT_DYNSYM.0 {
                file.write_all_at(&(1u64 << 33).to_le_bytes(), at + 0x20).unwrap();
                has_grown = true;
            }
        }
        assert!(has_grown);
        file.set_len(1 << 34).unwrap();
        assert_eq!(find(file, false), None);
    }
}
