//! The options of `#[record(…)]`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Path, Result, Token};

use crate::trace::{expression, value};

const KNOWN: &str = "`categories = […]`, `buffer_kb = …`, `config = …`, `path = …` and `crate = …`";

/// What stands in the parentheses.
#[derive(Default)]
pub(crate) struct Options {
    /// Calls of the recorder's methods.
    pub(crate) setters: Vec<TokenStream>,
    pub(crate) krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let option = input.call(Ident::parse_any)?;
            if seen.contains(&option) {
                return Err(Error::new(option.span(), format!("`{option}` is given twice")));
            }
            options.parse_option(&option, input)?;
            seen.push(option);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        check(&seen)?;
        Ok(options)
    }
}

impl Options {
    fn parse_option(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "crate" => self.krate = Some(value(option, input, Path::parse_mod_style)?),
            "categories" => {
                let list = value(option, input, list)?;
                self.setters.push(quote!(.categories(#list)));
            }
            "buffer_kb" | "config" | "path" => {
                let value = value(option, input, expression)?;
                self.setters.push(quote!(.#option(#value)));
            }
            _ => {
                let message = format!("`{option}` is no option of #[record], which has {KNOWN}");
                return Err(Error::new(option.span(), message));
            }
        }
        Ok(())
    }
}

/// A text alone would be taken for a list of its letters, or not at all.
fn list(input: ParseStream<'_>) -> Result<TokenStream> {
    if input.peek(syn::LitStr) {
        let text: syn::LitStr = input.parse()?;
        let message = format!("categories are a list: `categories = [{}]`", text.token());
        return Err(Error::new(text.span(), message));
    }
    expression(input)
}

fn check(seen: &[Ident]) -> Result<()> {
    let has_config = seen.iter().any(|option| option == "config");
    let simple = seen.iter().find(|option| *option == "categories" || *option == "buffer_kb");
    match simple {
        Some(option) if has_config => {
            let message = format!("`{option}` does not go with `config`: say it in the config");
            Err(Error::new(option.span(), message))
        }
        _ => Ok(()),
    }
}
