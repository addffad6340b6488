//! The text of a query as words, each with its place, and statements as runs of words.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::Error;
use crate::sql::dialect::Perfetto;

/// Bytes of a text: what a person or a program writes has less.
const MAX_BYTES: usize = 16 << 20;
/// How deep expressions and queries may lie within each other, chains such as `a + b + c + …` counted by their length: what reads them
/// recurses. The stacks that it is done on ([`crate::runtime`]) are made for this.
const MAX_DEPTH: usize = 1500;

/// A query's text.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines }
    }

    /// Its words, without blanks and comments.
    pub(crate) fn words(&self) -> Result<Vec<TokenWithSpan>, Error> {
        if self.text.len() > MAX_BYTES {
            return Err(Error::plain(format!("the query has more than {} MB", MAX_BYTES >> 20)));
        }
        let mut words = Vec::new();
        let mut tokenizer = Tokenizer::new(&Perfetto, self.text);
        if let Err(error) = tokenizer.tokenize_with_location_into_buf(&mut words) {
            return Err(Error::at(self, error.location, error.message));
        }
        for word in &mut words {
            // Numbers to the base of 16; bytes are written x'0a'.
            if let Token::HexStringLiteral(digits) = &word.token
                && self.between(word.span.start, word.span.end).starts_with('0')
                && let Ok(value) = u64::from_str_radix(digits, 16)
            {
                word.token = Token::Number((value as i64).to_string(), false);
            }
        }
        words.retain(|word| !matches!(word.token, Token::Whitespace(_) | Token::EOF));
        Ok(words)
    }

    /// The bytes from one place to another.
    pub(crate) fn between(&self, start: Location, end: Location) -> &'a str {
        self.text.get(self.offset(start)..self.offset(end)).unwrap_or_default()
    }

    /// The line of a place.
    pub(crate) fn line(&self, place: Location) -> &'a str {
        let from = self.line_start(place);
        self.text.get(from..).and_then(|rest| rest.lines().next()).unwrap_or_default()
    }

    fn offset(&self, place: Location) -> usize {
        let from = self.line_start(place);
        let before = usize::try_from(place.column).unwrap_or(usize::MAX).saturating_sub(1);
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.char_indices().nth(before).map_or(rest.len(), |(at, _)| at)
    }

    fn line_start(&self, place: Location) -> usize {
        let line = usize::try_from(place.line).unwrap_or(usize::MAX).saturating_sub(1);
        self.lines.get(line).copied().unwrap_or(self.text.len())
    }
}

/// Runs of words between semicolons; empty ones left out.
pub(crate) fn statements(words: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = vec![Vec::new()];
    for word in words {
        match (&word.token, statements.last_mut()) {
            (Token::SemiColon, _) => statements.push(Vec::new()),
            (_, Some(statement)) => statement.push(word),
            (_, None) => {}
        }
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// Whether the statement is no deeper than what reads it can bear; else the place where it becomes so.
pub(crate) fn check_depth(words: &[TokenWithSpan]) -> Result<(), Location> {
    // Of each open parenthesis: operators behind each other since it, or since the last comma.
    let mut open = vec![0usize];
    let mut depth = 0;
    for word in words {
        match &word.token {
            Token::LParen | Token::LBracket => {
                open.push(0);
                depth += 1;
            }
            Token::RParen | Token::RBracket => {
                depth -= open.pop().unwrap_or_default() + 1;
                if open.is_empty() {
                    return Ok(());
                }
            }
            Token::Comma => {
                if let Some(chain) = open.last_mut() {
                    depth -= *chain;
                    *chain = 0;
                }
            }
            token if binds(token) => {
                depth += 1;
                open.iter_mut().next_back().into_iter().for_each(|chain| *chain += 1);
            }
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(word.span.start);
        }
    }
    Ok(())
}

/// Whether it makes of two things one, or of one another.
fn binds(token: &Token) -> bool {
    use sqlparser::keywords::Keyword as K;
    match token {
        Token::Word(word) if word.quote_style.is_none() => matches!(
            word.keyword,
            K::AND
                | K::OR
                | K::NOT
                | K::UNION
                | K::EXCEPT
                | K::INTERSECT
                | K::JOIN
                | K::CASE
                | K::LIKE
                | K::IS
                | K::SELECT
        ),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        Token::Eq | Token::DoubleEq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => true,
        Token::Pipe | Token::Ampersand | Token::ShiftLeft | Token::ShiftRight | Token::Tilde => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let of = Text::new(text);
        let parts = statements(of.words().unwrap());
        let part = |words: &Vec<TokenWithSpan>| {
            of.between(words.first().unwrap().span.start, words.last().unwrap().span.end).to_owned()
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn statements_end_with_semicolons_that_stand_in_no_text_and_no_comment() {
        assert_eq!(
            split("select ';' -- ; \n as a; /* ; */ ;\n  select 'ü', \"x;\";"),
            ["select ';' -- ; \n as a", "select 'ü', \"x;\""]
        );
        assert!(split(" ; -- nothing\n").is_empty());
    }

    #[test]
    fn what_is_too_deep_is_found_before_it_is_read() {
        let depth_of = |text: &str| check_depth(&Text::new(text).words().unwrap());
        let sum = |n: usize| format!("select 1{}", " + 1".repeat(n));
        assert!(depth_of(&sum(MAX_DEPTH - 1)).is_ok());
        assert!(depth_of(&sum(MAX_DEPTH)).is_err());
        assert!(depth_of(&format!("select {}1{}", "(".repeat(2000), ")".repeat(2000))).is_err());
        assert!(depth_of(&format!("select {}", vec!["1 + 1"; 5000].join(", "))).is_ok());
    }
}
