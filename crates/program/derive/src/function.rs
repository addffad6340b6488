//! What the attribute needs to know of a function. Everything else stays the tokens that it was, so that new syntax does no harm.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::{Error, Result};

/// A function with a body.
pub(crate) struct Function {
    /// Everything before the body.
    pub(crate) head: Vec<TokenTree>,
    pub(crate) is_async: bool,
    pub(crate) name: Ident,
    /// Names that the parameters bind, without `self`.
    pub(crate) parameters: Vec<Ident>,
    /// The type behind `->`.
    pub(crate) output: Vec<TokenTree>,
    pub(crate) body: Group,
}

impl Function {
    /// The function on which the attribute of this name stands.
    pub(crate) fn parse(item: &TokenStream, attribute: &str) -> Result<Self> {
        let mut head: Vec<TokenTree> = item.clone().into_iter().collect();
        let last = head.pop();
        let at = find_fn(&head).ok_or_else(|| {
            let message = format!(
                "{attribute} stands on functions and methods; put it on each function that is to be recorded"
            );
            Error::new_spanned(item, message)
        })?;
        let body = match last {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            _ => {
                let message = format!(
                    "{attribute} needs a function with a body; put it on the implementation of this function"
                );
                return Err(Error::new_spanned(item, message));
            }
        };
        let (before, after) = head.split_at(at);
        if let Some(token) = before.iter().find(|token| is_ident(token, "const")) {
            let message = format!(
                "a `const fn` cannot be traced: it may run in the compiler, where there is no clock; \
                 remove `const` or {attribute}"
            );
            return Err(Error::new_spanned(token, message));
        }
        let is_async = before.iter().any(|token| is_ident(token, "async"));
        let [_, TokenTree::Ident(name), rest @ ..] = after else {
            return Err(Error::new_spanned(item, "expected a function with a name"));
        };
        let name = name.clone();
        let mut rest = skip_generics(rest).iter();
        let parameters = match rest.next() {
            Some(TokenTree::Group(group)) => parameters(group),
            _ => return Err(Error::new_spanned(&name, "expected the parameters behind the function's name")),
        };
        let output = output(rest.as_slice());
        Ok(Self { is_async, name, parameters, output, body, head })
    }
}

pub(crate) fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

pub(crate) fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// How deep in angle brackets one is behind this token. Arrows are none.
fn depth_after(depth: usize, before: Option<&TokenTree>, token: &TokenTree) -> usize {
    let is_arrow = before.is_some_and(|before| is_punct(before, '-') || is_punct(before, '='));
    match token {
        TokenTree::Punct(punct) if punct.as_char() == '<' => depth + 1,
        TokenTree::Punct(punct) if punct.as_char() == '>' && !is_arrow => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The place of `fn`. Other items that could have one, such as statics of function types, have other words before it.
fn find_fn(head: &[TokenTree]) -> Option<usize> {
    let at = head.iter().position(|token| is_ident(token, "fn"))?;
    const ITEMS: [&str; 11] =
        ["struct", "enum", "union", "static", "type", "trait", "impl", "mod", "use", "let", "macro_rules"];
    let is_other = head.iter().take(at).any(|token| ITEMS.iter().any(|item| is_ident(token, item)));
    (!is_other).then_some(at)
}

fn skip_generics(tokens: &[TokenTree]) -> &[TokenTree] {
    let mut depth = 0;
    let mut before = None;
    for (index, token) in tokens.iter().enumerate() {
        if depth == 0 && !is_punct(token, '<') {
            return tokens.get(index..).unwrap_or_default();
        }
        depth = depth_after(depth, before, token);
        before = Some(token);
    }
    &[]
}

fn parameters(list: &Group) -> Vec<Ident> {
    let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
    split_at_commas(&tokens).into_iter().flat_map(|parameter| bindings(pattern(parameter))).collect()
}

/// Splits at commas that are not in angle brackets. Other brackets are one token.
fn split_at_commas(tokens: &[TokenTree]) -> Vec<&[TokenTree]> {
    let mut depth = 0;
    let mut before = None;
    tokens
        .split(|token| {
            depth = depth_after(depth, before.as_ref(), token);
            before = Some(token.clone());
            depth == 0 && is_punct(token, ',')
        })
        .collect()
}

/// What stands before the colon of a parameter; nothing for `self`.
fn pattern(mut parameter: &[TokenTree]) -> &[TokenTree] {
    // Attributes.
    while let [hash, TokenTree::Group(_), rest @ ..] = parameter
        && is_punct(hash, '#')
    {
        parameter = rest;
    }
    let single = |at: &usize| {
        is_punct(&parameter[*at], ':')
            && !parameter.get(at + 1).is_some_and(|next| is_punct(next, ':'))
            && !at.checked_sub(1).is_some_and(|before| is_punct(&parameter[before], ':'))
    };
    let colon = (0..parameter.len()).find(single).unwrap_or(0);
    parameter.get(..colon).unwrap_or_default()
}

/// The names that a pattern binds: words that are neither a type's, nor a field's, nor syntax.
fn bindings(pattern: &[TokenTree]) -> Vec<Ident> {
    let mut found = Vec::new();
    for (index, token) in pattern.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                found.extend(bindings(&group.stream().into_iter().collect::<Vec<_>>()));
            }
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let is_syntax = ["mut", "ref", "self", "_"].contains(&name.as_str());
                let is_type = name.starts_with(char::is_uppercase);
                let is_part = pattern.get(index + 1).is_some_and(|next| {
                    is_punct(next, ':') || is_punct(next, '!') || matches!(next, TokenTree::Group(_))
                });
                if !is_syntax && !is_type && !is_part {
                    found.push(ident.clone());
                }
            }
            _ => {}
        }
    }
    found
}

