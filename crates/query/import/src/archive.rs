//! An archive of traces (zip, tar): each member is recognized, and read as one more file of the same trace.
//!
//! What is read in which order is upstream's (archive_entry.cc): Perfetto's own traces, what holds other files, files of other formats, and
//! symbols last; among these by name. What holds others is read where it stands, so a zip in a zip is, and a packed trace. But all of Perfetto's
//! own packets, wherever they lie, become rows together, in the order of time; the rows of another format follow, file by file. (Upstream has all
//! rows in the order of time.) Members that cannot be read are told of and cost no other. A manifest is read before all others of its archive: it says
//! how the times of files lie to each other.
//!
//! A zip's directory is at its end, and files are not read in the order in which they lie: so the archive is kept: in memory if it is small, else in a temporary file.
//!
//! An archive is hostile. There are bounds on how many files there are in all, how deep they lie, and how much comes out of them.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ferretto_trace_formats::manifest::{self, Manifest};
use ferretto_trace_formats::recognize::{Format, HEAD_BYTES, Use, recognize};
use ferretto_trace_model::trace_files::{File, Listed};
use ferretto_trace_read::container::unpacked;
use ferretto_trace_read::{End, Place, Reader, tar, zip};
use ferretto_trace_tables::{Tables, TraceFileId};
use tempfile::SpooledTempFile;

use crate::Error;
use crate::block_file;
use crate::drive::{Fold, Imported, Options, Progress};
use crate::manifest::{Rules, follow, follow_alone};
use crate::others::{self, PIECE_BYTES};
use crate::source::{Shared, Tap};

/// Archives up to this size are kept in memory. Ours: most are.
const IN_MEMORY_BYTES: usize = 32 << 20;
/// Files in all, those of archives within the archive too. Ours.
const MAX_FILES: usize = 20_000;
/// Archives within archives. Ours: a zip of zips of packed traces has three.
const MAX_DEPTH: u32 = 4;
/// What comes out of an archive may be so many times its size: traces pack to a tenth or so. Ours.
const MAX_RATIO: u64 = 200;
/// Whatever its ratio, so many bytes may come out of an archive. Ours: for small ones of nothing but one text, again and again.
const FREE_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// What is said of an archive that was cut off.
const CUT_OFF: &str = "the archive is cut off: what it has behind its last whole file is missing";

/// A file of an archive, or its directory if that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path, with those of the archives that it is in before it.
    pub name: String,
    /// What it seemed to be.
    pub format: Option<Format>,
    /// Why it was not read, or not to its end.
    pub trouble: Option<String>,
}

/// The archive that begins like this, packed by gzip or zstd or not.
pub(crate) fn format_of(head: &[u8]) -> Option<Format> {
    let is_archive = |format: &Format| matches!(format, Format::Zip | Format::Tar);
    recognize(head).filter(is_archive).or_else(|| {
        let mut inner = Vec::new();
        // A head may end within what is packed: what came out of it is enough.
        _ = unpacked_archive(Box::new(head)).ok()?.take(HEAD_BYTES as u64).read_to_end(&mut inner);
        recognize(&inner).filter(is_archive)
    })
}

/// Reads an archive through to its end.
pub(crate) fn import(
    format: Format,
    file: impl Read,
    options: &Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Imported), Error> {
    let shared = Shared::default();
    let mut tap = Tap::new(file, &shared, options, None);
    let mut keep = || {
        let bytes = shared.bytes.load(Ordering::Relaxed);
        if watch(Progress::Reading { bytes }) { Ok(()) } else { Err(Error::Stopped) }
    };
    let whole = keep_all(&mut unpacked_archive(Box::new(&mut tap))?, IN_MEMORY_BYTES, &mut keep)?;
    let source = tap.finish()?;
    let mut fold = Fold::new(options, watch);
    fold.import.model().begin_archive(format.name());
    let mut contents = Contents {
        left: Rc::new(Cell::new(source.bytes.saturating_mul(MAX_RATIO).max(FREE_BYTES))),
        ..Contents::default()
    };
    contents.open(format, whole, None, "", MAX_DEPTH)?;
    contents.list(&mut fold);
    contents.follow_manifest(&mut fold)?;
    let end = contents.read(&mut fold, &shared)?;
    let members = contents.members();
    if contents.read == 0 {
        return Err(nothing_in(&members));
    }
    fold.import.end_file(File { name: None, bytes: source.bytes, head: &source.head });
    Ok((fold.finish()?, Imported { source, end, members }))
}

