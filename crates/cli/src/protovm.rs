//! `ferretto protovm`: the tool of those who write programs for the ProtoVM.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use ferretto_protos::text::{self, TextError};
use ferretto_protos::{CompileConfig, VmProgram};
use ferretto_protovm::compile::{CompileError, compile};
use prost::Message as _;
use prost_reflect::DescriptorPool;

use crate::config_file::{self, as_text, pictured};
use crate::record::output::{Output, plain};
use crate::report::UserError;

const COMPILE_CONFIG: &str = "perfetto.protos.CompileConfig";
const VM_PROGRAM: &str = "perfetto.protos.VmProgram";

/// All of Perfetto's own descriptors are less than 2 MiB; this bounds our memory.
const MAX_DESCRIPTORS_BYTES: u64 = 64 << 20;

/// Compiles the programs that fold overwritten packets into a state.
#[derive(clap::Args, Debug)]
pub(crate) struct ProtovmArgs {
    #[command(subcommand)]
    command: ProtovmCommand,
}

#[derive(clap::Subcommand, Debug)]
enum ProtovmCommand {
    Compile(CompileArgs),
}

/// Compiles a description, which has fields by name, to a program, which has them by number.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
struct CompileArgs {
    /// A CompileConfig, text or binary; `-` is stdin.
    description: PathBuf,

    /// The program, a VmProgram; `-` is stdout [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the program as text.
    #[arg(long)]
    txt: bool,

    /// A FileDescriptorSet with the root message and all it uses, as `protoc --include_imports -o FILE` makes it [default: the messages that
    /// Ferretto knows, TracePacket among them].
    #[arg(short, long, value_name = "FILE")]
    descriptor_set: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ferretto protovm compile windows.txt -o windows.vm      a program to register with a data source
  ferretto protovm compile windows.txt --txt              to read
  protoc --include_imports -o mine.bin mine.proto
  ferretto protovm compile mine.txt -d mine.bin -o mine.vm    for messages of your own";

pub(crate) fn main(args: &ProtovmArgs) -> Result<()> {
    let ProtovmCommand::Compile(args) = &args.command;
    let to_stdout = args.output.as_deref().is_none_or(|path| path == Path::new("-"));
    if to_stdout && !args.txt && std::io::stdout().is_terminal() {
        let error = UserError::new("a program is binary: it would garble the terminal");
        return Err(error.help("name a file with -o, or add --txt").into());
    }
    let own = args.descriptor_set.as_deref().map(read_descriptors).transpose()?;
    let descriptors = own.as_ref().unwrap_or_else(|| text::descriptor_pool());
    let bytes = config_file::read(&args.description)?;
    let program = compile_bytes(&args.description, &bytes, descriptors)?;
    let encoded = if args.txt { as_readable(&program)? } else { program.encode_to_vec() };
    match &args.output {
        Some(path) if !to_stdout => write_whole(path, &encoded),
        _ => Ok(std::io::stdout().write_all(&encoded)?),
    }
}

fn read_descriptors(path: &Path) -> Result<DescriptorPool> {
    let name = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_DESCRIPTORS_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| UserError::new(format!("cannot read the descriptors {name}: {}", plain(&error))))?;
    if bytes.len() as u64 > MAX_DESCRIPTORS_BYTES {
        return Err(
            UserError::new(format!("{name} is no FileDescriptorSet: it is larger than 64 MiB")).into()
        );
    }
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
        UserError::new(format!("{name} is no complete FileDescriptorSet: {error}"))
            .help("make one with: protoc --include_imports -o FILE my.proto")
            .into()
    })
}

fn compile_bytes(name: &Path, bytes: &[u8], descriptors: &DescriptorPool) -> Result<VmProgram, UserError> {
    if let Some(text) = as_text(bytes) {
        return compile_text(text, descriptors).map_err(|mistake| mistake.told(name, text, descriptors));
    }
    let config = CompileConfig::decode(bytes)
        .map_err(|error| UserError::new(format!("{} is no CompileConfig: {error}", name.display())))?;
    compile(&config, descriptors).map_err(|error| {
        with_advice(&error, UserError::new(format!("{}: {error}", name.display())), descriptors)
    })
}

fn with_advice(error: &CompileError, message: UserError, descriptors: &DescriptorPool) -> UserError {
    if error.name().is_none() || !std::ptr::eq(descriptors, text::descriptor_pool()) {
        return message;
    }
    message.help("for messages of your own, add --descriptor-set FILE")
}

