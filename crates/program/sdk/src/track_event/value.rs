//! Values of arguments and counters.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Debug, Display, Write};
use std::rc::Rc;
use std::sync::Arc;

use ferretto_protos::fields::debug_annotation;
use ferretto_protozero::Message;

/// Values that are nested deeper are replaced by `…`: a value that contains itself is not to take the stack.
const MAX_DEPTH: u32 = 32;

/// A value of an argument, borrowed from the trace point.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: the argument is left out.
    Missing,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Float(f64),
    /// A text.
    Str(&'a str),
    /// An address.
    Pointer(u64),
    /// A text that is made only if the event is written. `%value` in macros.
    Display(&'a dyn Display),
    /// As above, in its form for programmers. `?value` in macros.
    Debug(&'a dyn Debug),
    /// A list or a table.
    Nested(&'a dyn Nested),
    /// A protobuf message. Viewers that know its type show its fields.
    Proto(&'a ProtoValue<'a>),
}

/// A protobuf message as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtoValue<'a> {
    /// The full name of its type, with a dot before it.
    pub type_name: &'a str,
    /// The message.
    pub bytes: &'a [u8],
}

/// What can be the value of an argument. Implemented for booleans, numbers, texts, pointers, options, lists, tables with text keys, and
/// references to them. Everything else can be an argument as `%value` or `?value`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a trace point as it is",
    label = "write `%value` if it has `Display`, `?value` if it has `Debug`",
    note = "`ferretto::ToValue` or `ferretto::Nested` can be implemented for types of your own"
)]
pub trait ToValue {
    /// The value, without copying texts.
    fn to_value(&self) -> Value<'_>;
}

/// What can be the value of a counter: integers and floats, and references to them.
///
/// ```compile_fail,E0277
/// ferretto::counter!("app", "state", "running");
/// ```
///
/// ```compile_fail,E0277
/// ferretto::counter!("app", "is running", true);
/// ```
///
/// ```compile_fail,E0277
/// struct Load(f64);
/// ferretto::counter!("app", "load", Load(0.5));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number, and cannot be the value of a counter",
    label = "a counter's value is an integer or a float",
    note = "a truth value can be written as `u8::from(value)`, a `Duration` as `value.as_secs_f64()`; what has names is a `state!`"
)]
pub trait CounterValue {
    /// The value. Integers beyond 64 bits are floats.
    fn to_number(&self) -> Value<'static>;
}

/// A value that has others in it. Write it as a list or as a table:
///
/// ```
/// use ferretto::{Nested, ToValue, Value, ValueWriter};
///
/// struct Request { host: String, ports: Vec<u16> }
///
/// impl Nested for Request {
///     fn write(&self, writer: ValueWriter<'_>) {
///         let mut table = writer.table();
///         table.entry("host", &self.host);
///         table.entry("ports", &self.ports);
///     }
/// }
///
/// impl ToValue for Request {
///     fn to_value(&self) -> Value<'_> {
///         Value::Nested(self)
///     }
/// }
///
/// let request = Request { host: "example.org".into(), ports: vec![80, 443] };
/// ferretto::instant!("net", "request", request = request);
/// ```
pub trait Nested {
    /// Writes what is in it.
    fn write(&self, writer: ValueWriter<'_>);
}

/// Writes one value.
#[derive(Debug)]
#[must_use = "nothing is written by itself"]
pub struct ValueWriter<'w> {
    /// A `DebugAnnotation`.
    annotation: Message<'w, Vec<u8>>,
    depth: u32,
}

/// Writes a table: texts with values.
#[derive(Debug)]
pub struct TableWriter<'w>(ValueWriter<'w>);

/// Writes a list of values.
#[derive(Debug)]
pub struct ListWriter<'w>(ValueWriter<'w>);

impl<'w> ValueWriter<'w> {
    pub(crate) fn new(annotation: Message<'w, Vec<u8>>) -> Self {
        Self { annotation, depth: 0 }
    }

    /// The value is this one.
    pub fn value(mut self, value: &(impl ToValue + ?Sized)) {
        self.put(&value.to_value());
    }