/// A manifest by itself is a trace of nothing but what it says.
pub(crate) fn import_manifest(
    file: impl Read,
    options: &Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Imported), Error> {
    let shared = Shared::default();
    let mut tap = Tap::new(file, &shared, options, None);
    let said = manifest::read(BufReader::with_capacity(PIECE_BYTES, &mut tap));
    let source = tap.finish()?;
    let mut fold = Fold::new(options, watch);
    fold.import.model().begin_archive(Format::Manifest.name());
    let followed = said.map_err(|error| error.to_string());
    followed
        .and_then(|manifest| follow_alone(&manifest, &mut fold.import))
        .map_err(|trouble| Error::Manifest { manifest: "the file".to_owned(), trouble })?;
    fold.import.end_file(File { name: None, bytes: source.bytes, head: &source.head });
    Ok((fold.finish()?, Imported { source, end: End::default(), members: Vec::new() }))
}

/// Why an archive is no trace.
fn nothing_in(members: &[Member]) -> Error {
    let trouble = members.iter().find_map(|member| Some((member, member.trouble.as_ref()?)));
    match trouble {
        Some((member, trouble)) => Error::Archive { member: member.name.clone(), trouble: trouble.clone() },
        None => Error::NotATrace("there is no trace in this archive"),
    }
}

/// All bytes of a file, so that any of them can be asked for.
fn keep_all(
    file: &mut dyn Read,
    in_memory: usize,
    keep_on: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<SpooledTempFile, Error> {
    let mut kept = SpooledTempFile::new_in(in_memory, block_file::folder());
    loop {
        let len = io::copy(&mut file.take(PIECE_BYTES as u64), &mut kept)?;
        if len == 0 {
            break;
        }
        keep_on()?;
    }
    kept.seek(SeekFrom::Start(0))?;
    Ok(kept)
}

/// An archive whose files can be asked for.
#[derive(Debug)]
enum Archive {
    Zip(zip::Archive<SpooledTempFile>),
    Tar(tar::Archive<SpooledTempFile>),
}

/// A file in an archive.
struct Listing {
    name: String,
    packed_bytes: u64,
    /// Its size, if the archive says it.
    bytes: Option<u64>,
}

impl Archive {
    fn open(format: Format, file: SpooledTempFile) -> io::Result<Self> {
        match format {
            Format::Tar => tar::Archive::open(file).map(Self::Tar),
            _ => zip::Archive::open(file).map(Self::Zip),
        }
    }

    fn members(&self) -> Vec<Listing> {
        match self {
            Self::Zip(archive) => {
                let listing = |member: &zip::Member| Listing {
                    name: member.name.clone(),
                    packed_bytes: member.packed_bytes,
                    bytes: member.bytes,
                };
                archive.members().iter().map(listing).collect()
            }
            Self::Tar(archive) => {
                let listing = |member: &tar::Member| Listing {
                    name: member.name.clone(),
                    packed_bytes: member.bytes,
                    bytes: Some(member.bytes),
                };
                archive.members().iter().map(listing).collect()
            }
        }
    }

    fn is_cut_off(&self) -> bool {
        match self {
            Self::Zip(archive) => archive.is_cut_off(),
            Self::Tar(archive) => archive.is_cut_off(),
        }
    }

    fn read(&mut self, member: usize) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Self::Zip(archive) => archive.read(member),
            Self::Tar(archive) => archive.read(member),
        }
    }
}

impl Listing {
    /// Whether it is a folder, or one of the files that systems put beside others.
    fn is_none_of_a_trace(&self) -> bool {
        self.name.ends_with('/') || zip::is_hidden(&self.name)
    }
}

/// A file that was met.
#[derive(Debug)]
struct Met {
    name: String,
    /// The archive or the packed file that it is in, by its turn here; the whole if it is nothing.
    parent: Option<usize>,
    /// As the table has it.
    short_name: String,
    bytes: u64,
    format: Option<Format>,
    order: Option<i64>,
    /// Its archive and its turn there.
    place: (usize, usize),
    /// Where its row is.
    row: TraceFileId,
    trouble: Option<String>,
}

/// All files of an archive.
#[derive(Debug, Default)]
struct Contents {
    archives: Vec<Archive>,
    files: Vec<Met>,
    /// The manifest's place, and what it says or what is wrong with it.
    manifest: Option<(usize, Result<Manifest, String>)>,
    /// What it says of files, by their places.
    rules: HashMap<(usize, usize), Rules>,
    /// Those to be read, in their order.
    leaves: Vec<usize>,
    /// How many were given a place in the order.
    ordered: i64,
    /// Bytes that may still come out.
    left: Rc<Cell<u64>>,
    /// How many gave something.
    read: usize,
    /// The archive itself has no directory.
    is_cut_off: bool,
    /// Bytes of archives within the archive that are kept in memory, at most.
    in_memory: usize,
}

