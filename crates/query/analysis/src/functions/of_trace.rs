//! What tells one trace from another: `_trace`, which is its path, and the mark of what is asked of each trace by itself.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

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

/// Whether a query's types were asked of the trace: they may be others in another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<std::sync::atomic::AtomicBool>);

impl Asked {
    pub(crate) fn set(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}
