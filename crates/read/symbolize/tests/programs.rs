//! Programs of real compilers, with their debug information wherever it may be. What is not installed is skipped, which is said.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_protos::{Trace, trace_packet::Data};
use ferretto_symbolize::{Found, Known, Module, Search, Servers, Why, symbolize};
use object::{Object as _, ObjectSymbol as _};
use prost::Message as _;
use tempfile::TempDir;

const C: &str = "\
volatile unsigned long sum;
static inline __attribute__((always_inline)) void inner(unsigned long n) {
  sum = sum * 31 + n;
}
static inline __attribute__((always_inline)) void middle(unsigned long n) {
  inner(n + 1);
}
__attribute__((noinline)) void outer(unsigned long n) {
  for (unsigned long i = 0; i < n; i++)
    middle(i);
}
int main(void) {
  outer(3);
  return 0;
}
";

const RUST: &str = "\
use std::hint::black_box;
#[inline(always)]
fn inner(n: u64) {
    black_box(n * 31);
}
#[inline(always)]
fn middle(n: u64) {
    inner(n + 1);
}
#[inline(never)]
fn outer(n: u64) {
    for i in 0..n {
        middle(black_box(i));
    }
}
fn main() {
    outer(black_box(3));
}
";

/// Functions, and files with lines, innermost first.
type Places = Vec<(String, String)>;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Runs a tool here, if it is installed and knows how to do that.
    fn run(&self, tool: &str, args: &[&str]) -> bool {
        let output = Command::new(tool).args(args).current_dir(self.0.path()).output();
        let is_done = output.as_ref().is_ok_and(|output| output.status.success());
        if !is_done {
            eprintln!("skipped: {tool} {}: {output:?}", args.join(" "));
        }
        is_done
    }

    fn c(&self, flags: &[&str]) -> bool {
        fs::write(self.path("a.c"), C).unwrap();
        self.run("cc", &[&["-O2", "-o", "a", "a.c"], flags].concat())
    }

    /// What a recorder would say of all of `outer`.
    fn module(&self) -> Module {
        let path = self.path("a");
        let file = fs::read(&path).unwrap();
        let elf = object::File::parse(file.as_slice()).unwrap();
        let outer = elf.symbols().find(|symbol| {
            symbol.is_definition()
                && symbol.name().is_ok_and(|name| ferretto_symbols::demangle(name).ends_with("outer"))
        });
        let outer = outer.expect("the function is there");
        let known = Known {
            function: Some(outer.name().unwrap().as_bytes().into()),
            is_frame: true,
            ..Known::default()
        };
        let addresses = outer.address()..outer.address() + outer.size();
        Module {
            path: path.as_os_str().as_bytes().into(),
            build_id: elf.build_id().unwrap().unwrap_or_default().into(),
            addresses: addresses.map(|address| (address, known.clone())).collect(),
        }
    }
}

/// Looks nowhere but beside the program and in these folders.
fn search(folders: &[PathBuf]) -> Search {
    Search { folders: folders.to_vec(), ..Search::default() }
}

fn look(module: &Module, search: &Search) -> (Found, BTreeMap<u64, Places>) {
    let mut written = Vec::new();
    let found = symbolize(module, search, &mut written).unwrap();
    let mut places = BTreeMap::new();
    for packet in Trace::decode(written.as_slice()).unwrap().packet {
        let Some(Data::ModuleSymbols(symbols)) = packet.data else { panic!("{packet:?}") };
        assert_eq!(
            (symbols.path(), symbols.build_id()),
            (module.path.as_slice(), module.build_id.as_slice())
        );
        for address in symbols.address_symbols {
            let place = |line: &ferretto_protos::Line| {
                let file = line.source_file_name().rsplit('/').next().unwrap_or_default();
                (line.function_name().to_owned(), format!("{file}:{}", line.line_number()))
            };
            places.insert(address.address(), address.lines.iter().map(place).collect());
        }
    }
    (found, places)
}

/// Whether the stack of inlined functions is there with its lines.
#[track_caller]
fn is_found(found: &(Found, BTreeMap<u64, Places>), lines: [&str; 3], what: &str) {
    let (found, places) = found;
    let expected = ["inner", "middle", "outer"].iter().zip(lines);
    let is_it = |stack: &Places| {
        stack.len() == 3
            && stack.iter().zip(expected.clone()).all(|((function, line), (name, expected))| {
                function.rsplit("::").next() == Some(name) && line == expected
            })
    };
    assert!(places.values().any(is_it), "{what}: {found:?} {places:?}");
    assert!(found.with_lines * 10 >= places.len() * 9, "{what}: {found:?}");
}

/// The lines of the C program.
const C_LINES: [&str; 3] = ["a.c:3", "a.c:6", "a.c:10"];
const RUST_LINES: [&str; 3] = ["a.rs:4", "a.rs:8", "a.rs:13"];

