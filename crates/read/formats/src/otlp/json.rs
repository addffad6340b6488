//! The same messages as JSON (opentelemetry-proto's `docs/specification.md`, "JSON Protobuf Encoding"): names in lowerCamelCase, ids in
//! hexadecimal, 64-bit numbers as texts or numbers. A file is one document, several, one a line, or a list of them.
//!
//! Spans are taken one by one as they come: what is before a break is read.

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::span::{Any, Attributes, Said, SaidEvent, SaidLink, Spans};
use crate::Error;
use crate::json::Counted;

/// Reads a file into `spans`.
pub(super) fn read(file: impl BufRead, spans: &mut Spans<'_>) -> Result<(), Error> {
    let (file, offset) = Counted::new(file);
    let mut json = serde_json::Deserializer::from_reader(file);
    loop {
        // Blanks, and then the end or another document.
        if json.end().is_ok() {
            return Ok(());
        }
        Request(&mut *spans).deserialize(&mut json).map_err(|error| offset.broken(&error))?;
    }
}

/// What is met on the way to the spans.
macro_rules! visit_map {
    ($seed:ident, $expecting:literal, |$it:ident, $map:ident, $key:ident| { $($body:tt)* } , $end:expr) => {
        impl<'de> DeserializeSeed<'de> for $seed<'_, '_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
                json.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for $seed<'_, '_> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }

            fn visit_unit<E>(self) -> Result<(), E> {
                Ok(())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
                while list.next_element_seed($seed(&mut *self.0))?.is_some() {}
                Ok(())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<(), A::Error> {
                let mut $it = State::new(self.0);
                let mut end = Ok(());
                while end.is_ok() {
                    let $key = match $map.next_key::<String>() {
                        Ok(Some(key)) => key,
                        Ok(None) => break,
                        Err(error) => { end = Err(error); break }
                    };
                    end = (|| { $($body)* Ok(()) })();
                }
                // Also of what broke: its spans are read.
                ($end)(&mut $it);
                end
            }
        }
    };
}

/// What is known of the object that is read.
struct State<'a, 's> {
    spans: &'a mut Spans<'s>,
    place: super::span::Place,
    attributes: Attributes,
    name: String,
}

impl<'a, 's> State<'a, 's> {
    fn new(spans: &'a mut Spans<'s>) -> Self {
        let place = spans.begin();
        Self { spans, place, attributes: Attributes::new(), name: String::new() }
    }
}

struct Request<'a, 's>(&'a mut Spans<'s>);
struct ResourceSpans<'a, 's>(&'a mut Spans<'s>);
struct ScopeSpans<'a, 's>(&'a mut Spans<'s>);
struct OneSpan<'a, 's>(&'a mut Spans<'s>);

