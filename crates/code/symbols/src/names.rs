//! Which function an address is in: functions by their addresses, names one behind the other.

/// Functions of one file. Ours: rustc's library with its compiler in it has 400,000.
pub(crate) const MAX_FUNCTIONS: usize = 4 << 20;
/// Bytes of all their names.
pub(crate) const MAX_NAME_BYTES: usize = 512 << 20;

/// Functions, by address.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    functions: Vec<Function>,
    text: String,
    /// So many bytes of text there may be.
    max_bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self { functions: Vec::new(), text: String::new(), max_bytes: MAX_NAME_BYTES }
    }
}

#[derive(Clone, Copy, Debug)]
struct Function {
    address: u64,
    /// 0 reaches up to the next one.
    size: u64,
    /// Where the name is in the text.
    name: usize,
    name_len: u32,
}

impl Names {
    /// Those of a file of so many bytes: several functions may have one and the same text there, and have one each here.
    pub(crate) fn within(file_bytes: u64) -> Self {
        let max_bytes = usize::try_from(file_bytes).map_or(MAX_NAME_BYTES, |bytes| bytes.min(MAX_NAME_BYTES));
        Self { max_bytes, ..Self::default() }
    }

    /// Adds one, as long as there is room.
    pub(crate) fn push(&mut self, address: u64, size: u64, name: &str) {
        let is_room = self.functions.len() < MAX_FUNCTIONS && self.text.len() + name.len() <= self.max_bytes;
        let Some(name_len) = u32::try_from(name.len()).ok().filter(|len| *len > 0 && is_room) else { return };
        self.functions.push(Function { address, size, name: self.text.len(), name_len });
        self.text.push_str(name);
    }

    /// All are there. Of several at one address the one with a size stays, and of these the first.
    pub(crate) fn finish(mut self) -> Self {
        self.functions.sort_by_key(|function| (function.address, function.size == 0));
        self.functions.dedup_by_key(|function| function.address);
        self.functions.shrink_to_fit();
        self.text.shrink_to_fit();
        self
    }

    /// The function that an address is in.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        if function.size > 0 && address - function.address >= function.size {
            return None;
        }
        self.text.get(function.name..function.name + function.name_len as usize)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.functions.as_slice()) + self.text.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_it_is_within() {
        let mut names = Names::default();
        for (address, size, name) in
            [(100, 0, "label"), (100, 20, "first"), (300, 0, "open"), (200, 10, "second"), (400, 5, "")]
        {
            names.push(address, size, name);
        }
        let names = names.finish();
        for (address, expected) in [
            (99, None),
            (100, Some("first")),
            (119, Some("first")),
            (120, None),
            (205, Some("second")),
            (u64::MAX, Some("open")),
        ] {
            assert_eq!(names.find(address), expected, "{address}");
        }
        assert_eq!(names.len(), 3);
    }
}
