//! The states that a layout reports for sectors (absent, clean or dirty), compared with an array, in a cache that has
//! room for all of them.

use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::layout::ocf::{Geometry, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{Ending, Layout, LayoutRequest, PieceState, Span};

use super::rig::{IDENTITY, Log, core, device};

const SECTORS: u32 = 2048;

fn tells_the_state_of_each_sector(mut run: Accounting<impl Layout>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut states = vec![PieceState::Absent; SECTORS as usize];
    for version in 1..400 {
        let sectors = rng.u32(1..200);
        let first = rng.u32(..SECTORS - sectors);
        let span = Span { core: core(0), first: first.into(), sectors };
        let own = &mut states[first as usize..][..sectors as usize];
        let data = stamps(span, version);
        let request = match rng.u8(..6) {
            0 | 1 => {
                own.fill(PieceState::Dirty);
                LayoutRequest::Write { span, data }
            }
            2 => {
                own.iter_mut()
                    .filter(|state| **state == PieceState::Absent)
                    .for_each(|state| *state = PieceState::Clean);
                LayoutRequest::InsertClean { span, data }
            }
            3 => {
                own.fill(PieceState::Absent);
                LayoutRequest::Discard { span }
            }
            4 => {
                own.fill(PieceState::Absent);
                LayoutRequest::Bypass { span, data, durable: rng.bool() }
            }
            _ => {
                // Whole lines are destaged, with the rest of their dirty data.
                states
                    .iter_mut()
                    .filter(|state| **state == PieceState::Dirty)
                    .for_each(|state| *state = PieceState::Clean);
                LayoutRequest::Destage { span: Span { first: 0, sectors: SECTORS, ..span } }
            }
        };
        assert_eq!(run.run(request).0, Ending::Done);
        run.settle();
        let mut pieces = Vec::new();
        run.layout_mut().lookup(Span { core: core(0), first: 0, sectors: SECTORS }, &mut pieces);
        let mut next = 0;
        for piece in &pieces {
            assert_eq!(piece.span.first, next, "in their order, without holes");
            next = piece.span.end();
            let own = &states[usize::try_from(piece.span.first).unwrap()..]
                [..piece.span.sectors as usize];
            assert!(
                own.iter().all(|state| *state == piece.state),
                "{piece:?} at {version}: {own:?}"
            );
        }
        assert_eq!(next, u64::from(SECTORS));
        let count = |wanted: &[PieceState]| {
            states.iter().filter(|state| wanted.contains(state)).count() as u64
        };
        let usage = run.layout().usage();
        assert_eq!(usage.dirty_sectors, count(&[PieceState::Dirty]));
        assert_eq!(usage.valid_sectors, count(&[PieceState::Dirty, PieceState::Clean]));
    }
}

#[test]
fn a_layout_tells_the_state_of_each_sector() {
    for seed in 0..2 {
        tells_the_state_of_each_sector(Log::of(16 << 20, 512, 4096).run, seed);
        for version in OcfVersion::ALL {
            for line_bytes in [4096, 65536] {
                let options = OcfOptions { version, line_bytes };
                let geometry = Geometry::new(&device(16 << 20, 512), 0, &options).unwrap();
                let layout = OcfLayout::new(geometry, IDENTITY.uuid);
                tells_the_state_of_each_sector(Accounting::new(layout, Image::default()), seed);
            }
        }
    }
}
