//! Arguments out of debug annotations (upstream: debug_annotation_parser.cc).

use ferretto_protos::fields::{debug_annotation as field, interned_data};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::{Str, Strings};

use crate::args::{Arg, ArgValue};
use crate::sequence::Generation;

/// Annotations within others. Ours: it bounds the depth of our own calls; writers go a few deep.
const MAX_DEPTH: usize = 64;

/// Reads annotations.
#[derive(Debug)]
pub struct Annotations<'a> {
    /// What the sequence has interned.
    pub state: &'a Generation,
    /// The texts.
    pub strings: &'a mut Strings,
    /// Where arguments go.
    pub args: &'a mut Vec<Arg>,
    /// The key so far.
    pub key: String,
    /// The key so far without numbers in arrays.
    pub flat_key: String,
}

impl Annotations<'_> {
    /// Reads one annotation, with its name, and all within it.
    pub fn read(&mut self, annotation: &[u8], depth: usize) {
        let (key, flat_key) = (self.key.len(), self.flat_key.len());
        if let Some(name) = self.name(annotation) {
            let name: String = self
                .strings
                .get(name)
                .chars()
                .map(|c| if matches!(c, '.' | '[' | ']') { '_' } else { c })
                .collect();
            self.key.push('.');
            self.key.push_str(&name);
            self.flat_key.push('.');
            self.flat_key.push_str(&name);
        }
        self.value(annotation, depth);
        self.key.truncate(key);
        self.flat_key.truncate(flat_key);
    }

    fn name(&mut self, annotation: &[u8]) -> Option<Str> {
        let fields = Fields::new(annotation).map_while(Result::ok);
        fields.fold(None, |found, part| match (part.number, part.value) {
            (field::NAME_IID, value) => {
                value.as_u64().and_then(|iid| self.state.text(interned_data::DEBUG_ANNOTATION_NAMES, iid))
            }
            (field::NAME, Value::Bytes(name)) => Some(self.strings.intern_bytes(name)),
            _ => found,
        })
    }

    fn value(&mut self, annotation: &[u8], depth: usize) {
        if depth >= MAX_DEPTH {
            return;
        }
        let mut index = 0;
        for part in Fields::new(annotation).map_while(Result::ok) {
            let number = part.value.as_u64().unwrap_or(0);
            let value = match (part.number, part.value) {
                (field::BOOL_VALUE, _) => ArgValue::Bool(number != 0),
                (field::UINT_VALUE, _) => ArgValue::Uint(number),
                (field::INT_VALUE, _) => ArgValue::Int(number as i64),
                (field::DOUBLE_VALUE, _) => ArgValue::Real(f64::from_bits(number)),
                (field::POINTER_VALUE, _) => ArgValue::Pointer(number),
                (field::STRING_VALUE, Value::Bytes(text)) => ArgValue::Text(self.strings.intern_bytes(text)),
                (field::STRING_VALUE_IID, _) => {
                    let text = self.state.text(interned_data::DEBUG_ANNOTATION_STRING_VALUES, number);
                    let Some(text) = text else { continue };
                    ArgValue::Text(text)
                }
                (field::DICT_ENTRIES, Value::Bytes(entry)) => {
                    self.read(entry, depth + 1);
                    continue;
                }
                (field::ARRAY_VALUES, Value::Bytes(entry)) => {
                    self.element(entry, index, depth);
                    index += 1;
                    continue;
                }
                _ => continue,
            };
            self.add(value);
        }
    }

    fn element(&mut self, entry: &[u8], index: usize, depth: usize) {
        let key = self.key.len();
        self.key.push_str(&format!("[{index}]"));
        self.value(entry, depth + 1);
        self.key.truncate(key);
    }

    fn add(&mut self, value: ArgValue) {
        let key = self.strings.intern(&self.key);
        let flat_key = self.strings.intern(&self.flat_key);
        self.args.push(Arg { flat_key, key, value });
    }
}
