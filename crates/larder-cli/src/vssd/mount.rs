//! `larder vssd mount`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder_blocks::BlockStore;
use larder_fs::{ErrorKind, FileSystem, MountOptions, Mounted, Options, fsck, mount};
use larder_workload::Error;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::files::FileSystemCheck;
use super::image::{known, open, open_unwritten, refused};
use super::levelling::InService;
use super::output::{count, deliver, human, json_target};
use crate::args::MountArgs;
use crate::ending::Ending;

/// How often we check whether it was unmounted.
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize)]
struct MountReport {
    vssd: u32,
    directory: String,
    /// A new file system was made.
    formatted: bool,
    capacity_bytes: u64,
    free_bytes: u64,
    inodes: u64,
    /// Pages written to the log; together with `checkpoint_pages` all pages that were appended.
    logged_pages: u64,
    checkpoint_pages: u64,
    /// Data pages that the cleaner moved, from `cleaned_blocks` blocks.
    moved_pages: u64,
    cleaned_blocks: u64,
}

pub(super) fn run(arguments: &MountArgs) -> Result<Ending, Error> {
    // Before any thread is started, so that no other thread takes the signals.
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Error::run(format!("signals cannot be waited for: {error}")))?;
    let json = json_target(&arguments.output)?;
    let dir = directory(&arguments.dir)?;
    let (array, _) = match arguments.read_only {
        true => open_unwritten(&arguments.image)?,
        false => open(&arguments.image)?,
    };
    let id = known(&array, arguments.vssd)?;
    let store = array.store(id).map_err(|error| refused("vSSD", &error))?;
    let store: Arc<dyn BlockStore> = Arc::new(store);
    let (fs, formatted) = file_system(Arc::clone(&store), arguments)?;
    let fs = Arc::new(fs);
    let how = MountOptions {
        name: source(&arguments.image.image, arguments.vssd),
        for_all: arguments.for_all,
        trusted: arguments.for_all,
        read_only: arguments.read_only,
        ..MountOptions::default()
    };
    let mounted = mount(Arc::clone(&fs), &dir, &how).map_err(|error| not_mounted(&dir, &error))?;
    let space = fs.space();
    let page = u64::from(space.page_bytes);
    let place = dir.display();
    eprintln!(
        "vSSD {} is mounted at {place}, {} of {} free; `umount {place}`, SIGTERM or Ctrl-C ends it",
        id.0,
        human(space.free_pages * page),
        human(space.pages * page)
    );
    let in_service = match arguments.read_only {
        true => None,
        false => {
            let image = &arguments.image.image;
            Some(InService::start(&array, image, &arguments.levelling)?)
        }
    };
    let closed = match serve(mounted, &mut signals, &dir)? {
        _ if arguments.read_only => Ok(()),
        ServingEnd::Detached => fs.close(),
        // Unmounting has closed it. If that failed, `sync` fails too.
        ServingEnd::Unmounted => fs.sync(),
    };
    closed.map_err(|error| Error::run(format!("vSSD {}: {error}", id.0)))?;
    drop(in_service);
    array.sync().map_err(|error| refused("image", &error))?;
    let (space, counts) = (fs.space(), fs.counts());
    let ended = MountReport {
        vssd: id.0,
        directory: place.to_string(),
        formatted,
        capacity_bytes: space.pages * page,
        free_bytes: space.free_pages * page,
        inodes: space.inodes,
        logged_pages: counts.logged_pages,
        checkpoint_pages: counts.checkpoint_pages,
        moved_pages: counts.moved_pages,
        cleaned_blocks: counts.cleaned_blocks,
    };
    deliver(json, &ended.render(), &ended)?;
    Ok(Ending::Complete)
}

impl MountReport {
    fn render(&self) -> String {
        format!(
            "vSSD {}: unmounted and durable, {} inodes, {} of {} free; {} pages went to the log and {} to checkpoints, \
             the cleaner moved {} from {} blocks\n",
            self.vssd,
            count(self.inodes),
            human(self.free_bytes),
            human(self.capacity_bytes),
            count(self.logged_pages),
            count(self.checkpoint_pages),
            count(self.moved_pages),
            count(self.cleaned_blocks)
        )
    }
}