#[test]
fn inlined_functions_and_lines_are_found_however_a_program_is_built() {
    for flags in [
        &["-g"][..],
        &["-g1"],
        &["-gline-tables-only"],
        &["-g", "-gdwarf-4"],
        &["-g", "-gz=zlib"],
        &["-g", "-gz=zlib-gnu"],
        &["-g", "-no-pie"],
        &["-g", "-Wl,--build-id=none"],
        &["-g", "-gsplit-dwarf"],
        &["-g", "-gdwarf-4", "-gsplit-dwarf"],
    ] {
        let place = Place::new();
        if place.c(flags) {
            let module = place.module();
            let found = look(&module, &search(&[]));
            is_found(&found, C_LINES, &flags.join(" "));
            assert_eq!(found.0.files[0].path, place.path("a"), "{flags:?}");
            if place.run("objcopy", &["--compress-debug-sections=zstd", "a"]) {
                is_found(&look(&module, &search(&[])), C_LINES, &format!("{} and zstd", flags.join(" ")));
            }
        }
    }
}

#[test]
fn units_in_files_of_their_own_are_found_where_they_are_now() {
    let place = Place::new();
    if !place.c(&["-g", "-gsplit-dwarf"]) {
        return;
    }
    let unit = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path());
    let unit = unit.into_iter().find(|path| path.extension().is_some_and(|it| it == "dwo")).unwrap();
    let module = place.module();
    let folder = place.path("units");
    fs::create_dir(&folder).unwrap();
    fs::rename(&unit, folder.join(unit.file_name().unwrap())).unwrap();
    let (found, _) = look(&module, &search(&[]));
    assert_eq!(found.why, Some(Why::UnitsMissing));
    is_found(&look(&module, &search(std::slice::from_ref(&folder))), C_LINES, "--symbols");
    // The unit of another program.
    let other = Place::new();
    fs::write(other.path("a.c"), C.replace("31", "37")).unwrap();
    assert!(other.run("cc", &["-O2", "-g", "-gsplit-dwarf", "-o", "a", "a.c"]));
    fs::copy(other.path(unit.file_name().unwrap().to_str().unwrap()), folder.join(unit.file_name().unwrap()))
        .unwrap();
    let (_, places) = look(&module, &search(&[folder]));
    assert!(places.values().all(|stack| stack.len() < 3), "{places:?}");
}

