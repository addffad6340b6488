//! `hash(…)`: a number made of all its arguments (FNV-1a of 64 bits over their bytes, as Trace Processor's).

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::text::{ints, reals, texts};
use super::{Returns, Simple, rows};

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

pub(crate) fn all() -> Vec<Simple> {
    vec![Simple::new("hash", Returns::Int, hash)]
}

fn hash(args: &[ArrayRef]) -> Result<ArrayRef> {
    let mut hashes = vec![BASIS; rows(args)];
    for array in args {
        match array.data_type() {
            DataType::Float64 | DataType::Float32 => {
                let values = reals(array)?;
                add_each(&mut hashes, values.iter().map(|value| value.map(f64::to_le_bytes)));
            }
            DataType::Binary => add_each(&mut hashes, array.as_binary::<i32>().iter()),
            it if it.is_integer() || *it == DataType::Boolean => {
                let values = ints(array)?;
                add_each(&mut hashes, values.iter().map(|value| value.map(i64::to_le_bytes)));
            }
            DataType::Null => {}
            _ => add_each(&mut hashes, texts(array)?.iter()),
        }
    }
    Ok(Arc::new(hashes.into_iter().map(|hash| Some(hash as i64)).collect::<Int64Array>()))
}

/// Adds a value to each hash; NULL adds nothing.
fn add_each(hashes: &mut [u64], values: impl Iterator<Item = Option<impl AsRef<[u8]>>>) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        for byte in value.as_ref().map(AsRef::as_ref).unwrap_or_default() {
            *hash = (*hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
}
