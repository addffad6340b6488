//! Functions, inlined ones too, and lines of the addresses that a trace has in its stacks, out of programs and their debug information.
//!
//! [`Addresses`] gathers them from the packets of a trace; [`symbolize`] finds a file's and writes them as packets, which may stand at the end of any
//! trace. What it finds is of the file that was recorded and of no other: it has the same build id or, where there is none, all functions that the
//! recorder has named are where they were.
//!
//! | module | what it does |
//! |---|---|
//! | `addresses` | the pass over a trace |
//! | [`search`] | where programs and their debug information may lie |
//! | `packets` | what was found, as packets |
//!
//! A trace is hostile, and so is every file that it names. What is opened are files and nothing else; what is read of them has bounds, here and in
//! [`ferretto_symbols::lines`].

#![forbid(unsafe_code)]

mod addresses;
mod packets;
pub mod search;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ferretto_symbols::lines::{self, About, Debug, DebugFiles, Kept, Place, Split};
use ferretto_symbols::{Elf, demangle};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

pub use addresses::{Addresses, Known, Module};
pub use search::{Search, Servers};

use packets::Packets;
use search::{Opened, read};

/// Bytes of all files of units that are read for one program.
const MAX_UNIT_BYTES: u64 = 2 << 30;

/// What was found of a file.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Addresses that had symbols before.
    pub known: usize,
    /// Addresses with lines now.
    pub with_lines: usize,
    /// Addresses that have a function's name now, and had none before, but no line.
    pub with_names: usize,
    /// The program, if it is there, and what has its debug information.
    pub files: Vec<FoundFile>,
    /// Why others have no lines.
    pub why: Option<Why>,
}

/// A file by which addresses get their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Where it is.
    pub path: PathBuf,
    /// Where it would be found below one of [`Search::folders`]: only names, no `..`.
    pub below: PathBuf,
}

impl FoundFile {
    /// Opens it, if it is a file still.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, is another thing by now, or larger than any that is looked into.
    pub fn open(&self) -> io::Result<File> {
        search::open(&self.path)
    }
}

/// Why addresses of a file have no lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel, code that programs make while they run.
    NoFile,
    /// It is not where it was, and nobody has it.
    NotThere,
    /// What is there is another one.
    Another,
    /// It has no build id, and the trace names no function that could be looked for in it.
    CannotTell,
    /// It cannot be opened.
    CannotOpen(String),
    /// It was stripped, or made without them, and there is no file that has them.
    NoLines,
    /// Its debug information says nothing of the others: they are of parts that were made without it.
    NotAll,
    /// Files with a part of its debug information (`.dwo`) are not there.
    UnitsMissing,
    /// Its debug information cannot be read.
    Damaged(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("no file"),
            Self::NotThere => f.write_str("the file is not there"),
            Self::Another => f.write_str("the file that is there is another one"),
            Self::CannotTell => {
                f.write_str("no build id, and no function by which one could tell that it is the same file")
            }
            Self::CannotOpen(why) => write!(f, "the file cannot be opened: {why}"),
            Self::NoLines => f.write_str("no debug information: built without -g, or stripped"),
            Self::NotAll => f.write_str("parts of it were built without -g"),
            Self::UnitsMissing => f.write_str("files with its debug information (.dwo) are not there"),
            Self::Damaged(what) => f.write_str(what),
        }
    }
}