/// What is wrong with a text.
enum Mistake {
    Text(TextError),
    Meaning(CompileError),
}

fn compile_text(text: &str, descriptors: &DescriptorPool) -> Result<VmProgram, Mistake> {
    let bytes = text::parse(COMPILE_CONFIG, text).map_err(Mistake::Text)?;
    // The parser made them of the same descriptors as the type.
    let config = CompileConfig::decode(bytes.as_slice()).unwrap_or_default();
    compile(&config, descriptors).map_err(Mistake::Meaning)
}

impl Mistake {
    fn told(&self, file: &Path, text: &str, descriptors: &DescriptorPool) -> UserError {
        let error = match self {
            Self::Text(error) => return pictured(file, text, error),
            Self::Meaning(error) => error,
        };
        let message = match place_of(error, text, descriptors) {
            Some((line, column)) => {
                pictured(file, text, &TextError { line, column, message: error.to_string() })
            }
            None => UserError::new(format!("{}: {error}", file.display())),
        };
        with_advice(error, message, descriptors)
    }
}

/// Where the name stands that a mistake is about.
///
/// It may stand in several places, and be right in others. It is the place where another wrong name makes the same mistake.
fn place_of(mistake: &CompileError, text: &str, descriptors: &DescriptorPool) -> Option<(usize, usize)> {
    let name = mistake.name()?;
    let other_name = format!("?{name}");
    text::places_of(text, name).into_iter().find(|&(line, column)| {
        let changed = with_char_inserted(text, line, column + 1, '?');
        match compile_text(&changed, descriptors) {
            Err(Mistake::Meaning(other)) => other.name() == Some(&other_name) && is_alike(&other, mistake),
            _ => false,
        }
    })
}

/// Are both about a name looked up in the same message?
fn is_alike(a: &CompileError, b: &CompileError) -> bool {
    match (a, b) {
        (CompileError::UnknownField { message: a, .. }, CompileError::UnknownField { message: b, .. }) => {
            a == b
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// `text` with a character more before the one at `line` and `column`, which count from 1.
fn with_char_inserted(text: &str, line: usize, column: usize, inserted: char) -> String {
    let line_start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let in_line: usize = text[line_start..].chars().take(column - 1).map(char::len_utf8).sum();
    let mut changed = text.to_owned();
    changed.insert(line_start + in_line, inserted);
    changed
}

fn as_readable(program: &VmProgram) -> Result<Vec<u8>> {
    Ok(text::format(VM_PROGRAM, &program.encode_to_vec())?.into_bytes())
}

/// Writes a file so that its name never stands for a half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::open(path)?;
    output
        .file()
        .write_all(bytes)
        .map_err(|error| UserError::new(format!("cannot write {}: {}", path.display(), plain(&error))))?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fails(text: &str, expected: &str) {
        let error = compile_bytes(Path::new("my.txt"), text.as_bytes(), text::descriptor_pool()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_text_that_is_none_is_shown_where_it_ends_being_one() {
        fails(
            "root_mesage: \"x\"",
            "my.txt:1:1: unknown field `root_mesage` in CompileConfig; did you mean `root_message`?
   |
 1 | root_mesage: \"x\"
   | ^",
        );
    }

    #[test]
    fn a_mistake_without_a_name_is_told_without_a_place() {
        fails(
            "root_message: \"perfetto.protos.TracePacket\" commands {}",
            "my.txt: a command is none of set, del, merge and enter_scope",
        );
    }

    #[test]
    fn a_wrong_name_is_shown_where_it_stands() {
        fails(
            "root_message: \"TracePacket\"",
            "my.txt:1:15: the root_message \"TracePacket\" is not in the descriptors; did you mean \"perfetto.protos.TracePacket\"?
   |
 1 | root_message: \"TracePacket\"
   |               ^",
        );
        // The name stands in a comment, and where it is right, too.
        fails(
            "# single_int
root_message: \"perfetto.protos.TestEvent.ProtoVmPatch\"
commands { set { src: \"single_message\" src: \"submessage\" src: \"single_int\" } }
commands { set { src: 'single_int' } }",
            "my.txt:4:23: perfetto.protos.TestEvent.ProtoVmPatch has no field \"single_int\"
   |
 4 | commands { set { src: 'single_int' } }
   |                       ^",
        );
    }
}
