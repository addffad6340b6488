//! The library that stands before a program's allocator.

use std::io::Read;
use std::path::Path;

use ferretto_shm::heap::PROGRAM_MARK;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader as _};
use object::{ReadCache, elf};

/// Its file's name.
pub const LIBRARY: &str = "libferretto_preload.so";

/// Whether a program is linked statically: the loader, which would bring the library, has no part in it. A script is none.
#[must_use]
pub fn is_static(program: &Path) -> bool {
    let found = std::fs::canonicalize(program).ok().and_then(|program| crate::looks::open(&program).ok());
    let Some(file) = found else { return false };
    let file = ReadCache::new(file);
    let of_64 =
        ElfFile::<elf::FileHeader64<object::Endianness>, _>::parse(&file).map(|file| lacks_loader(&file));
    let of_32 =
        || ElfFile::<elf::FileHeader32<object::Endianness>, _>::parse(&file).map(|file| lacks_loader(&file));
    of_64.or_else(|_| of_32()).unwrap_or(false)
}

fn lacks_loader<'a, H: FileHeader, R: object::ReadRef<'a>>(file: &ElfFile<'a, H, R>) -> bool {
    let endian = file.endian();
    file.elf_program_headers().iter().all(|header| header.p_type(endian) != elf::PT_INTERP)
}

/// Whether a program has linked what the library does (`ferretto::heap::Profiled`), and so needs none.
#[must_use]
pub fn has_client(program: &Path) -> bool {
    let found = std::fs::canonicalize(program).ok().and_then(|program| crate::looks::open(&program).ok());
    found.is_some_and(|file| contains(file, &PROGRAM_MARK).unwrap_or(false))
}

/// Whether bytes are somewhere in a file.
fn contains(mut file: impl Read, bytes: &[u8]) -> std::io::Result<bool> {
    /// Read at a time.
    const BLOCK: u64 = 1 << 20;
    let mut block = Vec::new();
    loop {
        // What may be the beginning of them, and more.
        let kept = block.len().min(bytes.len().saturating_sub(1));
        block.drain(..block.len() - kept);
        if file.by_ref().take(BLOCK).read_to_end(&mut block)? == 0 {
            return Ok(false);
        }
        let Some(first) = bytes.first() else { return Ok(true) };
        let starts = block.iter().enumerate().filter(|(_, byte)| *byte == first);
        if starts.into_iter().any(|(at, _)| block.get(at..).is_some_and(|rest| rest.starts_with(bytes))) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_a_loader_and_a_script_is_no_program() {
        assert!(!is_static(Path::new("/proc/self/exe")) || cfg!(target_feature = "crt-static"));
        assert!(!is_static(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
        assert!(!is_static(Path::new("/no/such/file")));
    }

    #[test]
    fn what_is_in_a_file_is_found_wherever_it_is() {
        let place = |before: usize| [&vec![b'f'; before][..], b"found", &[b'f'; 100]].concat();
        for before in [0, 7, (1 << 20) - 5, (1 << 20) - 3, 1 << 20, (2 << 20) - 1] {
            assert!(contains(&place(before)[..], b"found").unwrap(), "{before}");
        }
        assert!(!contains(&place(3)[..106], b"founds").unwrap() && !contains(&b""[..], b"x").unwrap());
    }
}
