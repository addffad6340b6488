//! A table of either format, as columns: `{"schema": {"name": 0, …}, "data": [[…], …]}`, or `{"name": […], …, "length": 1}`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

/// Columns that are asked for; the others are not kept.
const WANTED: &[&str] = &[
    "address",
    "category",
    "data",
    "endTime",
    "fileName",
    "func",
    "filename",
    "frame",
    "line",
    "lineNumber",
    "location",
    "name",
    "phase",
    "prefix",
    "resource",
    "source",
    "stack",
    "startTime",
    "time",
    "timeDeltas",
];

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cell {
    #[default]
    Null,
    Number(f64),
    Text(Box<str>),
    Json(Box<Value>),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    columns: Vec<(&'static str, Vec<Cell>)>,
    rows: usize,
}

impl Table {
    /// How many rows it has.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn cell(&self, column: &str, row: usize) -> Option<&Cell> {
        self.columns.iter().find(|(name, _)| *name == column)?.1.get(row)
    }

    pub(super) fn number(&self, column: &str, row: usize) -> Option<f64> {
        match self.cell(column, row)? {
            Cell::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// A number that names a row or a text.
    pub(super) fn index(&self, column: &str, row: usize) -> Option<u32> {
        let number = self.number(column, row)?;
        (number >= 0.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
    }

    fn column(&mut self, name: &'static str) -> &mut Vec<Cell> {
        if let Some(at) = self.columns.iter().position(|(known, _)| *known == name) {
            return &mut self.columns[at].1;
        }
        self.columns.push((name, Vec::new()));
        let last = self.columns.len() - 1;
        &mut self.columns[last].1
    }
}

fn wanted(name: &str) -> Option<&'static str> {
    WANTED.iter().find(|wanted| **wanted == name).copied()
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(OfTable)
    }
}

struct OfTable;

impl<'de> Visitor<'de> for OfTable {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of a profile")
    }

    fn visit_unit<E>(self) -> Result<Table, E> {
        Ok(Table::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
        let mut table = Table::default();
        // Names by their place in a row.
        let mut schema: Option<Vec<Option<&'static str>>> = None;
        while let Some(key) = map.next_key::<String>()? {
            match (key.as_str(), &schema) {
                ("schema", _) => schema = Some(map.next_value::<Schema>()?.0),
                ("data", Some(schema)) => {
                    table.rows = map.next_value_seed(Rows { schema, table: &mut table })?
                }
                (name, _) => match wanted(name) {
                    Some(name) => {
                        let column: Option<Vec<Cell>> = map.next_value()?;
                        let column = column.unwrap_or_default();
                        table.rows = table.rows.max(column.len());
                        *table.column(name) = column;
                    }
                    None => _ = map.next_value::<IgnoredAny>()?,
                },
            }
        }
        Ok(table)
    }
}

/// Columns of one row. Ours: Firefox's have ten.
const MAX_COLUMNS: usize = 64;

struct Schema(Vec<Option<&'static str>>);

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let said: std::collections::BTreeMap<String, Cell> = Deserialize::deserialize(json)?;
        let mut names = Vec::new();
        for (name, place) in said {
            let Cell::Number(place) = place else { continue };
            let place = place as usize;
            if place >= MAX_COLUMNS {
                return Err(de::Error::custom("a schema with too many columns"));
            }
            if names.len() <= place {
                names.resize(place + 1, None);
            }
            if let Some(cell) = names.get_mut(place) {
                *cell = wanted(&name);
            }
        }
        Ok(Self(names))
    }
}

/// Rows with a schema; those that end early lack their last cells.
struct Rows<'a> {
    schema: &'a [Option<&'static str>],
    table: &'a mut Table,
}

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<usize, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of a table")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut rows = 0;
        while list
            .next_element_seed(Row { schema: self.schema, table: &mut *self.table, row: rows })?
            .is_some()
        {
            rows += 1;
        }
        Ok(rows)
    }
}

struct Row<'a> {
    schema: &'a [Option<&'static str>],
    table: &'a mut Table,
    row: usize,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row of a table")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut place = 0;
        loop {
            match self.schema.get(place).copied().flatten() {
                Some(name) => {
                    let Some(cell) = list.next_element::<Cell>()? else { break };
                    let column = self.table.column(name);
                    column.resize(self.row, Cell::Null);
                    column.push(cell);
                }
                None if list.next_element::<IgnoredAny>()?.is_none() => break,
                None => {}
            }
            place += 1;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(OfCell)
    }
}

struct OfCell;

impl<'de> Visitor<'de> for OfCell {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell of a table")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell::Number(f64::from(u8::from(value))))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell::Number(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cell, E> {
        Ok(Cell::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Cell, A::Error> {
        let value = Value::deserialize(de::value::SeqAccessDeserializer::new(list))?;
        Ok(Cell::Json(Box::new(value)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cell, A::Error> {
        let value = Value::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(Cell::Json(Box::new(value)))
    }
}
