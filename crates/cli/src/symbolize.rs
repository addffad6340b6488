//! `ferretto symbolize`: functions, inlined ones too, and lines of source for the stacks of a trace.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use ferretto_cut::{Source as _, UnpackedFile};
use ferretto_printable::printable;
use ferretto_symbolize::{Addresses, Found, Module, Search, Why, symbolize};
use ferretto_trace_read::Reader;
use ferretto_trace_read::container::{Container, FileBytes};
use ferretto_trace_read::reader::End;
use rustix::fs::OFlags;

use crate::cut::open;
use crate::no_trace::refusal_of_file;
use crate::record::output::{Output, plain};
use crate::report::UserError;
use crate::units;

/// Rows of the table.
const ROWS: usize = 20;
/// Bytes that are added to a trace. An address is some hundred, and a profile has some thousand to a hundred thousand.
const MAX_SYMBOL_BYTES: usize = 1 << 30;

/// Adds functions, inlined ones too, and lines of source to the stacks of a trace.
///
/// They are found in the debug information of the programs that were recorded, which have to be here still, or of the packages that have it apart, by
/// their build ids. Where the environment names servers (DEBUGINFOD_URLS) and `debuginfod-find` is installed, these are asked, too. What is added stands
/// at the end of the trace, for the Perfetto UI and for queries. What is there already is not looked for again.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SymbolizeArgs {
    /// The trace, to which symbols are added; with -o it stays as it is, and may be packed with gzip or zstd, or `-`, which is stdin.
    trace: PathBuf,

    /// The trace with symbols, instead; `-` is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// A folder with programs, with files of debug information (NAME.debug, NAME.dwp, NAME.dwo), or with a folder .build-id of these; may be given
    /// several times.
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,

    /// Show nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Lines are there of what was built with -g: in Rust with `debug = \"line-tables-only\"` in its profile, in C and C++ with -g or -g1. It may be optimised.

Examples:
  ferretto symbolize trace.pftrace
  ferretto symbolize trace.pftrace.gz -o symbolized.pftrace
  ferretto symbolize --symbols build/ trace.pftrace
  DEBUGINFOD_URLS=https://debuginfod.debian.net ferretto symbolize trace.pftrace";

