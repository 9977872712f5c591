//! Tests of detach, with and without failure (cores stay served), and of the progress of a removal.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};

use larder_block::cache::Mode;
use larder_block::layout::CoreId;
use larder_block::layout::log::LogOptions;
use larder_block::manage::{self, Core, CreateOptions, LayoutOptions, OpenOptions, look};
use larder_block::running::RunningCache;
use larder_device::{
    Device, Durability, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
    PlacementHandle, block_on,
};

use super::answers::{Answers, StopRequest};
use super::{Answer, CoreExports, Progress, Question};

const MIB: usize = 1 << 20;

fn memory(bytes: usize) -> MemoryDevice {
    MemoryDevice::holding(vec![0; bytes])
}

/// A write-back cache in front of these cores.
fn cache_before(cores: &[Arc<dyn Device>]) -> (Arc<dyn Device>, Vec<Core>) {
    let device: Arc<dyn Device> = Arc::new(memory(4 * MIB));
    let numbered = (0..).map_while(CoreId::new).zip(cores);
    let cores: Vec<Core> = numbered
        .map(|(id, core)| Core { id, name: format!("core-{}", id.get()), device: Arc::clone(core) })
        .collect();
    let log = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    let (layout, mode) = (LayoutOptions::Log(log), Mode::WriteBack);
    let options = CreateOptions { layout, mode, ..CreateOptions::default() };
    block_on(manage::create(&device, &cores, &options)).unwrap();
    (device, cores)
}

/// Writes a block.
fn write(running: &RunningCache, core: &Core, offset: u64) {
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(1);
    let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Device);
    let write = Io::Write { offset, buffer, handle, durability };
    block_on(running.core(core.id).unwrap().submit(write)).unwrap();
}

/// The last line of an answer.
fn asked(answers: &Answers, question: Question) -> Answer {
    let mut last = None;
    let mut tell = |answer: &Answer| {
        last = Some(answer.clone());
        Ok(())
    };
    answers.answer(question, &mut tell).unwrap();
    last.unwrap()
}

fn no_command_came(end: &Receiver<StopRequest>) -> bool {
    matches!(end.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn a_detach_that_cannot_destage_goes_on_with_the_device_and_one_that_can_without() {
    let failing = Arc::new(FaultDevice::new(memory(MIB), &FaultPlan::new(1)));
    let (device, cores) = cache_before(&[Arc::clone(&failing) as _]);
    let opened = block_on(manage::open(&device, &cores, &OpenOptions::default())).unwrap();
    let running = opened.cache.clone();
    let (ends, end) = mpsc::channel();
    let (answers, opened) = Answers::new(opened, CoreExports::default(), ends);
    write(&running, &cores[0], 8192);

    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    let Answer::Error(refused) = asked(&answers, Question::Detach {}) else { panic!("it failed") };
    assert!(refused.contains("4096 bytes are dirty still, of core 0 at 8192+4096"), "{refused}");
    assert!(refused.contains("the cache goes on"), "{refused}");
    assert!(no_command_came(&end));
    assert_eq!(running.with(|cache| cache.options().mode), Mode::WriteBack, "as before");

    failing.set_plan(&FaultPlan::new(1));
    running.with(|cache| cache.work(std::time::Duration::from_secs(5)));
    let answer = asked(&answers, Question::Detach {});
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    assert!(no_command_came(&end), "the cores are served");
    let seen = block_on(look(&device)).unwrap();
    assert!(seen.stored.is_distrusted && seen.stored.mode == Mode::WriteBack);
    let refused = asked(&answers, Question::Detach {});
    assert!(matches!(&refused, Answer::Error(why) if why.contains("already")), "{refused:?}");
    drop(opened.lock().unwrap_or_else(PoisonError::into_inner).take());
    let refused = asked(&answers, Question::Mode { mode: "wt".to_owned(), flush: true });
    assert!(matches!(&refused, Answer::Error(why) if why.contains("ending")), "{refused:?}");
}

/// Core 1 completes no write before the progress of its removal was sent.
#[test]
fn a_removal_tells_how_much_of_the_core_that_goes_is_dirty() {
    let stalls = FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_writes());
    let failing = Arc::new(FaultDevice::new(memory(MIB), &stalls));
    let (device, cores) = cache_before(&[Arc::new(memory(MIB)), Arc::clone(&failing) as _]);
    let opened = block_on(manage::open(&device, &cores, &OpenOptions::default())).unwrap();
    let running = opened.cache.clone();
    let (answers, _opened) = Answers::new(opened, CoreExports::default(), mpsc::channel().0);
    for (core, offset) in [(0, 0), (0, 8192), (1, 4096), (0, 65536)] {
        write(&running, &cores[core], offset);
    }
    let (mut told, mut last) = (Vec::new(), None);
    let mut tell = |answer: &Answer| {
        match answer {
            Answer::Progress(progress) => told.push(*progress),
            other => last = Some(other.clone()),
        }
        failing.set_plan(&FaultPlan::new(1));
        failing.release_delayed();
        Ok(())
    };
    answers.answer(Question::RemoveCore { core: 1 }, &mut tell).unwrap();
    assert!(matches!(&last, Some(Answer::Done(_))), "{last:?}");
    assert_eq!(told[0], Progress { dirty_bytes: 4096, before_bytes: 4096 });
    assert_eq!(running.with(|cache| cache.usage().dirty_sectors), 3 * 8, "of the other core");
}
