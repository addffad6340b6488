//! Compiles a description with fields by their names to a program with fields by their numbers.
//!
//! A [`CompileConfig`] is a list of commands: merge this field of the packet into that of the state. What each
//! becomes is upstream's choice (instruction_emitter.cc), so that the programs of both are the same: a select
//! of the source, in it one of the destination, in it the operation.
//!
//! ```
//! use ferretto_protos::{CompileConfig, text};
//! use ferretto_protovm::compile::compile;
//! use prost::Message;
//!
//! let description = r#"
//!     root_message: "perfetto.protos.TracePacket"
//!     commands {
//!       merge { src: "for_testing" src: "protovm_patch" dst: "for_testing" dst: "protovm_incremental_state" }
//!     }"#;
//! let config = CompileConfig::decode(&text::parse("perfetto.protos.CompileConfig", description)?[..])?;
//! let program = compile(&config, text::descriptor_pool())?;
//! let vm = ferretto_protovm::Vm::new(ferretto_protovm::Program::parse(&program.encode_to_vec())?, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use ferretto_protos::compile_command::{AbortLevel, Command};
use ferretto_protos::vm_instruction::{AbortLevel as InstructionAbortLevel, Operation};
use ferretto_protos::vm_op_select::{PathComponent, path_component::Field as Step};
use ferretto_protos::{
    CompileCommand, CompileCommandDel, CompileCommandEnterScope, CompileCommandMerge, CompileCommandSet,
    CompileConfig, VmCursorEnum, VmInstruction, VmOpDel, VmOpMerge, VmOpRegLoad, VmOpSelect, VmOpSet,
    VmProgram, text::nearest,
};
use prost_reflect::{DescriptorPool, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use crate::program::{MAX_DEPTH, MAX_PROGRAM_SIZE};

/// Keys go through this register. They are used at once, so one is enough.
const KEY_REGISTER: u32 = 0;

/// Why a description cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The description does not say where paths begin.
    #[error("the description has no root_message; mostly it is \"perfetto.protos.TracePacket\"")]
    NoRootMessage,
    /// There is no such message.
    #[error("the root_message {name:?} is not in the descriptors{}", DidYouMean(.near))]
    UnknownMessage {
        /// The name looked for.
        name: String,
        /// Messages with similar names.
        near: Vec<String>,
    },
    /// A command without an operation, or with one that this version does not know.
    #[error("a command is none of set, del, merge and enter_scope")]
    UnknownCommand,
    /// An abort level that this version does not know.
    #[error("{0} is no abort level")]
    UnknownAbortLevel(i32),
    /// There is no such field.
    #[error("{message} has no field {field:?}{}", DidYouMean(.near))]
    UnknownField {
        /// The full name of the message.
        message: String,
        /// The name looked for in it.
        field: String,
        /// Fields of it with similar names.
        near: Vec<String>,
    },
    /// A path goes on in a field that is no message.
    #[error("{field:?} is looked for in a {kind}; only messages have fields")]
    NotAMessage {
        /// What is looked for.
        field: String,
        /// What it is looked for in.
        kind: String,
    },
    /// A `del` that does not say what to delete, or says it twice.
    #[error("del needs exactly one of if_src_present and dst_key_field")]
    AmbiguousDel,
    /// A path to the elements of a map that names no field.
    #[error("the dst of a command with a key field must name the repeated field")]
    EmptyKeyedPath,
    /// A recursive merge between different messages, or of what is no message.
    #[error("a recursive merge needs the same message on both sides, not {src} and {dst}")]
    DifferentMessages {
        /// What is merged.
        src: String,
        /// What it is merged into.
        dst: String,
    },
    /// The program would exceed a bound of the VM.
    #[error(
        "the program would have more than {MAX_PROGRAM_SIZE} instructions or {MAX_DEPTH} levels; merge less recursively"
    )]
    TooLarge,
}

