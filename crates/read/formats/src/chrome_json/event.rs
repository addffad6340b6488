//! An event out of its JSON.

use std::borrow::Cow;

use ferretto_trace_model::args::{Arg, ArgList, ArgValue};
use ferretto_trace_model::model::Model;
use ferretto_trace_tables::{Str, Strings};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What an event does, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `B`
    Begin,
    /// `E`
    End,
    /// `X`
    Complete,
    /// `i`, `I`, `R`
    Instant,
    /// `b`
    AsyncBegin,
    /// `e`
    AsyncEnd,
    /// `n`
    AsyncInstant,
    /// `C`
    Counter,
    /// `s`
    FlowStart,
    /// `t`
    FlowStep,
    /// `f`
    FlowEnd,
    /// `T`, Trace Processor's own: what a thread did.
    ThreadState,
    /// `M`
    Metadata,
}

/// A number of a process or thread, which may be a name: then the name's number stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) value: i64,
    pub(crate) name: Option<Str>,
}

/// What tells an asynchronous event, or a flow, apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    Text(Str),
    Number(u64),
}

/// How far an instant reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    #[default]
    Thread,
    Process,
    Global,
    Unknown,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) ts: i64,
    pub(crate) phase: Phase,
    pub(crate) pid: Option<Number>,
    pub(crate) tid: Option<Number>,
    pub(crate) category: Option<Str>,
    pub(crate) name: Option<Str>,
    pub(crate) dur: Option<i64>,
    pub(crate) thread_ts: Option<i64>,
    pub(crate) thread_dur: Option<i64>,
    pub(crate) id: Option<Id>,
    /// `id2.local` instead of `id`: it means something to its process only.
    pub(crate) is_local: bool,
    pub(crate) bind_id: Option<Id>,
    pub(crate) flow_in: bool,
    pub(crate) flow_out: bool,
    pub(crate) binds_enclosing: bool,
    pub(crate) scope: Scope,
    pub(crate) args: ArgList,
}

/// As it is written: any member may be of any type.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    ph: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tdur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cat: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id2: Option<&'a RawValue>,
    #[serde(borrow, default)]
    bind_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    flow_in: Option<&'a RawValue>,
    #[serde(borrow, default)]
    flow_out: Option<&'a RawValue>,
    #[serde(borrow, default)]
    bp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    s: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireId2<'a> {
    #[serde(borrow, default)]
    local: Option<&'a RawValue>,
    #[serde(borrow, default)]
    global: Option<&'a RawValue>,
}

impl Event {
    /// Nothing if it says nothing, or nothing that is known.
    pub(crate) fn read(bytes: &[u8], model: &mut Model) -> Result<Option<Self>, ()> {
        let repaired;
        let wire: Wire<'_> = match serde_json::from_slice(bytes) {
            Ok(wire) => wire,
            Err(_) => {
                repaired = repair(bytes);
                serde_json::from_slice(&repaired).map_err(|_| ())?
            }
        };
        let Some(letter) = wire.ph.and_then(text).and_then(|text| text.chars().next()) else {
            let is_empty = bytes.iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}'));
            return if is_empty { Ok(None) } else { Err(()) };
        };
        let ts = wire.ts.and_then(time);
        let Some(phase) = phase(letter) else {
            return if ts.is_some() { Ok(None) } else { Err(()) };
        };
        let ts = match (ts, phase) {
            (Some(ts), _) => ts,
            (None, Phase::Metadata) => 0,
            (None, _) => return Err(()),
        };
        let optional = |raw: Option<&RawValue>| raw.map(|raw| time(raw).ok_or(())).transpose();
        let (dur, thread_ts, thread_dur) = (optional(wire.dur)?, optional(wire.tts)?, optional(wire.tdur)?);
        let strings = &mut model.tables.strings;
        let pid = wire.pid.and_then(|raw| number(raw, strings));
        let tid = wire.tid.and_then(|raw| number(raw, strings));
        let (id, is_local) = read_id(&wire, strings);
        let bind_id = wire.bind_id.and_then(|raw| read_one_id(raw, strings));
        let mut word = |raw: Option<&RawValue>| {
            let text = raw.and_then(text).filter(|text| !text.is_empty())?;
            Some(strings.intern(&text))
        };
        let (category, name) = (word(wire.cat), word(wire.name));
        let is_true = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get() == "true");
        Ok(Some(Self {
            ts,
            phase,
            pid,
            tid,
            category,
            name,
            dur,
            thread_ts,
            thread_dur,
            id,
            is_local,
            bind_id,
            flow_in: is_true(wire.flow_in),
            flow_out: is_true(wire.flow_out),
            binds_enclosing: wire.bp.and_then(text).as_deref() == Some("e"),
            scope: scope(wire.s),
            args: wire.args.map_or(ArgList::EMPTY, |raw| read_args(raw, model)),
        }))
    }
}

fn phase(letter: char) -> Option<Phase> {
    Some(match letter {
        'B' => Phase::Begin,
        'E' => Phase::End,
        'X' => Phase::Complete,
        'i' | 'I' | 'R' => Phase::Instant,
        'b' => Phase::AsyncBegin,
        'e' => Phase::AsyncEnd,
        'n' => Phase::AsyncInstant,
        'C' => Phase::Counter,
        's' => Phase::FlowStart,
        't' => Phase::FlowStep,
        'f' => Phase::FlowEnd,
        'T' => Phase::ThreadState,
        'M' => Phase::Metadata,
        _ => return None,
    })
}

fn scope(raw: Option<&RawValue>) -> Scope {
    let Some(text) = raw.and_then(text) else { return Scope::Thread };
    match &*text {
        "t" => Scope::Thread,
        "p" => Scope::Process,
        "g" => Scope::Global,
        _ => Scope::Unknown,
    }
}

