//! Implements `Layout` for boxed layouts.

use super::{
    ClassId, CoreId, DeviceIo, Ending, IoId, Layout, LayoutRequest, Outcome, Piece, Refusal,
    RequestId, Room, Shares, ShutdownState, Span, Usage,
};

impl<L: Layout + ?Sized> Layout for Box<L> {
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: LayoutRequest) {
        (**self).submit_of(class, id, request);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        (**self).completed(io, outcome);
    }

    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        (**self).ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        (**self).turn(ios);
    }

    fn core_was_written(&mut self, core: CoreId) {
        (**self).core_was_written(core);
    }

    fn core_is_gone(&mut self, core: CoreId) {
        (**self).core_is_gone(core);
    }

    fn is_on_cores(&self) -> bool {
        (**self).is_on_cores()
    }

    fn tell_clean(&mut self) -> Option<u64> {
        (**self).tell_clean()
    }

    fn tell_settled(&self) -> Option<u64> {
        (**self).tell_settled()
    }

    fn left(&self) -> Option<ShutdownState> {
        (**self).left()
    }

    fn dirty_when_left(&self, core: CoreId) -> u64 {
        (**self).dirty_when_left(core)
    }

    fn retry(&mut self) {
        (**self).retry();
    }

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        (**self).lookup(span, pieces);
    }

    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        (**self).dirty_after(core, sector)
    }

    fn looks_dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        (**self).looks_dirty_after(core, sector)
    }

    fn clean_after(&self, core: CoreId, sector: u64) -> Option<(Span, u64)> {
        (**self).clean_after(core, sector)
    }

    fn usage(&self) -> Usage {
        (**self).usage()
    }

    fn dirty_sectors(&self, core: CoreId) -> u64 {
        (**self).dirty_sectors(core)
    }

    fn unloaded_parts(&self) -> usize {
        (**self).unloaded_parts()
    }

    fn load_part(&mut self) {
        (**self).load_part();
    }

    fn take_loaded_dirty(&mut self) -> Vec<Span> {
        (**self).take_loaded_dirty()
    }

    fn set_shares(&mut self, shares: Shares) {
        (**self).set_shares(shares);
    }

    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        (**self).refuses(class, sectors)
    }

    fn make_room(&mut self, class: ClassId, sectors: u32) -> bool {
        (**self).make_room(class, sectors)
    }

    fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        (**self).take_full_of_dirty()
    }

    fn destage_oldest(&mut self, id: RequestId, class: ClassId, sectors: u64) -> u64 {
        (**self).destage_oldest(id, class, sectors)
    }

    fn occupied_sectors(&self, class: ClassId) -> u64 {
        (**self).occupied_sectors(class)
    }

    fn room(&self) -> Option<Room> {
        (**self).room()
    }

    fn writes_around(&self) -> u64 {
        (**self).writes_around()
    }

    fn memory_bytes(&self) -> usize {
        (**self).memory_bytes()
    }
}
