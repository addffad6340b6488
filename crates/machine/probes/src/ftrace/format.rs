//! Parses the kernel's descriptions of its own records: `events/GROUP/NAME/format` and `events/header_page`.
//!
//! The files are text, one field a line, and the kernel is trusted to tell the truth about offsets; nothing here relies on it,
//! because every later read is checked against the record's real length.

/// What a field of a record is, as far as encoding it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `char name[16]`: bytes up to the first NUL or the end of the field.
    FixedString,
    /// `char buf[]` of size 0: bytes up to the first NUL or the end of the record.
    TailString,
    /// `__data_loc char[] name`: offset from the start of the record in the low half, length in the high half.
    DataLocString,
    /// `__rel_loc char[] name`: as [`FieldKind::DataLocString`], the offset counted from the end of the field.
    RelLocString,
    /// `__data_loc u8[] name`.
    DataLocBytes,
    /// `__rel_loc u8[] name`.
    RelLocBytes,
    /// `u8 name[16]`: an address, a UUID, a piece of a packet.
    FixedBytes,
    /// `const char *name`: an address that `printk_formats` resolves.
    StringPointer,
    /// `void *name`: an address that kallsyms may resolve.
    SymbolAddress,
    /// `bool name`.
    Bool,
    /// `ino_t name`.
    Inode,
    /// `dev_t name` in the kernel's own numbering.
    Device,
    /// `pid_t name`.
    Pid,
    /// Any other number of 1, 2, 4 or 8 bytes.
    Int {
        /// Whether it is sign-extended.
        signed: bool,
    },
    /// `unsigned long args[6]`: numbers one after another.
    IntArray {
        /// Bytes of one element: 1, 2, 4 or 8.
        element_size: u8,
        /// Whether each is sign-extended.
        signed: bool,
    },
    /// Nothing that this crate can encode.
    Unknown,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// The declaration as the kernel prints it, for example `char prev_comm[16]`.
    pub declaration: String,
    /// The identifier in it; empty if there is none.
    pub name: String,
    /// Bytes from the start of the record.
    pub offset: u16,
    /// Bytes; 0 for a string that runs to the end of the record.
    pub size: u16,
    /// The kernel's own word on signedness.
    pub signed: bool,
    /// What the declaration means.
    pub kind: FieldKind,
}

impl FormatField {
    /// One past the last byte of the fixed part.
    pub fn end(&self) -> usize {
        usize::from(self.offset) + usize::from(self.size)
    }
}

/// A whole `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name, without its group.
    pub name: String,
    /// The number that starts each record of this event; never 0.
    pub id: u16,
    /// `common_type`, `common_flags`, `common_preempt_count`, `common_pid`.
    pub common: Vec<FormatField>,
    /// The event's own fields, in the kernel's order.
    pub fields: Vec<FormatField>,
}

impl EventFormat {
    /// Parses a `format` file; `None` when it has no name, no id or no common fields.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut name = None;
        let mut id = None;
        let mut common = Vec::new();
        let mut fields = Vec::new();
        for line in text.split(|&b| b == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if let Some(rest) = line.strip_prefix("name:") {
                name.get_or_insert_with(|| rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = id.or(rest.trim().parse::<u16>().ok().filter(|&id| id != 0));
            } else if line.starts_with("print fmt:") {
                break;
            } else if let Some(field) = parse_field(line) {
                if field.name.starts_with("common_") { common.push(field) } else { fields.push(field) }
            }
        }
        let name = name.filter(|name| !name.is_empty())?;
        (!common.is_empty()).then_some(Self { name, id: id?, common, fields })
    }

    /// The fixed part of a record, in bytes: a shorter record is broken.
    pub fn fixed_size(&self) -> usize {
        self.common.iter().chain(&self.fields).map(FormatField::end).max().unwrap_or(0)
    }
}

/// Where things are in a raw page (`events/header_page`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes before the first record: 16 on 64-bit kernels, 12 on 32-bit ones.
    pub header_size: usize,
    /// Bytes of the whole page, header included.
    pub page_size: usize,
}

/// A bound on what `header_page` may claim: the kernel's largest sub-buffer is 64 KiB times its page size of at most 64 KiB,
/// but nothing in use exceeds this.
const MAX_PAGE_SIZE: usize = 1 << 20;

impl PageLayout {
    /// The layout of a 64-bit kernel with pages of `page_size` bytes.
    pub const fn native_64bit(page_size: usize) -> Self {
        Self { header_size: 16, page_size }
    }

