//! A pool of buffers that the kernel fills with received bytes of any socket (`IORING_REGISTER_PBUF_RING`).
//!
//! The kernel reads a table of free buffers. It takes one for each received piece and names it in the completion. The
//! receiver of the piece puts the buffer back.
//!
//! Invariant: a buffer is either in the table, where the kernel may write to it, or named by one completion and not
//! given back yet, where we may read it. Table and buffers outlive the ring that knows them:
//! [`Kernel`](super::kernel::Kernel) owns both.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use larder_device::IoBuffer;

/// The group by which requests name these buffers.
pub(super) const GROUP: u16 = 0;
/// Number of buffers, a power of two.
const BUFFERS: u16 = 512;
/// Length of each buffer in bytes.
pub(super) const BUFFER_LEN: u32 = 4096;
pub(super) const BUFFER_BYTES: usize = BUFFER_LEN as usize;

const _: () = assert!(BUFFERS.is_power_of_two());
const _: () = assert!(size_of::<BufRingEntry>() == 16, "as the kernel's struct io_uring_buf");

/// See the module.
pub(super) struct ProvidedBuffers {
    /// The table, aligned to a page. It and the buffers are accessed only through these pointers, because the kernel
    /// may write to neighbouring bytes at the same time.
    table: NonNull<BufRingEntry>,
    buffers: NonNull<u8>,
    /// The memory behind the pointers.
    _memory: [IoBuffer; 2],
    /// Entries that were put into the table since it was made, modulo 2^16.
    tail: u16,
    /// Buffers in the table.
    free: u16,
}

impl ProvidedBuffers {
    /// Buffers, all free, registered with `ring`.
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
        // SAFETY: the table has the given length, and is dropped after the ring (see the module).
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|number| this.give_back(number));
        Ok(this)
    }

    /// The bytes that the kernel has put into a buffer that a completion named.
    pub(super) fn filled(&self, number: u16, len: usize) -> &[u8] {
        assert!(number < BUFFERS && len <= BUFFER_BYTES, "the kernel names what it was given");
        // SAFETY: the slice lies within the buffers, which were zeroed and live as long as `self`. While a buffer is
        // out of the table, the kernel does not write to it (see the module), and `give_back` needs `&mut self`.
        unsafe {
            let buffer = self.buffers.add(usize::from(number) * BUFFER_BYTES);
            std::slice::from_raw_parts(buffer.as_ptr(), len)
        }
    }

    /// Puts a buffer back into the table, so that the kernel may fill it again.
    pub(super) fn give_back(&mut self, number: u16) {
        assert!(number < BUFFERS && self.free < BUFFERS, "no buffer is given back twice");
        let (address, table) = (self.buffers.as_ptr() as u64, self.table.as_ptr());
        let place = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the place is within the table, which is aligned to a page and was zeroed, a valid entry. The kernel
        // reads only entries before the tail, and this one is behind it; no other thread writes to the table. The first
        // entry's last two bytes are the tail; the setters write only the other fields.
        unsafe {
            let entry = &mut *table.add(place);
            entry.set_addr(address + u64::from(number) * BUFFER_BYTES as u64);
            entry.set_len(BUFFER_LEN);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        self.free += 1;
        // SAFETY: the tail is two aligned bytes of the table's first entry, which the kernel reads while we write. So
        // it is stored atomically, with release ordering: the kernel must see the entry first.
        unsafe {
            let tail = BufRingEntry::tail(table).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// The kernel has taken a buffer.
    pub(super) fn taken(&mut self) {
        assert!(self.free > 0, "it takes what is there");
        self.free -= 1;
    }

    /// Number of buffers that the kernel could fill.
    pub(super) fn free(&self) -> u16 {
        self.free
    }
}