/// Finds what is not known yet of a file's addresses, and writes it to `to` as packets of a trace.
///
/// # Errors
///
/// If `to` cannot be written to. Whatever is wrong with the files is told by [`Found`].
pub fn symbolize(module: &Module, search: &Search, to: impl Write) -> io::Result<Found> {
    let wanted = module.addresses.iter().filter(|(_, known)| !known.has_symbols);
    let wanted: Vec<u64> = wanted.map(|(address, _)| *address).collect();
    let mut found = Found { known: module.addresses.len() - wanted.len(), ..Found::default() };
    let path = Path::new(OsStr::from_bytes(&module.path));
    if wanted.is_empty() {
        return Ok(found);
    }
    if is_no_file(&module.path) {
        found.why = Some(Why::NoFile);
        return Ok(found);
    }
    let program = program(module, path, search);
    let separate = separate(module, path, program.as_ref().ok(), search);
    if let Ok(program) = &program {
        found.files.push(FoundFile { path: program.path.clone(), below: search::below(path) });
    }
    if let Some(separate) = &separate {
        found.files.push(FoundFile { path: separate.path.clone(), below: search::separate_below(separate) });
    }
    let Some(main) = separate.as_ref().or(program.as_ref().ok()) else {
        found.why = program.err();
        return Ok(found);
    };
    let files = [Some(main), program.as_ref().ok().filter(|_| separate.is_some())];
    let names = files.into_iter().flatten().filter_map(|file| Elf::read(&file.cache).ok()).collect();
    let done = HashSet::default();
    let mut taken = Taken { module, names, packets: Packets::new(module, to), done, found, written: Ok(()) };
    let why = lines(main, program.as_ref().ok(), search, &wanted, &mut taken).err();
    // Of those without lines the symbol table has the functions.
    wanted.iter().for_each(|address| taken.take(*address, vec![Place::default()]));
    let Taken { packets, written, mut found, .. } = taken;
    written?;
    packets.finish()?;
    let is_all = found.with_lines == wanted.len();
    found.why = why.or(Some(Why::NotAll).filter(|_| !is_all));
    Ok(found)
}

/// Takes what was found.
struct Taken<'a, W> {
    module: &'a Module,
    /// The symbol tables.
    names: Vec<Elf>,
    packets: Packets<'a, W>,
    done: HashSet<u64, RandomState>,
    found: Found,
    written: io::Result<()>,
}

impl<W: Write> Taken<'_, W> {
    /// What is at an address, innermost first. The first time counts, and only what is new.
    fn take(&mut self, address: u64, mut places: Vec<Place>) {
        let Some(known) = self.module.addresses.get(&address) else { return };
        if self.written.is_err() || self.done.contains(&address) {
            return;
        }
        // Of code that was made without names of functions there may be lines.
        if let Some(outermost) = places.last_mut().filter(|place| place.function.is_none()) {
            let named = self.names.iter().find_map(|elf| elf.name_of(address)).map(demangle);
            let recorded = || known.function.as_deref().map(|name| demangle(&String::from_utf8_lossy(name)));
            outermost.function = named.or_else(recorded);
        }
        let has_lines = places.iter().any(|place| place.line.is_some());
        let has_name = known.function.is_none() && places.iter().any(|place| place.function.is_some());
        if has_lines || has_name {
            self.done.insert(address);
            self.written = self.packets.push(address, &places);
            let count = if has_lines { &mut self.found.with_lines } else { &mut self.found.with_names };
            *count += 1;
        }
    }
}

/// What is mapped without a file, by the names that the kernel and recorders give it.
fn is_no_file(path: &[u8]) -> bool {
    const BEGIN: [&[u8]; 6] = [b"/[", b"//", b"/anon:", b"/memfd:", b"/dev/", b"/SYSV"];
    path.is_empty() || path == b"/kernel" || BEGIN.iter().any(|begin| path.starts_with(begin))
}

/// The file that was mapped.
fn program(module: &Module, path: &Path, search: &Search) -> Result<Opened, Why> {
    let mut why = Why::NotThere;
    for path in search.programs(path) {
        let opened = match Opened::open(&path) {
            Ok(opened) => opened,
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                continue;
            }
            Err(error) => {
                let is_of_the_system = error.raw_os_error().is_some();
                let words = if is_of_the_system { error.kind().to_string() } else { error.to_string() };
                why = Why::CannotOpen(words);
                continue;
            }
        };
        match is_it(&opened, module) {
            Ok(()) => return Ok(opened),
            Err(not) => why = not,
        }
    }
    Err(why)
}

