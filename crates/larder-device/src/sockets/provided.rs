//! Buffers that the kernel fills with what comes, whichever socket it comes to (`IORING_REGISTER_PBUF_RING`).
//!
//! A table that the kernel reads says which buffers are free. It takes one for each piece that comes and names it in
//! the completion; whoever has received the piece puts the buffer back.
//!
//! Invariant: a buffer is either in the table, the kernel's to write to, or named by one completion that was not given
//! back, ours to read. Table and buffers outlive the ring that knows them: [`Kernel`](super::kernel::Kernel) owns both.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::buffer::IoBuffer;

/// The group by which requests name them.
pub(super) const GROUP: u16 = 0;
/// How many there are: a power of two.
const BUFFERS: u16 = 512;
/// Length of each.
pub(super) const BUFFER_LEN: u32 = 4096;
pub(super) const BUFFER_BYTES: usize = BUFFER_LEN as usize;

const _: () = assert!(BUFFERS.is_power_of_two());
const _: () = assert!(size_of::<BufRingEntry>() == 16, "as the kernel's struct io_uring_buf");

/// See the module.
pub(super) struct ProvidedBuffers {
    /// The table, aligned to a page. It and the buffers are reached by these pointers alone, for the kernel writes to
    /// their neighbours meanwhile.
    table: NonNull<BufRingEntry>,
    buffers: NonNull<u8>,
    /// What the pointers point to.
    _memory: [IoBuffer; 2],
    /// Entries that were put into the table since it was made.
    tail: u16,
    /// Buffers that are in it.
    free: u16,
}

impl ProvidedBuffers {
    /// Buffers, all free, that `ring` knows from now on.
    pub(super) fn register(ring: &IoUring) -> io::Result<Self> {
        let mut memory = [
            IoBuffer::zeroed(usize::from(BUFFERS) * size_of::<BufRingEntry>()),
            IoBuffer::zeroed(usize::from(BUFFERS) * BUFFER_BYTES),
        ];
        let [table, buffers] = &mut memory;
        let table = NonNull::from(table.as_mut_slice()).cast::<BufRingEntry>();
        let buffers = NonNull::from(buffers.as_mut_slice()).cast::<u8>();
        let mut this = Self { table, buffers, _memory: memory, tail: 0, free: 0 };
        let address = table.as_ptr() as u64;
        // SAFETY: the table is as long as it says, and is dropped after the ring (see the module).
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|number| this.give_back(number));
        Ok(this)
    }

    /// What the kernel has put into a buffer that a completion has named.
    pub(super) fn filled(&self, number: u16, len: usize) -> &[u8] {
        assert!(number < BUFFERS && len <= BUFFER_BYTES, "the kernel names what it was given");
        // SAFETY: it lies within the buffers, which were zeroed and live as long as this. While a buffer is out of the
        // table, the kernel does not write to it (see the module), and `give_back` wants this mutably.
        unsafe {
            let buffer = self.buffers.add(usize::from(number) * BUFFER_BYTES);
            std::slice::from_raw_parts(buffer.as_ptr(), len)
        }
    }

    /// The kernel may fill a buffer again.
    pub(super) fn give_back(&mut self, number: u16) {
        assert!(number < BUFFERS && self.free < BUFFERS, "no buffer is given back twice");
        let (address, table) = (self.buffers.as_ptr() as u64, self.table.as_ptr());
        let place = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the place is within the table, which is aligned to a page and was zeroed, a valid entry. The kernel
        // reads entries before the tail only, and this one is behind it; nobody else writes to the table. Of the first
        // entry, whose last two bytes are the tail, the setters write the other fields alone.
        unsafe {
            let entry = &mut *table.add(place);
            entry.set_addr(address + u64::from(number) * BUFFER_BYTES as u64);
            entry.set_len(BUFFER_LEN);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        self.free += 1;
        // SAFETY: the tail is two aligned bytes of the table's first entry, which the kernel reads while we write: so
        // it is written as an atomic, released, for what was put before it must be seen first.
        unsafe {
            let tail = BufRingEntry::tail(table).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// The kernel has taken one.
    pub(super) fn taken(&mut self) {
        assert!(self.free > 0, "it takes what is there");
        self.free -= 1;
    }

    /// How many the kernel could fill.
    pub(super) fn free(&self) -> u16 {
        self.free
    }
}
