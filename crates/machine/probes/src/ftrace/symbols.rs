//! Names for kernel addresses: kallsyms for functions, `printk_formats` for the kernel's constant strings.

use std::collections::HashMap;

use crate::proc_fs;

/// An address this far after a symbol belongs to something else (upstream: kernel_symbol_map.cc).
const MAX_SYMBOL_SIZE: u64 = 1 << 20;

/// The kernel's functions, sorted by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Address, and where the name starts in `names`.
    symbols: Vec<(u64, u32)>,
    /// All names, each ended by a newline.
    names: Vec<u8>,
}

impl KernelSymbols {
    /// Reads /proc/kallsyms. Empty if the kernel hides the addresses from this user.
    pub(crate) fn load() -> Self {
        Self::parse(&proc_fs::read("/proc/kallsyms"))
    }

    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut map = Self::default();
        for line in proc_fs::lines(text) {
            let mut words = proc_fs::words(line);
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Some(address) = hex(address).filter(|&a| a != 0) else { continue };
            // Functions only; `$x` and the like mark kinds of code on Arm.
            if !matches!(kind, b"t" | b"T" | b"w" | b"W") || name.starts_with(b"$") {
                continue;
            }
            let Ok(at) = u32::try_from(map.names.len()) else { break };
            map.symbols.push((address, at));
            map.names.extend_from_slice(name);
            map.names.push(b'\n');
        }
        map.symbols.sort_by_key(|&(address, _)| address);
        map.symbols.shrink_to_fit();
        map.names.shrink_to_fit();
        map
    }

    /// The function that contains `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<&[u8]> {
        let after = self.symbols.partition_point(|&(start, _)| start <= address);
        let &(start, at) = self.symbols.get(after.checked_sub(1)?)?;
        // After the last symbol there is no knowing where it ends, and a heap address is no function.
        if address - start > MAX_SYMBOL_SIZE {
            return None;
        }
        self.names.get(at as usize..)?.split(|&b| b == b'\n').next()
    }

    pub(crate) fn len(&self) -> usize {
        self.symbols.len()
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.symbols.capacity() * size_of::<(u64, u32)>() + self.names.capacity()
    }
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// `printk_formats`: addresses of constant strings that events refer to.
#[derive(Debug, Default)]
pub(crate) struct PrintkFormats(HashMap<u64, Vec<u8>>);

impl PrintkFormats {
    /// Parses lines of the form `0xffffffff8281a569 : "rcu_preempt-GPS"`.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let colon = line.windows(3).position(|w| w == b" : ")?;
            let (address, name) = line.split_at_checked(colon)?;
            let name = name.get(3..)?.trim_ascii();
            let name = name.strip_prefix(b"\"").unwrap_or(name);
            let name = name.strip_suffix(b"\"").unwrap_or(name);
            Some((hex(address.trim_ascii().strip_prefix(b"0x")?)?, name.to_vec()))
        };
        Self(proc_fs::lines(text).filter_map(line).collect())
    }

    /// The string at `address`; empty if it is not known.
    pub(crate) fn lookup(&self, address: u64) -> &[u8] {
        self.0.get(&address).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_the_function_before_it() {
        let text = b"0000000000000000 A fixed\nffffffff81000100 T second\nffffffff81000000 T first\nffffffff81000080 D data\n\
                     ffffffff81000200 t module_fn\t[mod]\ngarbage\nffffffff81000300 t $x\n";
        let symbols = KernelSymbols::parse(text);
        assert_eq!(symbols.len(), 3);
        assert_eq!(symbols.lookup(0xffff_ffff_8100_0000), Some(&b"first"[..]));
        assert_eq!(symbols.lookup(0xffff_ffff_8100_00ff), Some(&b"first"[..]));
        assert_eq!(symbols.lookup(0xffff_ffff_8100_0210), Some(&b"module_fn"[..]));
        assert_eq!(symbols.lookup(0x1000), None);
        assert_eq!(symbols.lookup(u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_give_no_symbols() {
        assert_eq!(KernelSymbols::parse(b"0000000000000000 T _text\n0000000000000000 T start\n").len(), 0);
    }

    #[test]
    fn printk_formats_parse() {
        let formats = PrintkFormats::parse(
            b"0xffffffff8281a569 : \"rcu_preempt-GPS\"\n0x10 : \"a : \"b\"\"\nnonsense\n0x : \"x\"\n",
        );
        assert_eq!(formats.lookup(0xffff_ffff_8281_a569), b"rcu_preempt-GPS");
        assert_eq!(formats.lookup(0x10), b"a : \"b\"");
        assert_eq!(formats.lookup(1), b"");
    }
}
