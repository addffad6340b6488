//! The kernel's tracepoints: what their raw bytes are, by the descriptions that perf puts into the recording (as trace-cmd does; their form is
//! tracefs' `events/*/*/format`).
//!
//! What is damaged costs what is behind it; events without a description have no arguments.

use ferretto_trace_model::args::{Arg, ArgValue};
use ferretto_trace_tables::Strings;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::bytes::Bytes;

/// Descriptions of events. Ours: a kernel has some thousand.
const MAX_EVENTS: usize = 1 << 16;
/// Fields of an event. Ours: some have thirty.
const MAX_FIELDS: usize = 256;

/// What tracepoints say, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Tracepoints {
    events: HashMap<u64, Event, RandomState>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    flags: Option<Field>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    /// Bytes up to a 0.
    Text,
    /// Where such are: the offset from the begin, and the length.
    TextElsewhere,
    /// The same, the offset from behind the field.
    TextBehind,
}

impl Tracepoints {
    /// Reads what perf calls tracing data.
    pub(super) fn read(&mut self, data: &[u8]) {
        _ = self.read_parts(Bytes(data));
    }

    fn read_parts(&mut self, mut at: Bytes<'_>) -> Option<()> {
        const MAGIC: &[u8] = b"\x17\x08\x44tracing";
        if at.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let _version = text(&mut at)?;
        let [is_big, _long_bytes] = *at.take(2)? else { return None };
        if is_big != 0 {
            return None;
        }
        let _page_bytes = at.u32()?;
        // How pages of the kernel's buffers begin, and events.
        for _ in 0..2 {
            text(&mut at)?;
            counted(&mut at)?;
        }
        let of_ftrace = at.u32()?;
        for _ in 0..of_ftrace {
            self.add(counted(&mut at)?);
        }
        let systems = at.u32()?;
        for _ in 0..systems {
            let _name = text(&mut at)?;
            let events = at.u32()?;
            for _ in 0..events {
                self.add(counted(&mut at)?);
            }
        }
        Some(())
    }

    fn add(&mut self, format: &[u8]) {
        if self.events.len() < MAX_EVENTS
            && let Some((id, event)) = Event::read(&String::from_utf8_lossy(format))
        {
            self.events.entry(id).or_insert(event);
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&Event> {
        self.events.get(&id)
    }
}

/// A text and its 0.
fn text<'a>(at: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let text = at.text();
    at.take(text.len() + 1)?;
    Some(text)
}

/// Bytes behind their number.
fn counted<'a>(at: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(at.u64()?).ok()?;
    at.take(len)
}

impl Event {
    fn read(format: &str) -> Option<(u64, Self)> {
        let (mut id, mut event) = (None, Self::default());
        for line in format.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("name:") {
                name.trim().clone_into(&mut event.name);
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.strip_prefix("field:").and_then(Field::read) {
                match field.name.as_str() {
                    "common_flags" => event.flags = Some(field),
                    common if common.starts_with("common_") => {}
                    _ if event.fields.len() < MAX_FIELDS => event.fields.push(field),
                    _ => {}
                }
            }
        }
        Some((id?, event))
    }

    /// The kernel's flags, of the raw bytes of an event.
    pub(super) fn flags(&self, raw: &[u8]) -> u32 {
        let value = self.flags.as_ref().and_then(|field| field.number(raw));
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
    }

    /// What an event says. A field that is not all there is left out.
    pub(super) fn args(&self, raw: &[u8], strings: &mut Strings) -> Vec<Arg> {
        let arg = |field: &Field| {
            let value = match field.kind {
                Kind::Signed => ArgValue::Int(field.number(raw)?),
                Kind::Unsigned => ArgValue::Uint(field.number(raw)?.cast_unsigned()),
                Kind::Text | Kind::TextElsewhere | Kind::TextBehind => {
                    ArgValue::Text(strings.intern_bytes(field.text(raw)?))
                }
            };
            let key = strings.intern(&field.name);
            Some(Arg { key, flat_key: key, value })
        };
        self.fields.iter().filter_map(arg).collect()
    }
}

impl Field {
    /// Out of `TYPE NAME; offset:8; size:16; signed:0;`. Nothing of what is neither a number nor a text.
    fn read(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declared = parts.next()?;
        let (mut offset, mut size, mut is_signed) = (None, None, false);
        for (what, value) in parts.filter_map(|part| part.split_once(':')) {
            match what {
                "offset" => offset = value.parse().ok(),
                "size" => size = value.parse().ok(),
                "signed" => is_signed = value != "0",
                _ => {}
            }
        }
        let (offset, size) = (offset?, size?);
        let is_elsewhere = declared.starts_with("__data_loc");
        let is_behind = declared.starts_with("__rel_loc");
        let is_array = declared.ends_with(']');
        let without_array = declared.split('[').next().unwrap_or(declared).trim_end();
        // That of what lies elsewhere stands behind the brackets.
        let declared_name = if is_elsewhere || is_behind { declared } else { without_array };
        let name = declared_name.rsplit([' ', '*', ']']).next().filter(|name| !name.is_empty())?;
        let is_char = declared.split_whitespace().any(|word| word == "char" || word.starts_with("char["));
        let kind = match () {
            () if is_elsewhere && is_char => Kind::TextElsewhere,
            () if is_behind && is_char => Kind::TextBehind,
            () if is_array && is_char => Kind::Text,
            () if is_elsewhere || is_behind || is_array || !matches!(size, 1 | 2 | 4 | 8) => return None,
            () if is_signed => Kind::Signed,
            () => Kind::Unsigned,
        };
        Some(Self { name: name.to_owned(), offset, size, kind })
    }

    fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// With its sign, if it has one.
    fn number(&self, raw: &[u8]) -> Option<i64> {
        let bytes = self.bytes(raw)?;
        let value = bytes
            .iter()
            .rev()
            .try_fold(0_u64, |value, byte| (value < 1 << 56).then_some(value << 8 | u64::from(*byte)))?;
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        Some(match self.kind {
            Kind::Signed => (value << unused).cast_signed() >> unused,
            _ => value.cast_signed(),
        })
    }

    fn text<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let place = |from: usize| {
            let place = Bytes(self.bytes(raw)?).u32()?;
            let start = from.checked_add(usize::try_from(place & 0xffff).ok()?)?;
            raw.get(start..start.checked_add(usize::try_from(place >> 16).ok()?)?)
        };
        let bytes = match self.kind {
            Kind::TextElsewhere => place(0)?,
            Kind::TextBehind => place(self.offset.checked_add(self.size)?)?,
            _ => self.bytes(raw)?,
        };
        Some(Bytes(bytes).text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sample\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:long delta;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:const void * at;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] path;\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc char[] more;\toffset:36;\tsize:4;\tsigned:0;\n\
        \tfield:u32 words[4];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:short small;\toffset:40;\tsize:2;\tsigned:1;\n\
        \tfield:int beyond;\toffset:400;\tsize:4;\tsigned:1;\n";

    fn raw() -> Vec<u8> {
        let mut raw = vec![77, 0, 5, 0, 1, 0, 0, 0];
        raw.extend(b"sh\0junk!");
        raw.extend((-3_i64).to_le_bytes());
        raw.extend(0xffff_8000_0000_0001_u64.to_le_bytes());
        raw.extend((44_u32 | 5 << 16).to_le_bytes());
        raw.extend((9_u32 | 3 << 16).to_le_bytes());
        raw.extend([0xfe, 0xff, 0, 0]);
        raw.extend(b"/etc\0ab\0");
        raw
    }

    fn described(tracepoints: &Tracepoints) -> Vec<String> {
        let mut strings = Strings::default();
        let event = tracepoints.get(77).unwrap();
        assert_eq!((event.name.as_str(), event.flags(&raw())), ("sample", 5));
        let args = event.args(&raw(), &mut strings);
        let text = |arg: &Arg| {
            let value = match arg.value {
                ArgValue::Int(value) => value.to_string(),
                ArgValue::Uint(value) => format!("{value:#x}"),
                ArgValue::Text(text) => strings.get(text).to_owned(),
                _ => "?".to_owned(),
            };
            format!("{}={value}", strings.get(arg.key))
        };
        args.iter().map(text).collect()
    }

    fn data() -> Vec<u8> {
        let mut data = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
        data.extend(4096_u32.to_le_bytes());
        for name in [&b"header_page\0"[..], b"header_event\0"] {
            data.extend(name);
            data.extend(3_u64.to_le_bytes());
            data.extend(b"abc");
        }
        data.extend(0_u32.to_le_bytes());
        data.extend(1_u32.to_le_bytes());
        data.extend(b"test\0");
        data.extend(1_u32.to_le_bytes());
        data.extend((FORMAT.len() as u64).to_le_bytes());
        data.extend(FORMAT.as_bytes());
        data.extend(0_u32.to_le_bytes());
        data
    }

    #[test]
    fn fields_are_numbers_and_texts_wherever_they_lie() {
        let mut tracepoints = Tracepoints::default();
        tracepoints.read(&data());
        let expected = ["comm=sh", "delta=-3", "at=0xffff800000000001", "path=/etc", "more=ab", "small=-2"];
        assert_eq!(described(&tracepoints), expected);
    }

    #[test]
    fn descriptions_that_end_anywhere_do_no_harm() {
        let data = data();
        for end in 0..data.len() {
            let mut tracepoints = Tracepoints::default();
            tracepoints.read(&data[..end]);
            assert!(tracepoints.events.len() <= 1);
        }
        let mut tracepoints = Tracepoints::default();
        tracepoints.read(&data);
        let event = tracepoints.get(77).unwrap();
        for end in 0..raw().len() {
            _ = (event.flags(&raw()[..end]), event.args(&raw()[..end], &mut Strings::default()));
        }
    }
}
