//! The function with its slice.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Error, Result};

use super::options::{Argument, Category, Options};
use crate::function::{Function, is_ident, is_punct, without_impl};

/// The parts of the code that are the same for all kinds of functions.
struct Parts {
    krate: TokenStream,
    /// A static for the category, if it has no other.
    declaration: TokenStream,
    /// Category, name and arguments, as the macros take them.
    event: TokenStream,
}

pub(crate) fn expand(options: &Options, function: Function) -> Result<TokenStream> {
    let parts = Parts::new(options, &function)?;
    let body = if function.is_async {
        async_body(&parts, &function)
    } else {
        future_body(&parts, &function.body).unwrap_or_else(|| sync_body(&parts, &function.body))
    };
    let head: TokenStream = function.head.into_iter().collect();
    let mut block = Group::new(Delimiter::Brace, body);
    block.set_span(function.body.span());
    Ok(quote! { #head #block })
}

impl Parts {
    fn new(options: &Options, function: &Function) -> Result<Self> {
        let krate = options.krate.as_ref().map_or_else(|| quote!(::ferretto), |path| quote!(#path));
        let (declaration, category) = match &options.category {
            Some(Category::Name(name)) => (quote!(), quote!(#name)),
            Some(Category::Static(path)) => (quote!(), quote!(#path)),
            None => {
                let name = Ident::new("__FERRETTO_CATEGORY_OF_MODULE", Span::mixed_site());
                let new = quote!(#krate::Category::new(::core::module_path!()));
                (quote!(static #name: #krate::Category = #new;), quote!(#name))
            }
        };
        let name = options.name.clone().unwrap_or_else(|| {
            let text = function.name.to_string();
            let text = text.strip_prefix("r#").unwrap_or(&text);
            quote!(#text)
        });
        let arguments = arguments(options, function)?;
        Ok(Self { krate, declaration, event: quote!(#category, #name #(, #arguments)*) })
    }
}

/// Each as `name = value`.
fn arguments(options: &Options, function: &Function) -> Result<Vec<TokenStream>> {
    for skipped in &options.skip {
        check_parameter(skipped, function)?;
    }
    let mut all = Vec::new();
    for argument in &options.arguments {
        match argument {
            Argument::All(span) => {
                let is_wanted =
                    |name: &&Ident| !options.skip.contains(name) && !name.to_string().starts_with('_');
                let wanted = function.parameters.iter().filter(is_wanted);
                all.extend(wanted.map(|name| quote_spanned!(*span=> #name = ?#name)));
            }
            Argument::Parameter { form, name } => {
                check_parameter(name, function)?;
                all.push(quote!(#name = #form #name));
            }
            Argument::Expression { name, value } => all.push(quote!(#name = #value)),
        }
    }
    Ok(all)
}

fn check_parameter(name: &Ident, function: &Function) -> Result<()> {
    if function.parameters.contains(name) {
        return Ok(());
    }
    let known: Vec<String> = function.parameters.iter().map(|name| format!("`{name}`")).collect();
    let known =
        if known.is_empty() { "which has none".to_owned() } else { format!("only {}", known.join(", ")) };
    let message = format!(
        "`{name}` is no parameter of `{}`, {known}; for other values write `{name} = expression`",
        function.name
    );
    Err(Error::new(name.span(), message))
}

fn sync_body(parts: &Parts, body: &Group) -> TokenStream {
    let Parts { krate, declaration, event } = parts;
    let body = body.stream();
    let slice = Ident::new("_slice", Span::mixed_site());
    quote! {
        #declaration
        let #slice = #krate::slice!(#event);
        #body
    }
}

fn async_body(parts: &Parts, function: &Function) -> TokenStream {
    let declaration = &parts.declaration;
    let body = function.body.stream();
    let output = match function.output.as_slice() {
        [] => quote!(()),
        tokens => without_impl(tokens),
    };
    // A block does not know the function's type, which `?` and `return` need.
    let future = quote! {
        async move {
            #[allow(unreachable_code, unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery)]
            if false {
                let never: #output = loop {};
                return never;
            }
            #body
        }
    };
    let instrumented = instrument(parts, &future);
    quote! {
        #declaration
        #instrumented.await
    }
}

/// The body of a function that returns a future which it makes at its end; `None` for other bodies.
fn future_body(parts: &Parts, body: &Group) -> Option<TokenStream> {
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    if let Some(start) = async_block_at_end(&tokens) {
        let future: TokenStream = tokens.drain(start..).collect();
        tokens.extend(instrument(parts, &future));
    } else {
        let Some(TokenTree::Group(last)) = tokens.pop() else { return None };
        let is_pin = match tokens.as_slice() {
            [.., boxed, colon, other_colon, pin] => {
                is_ident(boxed, "Box")
                    && is_punct(colon, ':')
                    && is_punct(other_colon, ':')
                    && is_ident(pin, "pin")
            }
            _ => false,
        };
        let inner: Vec<TokenTree> = last.stream().into_iter().collect();
        if !is_pin || last.delimiter() != Delimiter::Parenthesis || async_block_at_end(&inner) != Some(0) {
            return None;
        }
        let future: TokenStream = inner.into_iter().collect();
        tokens.push(TokenTree::Group(Group::new(Delimiter::Parenthesis, instrument(parts, &future))));
    }
    let declaration = &parts.declaration;
    let body: TokenStream = tokens.into_iter().collect();
    Some(quote! { #declaration #body })
}

/// Where `async { … }` or `async move { … }` begins, if nothing comes behind it.
fn async_block_at_end(tokens: &[TokenTree]) -> Option<usize> {
    let (last, before) = tokens.split_last()?;
    if !matches!(last, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
        return None;
    }
    match before {
        [.., token] if is_ident(token, "async") => Some(before.len() - 1),
        [.., token, after] if is_ident(token, "async") && is_ident(after, "move") => Some(before.len() - 2),
        _ => None,
    }
}

/// The future in a span, which is made first: the future may take the arguments away.
fn instrument(parts: &Parts, future: &TokenStream) -> TokenStream {
    let Parts { krate, event, .. } = parts;
    let span = Ident::new("__ferretto_span", Span::mixed_site());
    quote! {
        {
            let #span = #krate::span!(#event);
            #krate::Instrument::instrument(#future, #span)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expand;

    fn check(options: &str, function: &str, expected: &str) {
        let result = expand(options.parse().unwrap(), &function.parse().unwrap());
        let text = result.map_or_else(|error| format!("error: {error}"), |tokens| tokens.to_string());
        let words = |text: &str| text.split_whitespace().collect::<String>();
        assert!(words(&text).contains(&words(expected)), "#[trace({options})] {function}\n gives {text}");
    }

    #[test]
    fn a_slice_is_the_first_statement() {
        check(
            "category = \"net\", name = \"serve\", args(path, %url, n.b = ?a.b(), \"spaced name\" = 1)",
            "pub fn f(path: &str, url: Url) -> bool { true }",
            "pub fn f(path: &str, url: Url) -> bool {
                let _slice = ::ferretto::slice!(\"net\", \"serve\", path = path, url = %url, n.b = ?a.b(), \"spaced name\" = 1);
                true
            }",
        );
        check("", "fn r#type() {}", "::ferretto::Category::new(::core::module_path!())");
        check("", "fn r#type() {}", "slice!(__FERRETTO_CATEGORY_OF_MODULE, \"type\");");
        check(
            "category = a::B, crate = c::d",
            "fn f() {}",
            "fn f() { let _slice = c::d::slice!(a::B, \"f\"); }",
        );
        check("skip_all", "fn f(a: u8) {}", "OF_MODULE, \"f\");");
        check(
            "args(.., extra = 1), skip(b)",
            "fn f(&self, a: u8, b: u8, _c: u8) {}",
            "\"f\", a = ?a, extra = 1)",
        );
    }

    #[test]
    fn futures_are_instrumented_wherever_they_are_made() {
        let future = "::ferretto::Instrument::instrument(async move";
        check("", "async fn f() -> Result<impl A, E> { g().await?; Ok(a) }", future);
        check(
            "",
            "async fn f() -> Result<impl A, E> { g().await?; Ok(a) }",
            "let never: Result<_, E> = loop {};",
        );
        check("", "async fn f() {}", "let never: () = loop {};");
        check(
            "",
            "fn f() -> impl Future { let a = 1; async move { a } }",
            &format!(
                "let a = 1; {{ let __ferretto_span = ::ferretto::span!(__FERRETTO_CATEGORY_OF_MODULE, \"f\"); {future} {{ a }}"
            ),
        );
        check(
            "",
            "fn f() -> Pin<Box<dyn Future>> { Box::pin(async move { 1 }) }",
            "Box::pin({ let __ferretto_span",
        );
        for other in [
            "fn f() { Box::new(1) }",
            "fn f() { async move { 1 }; }",
            "fn f() { Box::pin(g()) }",
            "fn f() {}",
        ] {
            check("", other, "::ferretto::slice!");
        }
    }

    #[test]
    fn wrong_options_are_refused_with_help() {
        let cases = [
            ("args(pth)", "`pth` is no parameter of `f`, only `path`, `n`"),
            ("args(..), skip(x)", "`x` is no parameter"),
            ("skip(path)", "only makes sense with `args(..)`"),
            ("skip_args", "`skip_args` is no option of #[trace], which has `category = …`"),
            ("level = \"info\"", "there are no levels here"),
            ("target = \"a\"", "targets are categories here"),
            ("fields(a = 1)", "arguments are given as `args(…)`"),
            ("category = 3", "a category is a text, or the path of a static"),
            ("name", "`name` takes a value: `name = …`"),
            ("args = 1", "`args` takes a list: `args(…)`"),
            ("name = ", "expected an expression"),
            ("name = \"a\", name = \"b\"", "`name` is given twice"),
            ("args(path.len())", "an expression needs a name: `path = …`"),
            ("args(3)", "expected a parameter's name"),
        ];
        for (options, expected) in cases {
            check(options, "fn f(path: &str, n: u8) {}", "error:");
            check(options, "fn f(path: &str, n: u8) {}", expected);
        }
    }
}
