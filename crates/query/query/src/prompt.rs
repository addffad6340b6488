//! `ferretto query -i`: statements one by one, each shown when it is whole. On a terminal they are typed at a prompt; elsewhere they are read,
//! and the first that is wrong ends it.

mod complete;
mod history;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Instant;

use ferretto_analysis::{Trace, trace::split};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};

use self::complete::Typing;
use self::history::History;
use crate::answer::Format;
use crate::failure::Failure;
use crate::query::{fail, not_written};
use crate::stage::{Interruptible, stdout};

const PROMPT: &str = "ferretto> ";
/// Files that `\i` reads within each other: one that reads itself has no end.
const MAX_FILES: usize = 16;

const HELP: &str = "\
statements end with ; and may have several lines
\\d           tables and views
\\d NAME      columns of one
\\timing      shows how long statements take, or no more
\\i FILE      runs the statements of a file
\\q           ends (so does Ctrl-D)
Ctrl-C       gives a line up, or ends a statement that runs
Tab          completes names of tables, columns, functions and modules
";

/// Asks for statements until there are no more.
pub(crate) fn run(trace: &Trace, format: &'static Format, quiet: bool) -> Result<(), Failure> {
    let mut shell = Shell { trace, format, shows_time: false, files: 0 };
    match io::stdin().is_terminal() {
        true => shell.ask(quiet),
        false => shell.read(&mut io::stdin().lock(), "stdin").map(|_| ()),
    }
}

/// Shows the rows of each of some statements.
pub(crate) fn show(trace: &Trace, sql: &str, name: &str, format: &'static Format) -> Result<(), Failure> {
    let mut shell = Shell { trace, format, shows_time: false, files: 0 };
    shell.read(&mut sql.as_bytes(), name).map(|_| ())
}

/// Whether there are more statements to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

struct Shell<'t> {
    trace: &'t Trace,
    format: &'static Format,
    shows_time: bool,
    /// How many files are being read within each other.
    files: usize,
}

impl Shell<'_> {
    /// At a prompt: what is wrong is said, and does not end it.
    fn ask(&mut self, quiet: bool) -> Result<(), Failure> {
        let trouble = |error: ReadlineError| Failure::new(format!("cannot read from the terminal: {error}"));
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
        let mut editor = Editor::with_history(config, MemHistory::new()).map_err(trouble)?;
        editor.set_helper(Some(Typing::new(self.trace)));
        let mut history = History::open();
        for entry in history.entries() {
            editor.add_history_entry(entry).map_err(trouble)?;
        }
        if !quiet {
            eprintln!("Statements end with ;  \\? helps, \\q ends.");
        }
        loop {
            let text = match editor.readline(PROMPT) {
                Ok(text) => text,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(trouble(error)),
            };
            if text.trim().is_empty() {
                continue;
            }
            if editor.add_history_entry(text.as_str()).map_err(trouble)? {
                history.add(&text);
            }
            match self.entry(&text) {
                Ok(Then::GoOn) => {}
                Ok(Then::End) => return Ok(()),
                Err(failure) => _ = failure.report(),
            }
        }
    }

    /// What was typed: a command, or statements.
    fn entry(&mut self, text: &str) -> Result<Then, Failure> {
        self.read(&mut text.as_bytes(), "query")
    }

    /// Commands, which are lines, and statements, which may be of several.
    fn read(&mut self, from: &mut dyn io::BufRead, name: &str) -> Result<Then, Failure> {
        let mut waiting = String::new();
        for line in from.lines() {
            let line = line.map_err(|error| Failure::of("read", Path::new(name), error))?;
            if waiting.trim().is_empty() && line.trim_start().starts_with('\\') {
                if self.command(line.trim())? == Then::End {
                    return Ok(Then::End);
                }
                continue;
            }
            waiting.push_str(&line);
            waiting.push('\n');
            if line.contains(';') {
                let (whole, rest) = split(&waiting);
                for sql in whole {
                    self.statement(sql, name)?;
                }
                waiting = rest.to_owned();
            }
        }
        if !split(&waiting).1.is_empty() {
            self.statement(&waiting, name)?;
        }
        Ok(Then::GoOn)
    }

    fn command(&mut self, line: &str) -> Result<Then, Failure> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim().trim_end_matches(';');
        match (name.trim_end_matches(';'), argument) {
            ("\\q", _) => return Ok(Then::End),
            ("\\?" | "\\h", _) => print(HELP)?,
            ("\\timing", _) => {
                self.shows_time = !self.shows_time;
                print(if self.shows_time { "Timing is on.\n" } else { "Timing is off.\n" })?;
            }
            ("\\d", "") => print(&self.tables()?)?,
            ("\\d", table) => print(&self.columns(table)?)?,
            ("\\i", "") => return Err(Failure::new("\\i wants the name of a file")),
            ("\\i", path) => return self.file(Path::new(path)),
            (unknown, _) => {
                return Err(
                    Failure::new(format!("there is no command {unknown}")).help("\\? tells what there is")
                );
            }
        }
        Ok(Then::GoOn)
    }

    fn file(&mut self, path: &Path) -> Result<Then, Failure> {
        if self.files >= MAX_FILES {
            return Err(Failure::new(format!(
                "more than {MAX_FILES} files read each other, {} the last",
                path.display()
            )));
        }
        let file = std::fs::File::open(path).map_err(|error| Failure::of("read", path, error))?;
        self.files += 1;
        let done = self.read(&mut io::BufReader::new(file), &path.display().to_string());
        self.files -= 1;
        done
    }

    fn statement(&self, sql: &str, name: &str) -> Result<(), Failure> {
        let since = Instant::now();
        let interruptible = Interruptible::new();
        let rows = self.trace.query_until(sql, &interruptible.0).map_err(|error| fail(name, &error))?;
        if rows.is_query() {
            let written = (self.format.write)(rows, &mut stdout(self.format.is_binary)?);
            written.map_err(|error| not_written(name, Path::new("the rows"), error))?;
        }
        if self.shows_time {
            print(&format!("Time: {:.3} ms\n", since.elapsed().as_secs_f64() * 1e3))?;
        }
        Ok(())
    }

    fn tables(&self) -> Result<String, Failure> {
        let names = self.trace.names().map_err(|error| fail("query", &error))?;
        // Those that begin so are for modules.
        let names = names.tables.iter().filter(|name| !name.starts_with('_'));
        Ok(names.map(|name| format!("{name}\n")).collect())
    }

    fn columns(&self, table: &str) -> Result<String, Failure> {
        let sql = format!("select * from \"{}\" limit 0", table.replace('"', "\"\""));
        let rows = self.trace.query(&sql).map_err(|error| fail("query", &error))?;
        let schema = rows.schema();
        let width = schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or(0);
        let line = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            format!("{:width$}  {}\n", field.name(), type_name(field.data_type()))
        };
        Ok(schema.fields().iter().map(line).collect())
    }
}

/// As `CREATE PERFETTO` names it.
fn type_name(data_type: &arrow::datatypes::DataType) -> &'static str {
    use arrow::datatypes::DataType;
    match data_type {
        DataType::Int64 => "LONG",
        DataType::Float64 => "DOUBLE",
        DataType::Binary => "BYTES",
        DataType::Null => "NULL",
        _ => "STRING",
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyListens,
        _ => Failure::of("write", Path::new("stdout"), error),
    })
}
