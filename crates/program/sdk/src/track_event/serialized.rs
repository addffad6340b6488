//! Anything that `serde` can serialise, as an argument.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{
    self, Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use crate::track_event::value::{ListWriter, Nested, TableWriter, ToValue, Value, ValueWriter};

/// What stands for nothing: `None` and `()` within a value.
const NOTHING: &str = "null";
/// The entry that names the variant of an enum which holds several values.
const VARIANT: &str = "variant";

/// An argument that is whatever `serde` makes of it (feature `serde`): structs and maps are tables, sequences are lists.
///
/// ```
/// use ferretto::Serialized;
///
/// #[derive(serde::Serialize)]
/// struct Request<'a> { host: &'a str, ports: [u16; 2] }
///
/// let request = Request { host: "example.org", ports: [80, 443] };
/// ferretto::instant!("net", "request", request = Serialized(&request));
/// ```
///
/// A value whose serialisation fails is there as far as it got. Bytes are hexadecimal text.
#[derive(Debug, Clone, Copy)]
pub struct Serialized<T>(pub T);

impl<T: Serialize> ToValue for Serialized<T> {
    fn to_value(&self) -> Value<'_> {
        Value::Nested(self)
    }
}

impl<T: Serialize> Nested for Serialized<T> {
    fn write(&self, writer: ValueWriter<'_>) {
        // What there is before the failure stays; there is nobody to tell.
        let _ = self.0.serialize(ToWriter(writer));
    }
}

/// Why something is not serialised.
#[derive(Debug)]
struct Failed(String);

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl ser::Error for Failed {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Writes one value.
struct ToWriter<'w>(ValueWriter<'w>);

/// Writes lists.
struct ToList<'w>(ListWriter<'w>);

/// Writes tables; of tuples within enums, entries have numbers for names.
struct ToTable<'w> {
    table: TableWriter<'w>,
    /// Of a map, until its value comes.
    key: String,
    index: usize,
}

impl<'w> ToWriter<'w> {
    fn put(self, value: impl ToValue) -> Result<(), Failed> {
        self.0.value(&value);
        Ok(())
    }

    fn into_table(self) -> ToTable<'w> {
        ToTable { table: self.0.table(), key: String::new(), index: 0 }
    }

    fn into_variant(self, variant: &'static str) -> ToTable<'w> {
        let mut table = self.into_table();
        table.table.entry(VARIANT, variant);
        table
    }
}

impl ToTable<'_> {
    fn add(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Failed> {
        self.table.entry(name, &Serialized(value));
        Ok(())
    }

    fn add_numbered(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Failed> {
        let name = self.index.to_string();
        self.index += 1;
        self.add(&name, value)
    }
}

macro_rules! put {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<(), Failed> {
            self.put(value)
        })*
    };
}

impl<'w> Serializer for ToWriter<'w> {
    type Ok = ();
    type Error = Failed;
    type SerializeSeq = ToList<'w>;
    type SerializeTuple = ToList<'w>;
    type SerializeTupleStruct = ToList<'w>;
    type SerializeTupleVariant = ToTable<'w>;
    type SerializeMap = ToTable<'w>;
    type SerializeStruct = ToTable<'w>;
    type SerializeStructVariant = ToTable<'w>;

