//! What tells one trace from another: `_trace`, which is its path, and the mark of what is asked of each trace by itself.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function that stands where a query says `_trace` (see [`crate::rewrite::trace`]).
pub(crate) const TRACE: &str = "_trace";
/// A condition that always holds. A filter with it stands on top of what is asked of each trace (see [`crate::fleet::split`]).
pub(crate) const EACH: &str = "__of_each_trace";

/// A value that is the same in all rows.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl Constant {
    /// The path of the trace, if it has one.
    pub(crate) fn trace(path: Option<&str>) -> Self {
        let value = ScalarValue::Utf8View(path.map(str::to_owned));
        Self { name: TRACE, value, signature: Signature::nullary(Volatility::Immutable) }
    }

    /// The mark.
    pub(crate) fn each() -> Self {
        let value = ScalarValue::Boolean(Some(true));
        Self { name: EACH, value, signature: Signature::nullary(Volatility::Immutable) }
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

/// Types that are those of a trace's values: whether they were asked for, and which are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_set: AtomicBool,
    types: Mutex<Types>,
}

/// Types of arguments, by their keys.
pub(crate) type Types = BTreeMap<String, DataType>;

impl Asked {
    pub(crate) fn set(&self) {
        self.0.is_set.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// What is known by now.
    pub(crate) fn types(&self) -> Types {
        self.0.types.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of other traces, for arguments that this one does not have.
    pub(crate) fn know(&self, types: &Types) {
        let mut known = self.0.types.lock().unwrap_or_else(PoisonError::into_inner);
        types.iter().for_each(|(key, data_type)| _ = known.insert(key.clone(), data_type.clone()));
    }

    /// The type of an argument: that which its values have here, or else that in another trace; of one of which nobody knows, texts.
    pub(crate) fn type_of(&self, key: &str, here: Option<DataType>) -> DataType {
        let mut known = self.0.types.lock().unwrap_or_else(PoisonError::into_inner);
        match here {
            Some(here) => {
                known.insert(key.to_owned(), here.clone());
                here
            }
            None => known.get(key).cloned().unwrap_or(DataType::Utf8View),
        }
    }
}
