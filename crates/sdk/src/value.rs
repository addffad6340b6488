//! Values of debug arguments and counters.

/// A value of a debug argument, borrowed from the trace point.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
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
}

/// What can be the value of an argument. Implemented for booleans, integers, floats and texts, and references to them.
pub trait ToValue {
    /// The value, without copying texts.
    fn to_value(&self) -> Value<'_>;
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

impl ToValue for str {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Str(self)
    }
}

impl ToValue for String {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Str(self)
    }
}

impl ToValue for std::borrow::Cow<'_, str> {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Str(self)
    }
}

impl ToValue for Value<'_> {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        *self
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}