impl CompileError {
    /// The name in the description that is the mistake, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::UnknownMessage { name, .. } => Some(name),
            Self::UnknownField { field, .. } | Self::NotAMessage { field, .. } => Some(field),
            _ => None,
        }
    }
}

/// Prints `; did you mean "x" or "y"?`, or nothing.
struct DidYouMean<'a>(&'a [String]);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else { return Ok(()) };
        write!(f, "; did you mean {first:?}")?;
        others.iter().try_for_each(|other| write!(f, " or {other:?}"))?;
        f.write_str("?")
    }
}

/// Compiles a description.
///
/// Fields are looked up by name in the messages of `descriptors`; extensions, too, by the last part of their
/// names.
///
/// A recursive merge goes through all messages within a message, except repeated and deprecated ones. A
/// message within one of its own kind is not merged but replaced: otherwise there would be no end.
///
/// # Errors
///
/// If a name is not found, a command makes no sense, or the program would exceed a bound.
pub fn compile(config: &CompileConfig, descriptors: &DescriptorPool) -> Result<VmProgram, CompileError> {
    let name = config.root_message.as_deref().ok_or(CompileError::NoRootMessage)?;
    let root = descriptors.get_message_by_name(name.strip_prefix('.').unwrap_or(name)).ok_or_else(|| {
        let known: Vec<_> = descriptors.all_messages().collect();
        let near = nearest(name, known.iter().map(MessageDescriptor::full_name));
        CompileError::UnknownMessage { name: name.to_owned(), near: owned(&near) }
    })?;
    let scope = Scope { src: Place::Message(root.clone()), dst: Place::Message(root), depth: 0 };
    let mut compiler = Compiler { left: MAX_PROGRAM_SIZE };
    let instructions = compiler.commands(&scope, &config.commands)?;
    Ok(VmProgram { instructions, ..VmProgram::default() })
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Message(MessageDescriptor),
    /// A field that is no message.
    Other(Kind),
}

impl Place {
    fn describe(&self) -> String {
        match self {
            Self::Message(message) => message.full_name().to_owned(),
            Self::Other(kind) => format!("field of type {kind:?}"),
        }
    }
}

/// Where paths begin, and how many levels down in the program that is.
#[derive(Clone, Debug)]
struct Scope {
    src: Place,
    dst: Place,
    depth: usize,
}

/// One field on a path.
struct Found {
    number: u32,
    repeated: bool,
    deprecated: bool,
    place: Place,
}

/// A select and the scope within it, or no select for an empty path.
struct Selected {
    select: Option<VmInstruction>,
    scope: Scope,
}

impl Selected {
    /// `nested` within the select.
    fn around(self, nested: Vec<VmInstruction>) -> Vec<VmInstruction> {
        match self.select {
            Some(mut select) => {
                select.nested_instructions = nested;
                vec![select]
            }
            None => nested,
        }
    }
}

type Level = Option<InstructionAbortLevel>;

struct Compiler {
    /// Instructions and path components that the program may still have.
    left: usize,
}

impl Compiler {
    fn commands(
        &mut self,
        scope: &Scope,
        commands: &[CompileCommand],
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let mut instructions = Vec::new();
        for command in commands {
            instructions.extend(self.command(scope, command)?);
        }
        Ok(instructions)
    }

    fn command(
        &mut self,
        scope: &Scope,
        command: &CompileCommand,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let level = level_of(command)?;
        match command.command.as_ref().ok_or(CompileError::UnknownCommand)? {
            Command::Set(set) => self.set(scope, set, level),
            Command::Del(del) => self.del(scope, del, level),
            Command::Merge(merge) => match &merge.key_field {
                Some(key) => self.merge_by_key(scope, merge, key, level),
                None => self.merge(scope, merge, level),
            },
            Command::EnterScope(enter) => self.enter_scope(scope, enter, level),
        }
    }

