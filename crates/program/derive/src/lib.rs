//! The attributes of `ferretto`, which exports them again. Programs do not name this package.
//!
//! Each attribute has a folder, and works on the token streams of `proc-macro2`, so that its tests need no compiler.
#![forbid(unsafe_code)]

mod function;
mod record;
mod trace;

use proc_macro::TokenStream;

/// Makes each call of a function a slice.
///
/// A slice of the thread for a plain function; for an `async fn` a span of the task, from its first poll to its end, on whichever threads
/// it runs. The slice ends when the function returns, by `?` too, when it panics, and when its future is dropped.
///
/// ```
/// # use std::io;
/// #[ferretto::trace]
/// fn parse(text: &str) -> usize {
///     text.len()
/// }
///
/// #[ferretto::trace(category = "net", name = "serve", args(path, bytes = body.len()))]
/// async fn serve(path: &str, body: &[u8]) -> Result<(), io::Error> {
///     store(body).await?;
///     Ok(())
/// }
///
/// #[ferretto::trace(args(..), skip(body))]
/// fn log(path: &str, attempt: u32, body: &[u8]) {}
/// # async fn store(body: &[u8]) -> Result<(), io::Error> { Ok(()) }
/// # parse(""); log("", 1, b""); drop(serve("", b""));
/// ```
///
/// # Options
///
/// | option | meaning | without it |
/// |---|---|---|
/// | `category = "net"` | the category, a text or the path of a [`categories!`] static | the module's path, such as `shop::cart`, as the target is with `tracing` |
/// | `name = "serve"` | the slice's name: a text, or an expression of one (`format!(…)`) | the function's name |
/// | `args(…)` | what is recorded of the call, below | nothing |
/// | `skip(a, b)` | parameters that `args(..)` leaves out | none |
/// | `crate = path` | where `ferretto` is found, for macros that write this attribute | `::ferretto` |
///
/// Arguments are only recorded when named: they may be long, secret, or costly to format. Nothing is evaluated while nobody records the
/// category. In `args(…)`:
///
/// * `path`: a parameter as a value, which must be a number, a truth value or a text;
/// * `%path`, `?path`: a parameter by its `Display` or its `Debug`;
/// * `bytes = body.len()`, `"full name" = …`, `http.url = %request.url()`, `user = ?self.user`: any expression;
/// * `..`: all parameters but `self`, by their `Debug`.
///
/// [`categories!`]: https://docs.rs/ferretto/latest/ferretto/macro.categories.html
///
/// # Where it stands
///
/// On functions and methods, generic, `unsafe` or `extern` as well. A function that ends in `async move { … }` or in
/// `Box::pin(async move { … })`, as macros such as `async_trait` make them, is recorded as an `async fn`: let such macros come first, by
/// standing on the `impl`, or above this attribute.
///
/// Wrong use does not compile:
///
/// ```compile_fail
/// #[ferretto::trace] // a constant function cannot look at the clock
/// const fn two() -> u32 {
///     2
/// }
/// ```
///
/// ```compile_fail
/// #[ferretto::trace(args(pth))] // no such parameter
/// fn open(path: &str) {}
/// ```
///
/// ```compile_fail
/// #[ferretto::trace(skip_args)] // no such option
/// fn open(path: &str) {}
/// ```
///
/// ```compile_fail
/// #[ferretto::trace] // not a function
/// struct Request;
/// ```
#[proc_macro_attribute]
pub fn trace(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = item.into();
    trace::expand(options.into(), &item)
        // The function stays, so that the only message is the one that helps.
        .unwrap_or_else(|error| [item, error.to_compile_error()].into_iter().collect())
        .into()
}

/// Records each call of a test or a benchmark: `target/traces/MODULE.NAME.pftrace`, for <https://ui.perfetto.dev>. Wants the feature
/// `in-process` of `ferretto`, which tests have by its place in `[dev-dependencies]`.
///
/// ```no_run
/// #[ferretto::record]
/// #[test]
/// fn orders_are_served() {
///     let _slice = ferretto::slice!("shop", "order");
/// }
///
/// #[ferretto::record(categories = ["shop*", "net"], buffer_kb = 65536)]
/// #[test]
/// fn many_orders_are_served() {}
/// ```
///
/// The trace has all that this process traces meanwhile, with a slice of the category `test` for the call itself. It is written when the
/// function returns or panics; the file has its name only when it is whole. The attribute [initialises](https://docs.rs/ferretto) tracing
/// by itself. A call whose trace cannot be recorded or written panics and says why: so does the test.
///
/// # Options
///
/// | option | meaning | without it |
/// |---|---|---|
/// | `categories = ["net*"]` | the track events to record, a list of names and beginnings | all but those tagged `slow` or `debug` |
/// | `buffer_kb = 1024` | the size of the buffer, of which the newest part is kept | 32 MiB |
/// | `config = …` | a whole config instead of these: a `TraceConfig`, a serialised one, or, with the feature `config-text`, one in the text format | |
/// | `path = "…"` | the file; relative to the current folder, which is the package's in tests | `target/traces/MODULE.NAME.pftrace` |
/// | `crate = path` | where `ferretto` is found, for macros that write this attribute | `::ferretto` |
///
/// Values are any expressions. The target folder is the one that the test runs from, or an absolute `CARGO_TARGET_DIR`. `MODULE` is the
/// module's path with dots, as in `shop.cart.tests`, and before it the package's name, if the path does not begin with that: so tests of one
/// name do not overwrite each other, unless they are methods of several types in one module.
///
/// # Tests side by side
///
/// Tests of one program run as its threads. Each that is recorded has a session and a file of its own; but track events are the
/// program's: the trace of a test has those of all tests that run meanwhile, on their threads' tracks. To have a test alone, run it alone
/// (`cargo test NAME`) or one after the other (`-- --test-threads=1`). At most four are recorded at a time; the next one waits.
///
/// # Where it stands
///
/// On functions and methods that are async or not, above or below `#[test]`, `#[tokio::test]` and the like. A benchmark is recorded with
/// all its rounds: give it a `buffer_kb` for those that are to be kept.
///
/// Wrong use does not compile:
///
/// ```compile_fail
/// #[ferretto::record(categories = "net")] // not a list
/// fn test() {}
/// ```
///
/// ```compile_fail
/// #[ferretto::record(config = ferretto::protos::TraceConfig::default(), buffer_kb = 4)] // one or the other
/// fn test() {}
/// ```
///
/// ```compile_fail
/// #[ferretto::record(config = 7)] // no config
/// fn test() {}
/// ```
///
/// ```compile_fail
/// #[ferretto::record] // not a function
/// mod tests {}
/// ```
///
/// ```compile_fail
/// #[ferretto::record] // a constant function cannot look at the clock
/// const fn two() -> u32 {
///     2
/// }
/// ```
#[proc_macro_attribute]
pub fn record(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = item.into();
    record::expand(options.into(), &item)
        // The function stays, so that the only message is the one that helps.
        .unwrap_or_else(|error| [item, error.to_compile_error()].into_iter().collect())
        .into()
}
