//! Scans of graphs, whose every step is a query: `_graph_scan!`, `_graph_aggregating_scan!`.
//!
//! A scan goes from rows of nodes along the edges of these. A step's query makes rows of all rows that come to nodes; `$table` is what it calls
//! them. A plain scan goes on with what comes of each step. An aggregating one waits at a node until all rows have come that there can be, so
//! that its query sees them together; nodes in a circle are never left.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array, RecordBatch};
use arrow::compute::{concat_batches, interleave_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::tokenizer::{Token, Word};

use super::{Collected, Session, Size};
use crate::error::Error;
use crate::limits::Held;
use crate::operators::graph::Graph;
use crate::operators::keys;
use crate::sql::parse::{self, lower};
use crate::sql::text::Text;

/// The operator's name.
pub(super) const NAME: &str = "__operator_graph_scan";
/// Steps: paths of a graph that goes round have no end.
const MAX_STEPS: usize = 100_000;
/// What a step's query reads.
const TABLE: &str = "__scan_table";

impl Session {
    /// The rows of a scan: `plain` or `aggregating`, the step's query, and names of columns; edges, and rows to start from.
    pub(super) async fn graph_scan(
        &mut self,
        texts: &[String],
        inputs: Vec<LogicalPlan>,
    ) -> Result<Arc<dyn TableProvider>, Error> {
        let ([kind, step, columns], Ok([edges, init])) = (texts, <[LogicalPlan; 2]>::try_from(inputs)) else {
            return Err(Error::plain("a scan of a graph has a step, columns, edges and nodes to start from"));
        };
        let held = self.held("a scan of a graph");
        let Collected { schema, batches: edges, held: _edges } = self.collect(edges, "edges").await?;
        let graph =
            Graph::read(&concat_batches(&schema, &edges).map_err(DataFusionError::from)?, None, &held)?;
        let Collected { schema, batches: init, held: _init } =
            self.collect(init, "nodes to start from").await?;
        let init = concat_batches(&schema, &init).map_err(DataFusionError::from)?;
        let names: Vec<String> = std::iter::once("id".to_owned()).chain(keys::names(columns)).collect();
        let mut scan = Scan { graph, names, step: step.clone(), schema, held, rows: Vec::new() };
        scan.schema = scan.chosen(&init)?.schema();
        let init = scan.chosen(&init)?;
        match kind.as_str() {
            "plain" => self.plain_scan(&mut scan, init).await?,
            _ => self.aggregating_scan(&mut scan, init).await?,
        }
        Ok(Arc::new(MemTable::try_new(scan.schema, vec![scan.rows])?))
    }

    async fn plain_scan(&mut self, scan: &mut Scan, init: RecordBatch) -> Result<(), Error> {
        let mut rows = init;
        for _ in 0..MAX_STEPS {
            scan.keep(&rows)?;
            let mut next = Vec::new();
            for (row, node) in ids(&rows)?.iter().enumerate() {
                next.extend(scan.next(node.unwrap_or_default()).map(|dest| (row, dest)));
            }
            if next.is_empty() {
                return Ok(());
            }
            let places: Vec<(usize, usize)> = next.iter().map(|(row, _)| (0, *row)).collect();
            let table = moved(&[&rows], &places, next.iter().map(|(_, dest)| *dest))?;
            rows = self.step(scan, table).await?;
        }
        Err(Error::plain(format!("a scan of a graph has not ended after {MAX_STEPS} steps")))
    }

    async fn aggregating_scan(&mut self, scan: &mut Scan, init: RecordBatch) -> Result<(), Error> {
        let mut missing = scan.edges_to_each(ids(&init)?.iter().flatten());
        // Rows that have come to a node, by batch and number.
        let mut waiting: HashMap<i64, Vec<(usize, usize)>> = HashMap::new();
        let mut batches = vec![init];
        let mut starts = Vec::new();
        for (row, node) in ids(batches.first().ok_or_else(empty)?)?.iter().enumerate() {
            let Some(node) = node else { continue };
            match missing.get(&node) {
                Some(1..) => waiting.entry(node).or_default().push((0, row)),
                _ => starts.push((row, node)),
            }
        }
        let places: Vec<_> = starts.iter().map(|(row, _)| (0, *row)).collect();
        let mut rows =
            moved(&batches.iter().collect::<Vec<_>>(), &places, starts.iter().map(|(_, node)| *node))?;
        for _ in 0..MAX_STEPS {
            scan.keep(&rows)?;
            let mut ready = Vec::new();
            let mut left: Vec<i64> = Vec::new();
            for (row, node) in ids(&rows)?.iter().enumerate() {
                let Some(node) = node else { continue };
                scan.next(node).for_each(|dest| waiting.entry(dest).or_default().push((batches.len(), row)));
                left.push(node);
            }
            left.sort_unstable();
            left.dedup();
            for dest in left.into_iter().flat_map(|node| scan.next(node).collect::<Vec<_>>()) {
                let Some(count) = missing.get_mut(&dest) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.push(dest);
                }
            }
            batches.push(rows);
            let come = ready.iter().flat_map(|node| {
                let rows = waiting.remove(node).unwrap_or_default();
                rows.into_iter().map(move |place| (place, *node))
            });
            let (places, nodes): (Vec<_>, Vec<_>) = come.unzip();
            if places.is_empty() {
                return Ok(());
            }
            let table = moved(&batches.iter().collect::<Vec<_>>(), &places, nodes.into_iter())?;
            rows = self.step(scan, table).await?;
        }
        Err(Error::plain(format!("a scan of a graph has not ended after {MAX_STEPS} steps")))
    }

    /// The rows that a step's query makes.
    async fn step(&mut self, scan: &Scan, table: RecordBatch) -> Result<RecordBatch, Error> {
        let size = Size::of_table(table.num_columns());
        self.register(TABLE, Arc::new(MemTable::try_new(table.schema(), vec![vec![table]])?), size)?;
        let text = Text::new(&scan.step);
        let mut words = lower(text.words()?);
        for word in &mut words {
            if matches!(&word.token, Token::Placeholder(name) if name.eq_ignore_ascii_case("$table")) {
                let name = Word {
                    value: TABLE.to_owned(),
                    quote_style: Some('"'),
                    keyword: sqlparser::keywords::Keyword::NoKeyword,
                };
                word.token = Token::Word(name);
            }
        }
        let query = parse::query(&text, &words)?;
        let plan = Box::pin(self.plan(&text, &words, *query)).await?;
        let Collected { schema, batches: rows, held: _rows } = self.collect(plan, "a step of a scan").await?;
        self.context.deregister_table(TABLE)?;
        let rows = concat_batches(&schema, &rows).map_err(DataFusionError::from)?;
        scan.cast(&scan.chosen(&rows)?)
    }
}

