//! `#[trace]` on functions of all kinds.

#[path = "support/slices.rs"]
mod slices;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ferretto::trace;

use slices::{Recording, Slices, turn};

ferretto::categories! {
    static ALL = { DECLARED = "attribute.declared"; }
}

fn record() -> Recording {
    let config =
        r#"enabled_categories: "attribute*" enabled_categories: "trace_attribute*" disabled_categories: "*""#;
    Recording::start(config)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

async fn step() {
    let mut was_polled = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Category, arguments and track of the only slice of this name.
fn seen(trace: &Slices, name: &str) -> (String, String, bool) {
    let slice = trace.only(name);
    assert!(slice.end_ns.is_some());
    (slice.category.clone(), slice.arguments.join(" "), slice.track_name == "tasks")
}

fn expected(category: &str, arguments: &str, is_task: bool) -> (String, String, bool) {
    (category.to_owned(), arguments.to_owned(), is_task)
}

#[trace]
fn plain() -> u32 {
    7
}

#[trace(category = "attribute.net", name = "serve", args(path, bytes = body.len(), shown = %path, http.debug = ?path))]
fn with_arguments(path: &str, body: Vec<u8>) -> Result<usize, std::num::ParseIntError> {
    let number: usize = path.parse()?;
    Ok(number + body.len())
}

#[trace(category = DECLARED, args(.., extra = *first as u64 + 1), skip(secret))]
fn generic<'a, T, const N: usize>(
    first: &'a u8,
    (second, third): (T, [T; N]),
    secret: &str,
    _unused: u8,
) -> impl Iterator<Item = &'a u8> + use<'a, T, N>
where
    T: Debug + Clone + Send,
{
    let _ = (second.clone(), third, secret);
    std::iter::once(first)
}

struct Server {
    name: String,
}

impl Server {
    #[trace(category = "attribute.net", name = format!("{}.method", self.name), args(user = %self.name))]
    fn method(&mut self) -> &str {
        self.name.push('!');
        &self.name
    }

    #[trace(category = "attribute.net", args(path))]
    async fn serve(&mut self, path: &str) -> Result<&str, std::num::ParseIntError> {
        step().await;
        self.name += path;
        let _number: u8 = path.parse()?;
        if path == "0" {
            return Ok("zero");
        }
        Ok(&self.name)
    }
}

trait Service {
    fn call<'a>(&'a self, path: &'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>>;
}

impl Service for Server {
    /// As `async_trait` writes it.
    #[trace(category = "attribute.net", args(path, name = self.name))]
    fn call<'a>(&'a self, path: &'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>> {
        Box::pin(async move {
            step().await;
            path.len()
        })
    }
}

#[trace(category = "attribute.net", args(name))]
fn future_at_the_end(name: String) -> impl Future<Output = String> + Send {
    let suffix = "!";
    async move {
        step().await;
        name + suffix
    }
}

#[trace(category = "attribute.net")]
async fn opaque(items: Vec<u8>) -> Result<impl Iterator<Item = u8>, std::num::ParseIntError> {
    "1".parse::<u8>()?;
    Ok(items.into_iter())
}

#[trace(category = "attribute.net")]
#[inline]
extern "C" fn foreign(number: u32) -> u32 {
    number + 1
}

#[test]
fn functions_of_all_kinds_are_slices_and_do_what_they_did() {
    let _turn = turn();
    assert_eq!(ALL.len(), 1);
    let recording = record();
    let mut server = Server { name: "s".to_owned() };
    assert_eq!(plain(), 7);
    assert_eq!(with_arguments("5", vec![1, 2]).unwrap(), 7);
    assert_eq!(generic(&3, ("two", ["three"]), "secret", 0).next(), Some(&3));
    assert_eq!(server.method(), "s!");
    assert!(block_on(server.serve("x")).is_err());
    assert_eq!(block_on(server.call("path")), 4);
    assert_eq!(block_on(future_at_the_end("name".to_owned())), "name!");
    assert_eq!(block_on(opaque(vec![4])).unwrap().next(), Some(4));
    assert_eq!(foreign(1), 2);
    let trace = recording.stop();
    let cases = [
        ("plain", expected("trace_attribute", "", false)),
        ("serve", expected("attribute.net", "path=5 bytes=2 shown=5 http.debug=\"5\"", false)),
        (
            "generic",
            expected("attribute.declared", "first=3 second=\"two\" third=[\"three\"] extra=4", false),
        ),
        ("s.method", expected("attribute.net", "user=s", false)),
        ("call", expected("attribute.net", "path=path name=s!x", true)),
        ("future_at_the_end", expected("attribute.net", "name=name", true)),
        ("foreign", expected("attribute.net", "", false)),
        ("opaque", expected("attribute.net", "", true)),
    ];
    for (name, expected) in cases {
        if name == "serve" {
            let both = trace.named(name);
            assert_eq!(both[0].arguments.join(" "), expected.1);
            assert_eq!(
                (both[1].track_name.as_str(), both[1].arguments.join(" ")),
                ("tasks", "path=x".to_owned())
            );
        } else {
            assert_eq!(seen(&trace, name), expected, "{name}");
        }
    }
}

#[test]
fn nothing_is_evaluated_while_nobody_records() {
    let _turn = turn();
    fn evaluated() -> u8 {
        panic!("evaluated")
    }
    #[trace(category = "attribute.off", args(value = evaluated()))]
    fn quiet() -> u8 {
        3
    }
    #[trace(category = "attribute.off", args(value = evaluated()))]
    async fn quiet_too() -> u8 {
        3
    }
    assert_eq!(quiet() + block_on(quiet_too()), 6);
}
