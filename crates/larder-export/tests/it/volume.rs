//! A device as a volume: requests that are not whole blocks, and changes of the same place.

use std::sync::Arc;

use larder_device::{Durability, IoBuffer, MemoryDevice};
use larder_export::volume::{DeviceVolume, Volume};
use proptest::prelude::*;

use crate::held::{held_device, is_change};

const BYTES: usize = 64 << 10;

fn buffer(bytes: usize, fill: u8) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.as_mut_slice().fill(fill);
    buffer
}

#[derive(Clone, Debug)]
enum Op {
    Read,
    Write(u8, bool),
    Zero(bool),
    Trim,
}

fn op() -> impl Strategy<Value = (Op, usize, usize)> {
    let kind = prop_oneof![
        Just(Op::Read),
        (any::<u8>(), any::<bool>()).prop_map(|(fill, durable)| Op::Write(fill, durable)),
        any::<bool>().prop_map(Op::Zero),
        Just(Op::Trim),
    ];
    let range = (0..BYTES, 1..3 * 4096_usize).prop_map(|(at, len)| (at, len.min(BYTES - at)));
    (kind, range).prop_map(|(kind, (at, len))| (kind, at, len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compared with an array of bytes. Blocks that are trimmed whole are not checked until they are written again.
    #[test]
    fn any_request_does_what_it_would_to_an_array(
        ops in prop::collection::vec(op(), 1..60),
        block in prop_oneof![Just(512_u32), Just(4096)],
    ) {
        let device = MemoryDevice::with_blocks(vec![7; BYTES], block).unwrap();
        let volume = DeviceVolume::new(Arc::new(device));
        let mut model: Vec<Option<u8>> = vec![Some(7); BYTES];
        for (op, at, len) in ops {
            let offset = at as u64;
            let range = offset..offset + len as u64;
            match op {
                Op::Read => {
                    let read = volume.read(offset, IoBuffer::zeroed(len)).wait().unwrap();
                    for (known, byte) in model[at..at + len].iter().zip(read.as_slice()) {
                        prop_assert!(known.is_none_or(|known| known == *byte));
                    }
                }
                Op::Write(fill, durable) => {
                    let durability = if durable { Durability::Power } else { Durability::Device };
                    volume.write(offset, buffer(len, fill), durability).wait().unwrap();
                    model[at..at + len].fill(Some(fill));
                }
                Op::Zero(durable) => {
                    let durability = if durable { Durability::Power } else { Durability::Device };
                    volume.write_zeroes(range, true, durability).wait().unwrap();
                    model[at..at + len].fill(Some(0));
                }
                Op::Trim => {
                    volume.trim(range, Durability::Device).wait().unwrap();
                    let block = block as usize;
                    let (start, end) = (at.next_multiple_of(block), (at + len) / block * block);
                    if start < end {
                        model[start..end].fill(None);
                    }
                }
            }
        }
        let all = volume.read(0, IoBuffer::zeroed(BYTES)).wait().unwrap();
        let wrong = model.iter().zip(all.as_slice());
        let wrong = wrong.filter(|(known, byte)| known.is_some_and(|known| known != **byte));
        prop_assert_eq!(wrong.count(), 0);
    }
}

/// A write of part of a block reads the block first. It must not undo what another write has put there since.
#[test]
fn changes_of_one_block_are_made_in_the_order_in_which_they_came() {
    let device = held_device(BYTES);
    let volume = DeviceVolume::new(Arc::clone(&device) as _);
    device.hold(is_change);
    let part = volume.write(100, buffer(50, 1), Durability::Device);
    let whole = volume.write(0, buffer(8192, 2), Durability::Device);
    let other = volume.write(8192, buffer(4096, 3), Durability::Device);
    let zeroes = volume.write_zeroes(4000..4200, false, Durability::Device);
    assert_eq!(device.waiting(), 2, "the whole block and the zeros wait for their turns");
    device.let_go();
    assert!(part.wait().is_ok());
    assert_eq!(device.waiting(), 2, "now the whole block is written");
    device.let_go();
    assert!(other.wait().is_ok());
    device.let_go();
    assert!(whole.wait().is_ok());
    device.let_go();
    assert!(zeroes.wait().is_ok());
    let bytes = device.inner().bytes();
    assert!(bytes[..4000].iter().all(|byte| *byte == 2), "the part came before the whole");
    assert!(bytes[4000..4200].iter().all(|byte| *byte == 0));
    assert!(bytes[4200..8192].iter().all(|byte| *byte == 2));
}

/// The changes have no byte in common, and still one could undo the other.
#[test]
fn changes_of_two_places_in_a_block_take_turns() {
    let device = held_device(BYTES);
    let volume = DeviceVolume::new(Arc::clone(&device) as _);
    device.hold(is_change);
    let one = volume.write(100, buffer(50, 1), Durability::Device);
    let other = volume.write_zeroes(10..90, true, Durability::Device);
    let third = volume.write(300, buffer(50, 3), Durability::Device);
    for write in [one, other, third] {
        assert_eq!(device.waiting(), 1);
        device.let_go();
        assert!(write.wait().is_ok());
    }
    let bytes = device.inner().bytes();
    assert_eq!((bytes[100..150].to_vec(), bytes[300..350].to_vec()), (vec![1; 50], vec![3; 50]));
}

/// As a client that has disconnected leaves its requests.
#[test]
fn changes_whose_futures_were_dropped_keep_their_turns() {
    let device = held_device(BYTES);
    let volume = DeviceVolume::new(Arc::clone(&device) as _);
    device.hold(is_change);
    drop(volume.write(100, buffer(50, 1), Durability::Device));
    drop(volume.write(120, buffer(50, 2), Durability::Device));
    let last = volume.write(0, buffer(4096, 3), Durability::Device);
    assert_eq!(device.waiting(), 1);
    device.let_go();
    assert_eq!(device.waiting(), 1);
    device.let_go();
    device.let_go();
    assert!(last.wait().is_ok());
    assert!(device.inner().bytes()[..4096].iter().all(|byte| *byte == 3));
}