/// Runs the command.
pub(crate) fn main(args: &SymbolizeArgs) -> Result<ExitCode> {
    let search = search(&args.symbols)?;
    let (file, source) = match &args.output {
        Some(_) => (None, open(&args.trace)?),
        None => in_place(&args.trace).map(|(file, source)| (Some(file), source))?,
    };
    let stacks = Stacks::read(&args.trace, &source, "symbolize")?;
    if file.is_some() {
        is_whole(&args.trace, &stacks.end)?;
    }
    let looked = Looked::look(&stacks, &search)?;
    match (&args.output, file) {
        (Some(output), _) => write(&source, &stacks.end, &looked.symbols, output, &args.trace)?,
        (None, Some(file)) => append(file, &stacks.end, &looked.symbols, &args.trace)?,
        (None, None) => {}
    }
    if !args.quiet {
        let bytes = looked.symbols.len() as u64;
        let what =
            if bytes > 0 { format!("{} added", units::bytes(bytes)) } else { "nothing to add".to_owned() };
        eprint!("{}", looked.render(&stacks, args.output.as_ref().unwrap_or(&args.trace), &what));
        stacks.warn(&args.trace);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where to look: in these folders, too.
pub(crate) fn search(folders: &[PathBuf]) -> Result<Search> {
    if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
        let error = format!("--symbols {}: there is no such folder", folder.display());
        return Err(UserError::new(error).into());
    }
    Ok(Search::from_environment(folders.to_vec(), |name| std::env::var_os(name)))
}

/// What the stacks of a trace are made of.
pub(crate) struct Stacks {
    /// How far the trace could be read.
    pub(crate) end: End,
    modules: Vec<Module>,
    /// What was more than is kept.
    beyond: u64,
}

impl Stacks {
    /// Reads a trace through, for a command of this name.
    pub(crate) fn read(trace: &Path, source: &UnpackedFile, command: &str) -> Result<Self> {
        let name = trace.display();
        let mut addresses = Addresses::default();
        let end = read(source, &mut addresses);
        let end = end.map_err(|error| UserError::new(format!("cannot read {name}: {}", plain(&error))))?;
        if end.packets == 0 && (end.broken_at.is_some() || end.bytes == 0) {
            let other = || UserError::new(format!("{name} is no trace of Perfetto's"));
            return Err(refusal_of_file(trace, command).unwrap_or_else(other).into());
        }
        let (modules, beyond) = addresses.finish();
        Ok(Self { end, modules, beyond })
    }

    /// How many bytes of the trace are whole packets.
    pub(crate) fn whole_bytes(&self) -> u64 {
        whole_bytes(&self.end)
    }
}

fn whole_bytes(end: &End) -> u64 {
    end.torn_at.or(end.broken_at).unwrap_or(end.bytes)
}

/// What was found of them.
pub(crate) struct Looked {
    /// As packets.
    pub(crate) symbols: Vec<u8>,
    /// Of each file.
    pub(crate) found: Vec<Found>,
}

impl Looked {
    pub(crate) fn look(stacks: &Stacks, search: &Search) -> Result<Self> {
        let mut symbols = Symbols(Vec::new());
        let found = stacks.modules.iter().map(|module| {
            let found = symbolize(module, search, &mut symbols);
            found.map_err(|error| UserError::new(format!("cannot go on: {}", plain(&error))))
        });
        let found = found.collect::<Result<_, _>>()?;
        Ok(Self { symbols: symbols.0, found })
    }

    /// For people: `what` is what was made of them, in `output`.
    pub(crate) fn render(&self, stacks: &Stacks, output: &Path, what: &str) -> String {
        render(&stacks.modules.iter().zip(&self.found).collect::<Vec<_>>(), output, what)
    }
}

/// A trace to which something can be added.
fn in_place(path: &Path) -> Result<(File, UnpackedFile)> {
    const HELP: &str = "name a file for the trace with symbols: -o FILE";
    let cannot = |what: String| UserError::new(what).help(HELP);
    let name = path.display();
    if path == Path::new("-") {
        return Err(cannot("nothing can be added to what comes from a pipe".to_owned()).into());
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = File::options().read(true).write(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UserError::new(format!("cannot read {name}: {}", plain(&error))),
        io::ErrorKind::IsADirectory => UserError::new(format!("{name} is a directory")),
        _ => cannot(format!("nothing can be added to {name}: {}", plain(&error))),
    })?;
    if !file.metadata()?.is_file() {
        return Err(cannot(format!("nothing can be added to {name}: it is no file")).into());
    }
    let mut first_bytes = Vec::new();
    (&file).take(8).read_to_end(&mut first_bytes)?;
    match Container::of(&first_bytes) {
        Container::None | Container::Zip => {}
        packed => {
            let with = if packed == Container::Gzip { "gzip" } else { "zstd" };
            return Err(cannot(format!("nothing can be added to {name}: it is packed with {with}")).into());
        }
    }
    let source = UnpackedFile::new(file.try_clone()?);
    Ok((file, source))
}

fn read(source: &UnpackedFile, addresses: &mut Addresses) -> io::Result<End> {
    let file_bytes = FileBytes::new(source.file_bytes()?);
    Reader::new(source.open()?).within(file_bytes).for_each(|packet, _| addresses.push(packet))
}

/// Behind half a packet nothing could be read.
fn is_whole(trace: &Path, end: &End) -> Result<()> {
    let what = match (end.torn_at, end.broken_at) {
        (Some(at), _) => format!("its last packet, at offset {at}, is cut off"),
        (_, Some(at)) => format!("it is no trace from offset {at} on"),
        _ => return Ok(()),
    };
    let error = UserError::new(format!("nothing can be added to {}: {what}", trace.display()));
    Err(error.help("name a file for what is whole, with symbols: -o FILE").into())
}

/// The trace, as far as it is whole, and symbols, as a file of its own.
fn write(source: &UnpackedFile, end: &End, symbols: &[u8], path: &Path, trace: &Path) -> Result<()> {
    let mut output = Output::open(path)?;
    let whole = whole_bytes(end);
    let copied = source.open().and_then(|from| io::copy(&mut from.take(whole), &mut output.file()));
    let written = copied.and_then(|bytes| match bytes == whole {
        true => output.file().write_all(symbols),
        false => Err(io::Error::other(format!("{} was written to meanwhile", trace.display()))),
    });
    written.map_err(|error| {
        output.discard();
        UserError::new(format!("cannot write {}: {}", path.display(), plain(&error)))
    })?;
    output.finish()
}

/// Adds them to the trace, or leaves it as it was.
fn append(mut file: File, end: &End, symbols: &[u8], trace: &Path) -> Result<()> {
    if symbols.is_empty() {
        return Ok(());
    }
    let name = trace.display();
    if file.metadata()?.len() != end.bytes {
        let error = UserError::new(format!("{name} was written to meanwhile, and stays as it is"));
        return Err(error.help("symbolize it when it is finished").into());
    }
    let written = file.seek(SeekFrom::Start(end.bytes)).and_then(|_| file.write_all(symbols));
    written.map_err(|error| {
        let is_as_it_was = file.set_len(end.bytes).is_ok();
        let stays = if is_as_it_was { "; it is as it was" } else { "" };
        UserError::new(format!("cannot write {name}: {}{stays}", plain(&error))).into()
    })
}

/// What is to be added.
struct Symbols(Vec<u8>);

impl Write for Symbols {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_SYMBOL_BYTES {
            return Err(io::Error::other("the symbols are more than a gigabyte"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What was found, those with most addresses first.
fn render(rows: &[(&Module, &Found)], output: &Path, what: &str) -> String {
    // Nobody can do anything about those that are no files.
    let rows: Vec<_> = rows.iter().copied().filter(|(_, found)| found.why != Some(Why::NoFile)).collect();
    let sum = |of: fn(&(&Module, &Found)) -> usize| rows.iter().map(|row| of(row) as u64).sum::<u64>();
    let (all, known) = (sum(|(module, _)| module.addresses.len()), sum(|(_, found)| found.known));
    let (lines, names) = (sum(|(_, found)| found.with_lines), sum(|(_, found)| found.with_names));
    let shown = output.display().to_string();
    let shown = printable(&shown);
    if all == 0 {
        return format!("The stacks: none, or none of code in files\n{shown}: {what}\n");
    }
    let files = units::counted(rows.len() as u64, "file", "files");
    let mut text = format!("Symbols: {} in {files}", units::counted(all, "address", "addresses"));
    let _ = write!(text, "; {} with lines now", units::count(lines));
    if names > 0 {
        let _ = write!(text, ", {} with a name only", units::count(names));
    }
    if known > 0 {
        let _ = write!(text, ", {} had them before", units::count(known));
    }
    text.push_str("\n\naddresses    lines  file\n");
    for (module, found) in rows.iter().take(ROWS) {
        let path = String::from_utf8_lossy(&module.path);
        let (all, lines) = (units::count(module.addresses.len() as u64), found.with_lines + found.known);
        let _ = write!(text, "{all:>9}  {:>7}  {}", units::count(lines as u64), printable(&path));
        if let Some(why) = &found.why {
            let _ = write!(text, ": {}", printable(&why.to_string()));
        }
        text.push('\n');
    }
    if rows.len() > ROWS {
        let _ = writeln!(text, "           and {} more", units::count((rows.len() - ROWS) as u64));
    }
    let _ = writeln!(text, "\n{shown}: {what}");
    text
}

impl Stacks {
    /// Says what of the trace was not read.
    pub(crate) fn warn(&self, trace: &Path) {
        let (end, beyond) = (&self.end, self.beyond);
        let trace = trace.display().to_string();
        let name = printable(&trace);
        if let Some(at) = end.broken_at {
            eprintln!("warning: {name} is no trace from offset {at} on; what follows was left out");
        }
        if let Some(at) = end.torn_at {
            eprintln!("warning: the last packet of {name}, at offset {at}, is cut off; it was left out");
        }
        if end.broken_batches > 0 {
            let count = units::counted(end.broken_batches, "batch", "batches");
            eprintln!("warning: {count} of compressed packets in {name} cannot be read");
        }
        if beyond > 0 {
            let count = units::counted(beyond, "thing", "things");
            eprintln!(
                "warning: more than can be kept: {count} that stacks of {name} are made of were not looked at"
            );
        }
    }
}
