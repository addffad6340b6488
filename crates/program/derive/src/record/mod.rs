//! `#[record]`: a trace of each call of a test or benchmark.

mod options;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::quote;
use syn::{Result, parse2};

use crate::function::Function;
use options::Options;

/// The function, recorded as the attribute's options say.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let function = Function::parse(item, "#[record]")?;
    let options: Options = parse2(options)?;
    let krate = options.krate.as_ref().map_or_else(|| quote!(::ferretto), |path| quote!(#path));
    let name = function.name.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name);
    let setters = options.setters;
    // Invisible to the body, and dropped after all of it: on `return`, `?` and panics, too.
    let recording = Ident::new("_recording", Span::mixed_site());
    let slice = slice(&krate, name, function.is_async);
    let body = function.body.stream();
    let body = quote! {
        let #recording = #krate::__record::Recorder::new(
            ::core::module_path!(),
            #name,
            ::core::option_env!("CARGO_PKG_NAME"),
        )
        #(#setters)*
        .start();
        #slice
        #body
    };
    let head: TokenStream = function.head.into_iter().collect();
    let mut block = Group::new(Delimiter::Brace, body);
    block.set_span(function.body.span());
    Ok(quote! { #head #block })
}

/// The call itself in the trace. A task has no thread of its own to show it on.
fn slice(krate: &TokenStream, name: &str, is_async: bool) -> TokenStream {
    if is_async {
        return TokenStream::new();
    }
    let slice = Ident::new("_slice", Span::mixed_site());
    quote! { let #slice = #krate::slice!("test", #name); }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(options: TokenStream, item: TokenStream) -> String {
        expand(options, &item).map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    #[test]
    fn mistakes_are_told() {
        let function = || {
            quote!(
                fn f() {}
            )
        };
        let cases = [
            (
                quote!(),
                quote!(
                    struct S;
                ),
                "functions",
            ),
            (
                quote!(),
                quote!(
                    const fn f() {}
                ),
                "const",
            ),
            (
                quote!(),
                quote!(
                    fn f();
                ),
                "body",
            ),
            (quote!(buffer = 1), function(), "`buffer` is no option of #[record]"),
            (quote!(buffer_kb), function(), "`buffer_kb = …`"),
            (quote!(buffer_kb = 1, buffer_kb = 2), function(), "twice"),
            (quote!(categories = "net"), function(), "`categories = [\"net\"]`"),
            (quote!(config = c, categories = ["net"]), function(), "say it in the config"),
            (quote!(path = ), function(), "expected an expression"),
        ];
        for (options, item, expected) in cases {
            let message = message(options, item);
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }

    #[test]
    fn attributes_of_test_runtimes_stay() {
        let expanded = message(
            quote!(buffer_kb = 64),
            quote! {
                #[tokio::test]
                async fn works() -> Result<(), Error> { run().await }
            },
        );
        assert!(expanded.starts_with("# [tokio :: test] async fn works () -> Result < () , Error > {"));
        assert!(expanded.contains(". buffer_kb (64)") && !expanded.contains("slice !"), "{expanded}");
    }
}
