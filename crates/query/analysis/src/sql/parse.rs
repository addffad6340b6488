//! Words to the syntax trees of `sqlparser`.

use sqlparser::ast::{Query, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

use crate::error::Error;
use crate::sql::dialect::Perfetto;
use crate::sql::statement::Words;
use crate::sql::text::{Text, check_depth};

/// How deep `sqlparser` may recurse; [`check_depth`] is the stricter one.
const RECURSION: usize = 4000;

/// Names in small letters: they are the same in any. An alias that stands in single quotes is a name, too.
pub(crate) fn lower(mut words: Words) -> Words {
    let mut is_behind_as = false;
    let mut is_behind_name = false;
    let mut is_behind_point = false;
    for word in &mut words {
        let was_behind_name = is_behind_name;
        match &mut word.token {
            Token::Word(it) => {
                it.value = it.value.to_lowercase();
                is_behind_as = it.quote_style.is_none() && it.keyword == Keyword::AS;
            }
            Token::SingleQuotedString(text) if is_behind_as || was_behind_name => {
                let value = text.to_lowercase();
                word.token = Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
                is_behind_as = false;
            }
            _ => is_behind_as = false,
        }
        is_behind_name = is_name(&word.token) || is_behind_point && matches!(word.token, Token::Word(_));
        is_behind_point = word.token == Token::Period;
    }
    words
}

/// Whether a text behind it can only be its alias.
fn is_name(token: &Token) -> bool {
    match token {
        Token::RParen => true,
        Token::Word(word) if word.quote_style.is_some() => true,
        Token::Word(word) => word.keyword == Keyword::NoKeyword && word.value != "glob",
        _ => false,
    }
}

/// One statement.
pub(crate) fn statement(text: &Text<'_>, words: &[TokenWithSpan]) -> Result<Statement, Error> {
    parse(text, words, |parser| parser.parse_statement())
}

/// A query, as it stands in the bodies of views and functions.
pub(crate) fn query(text: &Text<'_>, words: &[TokenWithSpan]) -> Result<Box<Query>, Error> {
    parse(text, words, |parser| parser.parse_query())
}

fn parse<T>(
    text: &Text<'_>,
    words: &[TokenWithSpan],
    how: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T, Error> {
    check_depth(words).map_err(|place| Error::at(text, place, "the query is too deep"))?;
    let parser = Parser::new(&Perfetto).with_recursion_limit(RECURSION);
    let mut parser = parser.with_tokens_with_locations(joined(&without_cross(words)));
    let parsed = how(&mut parser).map_err(|error| wrong(text, words, error))?;
    let next = parser.peek_token_ref();
    match &next.token {
        Token::EOF | Token::SemiColon => Ok(parsed),
        token => {
            Err(Error::at(text, next.span.start, format!("expected the end of the statement, found {token}")))
        }
    }
}

/// `CROSS JOIN` may have a condition, too: it is a `JOIN`.
fn without_cross(words: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is_word = |word: Option<&TokenWithSpan>, keyword| matches!(word.map(|word| &word.token), Some(Token::Word(word)) if word.keyword == keyword && word.quote_style.is_none());
    let is_cross =
        |at: usize| is_word(words.get(at), Keyword::CROSS) && is_word(words.get(at + 1), Keyword::JOIN);
    words.iter().enumerate().filter(|(at, _)| !is_cross(*at)).map(|(_, word)| word.clone()).collect()
}

/// Commas between queries in a parenthesis behind `FROM` are joins, which `sqlparser` wants to be said: `FROM ((SELECT 1), (SELECT 2))`.
fn joined(words: &[TokenWithSpan]) -> Words {
    let is = |word: &TokenWithSpan, keyword| matches!(&word.token, Token::Word(it) if it.quote_style.is_none() && it.keyword == keyword);
    // Of each parenthesis that is open, whether it is one of these.
    let mut open = Vec::new();
    let mut out = Words::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        match word.token {
            Token::LParen => {
                let before = at.checked_sub(1).and_then(|at| words.get(at));
                let is_behind = before.is_some_and(|it| is(it, Keyword::FROM) || is(it, Keyword::JOIN));
                open.push(is_behind && words.get(at + 1).is_some_and(|next| next.token == Token::LParen));
            }
            Token::RParen => _ = open.pop(),
            Token::Comma if open.last() == Some(&true) => {
                for keyword in ["CROSS", "JOIN"] {
                    out.push(TokenWithSpan { token: Token::make_keyword(keyword), span: word.span });
                }
                continue;
            }
            _ => {}
        }
        out.push(word.clone());
    }
    out
}

fn wrong(text: &Text<'_>, words: &[TokenWithSpan], error: ParserError) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => "the query is too deep".to_owned(),
    };
    let (message, place) = split_place(&message);
    let place = place.or_else(|| words.last().map(|word| word.span.end));
    let message =
        message.replace("found: EOF", "found the end of the statement").replace("found: ", "found ");
    let message = message.replacen("Expected: ", "expected ", 1);
    match place {
        Some(place) => Error::at(text, place, message),
        None => Error::plain(message),
    }
}

/// `… at Line: 1, Column: 2`, as the parser ends its messages.
fn split_place(message: &str) -> (String, Option<Location>) {
    let parts = || {
        let (before, place) = message.rsplit_once(" at Line: ")?;
        let (line, column) = place.split_once(", Column: ")?;
        Some((before.to_owned(), Location { line: line.parse().ok()?, column: column.parse().ok()? }))
    };
    match parts() {
        Some((before, place)) => (before, Some(place)),
        None => (message.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<String, Error> {
        let text = Text::new(sql);
        let words = lower(text.words().unwrap());
        statement(&text, &words).map(|it| it.to_string())
    }

    #[test]
    fn sqlites_operators_are_read() {
        for (sql, read) in [
            ("select A IS b AND c", "SELECT a IS NOT DISTINCT FROM b AND c"),
            ("select a IS NOT b", "SELECT a IS DISTINCT FROM b"),
            ("select a IS NOT NULL, a IS NULL", "SELECT a IS NOT NULL, a IS NULL"),
            ("select a GLOB 'x*' OR NOT b NOT GLOB c", "SELECT glob('x*', a) OR NOT NOT glob(c, b)"),
            ("select 1 AS 'X'", "SELECT 1 AS \"x\""),
            ("select a == b", "SELECT a = b"),
            (
                "select * from ((select 1), (select f(1, 2)))",
                "SELECT * FROM ((SELECT 1) CROSS JOIN (SELECT f(1, 2)))",
            ),
        ] {
            assert_eq!(
                parsed(sql).unwrap(),
                read.replace("a = b", if read.contains("==") { "a == b" } else { "a = b" }),
                "{sql}"
            );
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let error = parsed("select 1,\n  from").unwrap_err();
        assert_eq!(
            error.place().map(|place| (place.line, place.text.as_str())),
            Some((2, "  from")),
            "{error}"
        );
        assert!(parsed("select 1 2").is_err());
    }
}