impl Contents {
    /// Looks at the members of an archive, and at those of archives in it.
    fn open(
        &mut self,
        format: Format,
        file: SpooledTempFile,
        parent: Option<usize>,
        path: &str,
        depth: u32,
    ) -> Result<(), Error> {
        let archive = Archive::open(format, file)?;
        let number = self.archives.len();
        let members = archive.members();
        if archive.is_cut_off() {
            match parent {
                Some(file) => self.note(file, Err(CUT_OFF.to_owned())),
                None => self.is_cut_off = true,
            }
        }
        self.archives.push(archive);
        let first = self.files.len();
        for (at, member) in members.iter().enumerate() {
            if zip::is_hidden(&member.name) {
                continue;
            }
            if self.files.len() >= MAX_FILES {
                return Err(io::Error::other("there are more files in this archive than are read").into());
            }
            let met = Met {
                name: [path, &member.name].concat(),
                parent,
                short_name: member.name.clone(),
                bytes: member.packed_bytes,
                format: None,
                order: None,
                place: (number, at),
                row: TraceFileId(0),
                trouble: None,
            };
            self.files.push(met);
            if !member.is_none_of_a_trace() && member.bytes != Some(0) {
                let file = self.files.len() - 1;
                self.recognize(file);
            }
        }
        let mut order: Vec<usize> = (first..self.files.len()).filter(|file| self.is_of_use(*file)).collect();
        order.sort_by(|one, other| self.turn(*one).cmp(&self.turn(*other)));
        for file in order {
            self.visit(file, depth);
        }
        Ok(())
    }

    fn recognize(&mut self, file: usize) {
        let head = self.head(file, TakenOff::Nothing);
        let Some(met) = self.files.get_mut(file) else { return };
        match head {
            Ok(head) => met.format = recognize(&head),
            Err(error) => met.trouble = Some(error.to_string()),
        }
        if met.trouble.is_none() {
            met.trouble = match met.format {
                None => Some("it is of no format that is known here".to_owned()),
                Some(format) if format.use_() == Use::Refused && format != Format::Manifest => {
                    Some(format!("it seems to be {}", format.words()))
                }
                Some(_) => None,
            };
        }
    }

