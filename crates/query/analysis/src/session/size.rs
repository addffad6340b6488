//! How large a query becomes when all that it names, views and named queries, is put where it is named: each may name others twice, so that
//! a few lines become more than any machine has. Found from the query's syntax tree, before anything is made of it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Cte, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    Visit, Visitor,
};

use super::name_of;
use crate::error::Error;

/// Columns of a query: SQLite's own bound.
const MAX_COLUMNS: usize = 2000;
/// Tables that one `FROM` joins: SQLite's own bound.
const MAX_JOINED: usize = 64;
/// Tables that a statement reads, each as often as it does: plans take some kilobytes for each.
const MAX_TABLES: usize = 2000;
/// Queries within each other, those of views included: what plans them recurses.
const MAX_DEPTH: usize = 500;

/// What a query, a view or a table is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) tables: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
}

impl Size {
    /// Of a table of so many columns.
    pub(super) fn of_table(columns: usize) -> Self {
        Self { tables: 1, columns, depth: 1 }
    }

    /// Of what is made of both.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            tables: self.tables.saturating_add(other.tables),
            columns: self.columns,
            depth: self.depth.max(other.depth),
        }
    }

    /// Within another query.
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn check(self) -> Result<Self, Error> {
        let too_many = |what: &str, most| {
            Err(Error::plain(format!("the query {what} more than {most}, with the views that it names")))
        };
        match self {
            Self { columns, .. } if columns > MAX_COLUMNS => {
                Err(Error::plain(format!("a query has {columns} columns, and may have {MAX_COLUMNS}")))
            }
            Self { tables, .. } if tables > MAX_TABLES => too_many("reads tables", MAX_TABLES),
            Self { depth, .. } if depth > MAX_DEPTH => too_many("is deep", MAX_DEPTH),
            _ => Ok(self),
        }
    }
}

/// Sizes of tables and views, by name.
pub(super) type Sizes = HashMap<String, Size>;

/// The size of a query over these.
///
/// # Errors
///
/// If it is too large.
pub(super) fn size_of(query: &Query, tables: &Sizes) -> Result<Size, Error> {
    Measure { tables, measured: HashMap::new() }.query(query, &Scope { names: HashMap::new(), outer: None })
}

/// Named queries that can be named.
struct Scope<'s> {
    names: HashMap<String, Size>,
    outer: Option<&'s Self>,
}

impl Scope<'_> {
    fn find(&self, name: &str) -> Option<Size> {
        self.names.get(name).copied().or_else(|| self.outer.and_then(|outer| outer.find(name)))
    }
}

struct Measure<'a> {
    tables: &'a Sizes,
    /// Of queries by their addresses: none is measured twice.
    measured: HashMap<usize, Size>,
}

impl Measure<'_> {
    fn query(&mut self, query: &Query, outer: &Scope<'_>) -> Result<Size, Error> {
        let address = std::ptr::from_ref(query).addr();
        if let Some(size) = self.measured.get(&address) {
            return Ok(*size);
        }
        let mut scope = Scope { names: HashMap::new(), outer: Some(outer) };
        for Cte { alias, query: named, .. } in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = alias.name.value.clone();
            if query.with.as_ref().is_some_and(|with| with.recursive) {
                // What it names of itself has the columns that it begins with.
                scope.names.insert(name.clone(), Size::of_table(first_columns(&named.body)));
            }
            let mut size = self.query(named, &scope)?;
            if !alias.columns.is_empty() {
                size.columns = alias.columns.len();
            }
            scope.names.insert(name, size);
        }
        let size = self.body(&query.body, &scope)?.with(self.queries_in(&query.order_by, &scope)?);
        let size = size.deeper().check()?;
        self.measured.insert(address, size);
        Ok(size)
    }

    fn body(&mut self, body: &SetExpr, scope: &Scope<'_>) -> Result<Size, Error> {
        match body {
            SetExpr::Select(select) => self.select(select, scope),
            SetExpr::Query(query) => self.query(query, scope),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.body(left, scope)?, self.body(right, scope)?);
                left.with(right).deeper().check()
            }
            SetExpr::Values(values) => {
                let size = Size { columns: first_columns(body), ..Size::default() };
                size.with(self.queries_in(values, scope)?).check()
            }
            _ => Ok(Size::default()),
        }
    }

    fn select(&mut self, select: &Select, scope: &Scope<'_>) -> Result<Size, Error> {
        // Those in `FROM` are among them.
        let mut size = self.queries_in(select, scope)?;
        let mut joined = 0;
        let mut sources: Vec<(Option<String>, Size)> = Vec::new();
        for factor in select.from.iter().flat_map(factors) {
            joined += 1;
            if joined > MAX_JOINED {
                return Err(Error::plain(format!("a query joins more than {MAX_JOINED} tables")));
            }
            let (name, found) = self.factor(factor, scope)?;
            if matches!(factor, TableFactor::Table { .. }) {
                size = size.with(found);
            }
            sources.push((name, found));
        }
        let all: usize = sources.iter().map(|(_, size)| size.columns).sum();
        let of_item = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) => all,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = name_of(name).ok();
                sources.iter().find(|(it, _)| *it == name).map_or(all, |(_, size)| size.columns)
            }
            _ => 1,
        };
        size.columns = select.projection.iter().map(of_item).sum();
        // One of nothing is made as often as it is named, too.
        size.tables = size.tables.saturating_add(usize::from(joined == 0));
        // A join of joins is deep, too.
        size.depth += joined;
        size.check()
    }

    /// The outermost queries in something, together.
    fn queries_in(&mut self, part: &impl Visit, scope: &Scope<'_>) -> Result<Size, Error> {
        let mut find = Outermost { measure: self, scope, size: Size::default(), depth: 0 };
        match part.visit(&mut find) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(find.size),
        }
    }

    /// What it is called, and its size.
    fn factor(&mut self, factor: &TableFactor, scope: &Scope<'_>) -> Result<(Option<String>, Size), Error> {
        Ok(match factor {
            TableFactor::Table { name, alias, .. } => {
                let table = name_of(name)?;
                let size = scope.find(&table).or_else(|| self.tables.get(&table).copied());
                let called = alias.as_ref().map(|alias| alias.name.value.clone()).unwrap_or(table);
                (Some(called), size.unwrap_or_else(|| Size::of_table(1)))
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (alias.as_ref().map(|alias| alias.name.value.clone()), self.query(subquery, scope)?)
            }
            _ => (None, Size::default()),
        })
    }
}

