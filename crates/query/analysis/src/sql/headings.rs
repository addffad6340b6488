//! What columns of an answer are called.
//!
//! SQLite calls a column by its alias, or by its own name, as they are written; any other expression by its text. So the words between
//! `SELECT` and `FROM` are looked at as they stand in the query, before anything rewrites them.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::text::Text;

/// What one item of a `SELECT` says of the columns that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// It is one column of this name.
    Is(String),
    /// `*`, or `t.*`: their own names.
    Star,
    /// One column, whose name is its own; in small letters, as all names are.
    Own(String),
    /// One of which nothing is known.
    Unknown,
}

/// Headings of the last statement's answer; nothing if its words do not say.
pub(crate) fn headings(text: &Text<'_>, words: &[TokenWithSpan]) -> Vec<Heading> {
    let Some(items) = items(words) else { return Vec::new() };
    items.into_iter().map(|item| heading(text, item)).collect()
}

/// Puts the headings in the place of names, if there are as many.
pub(crate) fn apply(headings: &[Heading], names: Vec<String>) -> Vec<String> {
    let stars = headings.iter().filter(|heading| **heading == Heading::Star).count();
    let others = headings.len() - stars;
    let of_star = match stars {
        0 if others == names.len() => 0,
        1 if names.len() >= others => names.len() - others,
        _ => return names,
    };
    let mut rest = names.into_iter();
    let mut out = Vec::new();
    for heading in headings {
        match heading {
            Heading::Star => out.extend(rest.by_ref().take(of_star)),
            Heading::Unknown => out.extend(rest.next()),
            Heading::Is(name) | Heading::Own(name) => out.extend(rest.next().map(|_| name.clone())),
        }
    }
    out
}

/// The items of the first `SELECT` that lies in no parenthesis.
fn items(words: &[TokenWithSpan]) -> Option<Vec<&[TokenWithSpan]>> {
    let mut depth = 0usize;
    let mut start = None;
    let mut items = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match &word.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 0 => {
                if let Some(from) = start.replace(at + 1).filter(|_| start.is_some()) {
                    items.push(words.get(from..at)?);
                }
                if items.is_empty() {
                    start = None;
                }
            }
            Token::Word(it) if depth == 0 && it.quote_style.is_none() => match (it.keyword, start) {
                (Keyword::SELECT, None) => start = Some(at + 1),
                (Keyword::DISTINCT | Keyword::ALL, Some(from)) if from == at => start = Some(at + 1),
                (
                    Keyword::FROM
                    | Keyword::WHERE
                    | Keyword::GROUP
                    | Keyword::ORDER
                    | Keyword::LIMIT
                    | Keyword::UNION
                    | Keyword::EXCEPT
                    | Keyword::INTERSECT
                    | Keyword::HAVING,
                    Some(from),
                ) if !is_distinct_from(words, at) => {
                    items.push(words.get(from..at)?);
                    return Some(items);
                }
                _ => {}
            },
            _ => {}
        }
    }
    items.push(words.get(start?..)?);
    Some(items)
}

/// `IS DISTINCT FROM` is no end.
fn is_distinct_from(words: &[TokenWithSpan], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| words.get(at));
    matches!(before.map(|word| &word.token), Some(Token::Word(word)) if word.keyword == Keyword::DISTINCT)
}

fn heading(text: &Text<'_>, item: &[TokenWithSpan]) -> Heading {
    let tokens: Vec<&Token> = item.iter().map(|word| &word.token).collect();
    let named = |token: &Token| match token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    match tokens.as_slice() {
        [.., Token::Mul]
            if tokens.len() == 1 || matches!(tokens.get(tokens.len() - 2), Some(Token::Period)) =>
        {
            Heading::Star
        }
        [.., Token::Word(word), alias] if word.keyword == Keyword::AS && word.quote_style.is_none() => {
            named(alias).map_or(Heading::Unknown, Heading::Is)
        }
        // A column's own name, as its table has it.
        [Token::Word(word)] | [_, Token::Period, Token::Word(word)] => {
            Heading::Own(word.value.to_lowercase())
        }
        // `t.a b` and `a b`: an alias without its word.
        [.., Token::Period, Token::Word(_), Token::Word(alias)] if is_alias(alias) => {
            Heading::Is(alias.value.clone())
        }
        [.., before, Token::Word(alias)] if ends_value(before) && is_alias(alias) => {
            Heading::Is(alias.value.clone())
        }
        [.., Token::Period, Token::Word(_), Token::SingleQuotedString(alias)] => Heading::Is(alias.clone()),
        [.., before, Token::SingleQuotedString(alias)] if ends_value(before) => Heading::Is(alias.clone()),
        _ => match (item.first(), item.last()) {
            (Some(first), Some(last)) => {
                Heading::Is(text.between(first.span.start, last.span.end).to_owned())
            }
            _ => Heading::Unknown,
        },
    }
}

fn ends_value(token: &Token) -> bool {
    match token {
        Token::RParen | Token::Number(..) | Token::SingleQuotedString(_) => true,
        Token::Word(word) => {
            word.quote_style.is_some()
                || matches!(word.keyword, Keyword::NoKeyword | Keyword::END | Keyword::NULL)
        }
        _ => false,
    }
}

fn is_alias(word: &sqlparser::tokenizer::Word) -> bool {
    word.quote_style.is_some() || !matches!(word.keyword, Keyword::END | Keyword::NULL | Keyword::NOTNULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str, names: &[&str]) -> Vec<String> {
        let text = Text::new(sql);
        let headings = headings(&text, &text.words().unwrap());
        apply(&headings, names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn columns_are_called_as_they_are_written() {
        assert_eq!(
            of("select a, max( b,1 ), c as Cc, count(*) n from t", &["a", "x", "c", "y"]),
            ["a", "max( b,1 )", "Cc", "n"]
        );
        assert_eq!(
            of("with q as (select 1) select distinct q.*, 1+ 1 from q", &["i", "j", "x"]),
            ["i", "j", "1+ 1"]
        );
        assert_eq!(of("select a is distinct from b as x, 'y' from t", &["p", "q"]), ["x", "'y'"]);
        assert_eq!(of("select (select x from y), \"Z\"", &["p", "z"]), ["(select x from y)", "z"]);
        assert_eq!(of("select t.name owner, t.key 'k' from t", &["p", "q"]), ["owner", "k"]);
        assert_eq!(of("values (1)", &["column1"]), ["column1"]);
    }
}