    fn set(
        &mut self,
        scope: &Scope,
        set: &CompileCommandSet,
        level: Level,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let src = self.select_src(scope, &set.src, level)?;
        let dst = self.select_dst(&src.scope, &set.dst, true)?;
        let set = self.leaf(&dst.scope, Operation::Set(VmOpSet {}))?;
        Ok(src.around(dst.around(vec![set])))
    }

    fn enter_scope(
        &mut self,
        scope: &Scope,
        enter: &CompileCommandEnterScope,
        level: Level,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let src = self.select_src(scope, &enter.src, level)?;
        let dst = self.select_dst(&src.scope, &enter.dst, true)?;
        // Scopes without paths add no level to the program, but one here: count it, or they could nest forever.
        let inner = Scope { depth: dst.scope.depth + 1, ..dst.scope.clone() };
        let nested = self.commands(&inner, &enter.commands)?;
        Ok(src.around(dst.around(nested)))
    }

    fn del(
        &mut self,
        scope: &Scope,
        del: &CompileCommandDel,
        level: Level,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let src = self.select_src(scope, &del.src, level)?;
        match (del.if_src_present(), &del.dst_key_field) {
            (true, None) => {
                let dst = self.select_dst(&src.scope, &del.dst, false)?;
                let del = self.leaf(&dst.scope, Operation::Del(VmOpDel {}))?;
                Ok(src.around(dst.around(vec![del])))
            }
            (false, Some(key)) => {
                let load = self.load_key(&src.scope)?;
                let dst = self.select_by_key(&src.scope, &del.dst, key, false)?;
                let del = self.leaf(&dst.scope, Operation::Del(VmOpDel {}))?;
                let mut nested = vec![load];
                nested.extend(dst.around(vec![del]));
                Ok(src.around(nested))
            }
            (true, Some(_)) | (false, None) => Err(CompileError::AmbiguousDel),
        }
    }

    fn merge(
        &mut self,
        scope: &Scope,
        merge: &CompileCommandMerge,
        level: Level,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let src = self.select_src(scope, &merge.src, level)?;
        let dst = self.select_dst(&src.scope, &merge.dst, true)?;
        let nested = self.merge_here(&dst.scope, merge.recursive(), &mut Vec::new())?;
        Ok(src.around(dst.around(nested)))
    }

    /// For each element of the source: loads its key, selects the destination with that key, merges.
    fn merge_by_key(
        &mut self,
        scope: &Scope,
        merge: &CompileCommandMerge,
        key: &str,
        level: Level,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let src = self.select_src(scope, &merge.src, level)?;
        let key_path = [key.to_owned()];
        let src_key = self.select_src(&src.scope, &key_path, Some(InstructionAbortLevel::Abort))?;
        let load = self.load_key(&src_key.scope)?;
        let dst = self.select_by_key(&src.scope, &merge.dst, key, true)?;
        let merges = self.merge_here(&dst.scope, merge.recursive(), &mut Vec::new())?;
        let mut nested = src_key.around(vec![load]);
        nested.extend(dst.around(merges));
        Ok(src.around(nested))
    }

    /// Merges the messages within first, if the merge is recursive; then the rest.
    fn merge_here(
        &mut self,
        scope: &Scope,
        recursive: bool,
        outer: &mut Vec<MessageDescriptor>,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let mut instructions = Vec::new();
        if recursive {
            let (Place::Message(message), true) = (&scope.src, scope.src == scope.dst) else {
                let (src, dst) = (scope.src.describe(), scope.dst.describe());
                return Err(CompileError::DifferentMessages { src, dst });
            };
            outer.push(message.clone());
            for field in message_fields(message) {
                instructions.extend(self.merge_field(scope, &field, outer)?);
            }
            outer.pop();
        }
        let merge = VmOpMerge { del_if_src_empty: Some(true), skip_submessages: recursive.then_some(true) };
        instructions.push(self.leaf(scope, Operation::Merge(merge))?);
        Ok(instructions)
    }