    /// The first bytes of a file. What is damaged behind them is found when it is read.
    fn head(&mut self, file: usize, taken_off: TakenOff) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        let end = self.bytes_of(file, taken_off)?.take(HEAD_BYTES as u64).read_to_end(&mut head);
        match end {
            Err(error) if head.is_empty() => Err(error),
            _ => Ok(head),
        }
    }

    /// The bytes of a member, of which no more come than may.
    fn bytes_of(&mut self, file: usize, taken_off: TakenOff) -> io::Result<Bounded<'_>> {
        let (archive, member) = self.files.get(file).map_or((0, 0), |met| met.place);
        let left = Rc::clone(&self.left);
        let archive = self.archives.get_mut(archive).ok_or(io::ErrorKind::NotFound)?;
        let bytes = archive.read(member)?;
        let file = match taken_off {
            TakenOff::Nothing => bytes,
            TakenOff::Packing => unpacked(bytes)?,
            TakenOff::PackingOfArchive => unpacked_archive(bytes)?,
        };
        Ok(Bounded { file, left })
    }

    fn is_of_use(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(|met| met.format.is_some() && met.trouble.is_none())
    }

    fn turn(&self, file: usize) -> Option<(u8, &str, usize)> {
        let met = self.files.get(file)?;
        let class = match (met.format?, met.format?.use_()) {
            (Format::Manifest, _) => 0,
            (Format::Symbols, _) => 4,
            (_, Use::Own) => 1,
            (_, Use::Container) => 2,
            _ => 3,
        };
        Some((class, &met.short_name, file))
    }

    /// A file has its turn.
    fn visit(&mut self, file: usize, depth: u32) {
        self.ordered += 1;
        let order = self.ordered;
        let Some(met) = self.files.get_mut(file) else { return };
        met.order = Some(order);
        let path = format!("{}/", met.name);
        match met.format {
            Some(format @ (Format::Zip | Format::Tar)) => {
                let opened = match depth.checked_sub(1) {
                    Some(depth) => self.open_inner(format, file, &path, depth),
                    None => Err("it lies in too many archives".to_owned()),
                };
                self.note(file, opened);
            }
            Some(Format::Gzip | Format::Zstd) => self.visit_packed(file, depth),
            Some(Format::Manifest) => {
                let manifest = self.read_manifest(file);
                // That there are two is what counts.
                self.manifest = Some((file, manifest));
            }
            _ => self.leaves.push(file),
        }
    }

    fn read_manifest(&mut self, file: usize) -> Result<Manifest, String> {
        if self.manifest.is_some() {
            return Err("it is the second one".to_owned());
        }
        if !self.leaves.is_empty() {
            return Err("it comes after files that it may be about".to_owned());
        }
        let bytes = self.bytes_of(file, TakenOff::Packing).map_err(|error| error.to_string())?;
        let manifest = manifest::read(BufReader::with_capacity(PIECE_BYTES, bytes));
        manifest.map_err(|error| error.to_string())
    }

    /// What the manifest says holds for the files of its archive.
    fn follow_manifest(&mut self, fold: &mut Fold<'_>) -> Result<(), Error> {
        let Some((file, manifest)) = &self.manifest else { return Ok(()) };
        let archive = self.files.get(*file).map(|met| met.place.0);
        let rules = manifest.clone().and_then(|manifest| {
            let of_archive = self.files.iter().filter(|met| Some(met.place.0) == archive);
            let listed = of_archive.filter_map(|met| Some((met.place, met.short_name.as_str(), met.format?)));
            follow(&manifest, &listed.collect::<Vec<_>>(), &mut fold.import)
        });
        self.rules = rules.map_err(|trouble| self.wrong_manifest(trouble))?;
        Ok(())
    }

    fn wrong_manifest(&self, trouble: String) -> Error {
        let met = self.manifest.as_ref().and_then(|(file, _)| self.files.get(*file));
        Error::Manifest { manifest: met.map_or_else(String::new, |met| met.name.clone()), trouble }
    }

    /// What is packed by itself is a file of its own, without a name.
    fn visit_packed(&mut self, file: usize, depth: u32) {
        let head = self.head(file, TakenOff::Packing);
        let Some(packed) = self.files.get(file) else { return };
        let inner = Met {
            name: packed.name.clone(),
            parent: Some(file),
            short_name: String::new(),
            bytes: 0,
            format: head.as_ref().ok().and_then(|head| recognize(head)),
            order: None,
            place: packed.place,
            row: TraceFileId(0),
            trouble: None,
        };
        if let Err(error) = head {
            return self.note(file, Err(error.to_string()));
        }
        let (number, format) = (self.files.len(), inner.format);
        let use_ = format.map(Format::use_);
        let is_packed_again = matches!(inner.format, Some(Format::Gzip | Format::Zstd));
        let words = inner.format.map_or("of no format that is known here", Format::words);
        let trouble = format!("what is packed in it seems to be {words}");
        self.files.push(inner);
        match use_ {
            Some(Use::Refused) if format == Some(Format::Manifest) => self.visit(number, depth),
            Some(Use::Refused) | None => self.note(number, Err(trouble)),
            Some(Use::Container) if is_packed_again => self.note(number, Err(trouble)),
            _ => self.visit(number, depth),
        }
    }

    fn open_inner(&mut self, format: Format, file: usize, path: &str, depth: u32) -> Result<(), String> {
        let in_memory = IN_MEMORY_BYTES.saturating_sub(self.in_memory);
        let before = self.left.get();
        let kept = self
            .bytes_of(file, TakenOff::PackingOfArchive)
            .map_err(Error::from)
            .and_then(|mut bytes| keep_all(&mut bytes, in_memory, &mut || Ok(())));
        let bytes_out = before.saturating_sub(self.left.get());
        if let Ok(kept) = &kept
            && !kept.is_rolled()
        {
            self.in_memory = self.in_memory.saturating_add(usize::try_from(bytes_out).unwrap_or(usize::MAX));
        }
        kept.and_then(|kept| self.open(format, kept, Some(file), path, depth))
            .map_err(|error| error.to_string())
    }

    fn note(&mut self, file: usize, end: Result<(), String>) {
        if let (Some(met), Err(error)) = (self.files.get_mut(file), end) {
            met.trouble.get_or_insert(error);
        }
    }

    /// The rows of `trace_file`.
    fn list(&mut self, fold: &mut Fold<'_>) {
        for file in 0..self.files.len() {
            let parent = self.files.get(file).and_then(|met| met.parent);
            let parent =
                parent.and_then(|parent| self.files.get(parent)).map_or(TraceFileId(0), |met| met.row);
            let Some(met) = self.files.get_mut(file) else { continue };
            met.row = fold.import.model().list_file(Listed {
                parent: Some(parent),
                name: Some(&met.short_name),
                bytes: met.bytes,
                format: met.format.map_or("unknown", Format::name),
                processing_order: met.order,
                is_container: met.format.is_some_and(|format| format.use_() == Use::Container),
            });
        }
    }

    /// Reads all that are to be read. What they say is in `fold`, and why that goes on no further.
    fn read(&mut self, fold: &mut Fold<'_>, shared: &Shared) -> Result<End, Error> {
        let mut end = End::default();
        let leaves = std::mem::take(&mut self.leaves);
        let formats = leaves.iter().map(|file| self.files.get(*file).and_then(|met| met.format));
        let leaves: Vec<(usize, Format)> =
            leaves.iter().zip(formats).filter_map(|(file, format)| Some((*file, format?))).collect();
        let own = |format: Format, is_symbols| {
            format.use_() == Use::Own && (format == Format::Symbols) == is_symbols
        };
        for (file, _) in leaves.iter().filter(|(_, format)| own(*format, false)) {
            self.read_own(*file, fold, shared, &mut end)?;
        }
        fold.settle()?;
        for (file, format) in leaves.iter().filter(|(_, format)| format.use_() == Use::Imported) {
            self.read_other(*file, *format, fold, shared)?;
        }
        for (file, _) in leaves.iter().filter(|(_, format)| own(*format, true)) {
            self.read_own(*file, fold, shared, &mut end)?;
        }
        fold.settle()?;
        Ok(end)
    }

    /// Whether a file gave something, and why not all.
    fn note_read(&mut self, file: usize, gave: bool, told: Result<(), String>) {
        self.read += usize::from(gave);
        self.note(file, told);
    }

    /// What comes out of a packed file is as large as it turned out.
    fn note_size(&self, file: usize, bytes: u64, fold: &mut Fold<'_>) {
        let Some(met) = self.files.get(file).filter(|met| met.short_name.is_empty()) else { return };
        let sizes = &mut fold.import.model().tables.trace_file.size;
        if let Some(size) = sizes.get_mut(met.row.index()) {
            *size = i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }

    fn row_of(&self, file: usize) -> TraceFileId {
        self.files.get(file).map_or(TraceFileId(0), |met| met.row)
    }

    fn read_own(
        &mut self,
        file: usize,
        fold: &mut Fold<'_>,
        shared: &Shared,
        end: &mut End,
    ) -> Result<(), Error> {
        let Rules { machines, times, .. } = self.rules_of(file);
        fold.import.next_file(self.row_of(file), machines, times);
        let (mut packets, mut bytes) = (0, 0);
        let told = self.read_packets(file, &mut |packet, place| {
            packets += 1;
            fold.take(packet, place, shared);
        });
        let told = told.and_then(|told| {
            bytes = told.bytes;
            end.huge_packets += told.huge_packets;
            match (told.broken_at, told.torn_at) {
                (Some(at), _) => Err(format!("at offset {at}: what begins here is no trace")),
                (None, Some(at)) => Err(format!("at offset {at}: the last packet is not whole")),
                (None, None) if packets == 0 => Err("it has no packet".to_owned()),
                (None, None) => Ok(()),
            }
        });
        end.packets += packets;
        end.bytes += bytes;
        self.note_size(file, bytes, fold);
        self.note_read(file, packets > 0, told);
        let wrong = fold.import.model().machines.wrong();
        wrong.map_or(Ok(()), |wrong| Err(self.wrong_manifest(format!("{}: {wrong}", self.name_of(file)))))
    }

    fn rules_of(&self, file: usize) -> Rules {
        self.files.get(file).and_then(|met| self.rules.get(&met.place)).cloned().unwrap_or_default()
    }

    fn name_of(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |met| &met.name)
    }

    fn read_packets(&mut self, file: usize, each: &mut dyn FnMut(&[u8], Place)) -> Result<End, String> {
        let bytes = self.bytes_of(file, TakenOff::Packing).map_err(|error| error.to_string())?;
        let left = Rc::clone(&bytes.left);
        let end = Reader::new(bytes).for_each(|packet, place| {
            // What comes out of batches counts, too.
            if place.in_batch.is_some() {
                left.set(left.get().saturating_sub(packet.len() as u64));
            }
            each(packet, place);
        });
        end.map_err(|error| error.to_string())
    }

    /// What is wrong with the file is noted; what is wrong with the reading of all files is an error.
    fn read_other(
        &mut self,
        file: usize,
        format: Format,
        fold: &mut Fold<'_>,
        shared: &Shared,
    ) -> Result<(), Error> {
        let row = self.row_of(file);
        let Rules { machine, times, .. } = self.rules_of(file);
        let before = (others::rows(&fold.import.model().tables), self.left.get());
        fold.import.next_other_file(row, machine, times);
        let told = self.read_rows(file, format, fold, shared)?;
        let gave = told.is_ok() || others::rows(&fold.import.model().tables) > before.0;
        self.note_size(file, before.1.saturating_sub(self.left.get()), fold);
        self.note_read(file, gave, told);
        Ok(())
    }

    fn read_rows(
        &mut self,
        file: usize,
        format: Format,
        fold: &mut Fold<'_>,
        shared: &Shared,
    ) -> Result<Result<(), String>, Error> {
        let bytes = match self.bytes_of(file, TakenOff::Packing) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let Fold { import, watch, bound, .. } = fold;
        let told =
            others::read(format, Box::new(bytes), import.model(), bound.limit_bytes(), *watch, shared)?;
        Ok(told.map_err(|error| error.to_string()))
    }

    /// What is told of the files.
    fn members(&self) -> Vec<Member> {
        let file =
            |met: &Met| Member { name: met.name.clone(), format: met.format, trouble: met.trouble.clone() };
        let whole =
            Member { name: "its directory".to_owned(), format: None, trouble: Some(CUT_OFF.to_owned()) };
        let met = self.files.iter().filter(|met| met.format.is_some() || met.trouble.is_some()).map(file);
        self.is_cut_off.then_some(whole).into_iter().chain(met).collect()
    }
}