    /// The value is a table.
    pub fn table(self) -> TableWriter<'w> {
        TableWriter(self)
    }

    /// The value is a list.
    pub fn list(self) -> ListWriter<'w> {
        ListWriter(self)
    }

    /// The value has these bytes, of a `DebugAnnotation` without a name.
    pub(crate) fn raw(mut self, bytes: &[u8]) {
        self.annotation.raw(bytes);
    }

    pub(crate) fn put(&mut self, value: &Value<'_>) {
        let annotation = &mut self.annotation;
        match *value {
            Value::Missing => {}
            Value::Bool(value) => annotation.bool(debug_annotation::BOOL_VALUE, value),
            Value::Int(value) => annotation.int(debug_annotation::INT_VALUE, value),
            Value::Uint(value) => annotation.varint(debug_annotation::UINT_VALUE, value),
            Value::Float(value) => annotation.double(debug_annotation::DOUBLE_VALUE, value),
            Value::Str(value) => annotation.string(debug_annotation::STRING_VALUE, value),
            Value::Pointer(value) => annotation.varint(debug_annotation::POINTER_VALUE, value),
            Value::Display(value) => annotation.string(debug_annotation::STRING_VALUE, &text(value)),
            Value::Debug(value) => {
                annotation.string(debug_annotation::STRING_VALUE, &text(&format_args!("{value:?}")));
            }
            Value::Nested(_) if self.depth >= MAX_DEPTH => {
                annotation.string(debug_annotation::STRING_VALUE, "…");
            }
            Value::Nested(value) => {
                // The message goes on behind what is written here.
                let annotation = Message::new(annotation.sink());
                value.write(ValueWriter { annotation, depth: self.depth + 1 });
            }
            Value::Proto(value) => {
                annotation.string(debug_annotation::PROTO_TYPE_NAME, value.type_name);
                annotation.bytes(debug_annotation::PROTO_VALUE, value.bytes);
            }
        }
    }

    fn nested(&mut self, field: u32, name: Option<&str>, value: &Value<'_>) {
        let mut annotation = self.annotation.nested(field);
        if let Some(name) = name {
            annotation.string(debug_annotation::NAME, name);
        }
        ValueWriter { annotation, depth: self.depth }.put(value);
    }
}

impl TableWriter<'_> {
    /// Adds an entry. One without a value is left out.
    pub fn entry(&mut self, name: &str, value: &(impl ToValue + ?Sized)) {
        match value.to_value() {
            Value::Missing => {}
            value => self.0.nested(debug_annotation::DICT_ENTRIES, Some(name), &value),
        }
    }
}

impl ListWriter<'_> {
    /// Adds a value at the end.
    pub fn item(&mut self, value: &(impl ToValue + ?Sized)) {
        self.0.nested(debug_annotation::ARRAY_VALUES, None, &value.to_value());
    }
}

/// The text of a value. A `Display` that fails, which it should not, leaves what it wrote until then.
fn text(value: &dyn Display) -> String {
    let mut text = String::new();
    let _ = write!(text, "{value}");
    text
}

impl Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Bool(value) => f.debug_tuple("Bool").field(value).finish(),
            Self::Int(value) => f.debug_tuple("Int").field(value).finish(),
            Self::Uint(value) => f.debug_tuple("Uint").field(value).finish(),
            Self::Float(value) => f.debug_tuple("Float").field(value).finish(),
            Self::Str(value) => f.debug_tuple("Str").field(value).finish(),
            Self::Pointer(value) => write!(f, "Pointer({value:#x})"),
            Self::Display(value) => write!(f, "Display({value})"),
            Self::Debug(value) => f.debug_tuple("Debug").field(value).finish(),
            Self::Nested(_) => f.write_str("Nested(…)"),
            Self::Proto(value) => value.fmt(f),
        }
    }
}

macro_rules! impl_to_value {
    ($($variant:ident as $wide:ty: $($type:ty),*;)*) => {
        $($(impl ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                Value::$variant(*self as $wide)
            }
        })*)*
    };
}

impl_to_value! {
    Int as i64: i8, i16, i32, i64, isize;
    Uint as u64: u8, u16, u32, u64, usize;
    Float as f64: f32, f64;
    Bool as bool: bool;
}

macro_rules! impl_counter_value {
    ($($variant:ident as $wide:ty: $($type:ty),*;)*) => {
        $($(impl CounterValue for $type {
            #[inline]
            fn to_number(&self) -> Value<'static> {
                Value::$variant(*self as $wide)
            }
        })*)*
    };
}

impl_counter_value! {
    Int as i64: i8, i16, i32, i64, isize;
    Uint as u64: u8, u16, u32, u64, usize;
    Float as f64: f32, f64;
}

macro_rules! impl_counter_value_of_others {
    ($([$($generics:tt)*] $type:ty: $self:ident => $value:expr;)*) => {
        $(impl<$($generics)*> CounterValue for $type {
            #[inline]
            fn to_number(&$self) -> Value<'static> {
                $value
            }
        })*
    };
}

