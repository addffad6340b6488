//! Names of Java before they were shortened (upstream: deobfuscation_tracker.cc, profiler_util.cc).
//!
//! A mapping of names is of one Android package; a frame belongs to a package by the path of its file, or else by the user id of a process
//! that was seen in it. All of it happens when everything else is known.

use std::collections::BTreeSet;

use ferretto_protos::fields::{deobfuscation_mapping as field, obfuscated_class, obfuscated_member};
use ferretto_trace_tables::tables::{SymbolRow, Tables};
use ferretto_trace_tables::{CallsiteId, FrameId, Str, Strings, SymbolSetId};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::stacks;
use crate::model::Model;
use crate::stats::{Stat, Stats};
use crate::wire;

/// The mappings, as they came.
#[derive(Debug, Default)]
pub struct Names {
    packets: Vec<Box<[u8]>>,
    /// Of each user id the first package that was listed.
    packages: HashMap<i64, Str, RandomState>,
}

impl Names {
    /// Keeps a packet for the end.
    pub fn add(&mut self, packet: &[u8]) {
        self.packets.push(packet.into());
    }

    /// A package has this user id.
    pub(crate) fn add_package(&mut self, uid: i64, name: &[u8], strings: &mut Strings) {
        self.packages.entry(uid).or_insert_with(|| strings.intern_bytes(name));
    }
}

impl Names {
    /// The package of an app.
    pub(super) fn package_of(&self, appid: Option<i64>) -> Option<Str> {
        self.packages.get(&appid?).copied()
    }
}

/// The package that a file belongs to.
pub(super) fn package(path: &str, stats: &mut Stats) -> Option<String> {
    match package_of(path) {
        Package::Named(package) => Some(package.to_owned()),
        Package::Unreadable => {
            stats.count(Stat::DeobfuscateLocationParseError);
            None
        }
        Package::None => None,
    }
}

/// A member's name with its class, which it may have in it.
pub(super) fn with_class(class: &str, member: &str) -> String {
    if member.contains('.') { member.to_owned() } else { format!("{class}.{member}") }
}

/// A method, as one mapping says it.
#[derive(Clone, Copy, Debug)]
struct Method {
    name: Str,
    first_line: Option<u32>,
    last_line: Option<u32>,
    source_line: Option<u32>,
}

impl Method {
    fn has_line(&self, line: u32) -> bool {
        self.first_line.is_none_or(|first| line >= first) && self.last_line.is_none_or(|last| line <= last)
    }
}

/// Methods of one short name: each frame of that name is held against all of them. Ours.
const MAX_METHODS: usize = 1024;

type FrameSet = HashSet<FrameId, RandomState>;
type Frames = HashMap<(Str, Str), Vec<FrameId>, RandomState>;

impl Model {
    pub(super) fn deobfuscate(&mut self) {
        let packets = std::mem::take(&mut self.profiles.deobfuscation.packets);
        if packets.is_empty() {
            return;
        }
        let (mut frames, without_package) = java_frames(&mut self.tables, &mut self.stats);
        if !without_package.is_empty() {
            guess_packages(&self.tables, &self.profiles.deobfuscation.packages, without_package, &mut frames);
        }
        for packet in packets {
            deobfuscate_frames(&mut self.tables, &frames, &packet);
            self.profiles.heap_graphs.deobfuscate(&mut self.tables, &packet);
        }
    }
}

/// Frames by name and package, and those whose path names none.
fn java_frames(tables: &mut Tables, stats: &mut Stats) -> (Frames, FrameSet) {
    let (mut frames, mut without_package) = (Frames::default(), FrameSet::default());
    let in_memory = tables.strings.intern("memfd");
    let Tables { strings, frame, mapping, .. } = tables;
    for (row, (name, of)) in frame.name.iter().zip(&frame.mapping).enumerate() {
        let Some(name) = name.filter(|name| strings.get(*name).contains('.')) else { continue };
        let id = FrameId(u32::try_from(row).unwrap_or(u32::MAX));
        let path = mapping.name.get(of.index()).copied().flatten();
        let path = path.map(|path| strings.get(path)).unwrap_or_default();
        let package = match package_of(path) {
            Package::Named(package) => {
                let package = package.to_owned();
                strings.intern(&package)
            }
            Package::Unreadable => {
                stats.count(Stat::DeobfuscateLocationParseError);
                without_package.insert(id);
                continue;
            }
            Package::None if path.starts_with("/memfd:") => in_memory,
            Package::None => {
                without_package.insert(id);
                continue;
            }
        };
        frames.entry((name, package)).or_default().push(id);
    }
    (frames, without_package)
}