/// Without commas that nothing follows, `{"a":1,}`, and with ends of lines in texts as JSON has them. People write both, and upstream takes them.
#[cold]
fn repair(bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    // The last comma, if nothing but blanks came since.
    let mut comma = None;
    let (mut is_in_text, mut is_escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if is_in_text => {
                is_in_text = is_escaped || *byte != b'"';
                is_escaped = !is_escaped && *byte == b'\\';
                if *byte < b' ' {
                    out.extend(format!("\\u{byte:04x}").bytes());
                    continue;
                }
            }
            b',' => comma = Some(out.len()),
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                if matches!(byte, b'}' | b']')
                    && let Some(last) = comma.and_then(|at| out.get_mut(at))
                {
                    *last = b' ';
                }
                (comma, is_in_text) = (None, *byte == b'"');
            }
        }
        out.push(*byte);
    }
    out
}

/// If it is one.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Microseconds as a number, or as a text of one, in nanoseconds.
fn time(raw: &RawValue) -> Option<i64> {
    let text = text(raw).unwrap_or(Cow::Borrowed(raw.get()));
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.saturating_mul(1000));
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    // A number of nanoseconds may be none of a floating-point number's, where that of microseconds is one. Saturates.
    Some(match value == value.trunc() {
        true => (value as i64).saturating_mul(1000),
        false => (value * 1000.0).round() as i64,
    })
}

/// What is out of 32 bits is 0.
fn number(raw: &RawValue, strings: &mut Strings) -> Option<Number> {
    if let Some(name) = text(raw) {
        let name = strings.intern(&name);
        return Some(Number { value: i64::try_from(name.index()).unwrap_or(0), name: Some(name) });
    }
    let value = match raw.get().parse::<i64>() {
        Ok(whole) => whole,
        Err(_) => raw.get().parse::<f64>().ok()? as i64,
    };
    Some(Number { value: u32::try_from(value).map_or(0, i64::from), name: None })
}

fn read_id(wire: &Wire<'_>, strings: &mut Strings) -> (Option<Id>, bool) {
    if let Some(id) = wire.id.and_then(|raw| read_one_id(raw, strings)) {
        return (Some(id), false);
    }
    let id2: Option<WireId2<'_>> = wire.id2.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(id2) = id2 else { return (None, false) };
    if let Some(id) = id2.global.and_then(|raw| read_one_id(raw, strings)) {
        return (Some(id), false);
    }
    (id2.local.and_then(|raw| read_one_id(raw, strings)), true)
}

fn read_one_id(raw: &RawValue, strings: &mut Strings) -> Option<Id> {
    if let Some(text) = text(raw) {
        return Some(Id::Text(strings.intern(&text)));
    }
    raw.get().parse::<i64>().ok().map(|number| Id::Number(number.cast_unsigned()))
}

/// All that is in `args`, with keys such as `args.list[3].x`. Only an object is one.
fn read_args(raw: &RawValue, model: &mut Model) -> ArgList {
    let Ok(value @ Value::Object(_)) = serde_json::from_str(raw.get()) else { return ArgList::EMPTY };
    let mut reader = Args {
        strings: &mut model.tables.strings,
        args: Vec::new(),
        key: "args".into(),
        flat: "args".into(),
    };
    reader.value(&value);
    let args = reader.args;
    model.args.intern(&args)
}

struct Args<'a> {
    strings: &'a mut Strings,
    args: Vec<Arg>,
    key: String,
    flat: String,
}

impl Args<'_> {
    /// The reader of JSON has a bound on how deep it goes. Nothing is not counted in a list.
    fn value(&mut self, value: &Value) {
        let leaf = match value {
            Value::Null => return,
            Value::Bool(value) => ArgValue::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => ArgValue::Int(whole),
                None => ArgValue::Real(number.as_f64().unwrap_or(0.0)),
            },
            Value::String(text) => ArgValue::Text(self.strings.intern(text)),
            Value::Array(elements) => {
                return elements.iter().filter(|element| !element.is_null()).enumerate().for_each(
                    |(index, element)| {
                        let len = self.key.len();
                        self.key.push_str(&format!("[{index}]"));
                        self.value(element);
                        self.key.truncate(len);
                    },
                );
            }
            Value::Object(members) => {
                return members.iter().for_each(|(name, member)| {
                    let (key, flat) = (self.key.len(), self.flat.len());
                    for text in [&mut self.key, &mut self.flat] {
                        text.push('.');
                        text.push_str(name);
                    }
                    self.value(member);
                    self.key.truncate(key);
                    self.flat.truncate(flat);
                });
            }
        };
        let (flat_key, key) = (self.strings.intern(&self.flat), self.strings.intern(&self.key));
        self.args.push(Arg { flat_key, key, value: leaf });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_microseconds_lose_nothing() {
        for (text, ns) in [
            ("1850244461563845", 1_850_244_461_563_845_000),
            ("1.850244461563845e+15", 1_850_244_461_563_845_000),
            ("\"1850244461563845.0\"", 1_850_244_461_563_845_000),
            ("0.0015", 2),
            ("1e300", i64::MAX),
        ] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(time(&raw), Some(ns), "{text}");
        }
    }

    #[test]
    fn what_people_write_is_repaired() {
        for (text, expected) in [
            (r#"{"a":[1, 2 , ],}"#, r#"{"a":[1, 2   ] }"#),
            (r#"{"a":",}\",]","b":{},}"#, r#"{"a":",}\",]","b":{} }"#),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
            ("{\"a\":\"1\n2\"}", r#"{"a":"1\u000a2"}"#),
        ] {
            assert_eq!(String::from_utf8(repair(text.as_bytes())).unwrap(), expected);
        }
    }
}
