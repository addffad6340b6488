//! Pages of code that only the start needed.

use std::ops::Range;

use rustix::mm::{Advice, madvise};

use crate::read_file;

/// Where this process's code lies in memory: files that are mapped to be run, of which no page was written.
///
/// The kernel maps sixteen pages of a file around each that is touched. After a start that went through all of a program most of its
/// code is counted as a daemon's memory, which then runs a little of it.
///
/// # Example
/// ```
/// let code = ferretto_sys::Code::mapped();
/// // … what only the start needs …
/// code.forget();
/// ```
#[derive(Debug, Default)]
pub struct Code(Vec<Range<usize>>);

impl Code {
    /// What is mapped now; nothing if `/proc` cannot be read.
    pub fn mapped() -> Self {
        Self(untouched_code(&String::from_utf8_lossy(&read_file(c"/proc/self/smaps"))))
    }

    /// Unmaps the pages. Those that are run again come back from the kernel's cache of the file, or from the file.
    pub fn forget(&self) {
        for range in &self.0 {
            let at = std::ptr::without_provenance_mut(range.start);
            // SAFETY: the pages are those of a file, mapped without the right to write, and none was written in another way (a
            // debugger's breakpoint): the kernel brings back the same bytes. They are code, of which Rust has no reference.
            // JUSTIFICATION: no safe interface unmaps pages. Without it an idle service is counted with 3 MiB more.
            let _ = unsafe { madvise(at, range.len(), Advice::LinuxDontNeed) };
        }
    }
}

/// Of `/proc/self/smaps`: each mapping begins with its range, rights, offset, device, inode and path (proc(5)).
fn untouched_code(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut code = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), words.nth(2)) {
            (Some("Anonymous:"), Some(kib), _) => found.extend(code.take().filter(|_| kib == "0")),
            (Some(range), Some(rights), Some(inode)) if !range.ends_with(':') => {
                code = parse_range(range).filter(|_| rights == "r-xp" && inode != "0");
            }
            _ => {}
        }
    }
    found
}

fn parse_range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let [start, end] = [start, end].map(|number| usize::from_str_radix(number, 16).ok());
    Some(start?..end?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_unless_somebody_wrote_to_it() {
        let smaps = "\
55d948600000-55d948700000 r--p 00000000 fe:00 27 /usr/bin/ferretto
Rss: 8 kB
Anonymous: 0 kB
55d948700000-55d948900000 r-xp 00100000 fe:00 27 /usr/bin/ferretto with a name
Rss: 2920 kB
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:00 28 /usr/lib/libc.so.6
Anonymous: 4 kB
7f1000000000-7f1000001000 r-xp 00000000 00:00 0 [vdso]
Anonymous: 0 kB
";
        assert_eq!(untouched_code(smaps), [Range { start: 0x55d9_4870_0000, end: 0x55d9_4890_0000 }]);
        assert_eq!(untouched_code("no - such\n-\nAnonymous: 0"), []);
    }

    #[test]
    fn a_program_goes_on_without_its_code_in_memory() {
        let code = Code::mapped();
        assert!(!code.0.is_empty());
        code.forget();
        assert_eq!(parse_range("10-20"), Some(16..32));
    }
}