visit_map!(
    Request,
    "traces of OpenTelemetry",
    |it, map, key| {
        match key.as_str() {
            "resourceSpans" | "resource_spans" => map.next_value_seed(ResourceSpans(&mut *it.spans))?,
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
    },
    |_: &mut State<'_, '_>| {}
);

visit_map!(
    ResourceSpans,
    "the spans of a resource",
    |it, map, key| {
        match key.as_str() {
            "resource" => {
                it.attributes =
                    map.next_value::<Option<WireResource>>()?.unwrap_or_default().attributes.said()
            }
            "scopeSpans" | "scope_spans" | "instrumentationLibrarySpans" => {
                map.next_value_seed(ScopeSpans(&mut *it.spans))?;
            }
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
    },
    |it: &mut State<'_, '_>| it.spans.end_resource(it.place, &it.attributes)
);

visit_map!(
    ScopeSpans,
    "the spans of a scope",
    |it, map, key| {
        match key.as_str() {
            "scope" | "instrumentationLibrary" => {
                it.name = map.next_value::<Option<WireScope>>()?.unwrap_or_default().name.unwrap_or_default();
            }
            "spans" => map.next_value_seed(OneSpan(&mut *it.spans))?,
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
    },
    |it: &mut State<'_, '_>| it.spans.end_scope(it.place, &it.name)
);

impl<'de> DeserializeSeed<'de> for OneSpan<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneSpan<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("spans")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(span) = list.next_element::<WireSpan>()? {
            self.0.push(span.said());
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireResource {
    attributes: WireAttributes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireScope {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireSpan {
    #[serde(alias = "trace_id")]
    trace_id: Option<String>,
    #[serde(alias = "span_id")]
    span_id: Option<String>,
    #[serde(alias = "trace_state")]
    trace_state: Option<String>,
    #[serde(alias = "parent_span_id")]
    parent_span_id: Option<String>,
    name: Option<String>,
    kind: WireNumber,
    #[serde(alias = "start_time_unix_nano")]
    start_time_unix_nano: WireNumber,
    #[serde(alias = "end_time_unix_nano")]
    end_time_unix_nano: WireNumber,
    attributes: WireAttributes,
    events: Option<Vec<WireEvent>>,
    links: Option<Vec<WireLink>>,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireEvent {
    #[serde(alias = "time_unix_nano")]
    time_unix_nano: WireNumber,
    name: Option<String>,
    attributes: WireAttributes,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireLink {
    #[serde(alias = "trace_id")]
    trace_id: Option<String>,
    #[serde(alias = "span_id")]
    span_id: Option<String>,
    attributes: WireAttributes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    message: Option<String>,
    code: WireNumber,
}

/// A number, a text of one, or the name of a value of an enum.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum WireNumber {
    Number(u64),
    Text(String),
    #[default]
    Nothing,
}

#[derive(Default, Deserialize)]
#[serde(transparent)]
struct WireAttributes(Option<Vec<WireKeyValue>>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireKeyValue {
    key: Option<String>,
    value: Option<WireAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireAny {
    #[serde(alias = "string_value")]
    string_value: Option<String>,
    #[serde(alias = "bool_value")]
    bool_value: Option<bool>,
    #[serde(alias = "int_value")]
    int_value: Option<serde_json::Value>,
    #[serde(alias = "double_value")]
    double_value: Option<serde_json::Value>,
    #[serde(alias = "array_value")]
    array_value: Option<WireList>,
    #[serde(alias = "kvlist_value")]
    kvlist_value: Option<WireMap>,
    #[serde(alias = "bytes_value")]
    bytes_value: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireList {
    values: Option<Vec<WireAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireMap {
    values: WireAttributes,
}

impl WireNumber {
    /// `names` are those of an enum, without what they share.
    fn get(&self, names: &[&str]) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().ok().unwrap_or_else(|| {
                names.iter().position(|name| text.ends_with(name)).map_or(0, |at| at as u64)
            }),
            Self::Nothing => 0,
        }
    }
}

impl WireAttributes {
    fn said(self) -> Attributes {
        let said = |pair: WireKeyValue| Some((pair.key?, pair.value.unwrap_or_default().said()));
        self.0.into_iter().flatten().filter_map(said).collect()
    }
}

impl WireAny {
    fn said(self) -> Any {
        if let Some(text) = self.string_value {
            return Any::Text(text);
        }
        if let Some(value) = self.bool_value {
            return Any::Bool(value);
        }
        if let Some(value) = self.int_value {
            let text = value.as_str().and_then(|text| text.parse().ok());
            return value.as_i64().or(text).map_or(Any::Null, Any::Int);
        }
        if let Some(value) = self.double_value {
            let text = value.as_str().and_then(|text| text.parse().ok());
            return value.as_f64().or(text).map_or(Any::Null, Any::Real);
        }
        if let Some(list) = self.array_value {
            return Any::List(list.values.into_iter().flatten().map(Self::said).collect());
        }
        if let Some(map) = self.kvlist_value {
            return Any::Map(map.values.said());
        }
        // Bytes are base64 already, and shown so.
        self.bytes_value.map_or(Any::Null, Any::Text)
    }
}

impl WireSpan {
    fn said(self) -> Said {
        let status = self.status.unwrap_or_default();
        Said {
            key: (id(self.trace_id.as_deref()), id(self.span_id.as_deref()) as u64),
            parent: id(self.parent_span_id.as_deref()) as u64,
            trace_state: self.trace_state.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            kind: self.kind.get(&["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]),
            start: self.start_time_unix_nano.get(&[]),
            end: self.end_time_unix_nano.get(&[]),
            attributes: self.attributes.said(),
            status: status.code.get(&["UNSET", "OK", "ERROR"]),
            status_message: status.message.unwrap_or_default(),
            events: self.events.into_iter().flatten().map(WireEvent::said).collect(),
            links: self.links.into_iter().flatten().map(WireLink::said).collect(),
        }
    }
}

impl WireEvent {
    fn said(self) -> SaidEvent {
        SaidEvent {
            ts: self.time_unix_nano.get(&[]),
            name: self.name.unwrap_or_default(),
            attributes: self.attributes.said(),
        }
    }
}

impl WireLink {
    fn said(self) -> SaidLink {
        SaidLink {
            key: (id(self.trace_id.as_deref()), id(self.span_id.as_deref()) as u64),
            attributes: self.attributes.said(),
        }
    }
}

/// Hexadecimal digits, of either case.
fn id(text: Option<&str>) -> u128 {
    text.and_then(|text| u128::from_str_radix(text, 16).ok()).unwrap_or(0)
}

/// Bytes as text, as JSON has them.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number =
            (0..3).fold(0usize, |number, at| number << 8 | three.get(at).map_or(0, |byte| *byte as usize));
        for at in 0..4 {
            let digit = DIGITS[number >> (18 - 6 * at) & 63];
            text.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes), text);
        }
    }
}
