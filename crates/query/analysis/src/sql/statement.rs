//! Statements that SQLite does not have, recognised by their first words.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Error;
use crate::sql::text::Text;

/// Words of a statement.
pub(crate) type Words = Vec<TokenWithSpan>;

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// One that `sqlparser` reads.
    Sql(Words),
    /// `CREATE PERFETTO TABLE`.
    Table(Create),
    /// `CREATE PERFETTO VIEW`.
    View(Create),
    /// `CREATE PERFETTO FUNCTION`.
    Function(CreateFunction),
    /// `CREATE PERFETTO MACRO`.
    Macro(CreateMacro),
    /// `CREATE PERFETTO INDEX`, `DROP PERFETTO INDEX`: what it makes faster is fast.
    Index {
        /// The table that it is of.
        table: String,
    },
    /// `INCLUDE PERFETTO MODULE`.
    Include(String),
    /// `CREATE VIRTUAL TABLE name USING module(arguments)`.
    Virtual {
        /// The table's name.
        name: String,
        /// The module.
        module: String,
        /// Its arguments, the words of each.
        args: Vec<Words>,
    },
}

/// What is common to things that are created.
#[derive(Clone, Debug)]
pub(crate) struct Create {
    pub(crate) name: String,
    pub(crate) or_replace: bool,
    /// Names and types of its columns, if it says any.
    pub(crate) columns: Vec<(String, String)>,
    /// What it is made of.
    pub(crate) body: Words,
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct CreateFunction {
    pub(crate) name: String,
    pub(crate) or_replace: bool,
    /// Names and types of its arguments.
    pub(crate) args: Vec<(String, String)>,
    pub(crate) returns: Returns,
    pub(crate) body: Words,
}

/// What a function gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A value of this type.
    Value(String),
    /// Rows of these columns.
    Table(Vec<(String, String)>),
}

/// A macro.
#[derive(Clone, Debug)]
pub(crate) struct CreateMacro {
    pub(crate) name: String,
    pub(crate) or_replace: bool,
    pub(crate) args: Vec<String>,
    pub(crate) body: Words,
}

/// Reads the first words of a statement, which have no macro any more but in a macro.
pub(crate) fn read(text: &Text<'_>, words: Words) -> Result<Statement, Error> {
    let mut read = Read { text, words: &words, at: 0 };
    let statement = read.statement()?;
    Ok(statement.unwrap_or(Statement::Sql(words)))
}

/// Whether the statement is a macro's definition, in which no macro is called yet.
pub(crate) fn is_macro(words: &[TokenWithSpan]) -> bool {
    let mut words = words.iter().take(5).filter_map(|word| bare(&word.token));
    words.next() == Some("create") && words.any(|word| word == "macro")
}

/// A word without quotes.
pub(crate) fn bare(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

struct Read<'a> {
    text: &'a Text<'a>,
    words: &'a [TokenWithSpan],
    at: usize,
}

