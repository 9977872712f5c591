//! A detach that fails, and one that does not: cores are served on.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};

use larder_block::cache::Mode;
use larder_block::layout::CoreId;
use larder_block::layout::log::LogOptions;
use larder_block::manage::{self, Core, CreateOptions, LayoutOptions, OpenOptions, look};
use larder_device::{
    Device, Durability, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
    PlacementHandle, block_on,
};

use super::answers::{Answers, Asked};
use super::{Answer, Exported, Question};

const MIB: usize = 1 << 20;

type Failing = Arc<FaultDevice<MemoryDevice>>;

fn memory(bytes: usize) -> MemoryDevice {
    MemoryDevice::holding(vec![0; bytes])
}

/// A write-back cache before a core that may fail.
fn cache(failing: &Failing) -> (Arc<dyn Device>, [Core; 1]) {
    let device: Arc<dyn Device> = Arc::new(memory(4 * MIB));
    let id = CoreId::new(0).unwrap();
    let cores = [Core { id, name: "core".to_owned(), device: Arc::clone(failing) as _ }];
    let log = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    let (layout, mode) = (LayoutOptions::Log(log), Mode::WriteBack);
    let options = CreateOptions { layout, mode, ..CreateOptions::default() };
    block_on(manage::create(&device, &cores, &options)).unwrap();
    (device, cores)
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

fn nobody_asked(end: &Receiver<Asked>) -> bool {
    matches!(end.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn a_detach_that_cannot_destage_goes_on_with_the_device_and_one_that_can_without() {
    let failing = Arc::new(FaultDevice::new(memory(MIB), &FaultPlan::new(1)));
    let (device, cores) = cache(&failing);
    let opened = block_on(manage::open(&device, &cores, &OpenOptions::default())).unwrap();
    let running = opened.cache.clone();
    let (ends, end) = mpsc::channel();
    let (answers, opened) = Answers::new(opened, Exported::default(), ends);
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(1);
    let write = Io::Write {
        offset: 8192,
        buffer,
        handle: PlacementHandle::DEFAULT,
        durability: Durability::Device,
    };
    block_on(running.core(cores[0].id).unwrap().submit(write)).unwrap();

    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    let Answer::Error(refused) = asked(&answers, Question::Detach {}) else { panic!("it failed") };
    assert!(refused.contains("4096 bytes are dirty still, of core 0 at 8192+4096"), "{refused}");
    assert!(refused.contains("the cache goes on"), "{refused}");
    assert!(nobody_asked(&end));
    assert_eq!(running.with(|cache| cache.options().mode), Mode::WriteBack, "as before");

    failing.set_plan(&FaultPlan::new(1));
    running.with(|cache| cache.work(std::time::Duration::from_secs(5)));
    let answer = asked(&answers, Question::Detach {});
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    assert!(nobody_asked(&end), "the cores are served");
    let seen = block_on(look(&device)).unwrap();
    assert!(seen.stored.is_distrusted && seen.stored.mode == Mode::WriteBack);
    let refused = asked(&answers, Question::Detach {});
    assert!(matches!(&refused, Answer::Error(why) if why.contains("already")), "{refused:?}");
    drop(opened.lock().unwrap_or_else(PoisonError::into_inner).take());
    let refused = asked(&answers, Question::Mode { mode: "wt".to_owned(), flush: true });
    assert!(matches!(&refused, Answer::Error(why) if why.contains("ending")), "{refused:?}");
}
