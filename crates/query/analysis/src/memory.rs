//! What rows take of memory.

use std::collections::HashSet;

use arrow::array::{Array as _, ArrayData, RecordBatch};

/// Counts the memory of batches that are kept: what several share, such as the texts of a column, is there once.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    seen: HashSet<usize>,
}

impl Buffers {
    /// Bytes that a batch adds to those before it.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(|array| self.add_data(&array.to_data())).sum()
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let own = data.buffers().iter().chain(nulls).map(|buffer| {
            let is_new = self.seen.insert(buffer.data_ptr().as_ptr().addr());
            if is_new { buffer.capacity() } else { 0 }
        });
        let own: usize = own.sum();
        own + data.child_data().iter().map(|child| self.add_data(child)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringViewArray};

    use super::*;

    #[test]
    fn what_batches_share_is_counted_once() {
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values(["a text of more than twelve bytes"; 100]));
        let batch = RecordBatch::try_from_iter([("a", texts.clone()), ("b", texts)]).unwrap();
        let mut buffers = Buffers::default();
        let all = buffers.add(&batch);
        assert!(all >= 1600, "{all}");
        assert_eq!(buffers.add(&batch.slice(10, 20)), 0);
    }
}