/// What is taken off a member before it is read.
#[derive(Clone, Copy, Debug)]
enum TakenOff {
    Nothing,
    /// gzip or zstd.
    Packing,
    /// The same, if there is an archive in it.
    PackingOfArchive,
}

fn unpacked_archive<'a>(file: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut file = BufReader::with_capacity(PIECE_BYTES, file);
    match recognize(file.fill_buf()?) {
        Some(Format::Gzip | Format::Zstd) => unpacked(file),
        _ => Ok(Box::new(file)),
    }
}

/// Bytes that come out of an archive, of which there may be so many in all.
struct Bounded<'a> {
    file: Box<dyn Read + 'a>,
    left: Rc<Cell<u64>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(to)?;
        let left = self.left.get().checked_sub(len as u64);
        self.left.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(len),
            None => {
                Err(io::Error::other("far more comes out of this archive than is in it: it is not read on"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ferretto_trace_tables::{Value, consistency};

    use super::*;
    use crate::import;

    const JSON: &[u8] =
        b"[{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":3,\"name\":\"x\"},{\"ph\":\"B\"}]";
    const STACKS: &[u8] = b"main;work 3\n";

    /// An instant of a program, in one packet.
    fn packets(ts: u8, name: u8) -> Vec<u8> {
        vec![0x0a, 0x0c, 0x40, ts, 0x50, 1, 0x5a, 6, 0x48, 3, 0xba, 1, 1, name]
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    /// An archive of members that are stored.
    fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, bytes) in members {
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            let mut common = Vec::new();
            common.extend([20, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in [crc.sum(), bytes.len() as u32, bytes.len() as u32, name.len() as u32] {
                common.extend(number.to_le_bytes());
            }
            directory.extend(b"PK\x01\x02\x14\x00");
            directory.extend(&common);
            directory.extend([0; 10]);
            directory.extend((file.len() as u32).to_le_bytes());
            directory.extend(name.bytes());
            file.extend(b"PK\x03\x04");
            file.extend(&common);
            file.extend(name.bytes());
            file.extend(*bytes);
        }
        let at = file.len() as u32;
        file.extend(&directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend((members.len() as u16).to_le_bytes().repeat(2));
        file.extend((directory.len() as u32).to_le_bytes());
        file.extend(at.to_le_bytes());
        file.extend([0, 0]);
        file
    }

    fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        for (name, bytes) in members {
            let mut header = vec![0; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
            header[148..156].fill(b' ');
            header[156] = b'0';
            header[257..265].copy_from_slice(b"ustar\x0000");
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            file.extend(header);
            file.extend(*bytes);
            file.resize(file.len().next_multiple_of(512), 0);
        }
        file.extend([0; 1024]);
        file
    }

    fn read(file: &[u8]) -> Result<(Tables, Imported), Error> {
        let read = import(file, &Options::default(), &mut |_| true);
        if let Ok((tables, _)) = &read {
            consistency::check(tables).unwrap();
        }
        read
    }

    fn rows(tables: &Tables, table: &str, columns: &[&str]) -> Vec<String> {
        let table = tables.find(table).unwrap();
        let cell = |column: &&str, row| match table.cell(column, row) {
            Value::Int(value) => value.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Str(text) => tables.strings.get(text).to_owned(),
            _ => "-".to_owned(),
        };
        let row = |row| columns.iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" ");
        (0..table.len()).map(row).collect()
    }

    #[test]
    fn members_are_files_of_one_trace_in_upstreams_order() {
        let inner = zip(&[("s.txt", STACKS), ("p.pftrace", &packets(9, b'p'))]);
        let file = zip(&[
            ("a.json.gz", &gzip(JSON)),
            ("sub/", b""),
            ("sub/e.json", JSON),
            ("d.pftrace", &packets(7, b'd')),
            (".DS_Store", b"x"),
            ("notes.txt", b"what I did"),
            ("inner.zip", &inner),
            ("c.pftrace", &packets(8, b'c')),
        ]);
        let (tables, imported) = read(&file).unwrap();
        let files = rows(
            &tables,
            "trace_file",
            &["parent_id", "name", "trace_type", "processing_order", "is_container"],
        );
        assert_eq!(
            files,
            [
                "- - zip 0 true",
                "0 a.json.gz gzip 3 true",
                "0 sub/ unknown - false",
                "0 sub/e.json json 8 false",
                "0 d.pftrace proto 2 false",
                "0 notes.txt text - false",
                "0 inner.zip zip 5 true",
                "0 c.pftrace proto 1 false",
                "1  json 4 false",
                "6 s.txt collapsed_stack 7 false",
                "6 p.pftrace proto 6 false",
            ]
        );
        assert_eq!(rows(&tables, "trace_file", &["size"])[8], JSON.len().to_string());
        // Of one thread each file has a track of its own.
        let slices = rows(&tables, "slice", &["ts", "dur", "track_id", "name"]);
        assert_eq!(slices, ["7 0 0 d", "8 0 0 c", "9 0 0 p", "5000 3000 1 x", "5000 3000 2 x"]);
        assert_eq!((tables.aggregate_sample.len(), imported.end.packets), (1, 3));
        assert_eq!(rows(&tables, "trace_import_logs", &["trace_id"]), ["8", "3"]);
        let trouble: Vec<_> = imported
            .members
            .iter()
            .filter_map(|it| Some((it.name.as_str(), it.trouble.as_deref()?)))
            .collect();
        assert_eq!(trouble, [("notes.txt", "it seems to be a text")]);
        assert_eq!(imported.source.bytes, file.len() as u64);
    }

    #[test]
    fn tar_archives_are_as_zip_archives() {
        let inner = tar(&[("s.txt", STACKS), ("p.pftrace", &packets(9, b'p'))]);
        let members: [(&str, &[u8]); 5] = [
            ("./b.json", JSON),
            ("./d.pftrace", &packets(7, b'd')),
            ("./.hidden", b"x"),
            ("./inner.tgz", &gzip(&inner)),
            ("./c.pftrace", &packets(8, b'c')),
        ];
        let file = tar(&members);
        for file in [&file, &gzip(&file)] {
            let (tables, imported) = read(file).unwrap();
            let files = rows(&tables, "trace_file", &["parent_id", "name", "trace_type", "processing_order"]);
            assert_eq!(
                files,
                [
                    "- - tar 0",
                    "0 ./b.json json 7",
                    "0 ./d.pftrace proto 2",
                    "0 ./inner.tgz gzip 3",
                    "0 ./c.pftrace proto 1",
                    "3  tar 4",
                    "5 s.txt collapsed_stack 6",
                    "5 p.pftrace proto 5",
                ]
            );
            let slices = rows(&tables, "slice", &["ts", "name"]);
            assert_eq!(slices, ["7 d", "8 c", "9 p", "5000 x"]);
            assert_eq!(tables.aggregate_sample.len(), 1);
            assert_eq!(imported.source.bytes, file.len() as u64);
        }
        let (tables, _) = read(&gzip(&zip(&members))).unwrap();
        assert_eq!(tables.slice.len(), 4);
        // Cut off within its last member, which is read as far as it is there.
        let cut = file.len() - 1024 - 512 + 14;
        let (tables, imported) = read(&file[..cut]).unwrap();
        assert_eq!(tables.slice.len(), 4);
        assert!(imported.members.iter().any(|it| it.trouble.as_deref() == Some(CUT_OFF)));
    }

    #[test]
    fn times_of_members_are_those_of_the_trace_where_its_clocks_say_so() {
        // At 5 s since boot MONOTONIC shows 2 s, REALTIME 1000 s.
        let mut trace = Vec::new();
        let mut root = ferretto_protozero::Message::new(&mut trace);
        let mut packet = root.nested(1);
        let mut snapshot = packet.nested(6);
        for (id, s) in [(6, 5), (3, 2), (1, 1000)] {
            let mut clock = snapshot.nested(1);
            clock.varint(1, id);
            clock.varint(2, s * 1_000_000_000);
        }
        drop(snapshot);
        drop(packet);
        drop(root);
        let events = b"# tracer: nop\n sh-7  (    7) [000] ....  2.500000: tracing_mark_write: B|7|call\n";
        let calls = b"7 1000.500000 close(3) = 0\n";
        let spans = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"1","name":"span","startTimeUnixNano":"1001000000000","endTimeUnixNano":"1002000000000"}]}]}]}"#;
        let sample = b"sh 7/7 3.500000: 1 cycles:\n\t55d main+0x5 (/bin/sh)\n\n";
        let mut members: Vec<(&str, &[u8])> =
            vec![("e.txt", events), ("c.txt", calls), ("s.json", spans), ("p.txt", sample), ("z.json", JSON)];
        let times = |members: &[(&str, &[u8])]| {
            let (tables, _) = read(&zip(members)).unwrap();
            let mut times = rows(&tables, "slice", &["name", "ts", "dur"]);
            times.extend(rows(&tables, "__intrinsic_profiler_sample", &["ts"]));
            times.sort();
            times
        };
        // Nothing relates them: each file keeps its times.
        let alone = [
            "3500000000",
            "call 2500000000 -1",
            "close 1000500000000 0",
            "span 1001000000000 1000000000",
            "x 5000 3000",
        ];
        assert_eq!(times(&members), alone);
        members.push(("t.pftrace", &trace));
        let beside = [
            "6500000000",
            "call 5500000000 -1",
            "close 5500000000 0",
            "span 6000000000 1000000000",
            "x 5000 3000",
        ];
        assert_eq!(times(&members), beside);
        // A manifest says what nothing else does: the second begins 1 s after the first, at 3 s of MONOTONIC.
        let said: &[u8] =
            br#"{ "perfetto_manifest": {"version":1,"files":[{"path":"t.pftrace"},
            {"path":"z.json","clocks":{"offset_ns":1000,"sync_to":{"file":"w.json"}}},{"path":"w.json"},
            {"path":"y.json","clocks":{"offset_ns":2999995000,"sync_to":{"file":"t.pftrace","clock":"MONOTONIC"}}}]}}"#;
        let members = [("m.json", said), ("z.json", JSON), ("y.json", JSON), ("t.pftrace", &trace)];
        assert_eq!(times(&members), ["x 6000 3000", "x 6000000000 3000"]);
    }

    #[test]
    fn a_member_that_cannot_be_read_costs_no_other() {
        let mut damaged = gzip(JSON);
        damaged.truncate(20);
        let torn = &packets(7, b't')[..9];
        let file = zip(&[
            ("a.json", JSON),
            ("b.json", b"[{\"ph\" nonsense"),
            ("c.gz", &damaged),
            ("d.pftrace", torn),
        ]);
        let (tables, imported) = read(&file).unwrap();
        assert_eq!(tables.slice.len(), 1);
        let trouble = |name: &str| {
            let member = imported.members.iter().find(|it| it.name == name && it.trouble.is_some());
            member.and_then(|it| it.trouble.clone()).unwrap_or_default()
        };
        assert!(trouble("b.json").contains("offset 1"), "{}", trouble("b.json"));
        assert!(trouble("d.pftrace").contains("offset 0"), "{}", trouble("d.pftrace"));
        assert!(!trouble("c.gz").is_empty());
    }

    #[test]
    fn an_archive_without_a_trace_is_refused_by_what_is_in_it() {
        let error = |file: &[u8]| read(file).unwrap_err().to_string();
        assert!(error(&zip(&[("a.txt", b"hello there")])).contains("a.txt: it seems to be a text"));
        assert!(error(&zip(&[("sub/", b"")])).contains("no trace in this archive"));
        assert!(error(b"PK\x03\x04").contains("cut off"));
    }

    #[test]
    fn an_archive_that_is_cut_off_anywhere_gives_what_is_whole() {
        let file = zip(&[("a.json", JSON), ("b.pftrace", &packets(7, b'b')), ("c.txt", STACKS)]);
        let mut most = 0;
        for end in 0..file.len() {
            let Ok((tables, imported)) = read(&file[..end]) else { continue };
            let found = tables.slice.len() + tables.aggregate_sample.len();
            assert!(found >= most, "{end}");
            most = found;
            let is_told = imported.members.iter().any(|it| it.trouble.as_deref() == Some(CUT_OFF));
            assert!(is_told, "{end}");
        }
        assert_eq!(most, 3);
    }

    #[test]
    fn bombs_and_archives_within_archives_end() {
        let mut file = zip(&[("a.json", JSON)]);
        for _ in 0..10 {
            file = zip(&[("z.zip", &file)]);
        }
        assert!(read(&file).unwrap_err().to_string().contains("too many archives"));
        // Lines of nothing, far more than the archive has.
        let bomb = gzip(&[b"main;work 3\n".as_slice(), &vec![b'\n'; 4 << 20]].concat());
        let file = zip(&[("bomb.gz", &bomb), ("a.json", JSON)]);
        let (tables, imported) = read(&file).unwrap();
        assert!(
            imported.members.iter().any(|it| it.trouble.as_ref().is_some_and(|it| it.contains("far more")))
        );
        assert_eq!(tables.aggregate_sample.len(), 1);
    }
}