    fn merge_field(
        &mut self,
        scope: &Scope,
        field: &Found,
        outer: &mut Vec<MessageDescriptor>,
    ) -> Result<Vec<VmInstruction>, CompileError> {
        let Place::Message(message) = &field.place else { return Ok(Vec::new()) };
        if field.repeated || field.deprecated || outer.contains(message) {
            return Ok(Vec::new());
        }
        let src = self.select_path(
            scope,
            std::slice::from_ref(field),
            Side::Src,
            Some(InstructionAbortLevel::SkipCurrentInstruction),
        )?;
        let dst =
            self.select_path(&src.scope, std::slice::from_ref(field), Side::Dst { create: true }, None)?;
        let nested = self.merge_here(&dst.scope, true, outer)?;
        Ok(src.around(dst.around(nested)))
    }

    fn select_src(&mut self, scope: &Scope, path: &[String], level: Level) -> Result<Selected, CompileError> {
        self.select_path(scope, &look_up(&scope.src, path)?, Side::Src, level)
    }

    fn select_dst(&mut self, scope: &Scope, path: &[String], create: bool) -> Result<Selected, CompileError> {
        self.select_path(scope, &look_up(&scope.dst, path)?, Side::Dst { create }, None)
    }

    fn select_path(
        &mut self,
        scope: &Scope,
        path: &[Found],
        side: Side,
        level: Level,
    ) -> Result<Selected, CompileError> {
        let Some(last) = path.last() else { return Ok(Selected { select: None, scope: scope.clone() }) };
        let components = path.iter().map(|found| PathComponent {
            field: Some(Step::FieldId(found.number)),
            is_repeated: found.repeated.then_some(true),
            ..PathComponent::default()
        });
        self.selected(scope, components.collect(), last.place.clone(), side, level)
    }

    /// Selects an element of the repeated field at `path`, the one whose field `key` is in the register.
    fn select_by_key(
        &mut self,
        scope: &Scope,
        path: &[String],
        key: &str,
        create: bool,
    ) -> Result<Selected, CompileError> {
        let path = look_up(&scope.dst, path)?;
        let element = path.last().ok_or(CompileError::EmptyKeyedPath)?.place.clone();
        let key = look_up_one(&element, key)?;
        let mut components: Vec<_> = path
            .iter()
            .map(|found| PathComponent {
                field: Some(Step::FieldId(found.number)),
                ..PathComponent::default()
            })
            .collect();
        components.push(PathComponent {
            field: Some(Step::MapKeyFieldId(key.number)),
            register_to_match: Some(KEY_REGISTER),
            ..PathComponent::default()
        });
        self.selected(scope, components, element, Side::Dst { create }, None)
    }

    fn selected(
        &mut self,
        scope: &Scope,
        relative_path: Vec<PathComponent>,
        place: Place,
        side: Side,
        level: Level,
    ) -> Result<Selected, CompileError> {
        let mut inner = scope.clone();
        inner.depth += 1 + relative_path.len();
        self.count(1 + relative_path.len(), inner.depth)?;
        let (cursor, create_if_not_exist) = match side {
            Side::Src => {
                inner.src = place;
                (None, None)
            }
            Side::Dst { create } => {
                inner.dst = place;
                (Some(VmCursorEnum::VmCursorDst.into()), create.then_some(true))
            }
        };
        let select = VmInstruction {
            operation: Some(Operation::Select(VmOpSelect { cursor, relative_path, create_if_not_exist })),
            abort_level: level.map(Into::into),
            nested_instructions: Vec::new(),
        };
        Ok(Selected { select: Some(select), scope: inner })
    }

    fn load_key(&mut self, scope: &Scope) -> Result<VmInstruction, CompileError> {
        let load = VmOpRegLoad { dst_register: Some(KEY_REGISTER), ..VmOpRegLoad::default() };
        self.leaf(scope, Operation::RegLoad(load))
    }