/// What stands between `->` and `where`.
fn output(tokens: &[TokenTree]) -> Vec<TokenTree> {
    match tokens {
        [minus, greater, rest @ ..] if is_punct(minus, '-') && is_punct(greater, '>') => {
            rest.iter().take_while(|token| !is_ident(token, "where")).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// A type with `_` for each `impl Trait`, which cannot be named.
pub(crate) fn without_impl(tokens: &[TokenTree]) -> TokenStream {
    let mut result = Vec::new();
    let mut skipping_at = None;
    let mut depth = 0;
    let mut before = None;
    for token in tokens {
        let after = depth_after(depth, before, token);
        if skipping_at.is_some_and(|start| after < start || after == start && is_punct(token, ',')) {
            skipping_at = None;
        }
        if skipping_at.is_none() {
            result.push(match token {
                TokenTree::Ident(ident) if ident == "impl" => {
                    skipping_at = Some(depth);
                    TokenTree::Ident(Ident::new("_", ident.span()))
                }
                TokenTree::Group(group) => {
                    let inner = without_impl(&group.stream().into_iter().collect::<Vec<_>>());
                    let mut new = Group::new(group.delimiter(), inner);
                    new.set_span(group.span());
                    TokenTree::Group(new)
                }
                token => token.clone(),
            });
        }
        depth = after;
        before = Some(token);
    }
    result.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Function> {
        Function::parse(&text.parse().unwrap(), "#[trace]")
    }

    #[test]
    fn names_parameters_and_output_are_found() {
        let cases: [(&str, &str, &[&str], &str); 8] = [
            ("fn plain() {}", "plain", &[], ""),
            ("pub(crate) unsafe extern \"C\" fn a(x: u8, mut y: u16) {}", "a", &["x", "y"], ""),
            ("fn m(&mut self, map: HashMap<K, Vec<V>>, last: u8,) -> bool {}", "m", &["map", "last"], "bool"),
            (
                "fn g<F: Fn(u8) -> u8, const N: usize>(f: F, a: [u8; N]) -> [u8; N] where F: Send {}",
                "g",
                &["f", "a"],
                "[u8 ; N]",
            ),
            (
                "fn p((a, b): (u8, u8), Path(id): Path<u8>, S { x, y: z, .. }: S) {}",
                "p",
                &["a", "b", "id", "x", "z"],
                "",
            ),
            ("fn s(self: Box<Self>, #[cfg(all())] e: std::io::Error) {}", "s", &["e"], ""),
            (
                "#[doc = \"fn\"] async fn t<'a>(t: &'a T) -> impl Iterator<Item = &'a u8> + 'a {}",
                "t",
                &["t"],
                "impl Iterator < Item = &'a u8 > + 'a",
            ),
            ("fn c(call: fn(u8) -> u8, b: Box<dyn Fn(u8) -> u8>) {}", "c", &["call", "b"], ""),
        ];
        for (text, name, parameters, output) in cases {
            let function = parse(text).unwrap();
            assert_eq!(function.name, name);
            let found: Vec<String> = function.parameters.iter().map(Ident::to_string).collect();
            assert_eq!(found, parameters, "{text}");
            assert_eq!(function.output.into_iter().collect::<TokenStream>().to_string(), output, "{text}");
            assert_eq!(function.is_async, text.contains("async"));
        }
    }

    #[test]
    fn what_is_no_function_is_refused() {
        let cases = [
            ("struct A { f: fn() }", "stands on functions"),
            ("static F: fn() = { a };", "stands on functions"),
            ("impl A { fn a() {} }", "stands on functions"),
            ("fn declared(&self);", "needs a function with a body"),
            ("pub const fn two() -> u32 { 2 }", "`const fn` cannot be traced"),
        ];
        for (text, expected) in cases {
            let message = parse(text).err().unwrap().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn types_that_cannot_be_named_are_left_to_the_compiler() {
        let cases = [
            ("Result<impl Fn(u8) -> u8 + Send, Error>", "Result < _ , Error >"),
            ("impl Iterator<Item = u8>", "_"),
            ("(impl A, Vec<impl B<C, D>>)", "(_ , Vec < _ >)"),
            ("Vec<u8>", "Vec < u8 >"),
        ];
        for (text, expected) in cases {
            let tokens: Vec<TokenTree> = text.parse::<TokenStream>().unwrap().into_iter().collect();
            assert_eq!(without_impl(&tokens).to_string(), expected);
        }
    }
}
