//! Maps of the kernel read as memory: totals without a syscall per cgroup.

// The only reason for unsafe here is memory that the kernel writes while we read it.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// An array map, mapped. Values are copied out whole; each word is read once.
pub(super) struct MappedArray<T> {
    base: NonNull<c_void>,
    bytes: usize,
    count: usize,
    stride: usize,
    of: PhantomData<T>,
}

/// SAFETY: the mapping belongs to this value alone and holds plain numbers.
unsafe impl<T: Send> Send for MappedArray<T> {}

impl<T: Copy + Default> MappedArray<T> {
    /// Maps `count` values of an array map that was made with BPF_F_MMAPABLE.
    ///
    /// # Errors
    /// What mmap says.
    pub(super) fn new(map: BorrowedFd<'_>, count: usize) -> std::io::Result<Self> {
        let stride = size_of::<T>().next_multiple_of(8);
        let bytes = (stride * count).next_multiple_of(rustix::param::page_size());
        // SAFETY: a fresh mapping of a map that outlives it; the kernel keeps map memory while it is mapped.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, map, 0)? };
        let base = NonNull::new(base).ok_or_else(|| std::io::Error::other("mmap gave no address"))?;
        Ok(Self { base, bytes, count, stride, of: PhantomData })
    }

    fn at(&self, index: usize) -> Option<NonNull<T>> {
        // SAFETY: index is inside the mapping, the stride keeps T's alignment of 8.
        (index < self.count).then(|| unsafe { self.base.byte_add(index * self.stride).cast::<T>() })
    }

    /// A copy of one value; default where there is none.
    pub(super) fn get(&self, index: usize) -> T {
        // SAFETY: inside the mapping; volatile, since the kernel writes it meanwhile. T is plain integers, so
        // that a value that changes under the copy is still a value.
        self.at(index).map(|value| unsafe { value.as_ptr().read_volatile() }).unwrap_or_default()
    }

    /// Overwrites one value that nobody else uses.
    pub(super) fn set(&self, index: usize, value: T) {
        if let Some(place) = self.at(index) {
            // SAFETY: inside the mapping.
            unsafe { place.as_ptr().write_volatile(value) }
        }
    }

    /// Overwrites the u32 at `offset` of a value that the kernel goes on using.
    pub(crate) fn set_u32(&self, index: usize, offset: usize, value: u32) {
        if let Some(place) = self.at(index).filter(|_| offset + 4 <= self.stride && offset.is_multiple_of(4)) {
            // SAFETY: inside the value, aligned.
            unsafe { place.cast::<u32>().byte_add(offset).as_ptr().write_volatile(value) }
        }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

impl<T> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// The bytes of a plain value, to hand it to a program and to get it back.
pub(super) fn bytes_of<T: Copy>(value: &mut T) -> &mut [u8] {
    // SAFETY: T is one of the skeleton's structs of integers without padding holes that matter; any bytes are valid.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast::<u8>(), size_of::<T>()) }
}