#[test]
fn what_was_stripped_is_found_by_name_or_by_build_id() {
    let place = Place::new();
    if !place.c(&["-g", "-Wl,--build-id=sha1"]) {
        return;
    }
    let module = place.module();
    let steps: [&[&str]; 2] =
        [&["--only-keep-debug", "a", "a.debug"], &["--strip-all", "--add-gnu-debuglink=a.debug", "a"]];
    if !steps.iter().all(|args| place.run("objcopy", args)) {
        return;
    }
    is_found(&look(&module, &search(&[])), C_LINES, "beside it");
    // Without a build id in the trace it is the sum that counts: it may be another one by now.
    fs::create_dir(place.path(".debug")).unwrap();
    fs::rename(place.path("a.debug"), place.path(".debug/a.debug")).unwrap();
    is_found(&look(&module, &search(&[])), C_LINES, "in .debug");
    let debug = fs::read(place.path(".debug/a.debug")).unwrap();
    fs::write(place.path(".debug/a.debug"), [debug.as_slice(), b"more"].concat()).unwrap();
    assert_eq!(look(&module, &search(&[])).0.why, Some(Why::NoLines), "another sum");
    let hex: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = place.path(".build-id").join(&hex[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{}.debug", &hex[2..])), &debug).unwrap();
    let roots = Search { roots: vec![place.path("")], ..Search::default() };
    is_found(&look(&module, &roots), C_LINES, "by build id");
    // What is not here any more, or was recorded on another machine.
    fs::remove_file(place.path("a")).unwrap();
    is_found(&look(&module, &search(&[place.path("")])), C_LINES, "without the program");
    let cache = place.path("cache").join(&hex);
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("debuginfo"), &debug).unwrap();
    let caches = Search { caches: vec![place.path("cache")], ..Search::default() };
    is_found(&look(&module, &caches), C_LINES, "in debuginfod's cache");
    let tool = place.path("debuginfod-find");
    let script = format!(
        "#!/bin/sh\ntest \"$*\" = 'debuginfo {hex}' && echo '{}'\n",
        cache.join("debuginfo").display()
    );
    fs::write(&tool, script).unwrap();
    assert!(place.run("chmod", &["+x", "debuginfod-find"]));
    let servers = Search { servers: Some(Servers::new(tool)), ..Search::default() };
    is_found(&look(&module, &servers), C_LINES, "from a server");
    assert_eq!(look(&module, &search(&[])).0.why, Some(Why::NotThere));
}

#[test]
fn parts_that_programs_share_are_found_too() {
    let place = Place::new();
    if !place.c(&["-g"]) || !place.run("cp", &["a", "b"]) {
        return;
    }
    let module = place.module();
    if place.run("dwz", &["-m", "common.debug", "-M", "../common.debug", "a", "b"]) {
        eprintln!("what they share is in {:?}", place.path("common.debug"));
        let folder = search(&[place.path("")]);
        is_found(&look(&module, &folder), C_LINES, "dwz");
    }
}

#[test]
fn rust_has_its_names() {
    for flags in [
        &["-Cdebuginfo=line-tables-only"][..],
        &["-Cdebuginfo=1"],
        &["-Cdebuginfo=2"],
        &["-Cdebuginfo=2", "-Csplit-debuginfo=unpacked"],
        // The one package (`.dwp`) here: tools that make them of what C compilers write crash or do not end (binutils 2.40, LLVM 14).
        &["-Cdebuginfo=2", "-Csplit-debuginfo=packed"],
        &["-Cdebuginfo=1", "-Csymbol-mangling-version=v0"],
        &["-Cdebuginfo=1", "-Clink-arg=-Wl,--build-id=none"],
    ] {
        let place = Place::new();
        fs::write(place.path("a.rs"), RUST).unwrap();
        if place.run("rustc", &[&["-O", "--edition=2024", "-o", "a", "a.rs"], flags].concat()) {
            is_found(&look(&place.module(), &search(&[])), RUST_LINES, &flags.join(" "));
        }
    }
}

#[test]
fn of_another_file_nothing_is_said() {
    let place = Place::new();
    if !place.c(&["-g", "-Wl,--build-id=none"]) {
        return;
    }
    let module = place.module();
    assert_eq!(module.build_id, b"");
    // Without names one cannot tell whether it is the same.
    let mut nameless = module.clone();
    nameless.addresses.values_mut().for_each(|known| known.function = None);
    assert_eq!(look(&nameless, &search(&[])).0.why, Some(Why::CannotTell));
    // A function before it, and all is somewhere else.
    let more = "int more(int n) { return n * 17 % 1000 + n / 3; }\n";
    fs::write(place.path("a.c"), format!("{more}{}{C}", more.replace("more", "much"))).unwrap();
    assert!(place.run("cc", &["-O2", "-g", "-Wl,--build-id=none", "-o", "a", "a.c"]));
    let (found, places) = look(&module, &search(&[]));
    assert_eq!((found.why, places.len()), (Some(Why::Another), 0));
    assert!(place.c(&["-g", "-Wl,--build-id=sha1"]));
    let module = Module { build_id: vec![7; 20], ..place.module() };
    assert_eq!(look(&module, &search(&[])).0.why, Some(Why::Another));
}

#[test]
fn only_files_are_opened_and_whatever_is_in_them_is_no_reason_to_fail() {
    let place = Place::new();
    let path = place.path("a");
    let known = Known { function: Some(b"outer"[..].into()), is_frame: true, ..Known::default() };
    let addresses: BTreeMap<u64, Known> = [(0x1000, known)].into();
    let module = |path: &[u8]| Module { path: path.into(), build_id: vec![], addresses: addresses.clone() };
    let own = module(path.as_os_str().as_bytes());
    assert_eq!(look(&own, &search(&[])).0.why, Some(Why::NotThere));
    if place.run("mkfifo", &["a"]) {
        assert_eq!(look(&own, &search(&[])).0.why, Some(Why::CannotOpen("it is no file".to_owned())));
        fs::remove_file(&path).unwrap();
    }
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01"] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(look(&own, &search(&[])).0.why, Some(Why::Another));
    }
    for name in ["/[vdso]", "/kernel", "//anon", "/memfd:jit (deleted)", "/dev/zero", ""] {
        assert_eq!(look(&module(name.as_bytes()), &search(&[])).0.why, Some(Why::NoFile), "{name}");
    }
    for name in ["/", "/proc", "relative/path", "/a\0b"] {
        assert_ne!(look(&module(name.as_bytes()), &search(&[])).0.why, None, "{name}");
    }
}

/// Each byte of what the compiler wrote may be another one: something is found, or nothing, and it ends.
#[test]
fn debug_information_with_other_bytes_is_read_or_refused() {
    let place = Place::new();
    if !place.c(&["-g", "-Wl,--build-id=sha1"]) {
        return;
    }
    let (module, path) = (place.module(), place.path("a"));
    let whole = fs::read(&path).unwrap();
    let elf = object::File::parse(whole.as_slice()).unwrap();
    for name in [".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists", ".debug_aranges"] {
        use object::ObjectSection as _;
        let Some((at, len)) = elf.section_by_name(name).and_then(|section| section.file_range()) else {
            continue;
        };
        for step in (0..len as usize).step_by(7) {
            for flip in [0x01, 0x80, 0xff] {
                let mut other = whole.clone();
                other[at as usize + step] ^= flip;
                fs::write(&path, &other).unwrap();
                let (found, _) = look(&module, &search(&[]));
                assert!(found.with_lines <= module.addresses.len());
            }
        }
    }
    let is_here = Path::new(std::ffi::OsStr::from_bytes(&module.path)).exists();
    assert!(is_here);
}