/// Whether a file is the one that was mapped.
fn is_it(opened: &Opened, module: &Module) -> Result<(), Why> {
    if !module.build_id.is_empty() {
        let is_same = Elf::build_id_of(&opened.cache).as_deref() == Some(&module.build_id);
        return if is_same { Ok(()) } else { Err(Why::Another) };
    }
    let elf = Elf::read(&opened.cache).map_err(|_| Why::Another)?;
    let recorded =
        module.addresses.iter().filter_map(|(address, known)| Some((address, known.function.as_deref()?)));
    let mut is_named = false;
    for (address, function) in recorded {
        is_named = true;
        if elf.name_of(*address).map(str::as_bytes) != Some(function) {
            return Err(Why::Another);
        }
    }
    if is_named { Ok(()) } else { Err(Why::CannotTell) }
}

/// A file with what was stripped of the program, if it needs one.
fn separate(module: &Module, path: &Path, program: Option<&Opened>, search: &Search) -> Option<Opened> {
    let about = program.and_then(|program| About::read(&program.cache).ok()).unwrap_or_default();
    if about.is_there {
        return None;
    }
    let build_id = Some(module.build_id.as_slice()).filter(|id| !id.is_empty()).or(about.build_id.as_deref());
    if let Some(build_id) = build_id
        && let Some(found) = Opened::of_build_id(&search.by_build_id(path, build_id), build_id)
    {
        return Some(found);
    }
    if let (Some(program), Some((link, sum))) = (program, &about.link)
        && let Some(found) = Opened::of_sum(&search.by_link(&program.path, link), *sum)
    {
        return Some(found);
    }
    let build_id = build_id?;
    Opened::of_build_id(&[search.servers.as_ref()?.ask(build_id)?], build_id)
}

/// Finds lines in a program or in what was stripped of it, and in the files that it means.
fn lines<W: Write>(
    main: &Opened,
    program: Option<&Opened>,
    search: &Search,
    wanted: &[u64],
    taken: &mut Taken<'_, W>,
) -> Result<(), Why> {
    let damaged = |error: lines::Error| Why::Damaged(error.to_string());
    let about = About::read(&main.cache).map_err(damaged)?;
    if !about.is_there {
        return Err(Why::NoLines);
    }
    let alternate = about.alternate.as_ref().and_then(|(name, build_id)| {
        Opened::of_build_id(&search.alternates(&main.path, (name, build_id)), build_id)
    });
    let files: Vec<&Path> =
        [Some(main), program].into_iter().flatten().map(|file| file.path.as_path()).collect();
    let package = search.packages(&files).iter().find_map(|path| Opened::open(path).ok());
    for file in [&alternate, &package].into_iter().flatten() {
        let below = file.path.file_name().map(PathBuf::from).unwrap_or_default();
        taken.found.files.push(FoundFile { path: file.path.clone(), below });
    }
    let kept = Kept::default();
    let files = DebugFiles {
        main: Debug::read(&main.cache, &kept).map_err(damaged)?,
        alternate: alternate.as_ref().and_then(|file| Debug::read(&file.cache, &kept).ok()),
        package: package.as_ref().and_then(|file| Debug::read(&file.cache, &kept).ok()),
    };
    let mut left = MAX_UNIT_BYTES;
    let mut is_missing = false;
    let mut unit = |unit: &Split| {
        let bytes = search.units(&main.path, unit).iter().find_map(|path| read(path, left));
        left -= bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        is_missing |= bytes.is_none();
        bytes
    };
    let found = files.find(wanted, &kept, &mut unit, &mut |address, places| taken.take(address, places));
    match found {
        Ok(()) if is_missing => Err(Why::UnitsMissing),
        found => found.map_err(damaged),
    }
}
