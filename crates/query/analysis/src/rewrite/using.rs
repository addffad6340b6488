//! A column that several `USING` of one query name: SQLite joins each by the first table that has it, DataFusion finds it in too many.
//!
//! `a JOIN b USING (id) JOIN c USING (id)`: the later table has the column under a name that nobody uses, and an `ON`.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, ExceptSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, VisitMut,
    VisitorMut, WildcardAdditionalOptions,
};

use crate::sql::parse;
use crate::sql::text::Text;

pub(crate) struct Using;

impl VisitorMut for Using {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            let first = first_tables(select);
            for key in keys {
                // With a star in the list, it is what stands in the list first.
                let has_star = select.projection.iter().any(|it| matches!(it, SelectItem::Wildcard(_)));
                if has_star
                    && let Expr::Identifier(name) = &key.expr
                    && let Some(table) = first.get(&name.value)
                {
                    key.expr = Expr::CompoundIdentifier(vec![Ident::new(table), name.clone()]);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut renamed = Vec::new();
        let first = first_tables(select);
        for table in &mut select.from {
            let mut seen = HashSet::new();
            for join in &mut table.joins {
                rename(join, &first, &mut seen, &mut renamed);
            }
        }
        if renamed.is_empty() {
            return ControlFlow::Continue(());
        }
        for item in &mut select.projection {
            if let SelectItem::Wildcard(options) = item {
                leave_out(options, renamed.iter().map(|it| Ident::with_quote('"', &it.name)));
            }
        }
        VisitMut::visit(select, &mut Point { renamed: &renamed })
    }
}

/// Of columns that a first join names: the table that has them first.
fn first_tables(select: &Select) -> HashMap<String, String> {
    let [table] = select.from.as_slice() else { return HashMap::new() };
    let (Some(first), Some(join)) = (alias_of(&table.relation), table.joins.first()) else {
        return HashMap::new();
    };
    let mut operator = join.join_operator.clone();
    match constraint(&mut operator) {
        Some(JoinConstraint::Using(columns)) => {
            columns.iter().filter_map(name_of).map(|name| (name, first.clone())).collect()
        }
        _ => HashMap::new(),
    }
}

/// What a table is called in the query.
fn alias_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { name, alias, .. } => {
            alias.as_ref().map(|alias| alias.name.value.clone()).or_else(|| name_of(name))
        }
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| alias.name.value.clone()),
        _ => None,
    }
}

/// A table's column, and its new name.
struct Renamed {
    table: String,
    column: String,
    name: String,
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(it)
        | JoinOperator::Inner(it)
        | JoinOperator::Left(it)
        | JoinOperator::LeftOuter(it) => Some(it),
        _ => None,
    }
}

fn rename(
    join: &mut Join,
    first: &HashMap<String, String>,
    seen: &mut HashSet<String>,
    renamed: &mut Vec<Renamed>,
) {
    let Some(constraint) = constraint(&mut join.join_operator) else { return };
    let JoinConstraint::Using(columns) = constraint else { return };
    let names: Vec<String> = columns.iter().filter_map(name_of).collect();
    let twice = names.len() == columns.len() && names.iter().any(|name| seen.contains(name));
    let TableFactor::Table { name, args: None, .. } = &join.relation else { return };
    let Some(table) = alias_of(&join.relation) else { return };
    if twice && names.iter().all(|name| first.contains_key(name)) {
        let from = name.to_string();
        let first_of = |column: &String| first.get(column).cloned().unwrap_or_default();
        let mut condition: Option<Expr> = None;
        let mut items = vec!["*".to_owned()];
        for column in &names {
            let hidden = format!("{column}:using:{}", renamed.len());
            items.push(format!("{column} as \"{hidden}\""));
            let equal = Expr::BinaryOp {
                left: Box::new(Expr::CompoundIdentifier(vec![
                    Ident::new(first_of(column)),
                    Ident::new(column),
                ])),
                op: BinaryOperator::Eq,
                right: Box::new(Expr::Identifier(Ident::with_quote('"', &hidden))),
            };
            condition = Some(match condition {
                None => equal,
                Some(before) => {
                    let (left, right) = (Box::new(before), Box::new(equal));
                    Expr::BinaryOp { left, op: BinaryOperator::And, right }
                }
            });
            renamed.push(Renamed { table: table.clone(), column: column.clone(), name: hidden });
        }
        if let (Some(query), Some(condition)) = (query(&items, &from, &names), condition) {
            let alias = TableAlias { explicit: true, name: Ident::new(table), columns: Vec::new(), at: None };
            join.relation =
                TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
            *constraint = JoinConstraint::On(condition);
        }
    }
    seen.extend(names);
}

/// All columns of a table but these, and others.
fn query(items: &[String], from: &str, without: &[String]) -> Option<Box<Query>> {
    let sql = format!("select {} from {from}", items.join(", "));
    let text = Text::new(&sql);
    let mut query = parse::query(&text, &parse::lower(text.words().ok()?)).ok()?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(SelectItem::Wildcard(options)) = select.projection.first_mut()
    {
        leave_out(options, without.iter().map(Ident::new));
    }
    Some(query)
}

fn name_of(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.clone()),
        _ => None,
    }
}

/// `*` has the column once.
fn leave_out(options: &mut WildcardAdditionalOptions, mut names: impl Iterator<Item = Ident>) {
    if options.opt_except.is_none()
        && let Some(first_element) = names.next()
    {
        let additional_elements = names.collect();
        options.opt_except = Some(ExceptSelectItem { first_element, additional_elements });
    }
}

/// `c.id` is the column under its new name.
struct Point<'a> {
    renamed: &'a [Renamed],
}

impl VisitorMut for Point<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_mut_slice()
            && let Some(found) =
                self.renamed.iter().find(|it| it.table == table.value && it.column == column.value)
        {
            *column = Ident::with_quote('"', &found.name);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::through;

    #[test]
    fn the_second_table_is_joined_by_the_first() {
        let made = through(Using, "select *, c.id from a join b using (id) left join c using (id)");
        assert_eq!(
            made,
            "SELECT * EXCEPT (\"id:using:0\"), c.\"id:using:0\" FROM a JOIN b USING(id) LEFT JOIN (SELECT * EXCEPT (id), \
             id AS \"id:using:0\" FROM c) AS c ON a.id = \"id:using:0\""
        );
        let made = through(Using, "select * from a join b using (id) join c using (x)");
        assert_eq!(made, "SELECT * FROM a JOIN b USING(id) JOIN c USING(x)");
    }
}
