//! Values of fields, from `tracing` to the trace.

use std::error::Error;
use std::fmt::{Debug, Write};

use ferretto::{ToValue, Value};
use tracing_core::field::{Field, Visit};

/// The fields that the macros allow.
const MAX_VALUES: usize = 32;
/// Most have no more: arrays of this size are quicker to make.
const FEW_VALUES: usize = 8;

/// What a thread keeps for the next span or event has no more room for texts than that.
const MAX_SPARE_LEN: usize = 4096;

/// Fields of a span or an event, copied: their values may be gone when they are needed.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Recorded>,
    /// All texts, one behind the other.
    texts: String,
}

#[derive(Debug, Clone, Copy)]
struct Recorded {
    /// Its place among the callsite's fields.
    index: usize,
    name: &'static str,
    value: Stored,
}

#[derive(Debug, Clone, Copy)]
enum Stored {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// From here to there in the texts.
    Text(usize, usize),
}

impl Fields {
    pub(crate) const fn new() -> Self {
        Self { fields: Vec::new(), texts: String::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.fields.clear();
        self.texts.clear();
    }

    /// Whether its memory may be kept for others. There are never more fields than the macros allow.
    pub(crate) fn is_small(&self) -> bool {
        self.texts.capacity() <= MAX_SPARE_LEN
    }

    /// Adds others; a field that is there already gets the new value.
    pub(crate) fn extend(&mut self, others: &Self) {
        for other in &others.fields {
            let value = match other.value {
                Stored::Text(from, to) => self.text(|texts| texts.push_str(others.slice(from, to))),
                value => value,
            };
            self.put(Recorded { value, ..*other });
        }
    }

    /// The values in the order of the callsite's arguments, without the field at `except`.
    pub(crate) fn with_values<R>(
        &self,
        except: Option<usize>,
        use_them: impl FnOnce(&[Value<'_>]) -> R,
    ) -> R {
        let len = self.fields.iter().map(|field| field.index + 1).max().unwrap_or(0);
        if len == 0 {
            use_them(&[])
        } else if len <= FEW_VALUES {
            use_them(self.fill(&mut [Value::Missing; FEW_VALUES], len, except))
        } else {
            use_them(self.fill(&mut [Value::Missing; MAX_VALUES], len, except))
        }
    }

    fn fill<'a>(&'a self, values: &'a mut [Value<'a>], len: usize, except: Option<usize>) -> &'a [Value<'a>] {
        for field in self.fields.iter().filter(|field| Some(field.index) != except) {
            if let Some(place) = values.get_mut(field.index) {
                *place = self.value(field);
            }
        }
        values.get(..len).unwrap_or(values)
    }

    /// Names and values.
    pub(crate) fn named(&self) -> Vec<(&'static str, Value<'_>)> {
        self.fields.iter().map(|field| (field.name, self.value(field))).collect()
    }

    /// The text at this place among the callsite's fields.
    pub(crate) fn text_at(&self, index: usize) -> Option<&str> {
        let field = self.fields.iter().find(|field| field.index == index)?;
        if let Stored::Text(from, to) = field.value { Some(self.slice(from, to)) } else { None }
    }

    fn value(&self, field: &Recorded) -> Value<'_> {
        match field.value {
            Stored::Bool(value) => Value::Bool(value),
            Stored::Int(value) => Value::Int(value),
            Stored::Uint(value) => Value::Uint(value),
            Stored::Float(value) => Value::Float(value),
            Stored::Text(from, to) => self.slice(from, to).to_value(),
        }
    }

    fn slice(&self, from: usize, to: usize) -> &str {
        self.texts.get(from..to).unwrap_or_default()
    }

    fn text(&mut self, write: impl FnOnce(&mut String)) -> Stored {
        let from = self.texts.len();
        write(&mut self.texts);
        Stored::Text(from, self.texts.len())
    }

    fn add(&mut self, field: &Field, value: Stored) {
        self.put(Recorded { index: field.index(), name: field.name(), value });
    }

    fn put(&mut self, new: Recorded) {
        match self.fields.iter_mut().find(|known| known.index == new.index) {
            Some(known) => *known = new,
            None => self.fields.push(new),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Stored::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Stored::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Stored::Uint(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Stored::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = self.text(|texts| texts.push_str(value));
        self.add(field, text);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let text = self.text(|texts| _ = write!(texts, "{value}"));
        self.add(field, text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // One that fails, which it should not, leaves what it wrote until then.
        let text = self.text(|texts| _ = write!(texts, "{value:?}"));
        self.add(field, text);
    }
}
