//! Macros: `name!(words, words)` becomes the words of its body.

use std::collections::HashMap;

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{Error, nearest};
use crate::sql::statement::{CreateMacro, Words, arguments, bare};
use crate::sql::text::Text;

/// Words that a statement may become: what a macro of macros makes grows with each level.
const MAX_WORDS: usize = 1 << 20;
/// Macros within each other.
const MAX_DEPTH: usize = 64;

/// Macros by name.
pub(crate) type Macros = HashMap<String, CreateMacro>;

/// The words without macros.
pub(crate) fn expand(text: &Text<'_>, macros: &Macros, words: Words) -> Result<Words, Error> {
    let mut out = Vec::with_capacity(words.len());
    Expand { text, macros }.append(&words, 0, &mut out)?;
    Ok(out)
}

struct Expand<'a> {
    text: &'a Text<'a>,
    macros: &'a Macros,
}

impl Expand<'_> {
    fn append(&self, words: &[TokenWithSpan], depth: usize, out: &mut Words) -> Result<(), Error> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let name = bare(&word.token).filter(|_| is_call(words, at));
            match name {
                Some(name) => {
                    at += 2;
                    let args = arguments(words, &mut at).ok_or_else(|| {
                        Error::at(self.text, word.span.start, format!("{name}! has no closing parenthesis"))
                    })?;
                    if depth >= MAX_DEPTH {
                        let message = format!("macros lie more than {MAX_DEPTH} deep in each other");
                        return Err(Error::at(self.text, word.span.start, message));
                    }
                    self.call(name, word.span, &args, depth, out)?;
                }
                None => out.push(word.clone()),
            }
            if out.len() > MAX_WORDS {
                let message = "macros make more than a million words of this statement";
                return Err(Error::at(self.text, word.span.start, message));
            }
        }
        Ok(())
    }

    fn call(
        &self,
        name: &str,
        place: Span,
        args: &[Words],
        depth: usize,
        out: &mut Words,
    ) -> Result<(), Error> {
        let wrong = |message: String| Error::at(self.text, place.start, message);
        if let Some(made) = self.intrinsic(name, place, args, depth)? {
            return self.append(&made, depth + 1, out);
        }
        let Some(found) = self.macros.get(name) else {
            let error = wrong(format!("there is no macro {name}!"));
            return Err(match nearest(name, self.macros.keys().map(String::as_str)) {
                Some(near) => error.with_help(format!("did you mean {near}!?")),
                None => error,
            });
        };
        if found.args.len() != args.len() {
            return Err(wrong(format!("{name}! takes {} arguments, not {}", found.args.len(), args.len())));
        }
        let mut body = Vec::with_capacity(found.body.len());
        for word in &found.body {
            let argument = match &word.token {
                Token::Placeholder(name) => {
                    let name = name.trim_start_matches('$').to_lowercase();
                    found.args.iter().position(|it| *it == name).and_then(|at| args.get(at))
                }
                _ => None,
            };
            match argument {
                Some(words) => body.extend(words.iter().cloned()),
                None => body.push(TokenWithSpan { token: word.token.clone(), span: place }),
            }
            if body.len() > MAX_WORDS {
                return Err(wrong("macros make more than a million words of this statement".to_owned()));
            }
        }
        self.append(&body, depth + 1, out)
    }

    /// Macros that work on words.
    fn intrinsic(
        &self,
        name: &str,
        place: Span,
        args: &[Words],
        depth: usize,
    ) -> Result<Option<Words>, Error> {
        let tokens = |tokens: Vec<Token>| {
            tokens.into_iter().map(|token| TokenWithSpan { token, span: place }).collect()
        };
        Ok(match (name, args) {
            ("__intrinsic_stringify" | "__intrinsic_stringify_ignore_table", [words]) => {
                let mut expanded = Vec::new();
                self.append(words, depth + 1, &mut expanded)?;
                Some(tokens(vec![Token::SingleQuotedString(stringify(&expanded))]))
            }
            ("__intrinsic_token_apply", [name, lists @ ..]) => {
                Some(applied(name, lists, &[], &[Token::Comma], place))
            }
            ("__intrinsic_token_apply_prefix", [name, lists @ ..]) => {
                Some(applied(name, lists, &[Token::Comma], &[Token::Comma], place))
            }
            ("__intrinsic_token_apply_and", [name, lists @ ..]) => {
                Some(applied(name, lists, &[], &[Token::make_keyword("AND")], place))
            }
            (
                "__intrinsic_token_apply_and_prefix" | "__intrinsic_token_apply_and_prefix_and",
                [name, lists @ ..],
            ) => {
                let and = [Token::make_keyword("AND")];
                Some(applied(name, lists, &and, &and, place))
            }
            _ => None,
        })
    }
}

