//! A trace in any format, into a folder or one file.

use std::io::{self, Write};

use ferretto_arrow_tables::{ArgSets, Relation};

use crate::{Error, Folder, Form, Format, Options, Out, Source, manifest, trace};

/// A table that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub table: &'static str,
    /// The file's name.
    pub file: String,
    /// How many rows it has.
    pub rows: usize,
    /// The file's size.
    pub bytes: u64,
}

/// Writes all files of a format: of one with a file for each table also what the folder is.
///
/// # Errors
///
/// If the files cannot be written, or the trace has not what the format is about.
pub fn into_folder(
    format: &Format,
    source: &Source<'_>,
    options: &Options,
    to: &mut dyn Folder,
) -> Result<(), Error> {
    let write = match format.form {
        Form::Table(write) => write,
        Form::Files(write) => {
            write(source, options, to)?;
            return check(source);
        }
        Form::Packets(sink) => {
            let mut out = to.create(&format!("trace.{}", format.extension))?;
            trace::write(source.tables, &mut *sink(&mut *out, options))?;
            return check(source);
        }
        Form::Trace(write) => {
            let mut out = to.create(&format!("trace.{}", format.extension))?;
            write(source, options, &mut *out)?;
            out.flush()?;
            return check(source);
        }
    };
    let mut written = Vec::new();
    let arg_sets = ArgSets::of(source.tables);
    for relation in source.catalog().with_arg_sets(&arg_sets).files() {
        let relation = relation.by_time();
        let file = format!("{}.{}", relation.name(), format.extension);
        let mut out = Counted { to: to.create(&file)?, bytes: 0 };
        write(&relation, options, &mut out)?;
        out.flush()?;
        written.push(Written { table: relation.name(), file, rows: relation.len(), bytes: out.bytes });
    }
    check(source)?;
    let mut out = to.create(manifest::FILE_NAME)?;
    manifest::write(format, source, &written, &mut *out)?;
    Ok(out.flush()?)
}

/// Writes what is one file: a table or view, or a format of one file.
///
/// # Errors
///
/// If it cannot be written, there is no such table, or the format has several files.
pub fn into_file(
    format: &Format,
    source: &Source<'_>,
    table: Option<&str>,
    options: &Options,
    out: &mut Out<'_>,
) -> Result<(), Error> {
    match (format.form, table) {
        (Form::Trace(write), _) => write(source, options, out)?,
        (Form::Packets(sink), _) => trace::write(source.tables, &mut *sink(out, options))?,
        (Form::Table(write), Some(table)) => {
            let arg_sets = ArgSets::of(source.tables);
            write(&relation(source, &arg_sets, table)?, options, out)?;
        }
        (Form::Table(_), None) => {
            return Err(Error::Nothing(format!("{} has a file for each table", format.name)));
        }
        (Form::Files(write), _) => {
            let mut single = Single { out, files: 0 };
            write(source, options, &mut single)?;
        }
    }
    check(source)?;
    Ok(out.flush()?)
}

/// Whether all that was written could be had.
fn check(source: &Source<'_>) -> Result<(), Error> {
    if source.tables.are_whole() { Ok(()) } else { Err(Error::Spilled) }
}

fn relation<'a>(source: &Source<'a>, arg_sets: &'a ArgSets, name: &str) -> Result<Relation<'a>, Error> {
    let catalog = source.catalog().with_arg_sets(arg_sets);
    catalog.find(name).map(Relation::by_time).ok_or_else(|| Error::NoTable(name.to_owned()))
}

/// Counts what goes through.
struct Counted<'a> {
    to: Box<Out<'a>>,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.to.write(bytes)?;
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Has room for one file.
struct Single<'a, 'b> {
    out: &'a mut Out<'b>,
    files: usize,
}

impl Folder for Single<'_, '_> {
    fn create(&mut self, _: &str) -> Result<Box<Out<'_>>, Error> {
        self.files += 1;
        if self.files > 1 {
            return Err(Error::Nothing("it becomes several files: name a folder".to_owned()));
        }
        Ok(Box::new(&mut *self.out))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use ferretto_import::{Imported, SourceFile};
    use ferretto_trace_tables::Tables;
    use ferretto_trace_tables::tables::{SliceRow, StatRow, TrackRow};

    use super::*;
    use crate::{FORMATS, find};

    /// Files in memory.
    #[derive(Default)]
    pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

    impl Folder for Files {
        fn create(&mut self, name: &str) -> Result<Box<Out<'_>>, Error> {
            Ok(Box::new(self.0.entry(name.to_owned()).or_default()))
        }
    }

    /// `count` slices, the later first, with a name of five, and one counter of what was lost.
    pub(crate) fn tables(count: i64) -> Tables {
        let mut tables = Tables::default();
        let kind = tables.strings.intern("slice");
        tables.track.push(TrackRow { event_type: Some(kind), ..TrackRow::default() });
        for n in 0..count {
            let name = (n % 5 != 0).then(|| tables.strings.intern(&format!("name {}", n % 5)));
            tables.slice.push(SliceRow { ts: (count - n) * 10, dur: 5, name, ..SliceRow::default() });
        }
        let severity = Some(tables.strings.intern("error"));
        tables.stats.push(StatRow { name: severity, severity, value: 3, ..StatRow::default() });
        tables
    }

    pub(crate) fn imported() -> Imported {
        let source = SourceFile { bytes: 1234, sha256: Some("00ff".to_owned()), ..SourceFile::default() };
        Imported { source, ..Imported::default() }
    }

    pub(crate) fn folder(format: &str, tables: &Tables) -> BTreeMap<String, Vec<u8>> {
        let mut files = Files::default();
        let source = Source { name: "my \"trace\"", tables, imported: &imported() };
        into_folder(find(format).unwrap(), &source, &Options::default(), &mut files).unwrap();
        files.0
    }

    #[test]
    fn a_folder_has_a_file_for_each_table_and_says_what_it_is() {
        for format in FORMATS.iter().filter(|format| matches!(format.form, Form::Table(_))) {
            let files = folder(format.name, &tables(10));
            for name in ["slice", "thread_track", "sched", "args"] {
                assert!(
                    files.contains_key(&format!("{name}.{}", format.extension)),
                    "{name} as {}",
                    format.name
                );
            }
            assert!(files.contains_key("manifest.json"));
            assert!(!files.keys().any(|name| name.starts_with("slices.")));
        }
    }

    #[test]
    fn one_table_is_one_file_and_a_table_that_is_not_there_is_an_error() {
        let tables = tables(2);
        let source = Source { name: "x", tables: &tables, imported: &imported() };
        let write = |table| {
            let mut out = Vec::new();
            into_file(find("csv").unwrap(), &source, table, &Options::default(), &mut out).map(|()| out)
        };
        let text = String::from_utf8(write(Some("instant")).unwrap()).unwrap();
        assert_eq!(text, "ts,track_id,name,arg_set_id\n");
        assert!(matches!(write(Some("no such")), Err(Error::NoTable(_))));
        assert!(write(None).is_err());
    }

    #[test]
    fn names_of_formats_are_different() {
        for (index, format) in FORMATS.iter().enumerate() {
            assert!(!FORMATS[..index].iter().any(|other| other.name == format.name), "{}", format.name);
        }
    }
}
