//! `#[trace]`: a function's calls as slices.

mod expand;
mod options;

use proc_macro2::TokenStream;
use syn::{Result, parse2};

use crate::function::Function;
use options::Options;
pub(crate) use options::{expression, value};

/// The function, recorded as the attribute's options say.
pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> Result<TokenStream> {
    let function = Function::parse(item, "#[trace]")?;
    let options: Options = parse2(options)?;
    expand::expand(&options, function)
}
