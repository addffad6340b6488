//! `ferretto bundle`: a trace and its symbols in one file, for another machine.
//!
//! The archive is as upstream's `trace_processor bundle` makes it: a tar with `trace.perfetto` and `symbols.pb`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use ferretto_cut::Source as _;
use ferretto_symbolize::FoundFile;
use tar::{Builder, Header};

use crate::cut::open;
use crate::record::output::{Output, plain};
use crate::report::UserError;
use crate::symbolize::{Looked, Stacks, search};
use crate::units;

/// Names that upstream's bundles have.
const TRACE: &str = "trace.perfetto";
const SYMBOLS: &str = "symbols.pb";
/// The folder of programs: for `ferretto symbolize --symbols`.
const FILES: &str = "files";
/// Others may read what the archive's owner may.
const MODE: u32 = 0o644;

/// Packs a trace and the symbols of its stacks into one file, for another machine.
///
/// The Perfetto UI and `ferretto query` open it like a trace. Symbols are looked for as `ferretto symbolize` does it; the trace stays as it is.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BundleArgs {
    /// The trace; `-` is stdin. It may be packed with gzip or zstd.
    trace: PathBuf,

    /// The archive (tar); `-` is stdout.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// A folder with programs or their debug information, as of `ferretto symbolize`; may be given several times.
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,

    /// The programs and their debug information themselves, too, so that they can be looked at elsewhere: with a debugger, or by
    /// `ferretto symbolize --symbols files` where the archive was unpacked.
    #[arg(long)]
    programs: bool,

    /// Show nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  ferretto bundle trace.pftrace -o trace.tar
  ferretto bundle --programs trace.pftrace -o trace.tar    and what was running, as files";

/// Runs the command.
pub(crate) fn main(args: &BundleArgs) -> Result<ExitCode> {
    let search = search(&args.symbols)?;
    let source = open(&args.trace)?;
    let stacks = Stacks::read(&args.trace, &source, "bundle")?;
    let looked = Looked::look(&stacks, &search)?;
    let files = if args.programs { files(&looked) } else { Vec::new() };
    let mut output = Output::open(&args.output)?;
    let trace = source.open().map(|from| (stacks.whole_bytes(), from));
    let packed = trace.and_then(|(bytes, from)| pack(output.file(), (bytes, from), &looked.symbols, &files));
    packed.map_err(|error| {
        output.discard();
        UserError::new(format!("cannot write {}: {}", args.output.display(), plain(&error)))
    })?;
    output.finish()?;
    if !args.quiet {
        let what = contents(stacks.whole_bytes(), looked.symbols.len() as u64, &files);
        eprint!("{}", looked.render(&stacks, &args.output, &what));
        stacks.warn(&args.trace);
    }
    Ok(ExitCode::SUCCESS)
}

/// A file to be packed, open, and how large it is.
struct Opened {
    below: PathBuf,
    file: File,
    bytes: u64,
}

/// Programs and what has their debug information, each once. What is not there any more is left out.
fn files(looked: &Looked) -> Vec<Opened> {
    let mut files: Vec<&FoundFile> = looked.found.iter().flat_map(|found| &found.files).collect();
    files.retain(|file| file.below != Path::new(""));
    files.sort_by(|a, b| a.below.cmp(&b.below));
    files.dedup_by(|a, b| a.below == b.below);
    files.into_iter().filter_map(|file| opened(file).ok()).collect()
}

fn opened(found: &FoundFile) -> io::Result<Opened> {
    let file = found.open()?;
    let bytes = file.metadata()?.len();
    Ok(Opened { below: found.below.clone(), file, bytes })
}

fn pack(to: impl Write, trace: (u64, impl Read), symbols: &[u8], files: &[Opened]) -> io::Result<()> {
    let mut tar = Builder::new(to);
    member(&mut tar, Path::new(TRACE), trace.0, trace.1)?;
    if !symbols.is_empty() {
        member(&mut tar, Path::new(SYMBOLS), symbols.len() as u64, symbols)?;
    }
    for file in files {
        member(&mut tar, &Path::new(FILES).join(&file.below), file.bytes, &file.file)?;
    }
    tar.into_inner()?.flush()
}

/// A file of so many bytes. Times and owners are nobody's business, and the same trace makes the same archive.
fn member<W: Write>(tar: &mut Builder<W>, name: &Path, bytes: u64, from: impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(MODE);
    let mut from = from.take(bytes);
    tar.append_data(&mut header, name, &mut from)?;
    if from.limit() > 0 {
        return Err(io::Error::other("a file was written to meanwhile"));
    }
    Ok(())
}

/// What the archive has, for people.
fn contents(trace: u64, symbols: u64, files: &[Opened]) -> String {
    let mut text = format!("the trace, {}", units::bytes(trace));
    match symbols {
        0 => text.push_str(", and no symbols: the trace has those that were found"),
        bytes => text.push_str(&format!(", and symbols, {}", units::bytes(bytes))),
    }
    if !files.is_empty() {
        let bytes = files.iter().map(|file| file.bytes).sum();
        let count = units::counted(files.len() as u64, "file", "files");
        text.push_str(&format!(", and {count} of programs, {}", units::bytes(bytes)));
    }
    text
}
