//! JSON, as far as the commands print it.

use std::fmt::{self, Display, Write as _};

use ferretto_printable::is_unseen;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    /// Is left out of objects.
    Null,
    Bool(bool),
    Int(i128),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

impl Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => quoted(f, value),
            Self::List(values) => {
                f.write_char('[')?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => {
                f.write_char('{')?;
                let said = fields.iter().filter(|(_, value)| !matches!(value, Self::Null));
                for (index, (name, value)) in said.enumerate() {
                    write!(f, "{}\"{name}\":{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_char('}')
            }
        }
    }
}

/// With all escaped that a terminal should not see.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(f, "\\{character}")?,
            hidden if is_unseen(hidden) => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write!(f, "\\u{unit:04x}")?;
                }
            }
            seen => f.write_char(seen)?,
        }
    }
    f.write_char('"')
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

macro_rules! ints {
    ($($int:ty),*) => {
        $(impl From<$int> for Json {
            fn from(value: $int) -> Self {
                Self::Int(i128::from(value))
            }
        })*
    };
}

ints!(u64, i64, u32, i32);