    /// Parses `events/header_page`; `None` if its `data` field is missing or makes no sense.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut commit_end = 0;
        let mut data = None;
        for line in text.split(|&b| b == b'\n') {
            let Some(field) = std::str::from_utf8(line).ok().and_then(parse_field) else { continue };
            match field.name.as_str() {
                "commit" => commit_end = field.end(),
                "data" => data = Some((usize::from(field.offset), usize::from(field.size))),
                _ => {}
            }
        }
        let (header_size, data_size) = data?;
        let page_size = header_size + data_size;
        // The header is a 64-bit timestamp and a commit word of at least 32 bits (upstream: cpu_reader.cc, ParsePageHeader).
        let sane =
            header_size >= 12 && header_size >= commit_end && data_size > 0 && page_size <= MAX_PAGE_SIZE;
        sane.then_some(Self { header_size, page_size })
    }
}

/// Parses `field:char prev_comm[16]; offset:8; size:16; signed:0;`, with any blanks.
fn parse_field(line: &str) -> Option<FormatField> {
    let rest = line.trim_start().strip_prefix("field:")?;
    let mut parts = rest.split(';');
    let declaration = parts.next()?.trim().to_owned();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        let Some((key, value)) = part.split_once(':') else { continue };
        match key.trim() {
            "offset" => offset = value.trim().parse::<u16>().ok(),
            "size" => size = value.trim().parse::<u16>().ok(),
            "signed" => signed = value.trim() == "1",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    let name = name_of(&declaration).to_owned();
    let kind = kind_of(&declaration, &name, size, signed);
    Some(FormatField { declaration, name, offset, size, signed, kind })
}

/// The identifier in a C declaration: `u8 foo[(int)sizeof(x)]` gives `foo`; empty when there is none.
fn name_of(declaration: &str) -> &str {
    let head = match declaration.strip_suffix(']') {
        Some(_) => declaration.rfind('[').map_or("", |at| &declaration[..at]),
        None => declaration,
    };
    let Some((_, name)) = head.rsplit_once(' ') else { return "" };
    let name = name.trim_start_matches('*');
    let identifier = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if identifier && !name.starts_with(|c: char| c.is_ascii_digit()) { name } else { "" }
}

/// The text before the identifier, and the text between the last brackets if the declaration ends in them.
fn split_declaration<'a>(declaration: &'a str, name: &str) -> (&'a str, Option<&'a str>) {
    let (head, brackets) = match (declaration.strip_suffix(']'), declaration.rfind('[')) {
        (Some(inner), Some(at)) => (&declaration[..at], inner.get(at + 1..)),
        _ => (declaration, None),
    };
    (head.strip_suffix(name).unwrap_or(head).trim_end(), brackets)
}

fn kind_of(declaration: &str, name: &str, size: u16, signed: bool) -> FieldKind {
    let (type_name, brackets) = split_declaration(declaration, name);
    let is_byte = |t: &str| matches!(t, "u8" | "__u8" | "uint8_t" | "unsigned char");
    for (prefix, string, bytes) in [
        ("__data_loc ", FieldKind::DataLocString, FieldKind::DataLocBytes),
        ("__rel_loc ", FieldKind::RelLocString, FieldKind::RelLocBytes),
    ] {
        if let Some(element) = type_name.strip_prefix(prefix) {
            let element = element.trim_end_matches("[]").trim_end();
            return match (size, element) {
                (4, "char" | "const char") => string,
                // Arrays of wider numbers go out as their bytes, which loses nothing.
                (4, _) => bytes,
                _ => FieldKind::Unknown,
            };
        }
    }
    if let Some(length) = brackets {
        return match type_name {
            "char" | "const char" | "unsigned char" if size == 0 => FieldKind::TailString,
            "char" | "const char" | "unsigned char" if !length.is_empty() => FieldKind::FixedString,
            _ if size == 0 => FieldKind::Unknown,
            t if is_byte(t) => FieldKind::FixedBytes,
            _ => array_kind(length, size, signed),
        };
    }
    if type_name.starts_with("char") && size == 0 {
        return FieldKind::TailString;
    }
    if type_name.ends_with("char *") || type_name.ends_with("char*") || type_name.ends_with("char[]") {
        return if matches!(size, 4 | 8) { FieldKind::StringPointer } else { FieldKind::Unknown };
    }
    let width_ok = matches!(size, 4 | 8);
    match type_name {
        "void *" | "void*" if width_ok => FieldKind::SymbolAddress,
        "bool" if size == 1 => FieldKind::Bool,
        "ino_t" | "i_ino" if width_ok => FieldKind::Inode,
        "dev_t" if width_ok => FieldKind::Device,
        "pid_t" if size == 4 => FieldKind::Pid,
        _ if matches!(size, 1 | 2 | 4 | 8) => FieldKind::Int { signed },
        _ => FieldKind::Unknown,
    }
}