    fn leaf(&mut self, scope: &Scope, operation: Operation) -> Result<VmInstruction, CompileError> {
        self.count(1, scope.depth + 1)?;
        Ok(VmInstruction { operation: Some(operation), ..VmInstruction::default() })
    }

    fn count(&mut self, size: usize, depth: usize) -> Result<(), CompileError> {
        self.left = self.left.checked_sub(size).ok_or(CompileError::TooLarge)?;
        if depth > MAX_DEPTH { Err(CompileError::TooLarge) } else { Ok(()) }
    }
}

/// Which cursor a select moves.
#[derive(Clone, Copy, Debug)]
enum Side {
    Src,
    Dst { create: bool },
}

/// `None` for the default, which upstream leaves out.
fn level_of(command: &CompileCommand) -> Result<Level, CompileError> {
    let Some(number) = command.abort_level else { return Ok(None) };
    match AbortLevel::try_from(number) {
        Ok(AbortLevel::SkipCurrentCommand) => Ok(Some(InstructionAbortLevel::SkipCurrentInstruction)),
        Ok(AbortLevel::SkipCurrentCommandAndBreakOuter) => Ok(None),
        Ok(AbortLevel::Abort) => Ok(Some(InstructionAbortLevel::Abort)),
        Err(_) => Err(CompileError::UnknownAbortLevel(number)),
    }
}

fn look_up(place: &Place, path: &[String]) -> Result<Vec<Found>, CompileError> {
    let mut found: Vec<Found> = Vec::with_capacity(path.len());
    for name in path {
        let place = found.last().map_or(place, |last| &last.place);
        let next = look_up_one(place, name)?;
        found.push(next);
    }
    Ok(found)
}

fn look_up_one(place: &Place, name: &str) -> Result<Found, CompileError> {
    let Place::Message(message) = place else {
        return Err(CompileError::NotAMessage { field: name.to_owned(), kind: place.describe() });
    };
    let field = message.get_field_by_name(name).map(|field| found_field(&field));
    let extension = || message.extensions().find(|extension| extension.name() == name);
    field.or_else(|| extension().map(|extension| found_extension(&extension))).ok_or_else(|| {
        let fields: Vec<_> = message.fields().map(|field| field.name().to_owned()).collect();
        let extensions: Vec<_> = message.extensions().map(|extension| extension.name().to_owned()).collect();
        let near = nearest(name, fields.iter().chain(&extensions).map(String::as_str));
        CompileError::UnknownField {
            message: message.full_name().to_owned(),
            field: name.to_owned(),
            near: owned(&near),
        }
    })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Fields and extensions in the order of their numbers.
fn message_fields(message: &MessageDescriptor) -> Vec<Found> {
    let fields = message.fields().map(|field| found_field(&field));
    let extensions = message.extensions().map(|extension| found_extension(&extension));
    let mut all: Vec<Found> = fields.chain(extensions).collect();
    all.sort_by_key(|field| field.number);
    all
}

fn found_field(field: &FieldDescriptor) -> Found {
    Found {
        number: field.number(),
        repeated: field.is_list() || field.is_map(),
        deprecated: field
            .field_descriptor_proto()
            .options
            .as_ref()
            .is_some_and(|options| options.deprecated()),
        place: place_of(field.kind()),
    }
}

fn found_extension(extension: &ExtensionDescriptor) -> Found {
    Found {
        number: extension.number(),
        repeated: extension.is_list() || extension.is_map(),
        deprecated: extension
            .field_descriptor_proto()
            .options
            .as_ref()
            .is_some_and(|options| options.deprecated()),
        place: place_of(extension.kind()),
    }
}

fn place_of(kind: Kind) -> Place {
    match kind {
        Kind::Message(message) => Place::Message(message),
        other => Place::Other(other),
    }
}