impl Read<'_> {
    fn statement(&mut self) -> Result<Option<Statement>, Error> {
        match bare(self.peek()) {
            Some("include") => self.include().map(Some),
            Some("create") => self.create(),
            Some("drop") => {
                self.at += 1;
                if !(self.take("perfetto") && self.take("index")) {
                    return Ok(None);
                }
                self.name()?;
                self.expect("on")?;
                Ok(Some(Statement::Index { table: self.name()? }))
            }
            _ => Ok(None),
        }
    }

    fn include(&mut self) -> Result<Statement, Error> {
        self.at += 1;
        self.expect("perfetto")?;
        self.expect("module")?;
        if self.take_token(&Token::Mul) {
            self.end()?;
            return Ok(Statement::Include("*".to_owned()));
        }
        let mut module = self.name()?;
        while self.take_token(&Token::Period) {
            module.push('.');
            match self.take_token(&Token::Mul) {
                true => module.push('*'),
                false => module.push_str(&self.name()?),
            }
        }
        self.end()?;
        Ok(Statement::Include(module))
    }

    fn create(&mut self) -> Result<Option<Statement>, Error> {
        self.at += 1;
        if self.take("virtual") {
            self.expect("table")?;
            return self.virtual_table().map(Some);
        }
        let or_replace = self.take("or");
        if or_replace && !self.take("replace") {
            return Ok(None);
        }
        if !self.take("perfetto") {
            return Ok(None);
        }
        let kind = self.name()?;
        let kind_at = self.at - 1;
        let name = self.name()?;
        Ok(Some(match kind.as_str() {
            "table" => Statement::Table(self.body_of(name, or_replace)?),
            "view" => Statement::View(self.body_of(name, or_replace)?),
            "function" => Statement::Function(self.function(name, or_replace)?),
            "macro" => Statement::Macro(self.create_macro(name, or_replace)?),
            "index" => {
                self.expect("on")?;
                Statement::Index { table: self.name()? }
            }
            _ => {
                self.at = kind_at;
                return Err(self.wrong("TABLE, VIEW, FUNCTION, MACRO or INDEX"));
            }
        }))
    }

    fn virtual_table(&mut self) -> Result<Statement, Error> {
        let name = self.name()?;
        self.expect("using")?;
        let module = self.name()?;
        let args = match self.take_token(&Token::LParen) {
            true => arguments(self.words, &mut self.at).ok_or_else(|| self.wrong("a closing parenthesis"))?,
            false => Vec::new(),
        };
        self.end()?;
        Ok(Statement::Virtual { name, module, args })
    }

    fn body_of(&mut self, name: String, or_replace: bool) -> Result<Create, Error> {
        let columns = match self.take_token(&Token::LParen) {
            true => self.names_and_types()?,
            false => Vec::new(),
        };
        self.expect("as")?;
        Ok(Create { name, or_replace, columns, body: self.rest() })
    }

    fn function(&mut self, name: String, or_replace: bool) -> Result<CreateFunction, Error> {
        self.expect_token(&Token::LParen, "(")?;
        let args = self.names_and_types()?;
        self.expect("returns")?;
        let returns = match self.take("table") {
            true => {
                self.expect_token(&Token::LParen, "(")?;
                Returns::Table(self.names_and_types()?)
            }
            false => Returns::Value(self.type_name()?),
        };
        if self.take("delegates") {
            return Err(Error::plain(format!("{name} delegates to a function that is not here")));
        }
        self.expect("as")?;
        Ok(CreateFunction { name, or_replace, args, returns, body: self.rest() })
    }

    fn create_macro(&mut self, name: String, or_replace: bool) -> Result<CreateMacro, Error> {
        self.expect_token(&Token::LParen, "(")?;
        let args = self.names_and_types()?.into_iter().map(|(name, _)| name).collect();
        self.expect("returns")?;
        self.type_name()?;
        self.expect("as")?;
        Ok(CreateMacro { name, or_replace, args, body: self.rest() })
    }

    /// `a LONG, b JOINID(t.c))`, the closing parenthesis included.
    fn names_and_types(&mut self) -> Result<Vec<(String, String)>, Error> {
        let mut out = Vec::new();
        if self.take_token(&Token::RParen) {
            return Ok(out);
        }
        loop {
            let name = self.name()?;
            out.push((name, self.type_name()?));
            if self.take_token(&Token::RParen) {
                return Ok(out);
            }
            self.expect_token(&Token::Comma, ", or )")?;
        }
    }

    /// `LONG`, `JOINID(t.c)`, `LONG...`; what is in the parentheses says nothing here.
    fn type_name(&mut self) -> Result<String, Error> {
        let name = self.name()?;
        if self.take_token(&Token::LParen) {
            arguments(self.words, &mut self.at).ok_or_else(|| self.wrong("a closing parenthesis"))?;
        }
        while self.take_token(&Token::Period) {}
        Ok(name)
    }

    fn rest(&mut self) -> Words {
        let rest = self.words.get(self.at..).unwrap_or_default().to_vec();
        self.at = self.words.len();
        rest
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.peek() {
            Token::Word(word) => {
                let name = word.value.to_lowercase();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.wrong("a name")),
        }
    }

    fn peek(&self) -> &Token {
        self.words.get(self.at).map_or(&Token::EOF, |word| &word.token)
    }

    fn take(&mut self, word: &str) -> bool {
        let is_there = bare(self.peek()) == Some(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn take_token(&mut self, token: &Token) -> bool {
        let is_there = self.peek() == token;
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, word: &str) -> Result<(), Error> {
        if self.take(word) { Ok(()) } else { Err(self.wrong(&word.to_uppercase())) }
    }

    fn expect_token(&mut self, token: &Token, what: &str) -> Result<(), Error> {
        if self.take_token(token) { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn end(&self) -> Result<(), Error> {
        if self.at >= self.words.len() { Ok(()) } else { Err(self.wrong("the end of the statement")) }
    }

    fn wrong(&self, expected: &str) -> Error {
        match self.words.get(self.at) {
            Some(word) => {
                let message = format!("expected {expected}, found {}", word.token);
                Error::at(self.text, word.span.start, message)
            }
            None => Error::plain(format!("expected {expected}, found the end of the statement")),
        }
    }
}

/// Words between commas, from behind an opening parenthesis to behind the closing one; nothing if there is none.
pub(crate) fn arguments(words: &[TokenWithSpan], at: &mut usize) -> Option<Vec<Words>> {
    let mut args = vec![Vec::new()];
    let mut depth = 0usize;
    loop {
        let word = words.get(*at)?;
        *at += 1;
        match &word.token {
            Token::RParen if depth == 0 => break,
            Token::Comma if depth == 0 => {
                args.push(Vec::new());
                continue;
            }
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        args.last_mut()?.push(word.clone());
    }
    if args.len() == 1 && args.first().is_some_and(Vec::is_empty) {
        args.clear();
    }
    Some(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Statement {
        let text = Text::new(sql);
        read(&text, crate::sql::parse::lower(text.words().unwrap())).unwrap()
    }

    #[test]
    fn statements_of_perfetto_are_told_by_their_first_words() {
        assert!(matches!(of("select 1"), Statement::Sql(_)));
        assert!(matches!(of("create table x as select 1"), Statement::Sql(_)));
        assert!(matches!(of("Include Perfetto Module a.b.*"), Statement::Include(name) if name == "a.b.*"));
        let Statement::Table(table) =
            of("CREATE OR REPLACE PERFETTO TABLE T(a LONG, b JOINID(x.y)) AS SELECT 1")
        else {
            panic!()
        };
        assert_eq!(
            (table.name.as_str(), table.or_replace, table.columns.len(), table.body.len()),
            ("t", true, 2, 2)
        );
        let Statement::Function(it) =
            of("CREATE PERFETTO FUNCTION f(x LONG) RETURNS TABLE(y STRING) AS SELECT $x")
        else {
            panic!()
        };
        assert_eq!(it.returns, Returns::Table(vec![("y".into(), "string".into())]));
        let Statement::Virtual { args, .. } =
            of("CREATE VIRTUAL TABLE sp USING SPAN_JOIN(a PARTITIONED cpu, b)")
        else {
            panic!()
        };
        assert_eq!(args.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        assert!(is_macro(
            &Text::new("CREATE PERFETTO MACRO m() RETURNS Expr AS 1")
                .words()
                .map(crate::sql::parse::lower)
                .unwrap()
        ));
    }
}
