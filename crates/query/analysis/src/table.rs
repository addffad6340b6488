//! A table or view of the trace as DataFusion reads it: columns become Arrow's when, and only if, they are asked for.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use ferretto_arrow_tables::{Catalog, batches, schema};
use ferretto_trace_tables::Tables;
use futures_util::{StreamExt as _, stream};

/// Rows of a batch: DataFusion's own number.
pub(crate) const BATCH_ROWS: usize = 8192;
/// Batches that wait to be taken.
const WAITING: usize = 2;

/// A type as SQL has it here: 64 bits, texts that are looked at in place, and numbers for what is true or not.
pub(crate) fn sql_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Boolean => DataType::Int64,
        it if it.is_integer() => DataType::Int64,
        it if it.is_floating() => DataType::Float64,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => DataType::Float64,
        it if crate::functions::text::is_text(it) => DataType::Utf8View,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other.clone(),
    }
}

/// A column of that type.
pub(crate) fn sql_array(array: &ArrayRef) -> Result<ArrayRef> {
    let to = sql_type(array.data_type());
    Ok(if to == *array.data_type() { array.clone() } else { cast(array, &to)? })
}

/// The texts of a column, of which each batch has the numbers.
#[derive(Clone, Debug, Default)]
struct Texts {
    /// Those of the batch before, as they came and as SQL has them.
    last: Option<[ArrayRef; 2]>,
}

impl Texts {
    /// A column of SQL's type: the same texts need not be made for each batch.
    fn column(&mut self, array: &ArrayRef) -> Result<ArrayRef> {
        let Some(numbers) = array.as_dictionary_opt::<Int32Type>() else { return sql_array(array) };
        let texts = match self.last.take() {
            Some(last) if Arc::ptr_eq(&last[0], numbers.values()) => last,
            _ => [numbers.values().clone(), sql_array(numbers.values())?],
        };
        let column = take(&texts[1], numbers.keys(), None)?;
        self.last = Some(texts);
        Ok(column)
    }
}

/// A relation of the trace.
#[derive(Debug)]
pub(crate) struct TraceTable {
    tables: Arc<Tables>,
    name: String,
    schema: SchemaRef,
}

impl TraceTable {
    /// The one of that name, if there is one.
    pub(crate) fn find(tables: &Arc<Tables>, name: &str) -> Option<Self> {
        let relation = Catalog::new(tables).find(name)?;
        let fields = schema(&relation);
        let field = |field: &Arc<Field>| {
            // Also what never is NULL may become so in a join.
            Field::new(field.name(), sql_type(field.data_type()), field.is_nullable())
        };
        let schema = Arc::new(Schema::new(fields.fields().iter().map(field).collect::<Vec<_>>()));
        Some(Self { tables: tables.clone(), name: name.to_owned(), schema })
    }
}

#[async_trait]
impl TableProvider for TraceTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let part = Part {
            tables: self.tables.clone(),
            name: self.name.clone(),
            columns,
            schema: schema.clone(),
            limit,
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(part)],
            None,
            Vec::new(),
            false,
            limit,
        )?))
    }
}

/// Some columns of it.
#[derive(Clone, Debug)]
struct Part {
    tables: Arc<Tables>,
    name: String,
    columns: Vec<usize>,
    schema: SchemaRef,
    limit: Option<usize>,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// When somebody asks for the first rows, and not before: a join asks all of its tables for streams at once.
    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let this = self.clone();
        let batches = stream::once(async move { this.start() }).flatten();
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}

impl Part {
    /// On another thread: making columns is work that goes on while others use them.
    fn start(&self) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), WAITING);
        let to = builder.tx();
        let (tables, name, columns) = (self.tables.clone(), self.name.clone(), self.columns.clone());
        let (schema, limit) = (self.schema.clone(), self.limit.unwrap_or(usize::MAX));
        builder.spawn_blocking(move || {
            let Some(relation) = Catalog::new(&tables).find(&name) else { return Ok(()) };
            let relation = relation.with_columns(&columns);
            // Without columns only the number of rows is asked for.
            if columns.is_empty() {
                let options =
                    arrow::array::RecordBatchOptions::new().with_row_count(Some(relation.len().min(limit)));
                let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
                // Who does not take it wants no more.
                let _ = to.blocking_send(Ok(batch));
                return Ok(());
            }
            let mut rows = 0;
            let mut texts = vec![Texts::default(); columns.len()];
            for batch in batches(&relation, BATCH_ROWS)? {
                let batch = batch?;
                let arrays = batch.columns().iter().zip(&mut texts);
                let arrays = arrays.map(|(array, texts)| texts.column(array)).collect::<Result<Vec<_>>>()?;
                let batch = RecordBatch::try_new(schema.clone(), arrays)?;
                if !tables.are_whole() {
                    return exec_err!(
                        "a part of {name} could not be read from the file that it lies in; if that is TRACE.tables, remove it"
                    );
                }
                rows += batch.num_rows();
                if to.blocking_send(Ok(batch)).is_err() || rows >= limit {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}