/// An array of numbers, if the size divides by the count and gives a number's width; a count that is no number means bytes.
fn array_kind(length: &str, size: u16, signed: bool) -> FieldKind {
    let element_size = match length.parse::<u16>() {
        Ok(count) if count > 0 && size.is_multiple_of(count) => size / count,
        _ => return FieldKind::FixedBytes,
    };
    match u8::try_from(element_size) {
        Ok(element_size @ (1 | 2 | 4 | 8)) => FieldKind::IntArray { element_size, signed },
        _ => FieldKind::FixedBytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHED_SWITCH: &[u8] = include_bytes!("../../tests/data/formats/sched_switch");
    const HEADER_PAGE: &[u8] = include_bytes!("../../tests/data/formats/header_page");

    #[test]
    fn a_real_format_file_parses() {
        let format = EventFormat::parse(SCHED_SWITCH).unwrap();
        assert_eq!(format.name, "sched_switch");
        assert_eq!(format.common.len(), 4);
        assert_eq!(format.fixed_size(), 64);
        let kinds: Vec<_> = format.fields.iter().map(|f| (f.name.as_str(), f.kind)).collect();
        assert_eq!(kinds[0], ("prev_comm", FieldKind::FixedString));
        assert_eq!(kinds[1], ("prev_pid", FieldKind::Pid));
        assert_eq!(kinds[3], ("prev_state", FieldKind::Int { signed: true }));
    }

    #[test]
    fn the_page_header_parses_and_nonsense_does_not() {
        assert_eq!(PageLayout::parse(HEADER_PAGE), Some(PageLayout { header_size: 16, page_size: 4096 }));
        let of_32bit = b"field: u64 timestamp; offset:0; size:8;\nfield: local_t commit; offset:8; size:4;\nfield: char data; offset:12; size:4084;";
        assert_eq!(PageLayout::parse(of_32bit), Some(PageLayout { header_size: 12, page_size: 4096 }));
        assert_eq!(PageLayout::parse(b"field: char data; offset:4; size:4084;"), None);
        assert_eq!(PageLayout::parse(b""), None);
    }

    #[test]
    fn every_sort_of_declaration_has_its_kind() {
        use FieldKind::*;
        let cases = [
            ("char comm[16]", 16, false, "comm", FixedString),
            ("char comm[TASK_COMM_LEN]", 16, false, "comm", FixedString),
            ("char buf[]", 0, false, "buf", TailString),
            ("char buf", 0, false, "buf", TailString),
            ("__data_loc char[] name", 4, true, "name", DataLocString),
            ("__data_loc u8[] buf", 4, false, "buf", DataLocBytes),
            ("__data_loc unsigned char[] buf", 4, false, "buf", DataLocBytes),
            ("__rel_loc char[] name", 4, true, "name", RelLocString),
            ("__data_loc char[] name", 8, true, "name", Unknown),
            ("const char * name", 8, false, "name", StringPointer),
            ("const char *name", 8, false, "name", StringPointer),
            ("char * name", 8, false, "name", StringPointer),
            ("void * function", 8, false, "function", SymbolAddress),
            ("void *function", 8, false, "function", SymbolAddress),
            ("bool ok", 1, false, "ok", Bool),
            ("ino_t ino", 8, false, "ino", Inode),
            ("dev_t dev", 4, false, "dev", Device),
            ("pid_t pid", 4, true, "pid", Pid),
            ("unsigned long args[6]", 48, false, "args", IntArray { element_size: 8, signed: false }),
            ("u8 fsid[16]", 16, false, "fsid", FixedBytes),
            ("__u8 saddr[sizeof(struct sockaddr_in6)]", 28, false, "saddr", FixedBytes),
            ("int x[COUNT]", 12, true, "x", FixedBytes),
            ("enum zone_type z", 4, false, "z", Int { signed: false }),
            ("struct foo f", 24, false, "f", Unknown),
            ("nonsense", 4, false, "", Int { signed: false }),
        ];
        for (declaration, size, signed, name, kind) in cases {
            let line =
                format!("\tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:{};", u8::from(signed));
            let field = parse_field(&line).unwrap();
            assert_eq!((field.name.as_str(), field.kind), (name, kind), "{declaration}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = EventFormat::parse(&bytes);
            let _ = PageLayout::parse(&bytes);
        }

        #[test]
        fn damaged_format_files_parse_without_a_panic(at in 0usize..2000, byte in proptest::num::u8::ANY, cut in 0usize..2000) {
            let mut text = SCHED_SWITCH.to_vec();
            let len = text.len();
            text[at % len] = byte;
            text.truncate(cut);
            let _ = EventFormat::parse(&text);
        }
    }
}
