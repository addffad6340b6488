//! All relations of a trace by name.

use ferretto_trace_tables::Tables;

use crate::relation::Relation;

/// What can be asked of a trace, by name.
#[derive(Debug)]
pub struct Catalog<'a> {
    tables: &'a Tables,
}

impl<'a> Catalog<'a> {
    /// That of these tables.
    #[must_use]
    pub fn new(tables: &'a Tables) -> Self {
        Self { tables }
    }

    /// All tables, in a fixed order.
    #[must_use]
    pub fn tables(&self) -> Vec<Relation<'a>> {
        self.tables.all().into_iter().map(|table| Relation::of_table(table, &self.tables.strings)).collect()
    }

    /// A table or view by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Relation<'a>> {
        self.tables.find(name).map(|table| Relation::of_table(table, &self.tables.strings))
    }
}
