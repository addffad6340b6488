//! What statements make: tables, views, functions.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::error::DataFusionError;
use sqlparser::ast::{Insert, TableObject};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::{Collected, Made, Session, Size, name_of};
use datafusion::catalog::TableProvider as _;

use crate::error::Error;
use crate::functions;
use crate::inline::{UserFunction, calls_itself};
use crate::operators::span_join::{Input, Kind, SpanJoin};
use crate::sql::parse;
use crate::sql::statement::{Create, CreateFunction, Words};
use crate::sql::text::Text;

impl Session {
    pub(super) async fn create_table(&mut self, text: &Text<'_>, create: Create) -> Result<(), Error> {
        self.must_be_new(&create.name, create.or_replace)?;
        let query = parse::query(text, &create.body)?;
        let plan = self.plan(text, &create.body, *query).await?;
        has_columns(&create, plan.schema().inner())?;
        let rows = self.collect(plan, &create.name).await?;
        self.keep(create.name, rows, None)
    }

    pub(super) async fn create_view(&mut self, text: &Text<'_>, create: Create) -> Result<(), Error> {
        self.must_be_new(&create.name, create.or_replace)?;
        let query = parse::query(text, &create.body)?;
        let plan = self.plan(text, &create.body, *query).await?;
        has_columns(&create, plan.schema().inner())?;
        self.keep_view(create.name, plan)
    }

    pub(super) fn create_function(&mut self, text: &Text<'_>, create: CreateFunction) -> Result<(), Error> {
        if self.functions.contains_key(&create.name) && !create.or_replace {
            return Err(Error::plain(format!("there is a function {} already", create.name)));
        }
        let body = *parse::query(text, &create.body)?;
        let args = create.args.into_iter().map(|(name, _)| name).collect();
        let name = create.name;
        let function = UserFunction { args, returns: create.returns, body };
        let before = self.functions.insert(name.clone(), function);
        if calls_itself(&self.functions, &name) {
            match before {
                Some(before) => self.functions.insert(name.clone(), before),
                None => self.functions.remove(&name),
            };
            return Err(Error::plain(format!("{name} calls itself")));
        }
        Ok(())
    }

    /// A table that an operator makes.
    pub(super) async fn create_virtual(
        &mut self,
        text: &Text<'_>,
        name: String,
        module: &str,
        args: &[Words],
    ) -> Result<(), Error> {
        if module == "__intrinsic_flamegraph" {
            return self.create_flamegraph(text, name, args).await;
        }
        let Some(kind) = Kind::named(module) else {
            return Err(Error::plain(format!("there is no module {module} for virtual tables")));
        };
        let [left, right] = args else {
            return Err(Error::plain(format!("{module} wants two tables, and has {}", args.len())));
        };
        self.must_be_new(&name, false)?;
        let left = self.span_input(text, left).await?;
        let size = self.planned;
        let inputs = [left, self.span_input(text, right).await?];
        let size = self.planned.with(size);
        let table = SpanJoin::table(kind, inputs)?;
        let size = Size { columns: table.schema().fields().len(), ..size };
        self.register(&name, Arc::new(table), size)?;
        self.made.insert(name, Made::View);
        Ok(())
    }

    /// A tree of frames, out of a query in parentheses, or a table.
    async fn create_flamegraph(
        &mut self,
        text: &Text<'_>,
        name: String,
        args: &[Words],
    ) -> Result<(), Error> {
        let [source] = args else {
            return Err(Error::plain(format!("a flame graph is made of one query, not of {}", args.len())));
        };
        self.must_be_new(&name, false)?;
        let word = |token| TokenWithSpan { token, span: Span::empty() };
        let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")].map(word);
        let words: Words = select.into_iter().chain(source.iter().cloned()).collect();
        let query = parse::query(text, &words)?;
        let plan = self.plan(text, &words, *query).await?;
        let plan = self.analyzed(plan)?;
        self.flamegraphs.insert(name.clone(), plan);
        self.made.insert(name, Made::View);
        Ok(())
    }

    /// `table`, or `table PARTITIONED column`.
    async fn span_input(&mut self, text: &Text<'_>, words: &Words) -> Result<Input, Error> {
        let named = |word: &TokenWithSpan| match &word.token {
            Token::Word(word) => Some(word.value.clone()),
            _ => None,
        };
        let names: Option<Vec<String>> = words.iter().map(named).collect();
        let (name, partition) = match names.unwrap_or_default().as_slice() {
            [name] => (name.clone(), None),
            [name, word, column] if word == "partitioned" => (name.clone(), Some(column.clone())),
            _ => return Err(Error::plain("expected TABLE or TABLE PARTITIONED COLUMN")),
        };
        let sql = format!("select * from \"{name}\"");
        let of = Text::new(&sql);
        let query = parse::query(&of, &of.words()?)?;
        let plan = self.plan(text, words, *query).await?;
        Ok(Input { name, plan, partition })
    }

    pub(super) async fn insert(
        &mut self,
        text: &Text<'_>,
        words: &Words,
        insert: Insert,
    ) -> Result<(), Error> {
        let (TableObject::TableName(name), Some(query)) = (&insert.table, insert.source) else {
            return Err(Error::plain("rows can be inserted into tables that a query has made"));
        };
        let name = name_of(name)?;
        let plan = self.plan(text, words, *query).await?;
        let rows = self.collect(plan, &name).await?;
        let Some(Made::Table { batches, schema, key, held }) = self.made.get(&name) else {
            return Err(Error::plain(format!("there is no table {name} that a query has made")));
        };
        let (schema, key, mut batches) = (schema.clone(), key.clone(), batches.clone());
        let mut count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let columns = insert.columns.iter().map(name_of).collect::<Result<Vec<_>, _>>()?;
        for batch in &rows.batches {
            let column = |(at, field): (usize, &Arc<Field>)| {
                let at = match columns.is_empty() {
                    true => Some(at),
                    false => columns.iter().position(|name| name == field.name()),
                };
                match at.and_then(|at| batch.columns().get(at)) {
                    None if key.as_ref() == Some(field.name()) => {
                        let numbers = (count..count + batch.num_rows())
                            .map(|row| i64::try_from(row + 1).unwrap_or(i64::MAX));
                        Ok(Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)
                    }
                    Some(array) => functions::text::to_type(array, field.data_type()),
                    None => Ok(arrow::array::new_null_array(field.data_type(), batch.num_rows())),
                }
            };
            let arrays = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
            count += batch.num_rows();
            batches.push(RecordBatch::try_new(schema.clone(), arrays).map_err(DataFusionError::from)?);
        }
        let held = held.with(rows.held);
        self.keep(name, Collected { schema, batches, held }, key)
    }
}

/// The columns that were declared are there, and no others.
fn has_columns(create: &Create, schema: &Schema) -> Result<(), Error> {
    if create.columns.is_empty() {
        return Ok(());
    }
    let has: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let says: HashSet<&str> = create.columns.iter().map(|(name, _)| name.as_str()).collect();
    let name = &create.name;
    if let Some(missing) = says.difference(&has).next() {
        return Err(Error::plain(format!(
            "{name} declares the column {missing}, which its query does not have"
        )));
    }
    if let Some(more) = has.difference(&says).next() {
        return Err(Error::plain(format!(
            "the query of {name} has the column {more}, which is not declared"
        )));
    }
    Ok(())
}