/// A macro called with each of a list, or with one of each list as far as all reach: `m!(a, x), m!(b, y)` of `(a, b)` and `(x, y)`.
fn applied(name: &Words, lists: &[Words], prefix: &[Token], between: &[Token], place: Span) -> Words {
    let lists: Vec<Vec<Words>> = lists.iter().map(|list| elements(list)).collect();
    let count = lists.iter().map(Vec::len).min().unwrap_or_default();
    let mut out = Vec::new();
    let add = |out: &mut Words, tokens: &[Token]| {
        out.extend(tokens.iter().map(|token| TokenWithSpan { token: token.clone(), span: place }));
    };
    for at in 0..count {
        add(&mut out, if at == 0 { prefix } else { between });
        out.extend(name.iter().cloned());
        add(&mut out, &[Token::ExclamationMark, Token::LParen]);
        for (number, element) in lists.iter().filter_map(|list| list.get(at)).enumerate() {
            if number > 0 {
                add(&mut out, &[Token::Comma]);
            }
            out.extend(element.iter().cloned());
        }
        add(&mut out, &[Token::RParen]);
    }
    out
}

/// The elements of a list in parentheses; what stands in none is one.
fn elements(list: &[TokenWithSpan]) -> Vec<Words> {
    match list.first().map(|word| &word.token) {
        Some(Token::LParen) => arguments(list, &mut 1).unwrap_or_default(),
        Some(_) => vec![list.to_vec()],
        None => Vec::new(),
    }
}

/// Words as a text.
fn stringify(words: &[TokenWithSpan]) -> String {
    let mut text = String::new();
    let mut is_tight = true;
    for word in words {
        let is_closing = matches!(word.token, Token::LParen | Token::RParen | Token::Comma | Token::Period);
        if !is_tight && !is_closing {
            text.push(' ');
        }
        text.push_str(&word.token.to_string());
        is_tight = matches!(word.token, Token::LParen | Token::Period);
    }
    text
}

fn is_call(words: &[TokenWithSpan], at: usize) -> bool {
    let token = |at: usize| words.get(at).map(|word| &word.token);
    token(at) == Some(&Token::ExclamationMark) && token(at + 1) == Some(&Token::LParen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(sql: &str) -> Words {
        crate::sql::parse::lower(Text::new(sql).words().unwrap())
    }

    fn expanded(macros: &[(&str, &[&str], &str)], sql: &str) -> Result<String, Error> {
        let entry = |(name, args, body): &(&str, &[&str], &str)| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            let found = CreateMacro { name: (*name).to_owned(), or_replace: false, args, body: words(body) };
            ((*name).to_owned(), found)
        };
        let macros = macros.iter().map(entry).collect();
        let out = expand(&Text::new(sql), &macros, words(sql))?;
        Ok(out.iter().map(|word| word.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_macro_becomes_its_body_with_the_words_that_it_is_called_with() {
        let macros: &[(&str, &[&str], &str)] =
            &[("add", &["a", "b"], "$a + $b"), ("twice", &["x"], "add!($x, $x)")];
        assert_eq!(
            expanded(macros, "select twice!(f(1, 2)), 3").unwrap(),
            "select f ( 1 , 2 ) + f ( 1 , 2 ) , 3"
        );
        assert!(expanded(macros, "select ad!(1)").unwrap_err().help().unwrap().contains("add!"));
        assert!(expanded(macros, "select add!(1)").is_err());
    }

    #[test]
    fn macros_of_macros_end() {
        assert!(expanded(&[("a", &[], "a!()")], "select a!()").is_err());
        let bomb: &[(&str, &[&str], &str)] = &[
            ("a", &["x"], "$x $x $x $x $x $x $x $x"),
            ("b", &["x"], "a!(a!(a!($x)))"),
            ("c", &["x"], "b!(b!(b!($x)))"),
        ];
        assert!(expanded(bomb, "select c!(1)").is_err());
    }
}
