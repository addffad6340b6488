//! The options of `#[trace(…)]`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Path, Result, Token, parenthesized};

const KNOWN: &str = "`category = …`, `name = …`, `args(…)`, `skip(…)` and `crate = …`";

/// What stands in the parentheses.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) category: Option<Category>,
    /// An expression.
    pub(crate) name: Option<TokenStream>,
    pub(crate) arguments: Vec<Argument>,
    /// Parameters that `args(..)` leaves out.
    pub(crate) skip: Vec<Ident>,
    pub(crate) krate: Option<Path>,
}

pub(crate) enum Category {
    Name(LitStr),
    Static(Path),
}

/// A part of `args(…)`.
pub(crate) enum Argument {
    /// `..`, at this place.
    All(Span),
    Parameter {
        form: Option<Form>,
        name: Ident,
    },
    Expression {
        name: TokenStream,
        value: TokenStream,
    },
}

/// How a value becomes text, with the token that says so.
pub(crate) type Form = TokenTree;

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let option = input.call(Ident::parse_any)?;
            if seen.iter().any(|name| option == name) {
                return Err(Error::new(option.span(), format!("`{option}` is given twice")));
            }
            options.parse_option(&option, input)?;
            seen.push(option.to_string());
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        options.check()
    }
}

impl Options {
    fn parse_option(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "category" => self.category = Some(value(option, input, Category::parse)?),
            "name" => self.name = Some(value(option, input, expression)?),
            "crate" => self.krate = Some(value(option, input, Path::parse_mod_style)?),
            "args" => self.arguments = list(option, input, Argument::parse)?,
            "skip" => self.skip = list(option, input, |input| input.parse())?,
            // Nothing is recorded unless asked for; who says so is right.
            "skip_all" => {}
            "fields" => return Err(Error::new(option.span(), "arguments are given as `args(…)` here")),
            "target" => return Err(Error::new(option.span(), "targets are categories here: `category = …`")),
            "level" => {
                let message =
                    "there are no levels here: give categories, `category = …`, whose tags say as much";
                return Err(Error::new(option.span(), message));
            }
            _ => {
                let message = format!("`{option}` is no option of #[trace], which has {KNOWN}");
                return Err(Error::new(option.span(), message));
            }
        }
        Ok(())
    }

    fn check(self) -> Result<Self> {
        let takes_all = self.arguments.iter().any(|argument| matches!(argument, Argument::All(_)));
        match self.skip.first() {
            Some(first) if !takes_all => Err(Error::new(
                first.span(),
                "nothing is recorded unless `args(…)` names it: `skip(…)` only makes sense with `args(..)`",
            )),
            _ => Ok(self),
        }
    }
}

impl Category {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return input.parse().map(Self::Name);
        }
        input.call(Path::parse_mod_style).map(Self::Static).map_err(|error| {
            let message = "a category is a text, or the path of a static that `categories!` declares";
            Error::new(error.span(), message)
        })
    }
}

impl Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if let Some(dots) = input.parse::<Option<Token![..]>>()? {
            return Ok(Self::All(dots.spans[0]));
        }
        let form = parse_form(input)?;
        if form.is_none() && input.peek(LitStr) {
            let name = TokenTree::Literal(input.parse::<LitStr>()?.token()).into();
            input.parse::<Token![=]>()?;
            return Ok(Self::Expression { name, value: expression(input)? });
        }
        let name: Ident = input.parse().map_err(|error| {
            Error::new(error.span(), "expected a parameter's name, `name = expression` or `..`")
        })?;
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(Self::Parameter { form, name });
        }
        let mut path = TokenStream::from(TokenTree::Ident(name.clone()));
        while let Some(dot) = input.parse::<Option<Token![.]>>()? {
            let next: Ident = input.parse()?;
            path.extend(quote!(#dot #next));
        }
        if form.is_some() || !input.peek(Token![=]) {
            let message = format!("an expression needs a name: `{name} = …`");
            return Err(Error::new(name.span(), message));
        }
        input.parse::<Token![=]>()?;
        Ok(Self::Expression { name: path, value: expression(input)? })
    }
}

fn parse_form(input: ParseStream<'_>) -> Result<Option<Form>> {
    let is_form = input.peek(Token![%]) || input.peek(Token![?]);
    is_form.then(|| input.parse()).transpose()
}

/// What stands behind the option's `=`.
pub(crate) fn value<T>(
    option: &Ident,
    input: ParseStream<'_>,
    parse: impl FnOnce(ParseStream<'_>) -> Result<T>,
) -> Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new(option.span(), format!("`{option}` takes a value: `{option} = …`")));
    }
    input.parse::<Token![=]>()?;
    parse(input)
}

fn list<T>(
    option: &Ident,
    input: ParseStream<'_>,
    parse: fn(ParseStream<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(option.span(), format!("`{option}` takes a list: `{option}(…)`")));
    }
    let content;
    parenthesized!(content in input);
    let list = Punctuated::<T, Token![,]>::parse_terminated_with(&content, parse)?;
    Ok(list.into_iter().collect())
}

/// The tokens up to the next comma: what they mean is for the compiler to say. Commas in angle brackets need parentheses around.
pub(crate) fn expression(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    if tokens.is_empty() {
        return Err(input.error("expected an expression"));
    }
    Ok(tokens)
}
