//! What modules define: macros and functions at once, tables and views when somebody names them.

use super::Session;
use crate::error::Error;
use crate::modules;
use crate::sql::macros::expand;
use crate::sql::parse::lower;
use crate::sql::statement::{Create, Statement, Words, read};
use crate::sql::text::{Text, statements};

/// A table or a view that a module defines, and that is not there yet.
#[derive(Debug)]
pub(super) struct Defined {
    pub(super) module: &'static str,
    sql: &'static str,
    what: What,
}

#[derive(Debug)]
enum What {
    Table(Create),
    View(Create),
    Virtual { module: String, args: Vec<Words> },
}

impl Session {
    /// Makes known what a module defines, or several (`a.*`, `*`).
    pub(super) fn include(&mut self, name: &str) -> Result<(), Error> {
        let found: Vec<_> = modules::matching(name).collect();
        if found.is_empty() {
            let error = Error::plain(format!("there is no module {name} here"));
            return Err(match crate::error::nearest(name, modules::names()) {
                Some(near) => error.with_help(format!("did you mean {near}?")),
                None => error,
            });
        }
        found.into_iter().try_for_each(|(name, sql)| self.include_one(name, sql))
    }

    fn include_one(&mut self, module: &'static str, sql: &'static str) -> Result<(), Error> {
        // Also one that includes itself.
        if !self.included.insert(module) {
            return Ok(());
        }
        let text = Text::new(sql);
        for words in statements(text.words()?) {
            let words = lower(words);
            let of_module = |error| Error::plain(format!("the module {module} is wrong: {error}"));
            let (name, what) = match read(&text, words).map_err(of_module)? {
                Statement::Include(name) => {
                    self.include(&name)?;
                    continue;
                }
                Statement::Table(create) => (create.name.clone(), What::Table(create)),
                Statement::View(create) => (create.name.clone(), What::View(create)),
                Statement::Virtual { name, module, args } => (name, What::Virtual { module, args }),
                Statement::Macro(create) => {
                    self.macros.insert(create.name.clone(), create);
                    continue;
                }
                Statement::Function(mut create) => {
                    create.body = expand(&text, &self.macros, create.body)?;
                    create.or_replace = true;
                    self.create_function(&text, create).map_err(of_module)?;
                    continue;
                }
                _ => {
                    return Err(Error::plain(format!(
                        "the module {module} has a statement that defines nothing"
                    )));
                }
            };
            // What a query has made under this name stays.
            if !self.made.contains_key(&name) {
                self.defined.insert(name, Defined { module, sql, what });
            }
        }
        Ok(())
    }

    /// Makes it.
    pub(super) async fn define(&mut self, name: &str, defined: &Defined) -> Result<(), Error> {
        let text = Text::new(defined.sql);
        let expanded = |session: &Self, create: &Create| {
            let body = expand(&text, &session.macros, create.body.clone())?;
            Ok::<_, Error>(Create { body, ..create.clone() })
        };
        match &defined.what {
            What::Table(create) => {
                let create = expanded(self, create)?;
                self.create_table(&text, create).await
            }
            What::View(create) => {
                let create = expanded(self, create)?;
                self.create_view(&text, create).await
            }
            What::Virtual { module, args } => self.create_virtual(&text, name.to_owned(), module, args).await,
        }
    }
}