/// A frame without a package belongs to that of the first process that was seen in it: in a heap, in a sample, then when a heap had no room.
fn guess_packages(
    tables: &Tables,
    packages: &HashMap<i64, Str, RandomState>,
    mut without_package: FrameSet,
    frames: &mut Frames,
) {
    let heap = &tables.heap_profile_allocation;
    let of_heaps = heap.upid.iter().zip(heap.callsite_id.iter());
    let of_samples = (0..tables.profiler_sample.len()).filter_map(|row| {
        let task = tables.profiler_sample.task_context_id.get(row)?;
        let upid = tables.profiler_task_context.upid.get(task.index())?;
        Some((upid, tables.profiler_sample.callsite_id.get(row)?))
    });
    let of_threads = (0..tables.heap_graph_thread_callsite.len()).filter_map(|row| {
        let threads = &tables.heap_graph_thread_callsite;
        let upid = tables.heap_graph.upid.get(threads.heap_graph_id.get(row)?.index())?;
        Some((*upid, threads.callsite_id.get(row)?))
    });
    let mut seen = HashSet::<(Str, CallsiteId), RandomState>::default();
    for (upid, callsite) in of_heaps.chain(of_samples).chain(of_threads) {
        let appid = tables.process.android_appid.get(upid.index());
        let Some(package) = appid.and_then(|appid| packages.get(&appid)) else { continue };
        let mut next = Some(callsite);
        // What is below a callsite that was seen was seen, too.
        while let Some(callsite) = next.filter(|callsite| seen.insert((*package, *callsite))) {
            next = tables.callsite.parent_id.get(callsite.index());
            let Some(frame) = tables.callsite.frame_id.get(callsite.index()) else { continue };
            if without_package.remove(frame)
                && let Some(name) = tables.frame.name.get(frame.index()).copied().flatten()
            {
                frames.entry((name, *package)).or_default().push(*frame);
            }
        }
    }
}

fn deobfuscate_frames(tables: &mut Tables, frames: &Frames, packet: &[u8]) {
    let package = wire::bytes(packet, field::PACKAGE_NAME).unwrap_or_default();
    if package.is_empty() {
        return;
    }
    let packages = [tables.strings.intern_bytes(package), tables.strings.intern("memfd")];
    for (short, methods) in read_methods(tables, packet) {
        for frame in packages.iter().filter_map(|package| frames.get(&(short, *package))).flatten() {
            name_frame(tables, *frame, &methods);
        }
    }
}

/// The methods of all classes by their short names, in the order in which they came.
fn read_methods(tables: &mut Tables, packet: &[u8]) -> Vec<(Str, Vec<Method>)> {
    let mut numbers = HashMap::<Str, usize, RandomState>::default();
    let mut all: Vec<(Str, Vec<Method>)> = Vec::new();
    for class in wire::all_bytes(packet, field::OBFUSCATED_CLASSES) {
        let class_text = |field| String::from_utf8_lossy(wire::bytes(class, field).unwrap_or_default());
        let (short_class, class_name) =
            (class_text(obfuscated_class::OBFUSCATED_NAME), class_text(obfuscated_class::DEOBFUSCATED_NAME));
        for member in wire::all_bytes(class, obfuscated_class::OBFUSCATED_METHODS) {
            let text = |field| String::from_utf8_lossy(wire::bytes(member, field).unwrap_or_default());
            let line = |field| wire::number(member, field).map(|line| line as u32);
            let short = format!("{short_class}.{}", text(obfuscated_member::OBFUSCATED_NAME));
            let name = with_class(&class_name, &text(obfuscated_member::DEOBFUSCATED_NAME));
            let method = Method {
                name: tables.strings.intern(&name),
                first_line: line(obfuscated_member::OBFUSCATED_LINE_START),
                last_line: line(obfuscated_member::OBFUSCATED_LINE_END),
                source_line: line(obfuscated_member::SOURCE_LINE_START),
            };
            let short = tables.strings.intern(&short);
            let at = *numbers.entry(short).or_insert(all.len());
            match all.get_mut(at) {
                Some((_, methods)) if methods.len() < MAX_METHODS => methods.push(method),
                Some(_) => {}
                None => all.push((short, vec![method])),
            }
        }
    }
    all
}

/// By the line of the frame if there is one: then all methods that have it were inlined one into the next. Else by the name alone, and if
/// that may be several, all of them are said.
fn name_frame(tables: &mut Tables, frame: FrameId, methods: &[Method]) {
    let line = tables.frame.symbol_set_id.get(frame.index()).and_then(|set| first_line(tables, set));
    let chain: Vec<&Method> =
        methods.iter().filter(|method| line.is_some_and(|line| method.has_line(line))).collect();
    let name = match chain.last() {
        Some(outermost) => {
            let symbol_set_id = stacks::next_symbol_set(tables);
            for (at, method) in chain.iter().enumerate() {
                tables.symbol.push(SymbolRow {
                    symbol_set_id,
                    name: Some(method.name),
                    source_file: None,
                    line_number: method.source_line,
                    inlined: Some(at + 1 < chain.len()),
                });
            }
            tables.frame.symbol_set_id.set(frame.index(), Some(symbol_set_id));
            outermost.name
        }
        None => {
            let names: BTreeSet<&str> =
                methods.iter().map(|method| tables.strings.get(method.name)).collect();
            let all = names.into_iter().collect::<Vec<_>>().join(" | ");
            tables.strings.intern(&all)
        }
    };
    if let Some(cell) = tables.frame.deobfuscated_name.get_mut(frame.index()) {
        *cell = Some(name);
    }
}

