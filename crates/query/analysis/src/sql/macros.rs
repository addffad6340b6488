//! Macros: `name!(words, words)` becomes the words of its body.

use std::cell::Cell;
use std::collections::HashMap;

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{Error, nearest};
use crate::sql::statement::{CreateMacro, Words, arguments, bare};
use crate::sql::text::Text;

/// Words that a statement may become, and that may be written on the way: what a macro of macros makes grows with each level. A long text
/// or name is as many words as are as long.
const MAX_WORDS: usize = 1 << 19;
/// Bytes of a word that is like others.
const WORD_BYTES: usize = 64;
/// Macros within each other.
const MAX_DEPTH: usize = 64;

/// Macros by name.
pub(crate) type Macros = HashMap<String, CreateMacro>;

/// The words without macros.
pub(crate) fn expand(text: &Text<'_>, macros: &Macros, words: Words) -> Result<Words, Error> {
    let mut out = Vec::with_capacity(words.len());
    Expand { text, macros, written: Cell::new(0) }.append(&words, 0, &mut out)?;
    Ok(out)
}

struct Expand<'a> {
    text: &'a Text<'a>,
    macros: &'a Macros,
    /// Words that macros have made, those that are gone again included.
    written: Cell<usize>,
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
        }
        Ok(())
    }

    /// Counts what a macro makes.
    fn write(&self, words: &[TokenWithSpan], place: Span) -> Result<(), Error> {
        self.spend(words.iter().map(size).sum(), place)
    }

    fn spend(&self, words: usize, place: Span) -> Result<(), Error> {
        let written = self.written.get().saturating_add(words);
        self.written.set(written);
        match written > MAX_WORDS {
            true => {
                let message = format!("macros make more than {MAX_WORDS} words of this statement");
                Err(Error::at(self.text, place.start, message))
            }
            false => Ok(()),
        }
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
            self.write(&made, place)?;
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
                Some(words) => {
                    self.write(words, place)?;
                    body.extend(words.iter().cloned());
                }
                None => {
                    let word = TokenWithSpan { token: word.token.clone(), span: place };
                    self.write(std::slice::from_ref(&word), place)?;
                    body.push(word);
                }
            }
        }
        // One without words is work, too.
        self.spend(1, place)?;
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
            (apply, [name, lists @ ..]) if apply.starts_with("__intrinsic_token_apply") => {
                let most = lists.iter().map(Vec::len).min().unwrap_or_default();
                self.spend(most.saturating_mul(name.iter().map(size).sum()), place)?;
                Self::applied(apply, name, lists, place)
            }
            _ => None,
        })
    }

    /// One of the macros that call another for each element of lists.
    fn applied(apply: &str, name: &Words, lists: &[Words], place: Span) -> Option<Words> {
        let and = [Token::make_keyword("AND")];
        Some(match apply {
            "__intrinsic_token_apply" => applied(name, lists, &[], &[Token::Comma], place),
            "__intrinsic_token_apply_prefix" => applied(name, lists, &[Token::Comma], &[Token::Comma], place),
            "__intrinsic_token_apply_and" => applied(name, lists, &[], &and, place),
            "__intrinsic_token_apply_and_prefix" | "__intrinsic_token_apply_and_prefix_and" => {
                applied(name, lists, &and, &and, place)
            }
            _ => return None,
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

/// How many words it is like.
fn size(word: &TokenWithSpan) -> usize {
    let text = match &word.token {
        Token::Word(word) => &word.value,
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) | Token::Placeholder(text) => text,
        Token::Number(text, _) | Token::HexStringLiteral(text) => text,
        _ => return 1,
    };
    1 + text.len() / WORD_BYTES
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
        // Of nothing, of lists, and of one long text.
        let nothing: &[(&str, &[&str], &str)] = &[
            ("a", &[], ""),
            ("b", &[], &"a!()".repeat(1000)),
            ("c", &[], &"b!()".repeat(1000)),
            ("d", &["x"], &"$x ".repeat(1000)),
        ];
        assert!(expanded(nothing, "select c!()").is_err());
        assert!(expanded(nothing, &format!("select d!('{}')", "x".repeat(1 << 20))).is_err());
    }
}