struct Scan {
    graph: Graph,
    /// Of the columns of rows.
    names: Vec<String>,
    step: String,
    schema: SchemaRef,
    held: Held,
    rows: Vec<RecordBatch>,
}

impl Scan {
    fn keep(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        self.held.try_grow(2 * rows.get_array_memory_size())?;
        self.rows.push(rows.clone());
        Ok(())
    }

    /// What a step makes has the types of what it began with.
    fn cast(&self, rows: &RecordBatch) -> Result<RecordBatch, Error> {
        let cast = |(array, field): (&ArrayRef, &Arc<arrow::datatypes::Field>)| {
            crate::functions::text::to_type(array, field.data_type())
        };
        let arrays =
            rows.columns().iter().zip(self.schema.fields()).map(cast).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(self.schema.clone(), arrays).map_err(DataFusionError::from)?)
    }

    /// The columns that a scan is of.
    fn chosen(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let place = |name: &String| match batch.schema().index_of(name) {
            Ok(place) => Ok(place),
            Err(_) => Err(Error::plain(format!("a scan of a graph lacks the column {name}"))),
        };
        let places = self.names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok(batch.project(&places).map_err(DataFusionError::from)?)
    }

    /// Nodes that edges of a node go to.
    fn next(&self, node: i64) -> impl Iterator<Item = i64> + '_ {
        let edges = self.graph.find(node).map(|node| self.graph.edges(node)).unwrap_or_default();
        edges.iter().filter_map(|(dest, _)| self.graph.id(*dest))
    }

    /// Edges to each node, from those that these reach.
    fn edges_to_each(&self, starts: impl Iterator<Item = i64>) -> HashMap<i64, usize> {
        let mut seen = vec![false; self.graph.len()];
        let mut count = HashMap::new();
        for start in starts.filter_map(|id| self.graph.find(id)) {
            self.graph.walk(start, &mut seen, |node, _, _| {
                let to = self.graph.edges(node).iter().filter_map(|(dest, _)| self.graph.id(*dest));
                to.for_each(|dest| *count.entry(dest).or_default() += 1);
                true
            });
        }
        count
    }
}

fn empty() -> Error {
    Error::plain("a scan of a graph has nothing to start from")
}

fn ids(batch: &RecordBatch) -> Result<Int64Array, Error> {
    match batch.columns().first() {
        Some(array) if array.data_type().is_integer() => Ok(array.as_primitive::<Int64Type>().clone()),
        Some(array) if array.data_type().is_null() => Ok(Int64Array::new_null(array.len())),
        _ => Err(Error::plain("the column id of a scan of a graph has other values than integers")),
    }
}

/// Rows, by batch and number, that have come to other nodes.
fn moved(
    batches: &[&RecordBatch],
    places: &[(usize, usize)],
    nodes: impl Iterator<Item = i64>,
) -> Result<RecordBatch, Error> {
    let rows = interleave_record_batch(batches, places).map_err(DataFusionError::from)?;
    let mut columns = rows.columns().to_vec();
    let nodes: ArrayRef = Arc::new(Int64Array::from_iter_values(nodes));
    columns.iter_mut().take(1).for_each(|column| *column = nodes.clone());
    Ok(RecordBatch::try_new(rows.schema(), columns).map_err(DataFusionError::from)?)
}