    put! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str,
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Failed> {
        self.put(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    fn serialize_none(self) -> Result<(), Failed> {
        self.put(NOTHING)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failed> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Failed> {
        self.put(NOTHING)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Failed> {
        self.put(name)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Failed> {
        self.put(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        self.into_table().add(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ToList<'w>, Failed> {
        Ok(ToList(self.0.list()))
    }

    fn serialize_tuple(self, _: usize) -> Result<ToList<'w>, Failed> {
        Ok(ToList(self.0.list()))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ToList<'w>, Failed> {
        Ok(ToList(self.0.list()))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ToTable<'w>, Failed> {
        Ok(self.into_variant(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ToTable<'w>, Failed> {
        Ok(self.into_table())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ToTable<'w>, Failed> {
        Ok(self.into_table())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ToTable<'w>, Failed> {
        Ok(self.into_variant(variant))
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident),*) => {
        $(impl $trait for ToList<'_> {
            type Ok = ();
            type Error = Failed;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
                self.0.item(&Serialized(value));
                Ok(())
            }

            fn end(self) -> Result<(), Failed> {
                Ok(())
            }
        })*
    };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {
        $(impl $trait for ToTable<'_> {
            type Ok = ();
            type Error = Failed;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Failed> {
                self.add(name, value)
            }

            fn end(self) -> Result<(), Failed> {
                Ok(())
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeTupleVariant for ToTable<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        self.add_numbered(value)
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl SerializeMap for ToTable<'_> {
    type Ok = ();
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        // A key that is no text and no number is one all the same: its place.
        self.key = key.serialize(ToKey).unwrap_or_else(|_| self.index.to_string());
        self.index += 1;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let key = std::mem::take(&mut self.key);
        self.add(&key, value)
    }

    fn end(self) -> Result<(), Failed> {
        Ok(())
    }
}

/// Makes texts of the keys of maps.
struct ToKey;

macro_rules! key {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<String, Failed> {
            Ok(value.to_string())
        })*
    };
}

fn no_key<T>() -> Result<T, Failed> {
    Err(Failed("a key of a map that is neither a text nor a number".to_owned()))
}

impl Serializer for ToKey {
    type Ok = String;
    type Error = Failed;
    type SerializeSeq = Impossible<String, Failed>;
    type SerializeTuple = Impossible<String, Failed>;
    type SerializeTupleStruct = Impossible<String, Failed>;
    type SerializeTupleVariant = Impossible<String, Failed>;
    type SerializeMap = Impossible<String, Failed>;
    type SerializeStruct = Impossible<String, Failed>;
    type SerializeStructVariant = Impossible<String, Failed>;

    key! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str,
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<String, Failed> {
        no_key()
    }

    fn serialize_none(self) -> Result<String, Failed> {
        Ok(NOTHING.to_owned())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, Failed> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<String, Failed> {
        Ok(NOTHING.to_owned())
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<String, Failed> {
        Ok(name.to_owned())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<String, Failed> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<String, Failed> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<String, Failed> {
        no_key()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Failed> {
        no_key()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Failed> {
        no_key()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Failed> {
        no_key()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Failed> {
        no_key()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Failed> {
        no_key()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Failed> {
        no_key()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Failed> {
        no_key()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ferretto_protozero::Message;

    use super::*;

    #[derive(Serialize)]
    struct Everything<'a> {
        small: i8,
        large: u128,
        real: f64,
        text: &'a str,
        character: char,
        some: Option<bool>,
        none: Option<bool>,
        pair: (u8, &'a str),
        table: BTreeMap<i32, [u8; 1]>,
        pairs: BTreeMap<(u8, u8), ()>,
        kinds: Vec<Kind>,
        newtype: Newtype,
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        Newtype(u8),
        Tuple(u8, u8),
        Struct { field: Nothing },
    }

    #[derive(Serialize)]
    struct Newtype(u64);

    #[derive(Serialize)]
    struct Nothing;

    fn text_of(value: &impl Serialize) -> String {
        let mut bytes = Vec::new();
        ValueWriter::new(Message::new(&mut bytes)).value(&Serialized(value));
        let text = ferretto_protos::text::format("perfetto.protos.DebugAnnotation", &bytes).unwrap();
        // Only what tells values apart.
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("dict_entries ", "")
            .replace("_value", "")
    }

    #[test]
    fn values_of_all_kinds_are_written() {
        let value = Everything {
            small: -1,
            large: 1,
            real: 0.5,
            text: "t",
            character: 'c',
            some: Some(true),
            none: None,
            pair: (2, "p"),
            table: BTreeMap::from([(-7, [8])]),
            pairs: BTreeMap::from([((1, 2), ()), ((1, 3), ())]),
            kinds: vec![Kind::Unit, Kind::Newtype(3), Kind::Tuple(4, 5), Kind::Struct { field: Nothing }],
            newtype: Newtype(9),
        };
        let text = text_of(&value);
        let expected = [
            r#"{ int: -1 name: "small" }"#,
            r#"{ string: "1" name: "large" }"#,
            r#"{ double: 0.5 name: "real" }"#,
            r#"{ string: "t" name: "text" }"#,
            r#"{ string: "c" name: "character" }"#,
            r#"{ bool: true name: "some" }"#,
            r#"{ string: "null" name: "none" }"#,
            r#"{ name: "pair" arrays { uint: 2 } arrays { string: "p" } }"#,
            r#"{ name: "table" { name: "-7" arrays { uint: 8 } } }"#,
            r#"{ name: "pairs" { string: "null" name: "0" } { string: "null" name: "1" } }"#,
            r#"arrays { string: "Unit" }"#,
            r#"arrays { { uint: 3 name: "Newtype" } }"#,
            r#"arrays { { string: "Tuple" name: "variant" } { uint: 4 name: "0" } { uint: 5 name: "1" } }"#,
            r#"arrays { { string: "Struct" name: "variant" } { string: "Nothing" name: "field" } }"#,
            r#"{ uint: 9 name: "newtype" }"#,
        ];
        for part in expected {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_failure_leaves_what_came_before() {
        struct Failing;

        impl Serialize for Failing {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(None)?;
                list.serialize_element(&1)?;
                Err(ser::Error::custom("on purpose"))
            }
        }

        assert_eq!(text_of(&Failing), "arrays { int: 1 }");
    }
}
