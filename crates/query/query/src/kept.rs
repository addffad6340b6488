//! The tables of a trace in a file beside it, `TRACE.tables`: of one that has not changed since, they need not be made again (`--cache`).

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ferretto_analysis::fleet::{Files, Places, Read as ReadTrace, Source};
use ferretto_import::kept::{About, FileState, KeptTables, sha256, write};
use ferretto_import::{self as import, Error, Progress};
use ferretto_trace_tables::Tables;

use crate::failure::note;
use crate::input::notes;
use crate::stage::NewFile;

/// A file that was written to within this time may be written to again without its times saying so: clocks of file systems are coarse. (As Git's
/// index has it, "racy git"; that one takes a second, and FAT counts in two.)
const SETTLED_NS: i128 = 2_000_000_000;
/// What others may not do with a file that is believed.
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// Who makes tables: this build, with these rules.
fn maker(options: &import::Options) -> String {
    let build = std::env::current_exe().and_then(|path| path.metadata());
    let build = build.map(|meta| (meta.len(), meta.mtime(), meta.mtime_nsec())).unwrap_or_default();
    let crop = options.crop_track_events;
    format!("ferretto {} {build:?} crop_track_events={crop}", env!("CARGO_PKG_VERSION"))
}

/// The file of a trace's tables.
fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".tables");
    name.into()
}

/// The tables of a trace, and what is to be said of it: out of the file beside it if they are those of `trace`; otherwise they are made of it, and that
/// file, too, as far as it can be written.
///
/// # Errors
///
/// If the trace cannot be read.
pub(crate) fn tables(
    path: &Path,
    trace: &Arc<File>,
    options: &import::Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Vec<String>), Error> {
    let (maker, before) = (maker(options), FileState::of(trace)?);
    if let Some(kept) = believed(&beside(path)).filter(|kept| kept.about().maker == maker)
        && (kept.about().file == Some(before) || kept.about().sha256 == sha256(rewound(trace)?, watch)?)
        && let Some(tables) = kept.tables(options.memory_bytes / 2)
    {
        return Ok((tables, kept.about().notes.clone()));
    }
    let options = import::Options { sha256: true, file: Some(trace.clone()), ..options.clone() };
    let (tables, imported) = import::import(rewound(trace)?, &options, watch)?;
    let notes = notes(&imported);
    let after = FileState::of(trace)?;
    // One that grows meanwhile has no hash of its own.
    if let Some(sha256) = imported.source.sha256.filter(|_| after == before) {
        let file = Some(before).filter(|state| now_ns() - state.changed_ns() > SETTLED_NS);
        let about = About { maker, sha256, file, notes: notes.clone() };
        if let Err(error) = keep(&beside(path), &tables, &about) {
            note(&format!("the tables are not kept: {error}"));
        }
    }
    Ok((tables, notes))
}

fn keep(path: &Path, tables: &Tables, about: &About) -> Result<(), String> {
    let mut file = NewFile::create(path).map_err(|failure| failure.message().to_owned())?;
    let written = write(&mut file, tables, about).and_then(|()| file.finish());
    written.map(drop).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Tables in a file that nobody else can have written.
fn believed(path: &Path) -> Option<KeptTables> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let meta = file.metadata().ok()?;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&meta.uid());
    (meta.is_file() && is_ours && meta.mode() & WRITTEN_BY_OTHERS == 0).then(|| KeptTables::open(file))?
}

/// It from its first byte on.
fn rewound(file: &Arc<File>) -> std::io::Result<impl Read + Send + use<>> {
    let mut file = file.clone();
    file.rewind()?;
    Ok(file)
}

fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos().cast_signed())
}

/// Files of this machine, whose tables are kept beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptFiles;

impl Places for KeptFiles {
    fn open(&self, path: &str) -> std::io::Result<Source> {
        Files.open(path)
    }

    fn tables(
        &self,
        path: &str,
        options: &import::Options,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<ReadTrace, Error> {
        match Files.open(path)?.again {
            None => Files.tables(path, options, watch),
            Some(trace) => {
                let (tables, notes) = tables(Path::new(path), &trace, options, watch)?;
                Ok(ReadTrace { tables, is_whole: notes.is_empty() })
            }
        }
    }
}
