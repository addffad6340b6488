//! The library that stands before a program's allocator.

use std::path::Path;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_a_loader_and_a_script_is_no_program() {
        assert!(!is_static(Path::new("/proc/self/exe")) || cfg!(target_feature = "crt-static"));
        assert!(!is_static(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
        assert!(!is_static(Path::new("/no/such/file")));
    }
}