/// The file system of a vSSD, and whether it was just created.
fn file_system(
    store: Arc<dyn BlockStore>,
    arguments: &MountArgs,
) -> Result<(FileSystem, bool), Error> {
    let vssd = arguments.vssd;
    let blocks = store.list().len();
    let is_new = arguments.format || (blocks == 0 && !arguments.read_only);
    if is_new {
        let made = FileSystem::format(store, true, Options::default());
        let fs = made.map_err(|error| {
            let fix = match error.kind() {
                ErrorKind::Setup => {
                    "; `larder vssd create` with more --capacity makes a larger vSSD"
                }
                _ => "",
            };
            Error::run(format!("vSSD {vssd}: {error}{fix}"))
        })?;
        let why = match blocks {
            0 => "for it had no blocks".to_owned(),
            _ => format!("and the {blocks} blocks that were there are freed"),
        };
        eprintln!("vSSD {vssd}: a new file system was made, {why}");
        return Ok((fs, true));
    }
    if arguments.check && fsck::is_on(&*store) {
        let checked = FileSystemCheck::of(vssd, Arc::clone(&store))?;
        eprint!("{}", checked.render());
        if checked.wrong_things() > 0 {
            let fix = "save what can be read with --read-only, then mount with --format";
            let wrong = checked.wrong_things();
            return Err(Error::run(format!("vSSD {vssd}: {wrong} things are wrong; {fix}")));
        }
    }
    let options = Options { read_only: arguments.read_only, ..Options::default() };
    let opened = FileSystem::open(store, options);
    opened.map(|fs| (fs, false)).map_err(|error| {
        let fix = match error.kind() {
            ErrorKind::Setup => "; --format makes one, and what it holds is lost",
            _ => "",
        };
        Error::run(format!("vSSD {vssd}: {error}{fix}"))
    })
}

/// How serving ended.
enum ServingEnd {
    Unmounted,
    /// Detached; files may still be open there.
    Detached,
}

/// Serves until it is unmounted. A signal unmounts it if no file is open; a second signal detaches it even with open
/// files.
fn serve(mounted: Mounted, signals: &mut Signals, dir: &Path) -> Result<ServingEnd, Error> {
    let failed = |error: io::Error| Error::run(format!("{}: {error}", dir.display()));
    let mut asked = false;
    while mounted.is_mounted() {
        std::thread::sleep(POLL);
        if signals.pending().next().is_none() {
            continue;
        }
        match mounted.unmount() {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && !asked => {
                asked = true;
                eprintln!(
                    "{} is in use, and stays mounted; `fuser -vm` says by whom. A second signal takes it from them",
                    dir.display()
                );
            }
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                // Files that are open there end with this process, which does not wait for them.
                return mounted.detach().map(|()| ServingEnd::Detached).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    mounted.wait().map(|()| ServingEnd::Unmounted).map_err(failed)
}

/// The directory; fails if it is none.
fn directory(path: &Path) -> Result<std::path::PathBuf, Error> {
    let refused = |why: String| Err(Error::run(format!("DIR {}: {why}", path.display())));
    match path.metadata().and_then(|metadata| Ok((metadata, path.canonicalize()?))) {
        Ok((metadata, dir)) if metadata.is_dir() => Ok(dir),
        Ok(_) => refused("is no directory; name one".to_owned()),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            refused("what was mounted there has died; `umount` it first".to_owned())
        }
        Err(error) => refused(format!("{error}; make the directory, or name another")),
    }
}

fn not_mounted(dir: &Path, error: &io::Error) -> Error {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "; is there a /dev/fuse? `modprobe fuse` makes it",
        io::ErrorKind::PermissionDenied => "; become root, or install fuse3 (fusermount3)",
        _ => "",
    };
    Error::run(format!("DIR {}: it cannot be mounted there: {error}{fix}", dir.display()))
}

/// The source in the output of `mount`: the image and the vSSD. A comma or a blank would end the word, and a "#" would
/// name a program.
fn source(image: &Path, vssd: u32) -> String {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let word = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    format!("{}:{vssd}", name.chars().map(word).collect::<String>())
}