/// Rows of a set follow its first.
fn first_line(tables: &Tables, set: SymbolSetId) -> Option<u32> {
    let sets = &tables.symbol.symbol_set_id;
    (set.index()..sets.len())
        .take_while(|row| sets.get(*row) == Some(&set))
        .find_map(|row| tables.symbol.line_number.get(row))
}

/// Apps that do not lie where others do: how their paths begin.
const KNOWN_APPS: [(&str, &str); 10] = [
    ("/system_ext/priv-app/SystemUIGoogle/SystemUIGoogle.apk", "com.android.systemui"),
    ("/product/priv-app/Phonesky/Phonesky.apk", "com.android.vending"),
    ("/product/app/Maps/Maps.apk", "com.google.android.apps.maps"),
    (
        "/system_ext/priv-app/NexusLauncherRelease/NexusLauncherRelease.apk",
        "com.google.android.apps.nexuslauncher",
    ),
    ("/product/app/Photos/Photos.apk", "com.google.android.apps.photos"),
    ("/product/priv-app/WellbeingPrebuilt/WellbeingPrebuilt.apk", "com.google.android.apps.wellbeing"),
    ("/product/app/PrebuiltGmail/PrebuiltGmail.apk", "com.google.android.gm"),
    ("/product/priv-app/Velvet/Velvet.apk", "com.google.android.googlequicksearchbox"),
    (
        "/product/app/LatinIMEGooglePrebuilt/LatinIMEGooglePrebuilt.apk",
        "com.google.android.inputmethod.latin",
    ),
    ("/product/app/PrebuiltBugle/PrebuiltBugle.apk", "com.google.android.apps.messaging"),
];

/// The same: what stands in their paths.
const KNOWN_PARTS: [(&str, &str); 6] = [
    ("DevicePersonalizationPrebuilt", "com.google.android.as"),
    ("MatchMaker", "com.google.android.as"),
    ("DeviceIntelligenceNetworkPrebuilt", "com.google.android.as.oss"),
    ("SettingsIntelligenceGooglePrebuilt", "com.google.android.settings.intelligence"),
    ("PrebuiltGmsCore", "com.google.android.gms"),
    ("com.google.android.gms", "com.google.android.gms"),
];

const APPS: &str = "/data/app/";
const UNPACKED_OF: &str = "dex extracted in memory from ";

/// The package that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Package<'a> {
    Named(&'a str),
    /// It lies where apps lie, but not as they do.
    Unreadable,
    None,
}

fn package_of(path: &str) -> Package<'_> {
    let known = KNOWN_APPS.iter().find(|(begin, _)| path.starts_with(begin));
    let known = known.or_else(|| KNOWN_PARTS.iter().find(|(part, _)| path.contains(part)));
    if let Some((_, package)) = known {
        return Package::Named(package);
    }
    let unpacked = || path.split_once(UNPACKED_OF)?.1.strip_prefix(APPS);
    match path.strip_prefix(APPS).or_else(unpacked) {
        Some(app) => package_of_app(app).map_or(Package::Unreadable, Package::Named),
        None => Package::None,
    }
}

/// `PACKAGE-RANDOM/base.apk`, or since Android 11 `~~RANDOM/PACKAGE-RANDOM/base.apk`.
fn package_of_app(app: &str) -> Option<&str> {
    let app = if app.starts_with('~') { app.split_once('/')?.1 } else { app };
    let folder = app.split_once('/')?.0;
    Some(folder.split_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_by_path() {
        for (path, package) in [
            ("/data/app/org.example-x7==/base.apk", Package::Named("org.example")),
            ("/data/app/~~a8==/org.example-x7==/base.apk", Package::Named("org.example")),
            (
                "[anon:dalvik-classes.dex extracted in memory from /data/app/org.example-x/base.apk]",
                Package::Named("org.example"),
            ),
            ("/product/app/Maps/Maps.apk!libx.so", Package::Named("com.google.android.apps.maps")),
            ("/usr/lib/libc.so.6", Package::None),
            ("/data/app/", Package::Unreadable),
            ("/data/app/~", Package::Unreadable),
        ] {
            assert_eq!(package_of(path), package, "{path}");
        }
    }
}