/// The tables of a part of a `FROM`, those in parentheses included.
fn factors(from: &TableWithJoins) -> Vec<&TableFactor> {
    let mut todo = vec![from];
    let mut out = Vec::new();
    while let Some(from) = todo.pop() {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => todo.push(table_with_joins),
                factor => out.push(factor),
            }
        }
    }
    out
}

/// How many columns the first query of a union says that it has.
fn first_columns(body: &SetExpr) -> usize {
    match body {
        SetExpr::Select(select) => select.projection.len(),
        SetExpr::SetOperation { left, .. } => first_columns(left),
        SetExpr::Query(query) => first_columns(&query.body),
        SetExpr::Values(values) => values.rows.first().map_or(0, |row| row.content.len()),
        _ => 1,
    }
}

/// Sums up the outermost queries of something; each looks at those within it.
struct Outermost<'m, 'a, 's> {
    measure: &'m mut Measure<'a>,
    scope: &'s Scope<'s>,
    size: Size,
    depth: usize,
}

impl Visitor for Outermost<'_, '_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        self.depth += 1;
        if self.depth == 1 {
            match self.measure.query(query, self.scope) {
                Ok(size) => self.size = self.size.with(size),
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::{lower, query};
    use crate::sql::text::Text;

    fn size(sql: &str) -> Result<(usize, usize), String> {
        let text = Text::new(sql);
        let query = query(&text, &lower(text.words().unwrap())).unwrap();
        let tables = Sizes::from([
            ("slice".to_owned(), Size::of_table(10)),
            ("view".to_owned(), Size { tables: 5, columns: 3, depth: 4 }),
        ]);
        size_of(&query, &tables).map(|size| (size.tables, size.columns)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_named_twice_is_there_twice() {
        for (sql, expected) in [
            ("select 1, 2", (1, 2)),
            ("select * from slice", (1, 10)),
            ("select s.*, v.* from slice s, view v", (6, 13)),
            ("select *, (select max(ts) from slice) from view", (6, 4)),
            (
                "with a as (select * from view), b as (select * from a x, a y) select * from b x, b y",
                (20, 12),
            ),
            ("select * from slice union all select * from slice", (2, 10)),
            ("with recursive c(x) as (select 1 union all select x + 1 from c) select * from c, c d", (4, 2)),
            ("select 1 from slice where id in (select id from view) order by (select 1 from view)", (11, 1)),
        ] {
            assert_eq!(size(sql), Ok(expected), "{sql}");
        }
    }

    #[test]
    fn what_doubles_with_each_line_is_refused() {
        let doubled = |list: &str| {
            let names: Vec<_> =
                (1..40).map(|n| format!("q{n} as (select {list} from q{} a, q{} b)", n - 1, n - 1)).collect();
            format!("with q0 as (select 1 x from slice), {} select 1 from q39", names.join(","))
        };
        assert!(size(&doubled("*")).is_err_and(|error| error.contains("columns, and may have 2000")));
        assert!(size(&doubled("1 x")).is_err_and(|error| error.contains("reads tables more than 2000")));
        let many = |what: &str, count| vec![what; count].join(", ");
        assert!(size(&format!("select {}", many("1", 2001))).is_err());
        assert!(size(&format!("select 1 from {}", many("slice", 65))).is_err());
        assert!(size(&format!("select 1 from {}", many("slice", 64))).is_ok());
    }
}
