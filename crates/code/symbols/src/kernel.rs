//! Names of the kernel's functions: `/proc/kallsyms`.

use crate::names::Names;

/// Functions of the kernel and of its modules.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols(Names);

impl KernelSymbols {
    /// Reads lines such as `ffffffff81000000 T _stext` or `ffffffffc0000000 t init\t[module]`. Those whose address the kernel hides (`kptr_restrict`) are
    /// left out.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut names = Names::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            match u64::from_str_radix(address, 16) {
                Ok(0) | Err(_) => {}
                Ok(address) => names.push(address, 0, name),
            }
        }
        Self(names.finish())
    }

    /// The function that an address is in.
    #[must_use]
    pub fn name_of(&self, address: u64) -> Option<&str> {
        self.0.find(address)
    }

    /// How many there are: none where the kernel hides them from this user.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_and_what_is_hidden_is_not() {
        let text = "ffffffff81000000 T _stext\nffffffff81000100 t do_it\nffffffff81000180 D data\nffffffffc0001000 t init\t[mod]\nbad\n";
        let symbols = KernelSymbols::read(text);
        assert_eq!(symbols.len(), 3);
        assert_eq!(symbols.name_of(0xffff_ffff_8100_01a0), Some("do_it"));
        assert_eq!(symbols.name_of(0xffff_ffff_c000_1000), Some("init"));
        assert_eq!(symbols.name_of(0x1000), None);
        assert!(KernelSymbols::read("0000000000000000 T _stext\n").is_empty());
    }
}