impl_counter_value_of_others! {
    [] i128: self => i64::try_from(*self).map_or(Value::Float(*self as f64), Value::Int);
    [] u128: self => i64::try_from(*self).map_or(Value::Float(*self as f64), Value::Int);
    [T: CounterValue + ?Sized] &T: self => (**self).to_number();
    [T: CounterValue + ?Sized] &mut T: self => (**self).to_number();
}

macro_rules! impl_to_value_of_others {
    ($($type:ty: $self:ident => $value:expr;)*) => {
        $(impl ToValue for $type {
            #[inline]
            fn to_value(&$self) -> Value<'_> {
                $value
            }
        })*
    };
}

impl_to_value_of_others! {
    str: self => Value::Str(self);
    String: self => Value::Str(self);
    Cow<'_, str>: self => Value::Str(self);
    char: self => Value::Display(self);
    i128: self => Value::Display(self);
    u128: self => Value::Display(self);
    fmt::Arguments<'_>: self => Value::Display(self);
    Value<'_>: self => *self;
    ProtoValue<'_>: self => Value::Proto(self);
}

macro_rules! impl_to_value_of_wrappers {
    ($($type:ty),*) => {
        $(impl<T: ToValue + ?Sized> ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                (**self).to_value()
            }
        })*
    };
}

impl_to_value_of_wrappers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: ToValue> ToValue for Option<T> {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Missing, ToValue::to_value)
    }
}

impl<T> ToValue for *const T {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

impl<T> ToValue for *mut T {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

macro_rules! impl_lists {
    ($([$($generics:tt)*] $type:ty),*) => {
        $(impl<T: ToValue, $($generics)*> Nested for $type {
            fn write(&self, writer: ValueWriter<'_>) {
                let mut list = writer.list();
                self.iter().for_each(|item| list.item(item));
            }
        }

        impl<T: ToValue, $($generics)*> ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                Value::Nested(self)
            }
        })*
    };
}

impl_lists!([] Vec<T>, [const N: usize] [T; N], [] &[T]);

macro_rules! impl_tables {
    ($($type:ident $(with $hasher:ident)?),*) => {
        $(impl<K: AsRef<str>, V: ToValue $(, $hasher)?> Nested for $type<K, V $(, $hasher)?> {
            fn write(&self, writer: ValueWriter<'_>) {
                let mut table = writer.table();
                self.iter().for_each(|(name, value)| table.entry(name.as_ref(), value));
            }
        }

        impl<K: AsRef<str>, V: ToValue $(, $hasher)?> ToValue for $type<K, V $(, $hasher)?> {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                Value::Nested(self)
            }
        })*
    };
}

impl_tables!(HashMap with S, BTreeMap);

#[cfg(test)]
mod tests {
    use super::*;

    struct Endless;

    impl Nested for Endless {
        fn write(&self, writer: ValueWriter<'_>) {
            writer.list().item(&Value::Nested(self));
        }
    }

    #[test]
    fn a_value_that_contains_itself_ends() {
        let mut bytes = Vec::new();
        ValueWriter::new(Message::new(&mut bytes)).value(&Value::Nested(&Endless));
        assert!(bytes.ends_with("…".as_bytes()));
        assert!(bytes.len() < 1000);
    }

    #[test]
    fn values_are_small() {
        // They are put on the stack one by one.
        assert_eq!(size_of::<Value<'_>>(), 3 * size_of::<usize>());
    }

    #[test]
    fn values_are_what_their_types_say() {
        let slice = [1_u8, 2].as_slice();
        let pointer = std::ptr::without_provenance::<u8>(16);
        let cases: [(Value<'_>, &str); 12] = [
            (true.to_value(), "Bool(true)"),
            ((-1_i8).to_value(), "Int(-1)"),
            (7_usize.to_value(), "Uint(7)"),
            (0.5_f32.to_value(), "Float(0.5)"),
            ("text".to_value(), "Str(\"text\")"),
            ('c'.to_value(), "Display(c)"),
            (u128::MAX.to_value(), "Display(340282366920938463463374607431768211455)"),
            (Some(&1_i32).to_value(), "Int(1)"),
            (None::<bool>.to_value(), "Missing"),
            (pointer.to_value(), "Pointer(0x10)"),
            (slice.to_value(), "Nested(…)"),
            (Value::Debug(&"x"), "Debug(\"x\")"),
        ];
        for (value, expected) in cases {
            assert_eq!(format!("{value:?}"), expected);
        }
    }
}
