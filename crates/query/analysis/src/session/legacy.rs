//! What was said by functions before there were statements for it: `SELECT CREATE_FUNCTION('f(x INT)', 'INT', 'SELECT $x')`, `SELECT
//! IMPORT('a.b')`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Session;
use crate::error::Error;
use crate::sql::macros::expand;
use crate::sql::parse::lower;
use crate::sql::statement::{Statement, arguments, bare, read as read_statement};
use crate::sql::text::{Text, statements};

/// One of these.
pub(crate) enum Legacy {
    Import(String),
    /// A statement that says the same.
    Create(String),
    /// One that makes something faster.
    Nothing,
}

/// The statement, if it is one.
pub(crate) fn read(words: &[TokenWithSpan]) -> Option<Legacy> {
    let [select, name, open, rest @ ..] = words else { return None };
    if bare(&select.token) != Some("select") || open.token != Token::LParen {
        return None;
    }
    let mut at = 0;
    let args = arguments(rest, &mut at)?;
    let text = |arg: &Vec<TokenWithSpan>| match arg.as_slice() {
        [TokenWithSpan { token: Token::SingleQuotedString(text), .. }] => Some(text.clone()),
        _ => None,
    };
    let args: Vec<String> = args.iter().map(text).collect::<Option<_>>().filter(|_| at == rest.len())?;
    match (bare(&name.token)?, args.as_slice()) {
        ("import", [module]) => Some(Legacy::Import(module.to_lowercase())),
        ("experimental_memoize", [_]) => Some(Legacy::Nothing),
        ("create_function", [head, returns, body]) => Some(Legacy::Create(format!(
            "create or replace perfetto function {head} returns {returns} as {body}"
        ))),
        ("create_view_function", [head, columns, body]) => Some(Legacy::Create(format!(
            "create or replace perfetto function {head} returns table({columns}) as {body}"
        ))),
        _ => None,
    }
}

impl Session {
    pub(super) fn legacy(&mut self, legacy: Legacy) -> Result<(), Error> {
        let sql = match legacy {
            Legacy::Import(module) => return self.include(&module),
            Legacy::Nothing => return Ok(()),
            Legacy::Create(sql) => sql,
        };
        let text = Text::new(&sql);
        for words in statements(text.words()?) {
            let words = expand(&text, &self.macros, lower(words))?;
            if let Statement::Function(create) = read_statement(&text, words)? {
                self.create_function(&text, create)?;
            }
        }
        Ok(())
    }
}
