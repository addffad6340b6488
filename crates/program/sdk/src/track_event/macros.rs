//! Trace points. Each costs one relaxed load while nobody records its category; arguments are not evaluated then.
//!
//! A category is a literal, the name of a static, or a path to one. The last arm of each macro is for paths: what it matched is one token
//! to the other arms.

/// Declares categories with descriptions and tags, and a list of them for [`Builder::categories`](crate::Builder::categories).
///
/// ```
/// ferretto::categories! {
///     /// All categories of this program.
///     pub static ALL = {
///         /// Requests, from the first byte to the last.
///         NET = "net", "Requests over the network";
///         DB = "db", "Queries", ["slow"];
///         MISC = "misc";
///     }
/// }
///
/// ferretto::instant!(NET, "connected");
/// assert_eq!(ALL.len(), 3);
/// assert_eq!(DB.tags(), ["slow"]);
/// ```
#[macro_export]
macro_rules! categories {
    (
        $(#[$list_meta:meta])* $list_vis:vis static $list:ident = {
            $($(#[$meta:meta])* $id:ident = $name:literal $(, $description:literal $(, [$($tag:literal),* $(,)?])?)?;)*
        }
    ) => {
        $(
            $(#[$meta])*
            $list_vis static $id: $crate::Category = $crate::Category::new($name)
                $(.with_description($description) $(.with_tags(&[$($tag),*]))?)?;
        )*
        $(#[$list_meta])*
        $list_vis static $list: &[&$crate::Category] = &[$(&$id),*];
    };
}

/// A slice: something that takes time. It ends when the returned [`SliceGuard`](crate::SliceGuard) is dropped.
///
/// ```
/// fn serve(path: &str, body: &[u8], peer: std::net::IpAddr) {
///     let _slice = ferretto::slice!("net", "serve", path, bytes = body.len(), peer = %peer);
///     // … the slice ends with the function.
/// }
/// # serve("/", b"", std::net::Ipv4Addr::LOCALHOST.into());
/// ```
///
/// This is what all trace points have in common:
///
/// * The **category** is a text, the path of a declared [`Category`](crate::Category), or in parentheses a category that was found at
///   run time.
/// * The **name** is a text: literal, which costs nothing, or computed.
/// * **Arguments** are `name = value` for what has [`ToValue`](crate::ToValue), `name = %value` for what has `Display`, `name = ?value`
///   for what has `Debug`. A variable's name alone stands for itself: `bytes`, `%peer`, `?state`. Names may have dots.
/// * **Options** are `option: value`, anywhere among the arguments:
///
///   | option | the event … |
///   |---|---|
///   | `track: &track` | is on this [`Track`](crate::Track) instead of the thread's |
///   | `at: time` | happened then: a [`Timestamp`](crate::Timestamp), `Instant` or `SystemTime` |
///   | `flow: flow` | is joined by an arrow to the last event of this [`Flow`](crate::Flow); up to four |
///   | `flow_end: flow` | as `flow`, and it is the last one |
///   | `flows: &[…]`, `flow_ends: &[…]` | as above, any number |
///   | `correlation: id` | belongs together with others of this number or text |
///   | `location: ferretto::here!()` | comes from this place in the source |
///   | `callstack: &stack` | comes from these functions ([`Callstack`](crate::Callstack)) |
///   | `arguments: &[(name, value)]` | has arguments whose names are known at run time only |
///   | `fields: \|event\| …` | has these typed fields ([`Details::fields`](crate::Details::fields)) |
///
/// Nothing of this is evaluated while no session records the category.
///
/// What is wrong does not compile:
///
/// ```compile_fail
/// let _slice = ferretto::slice!("net", "serve", flo: 7);
/// ```
/// ```compile_fail
/// struct Opaque;
/// let _slice = ferretto::slice!("net", "serve", it = Opaque);
/// ```
/// ```compile_fail
/// let _slice = ferretto::slice!(5, "serve");
/// ```
#[macro_export]
macro_rules! slice {
    ($category:tt, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, slice, begin, [$name], [] [] [], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::slice!($category, $($rest)+)
    };
}

/// A span: something that takes time, on no particular thread. It is an [`AsyncSpan`](crate::AsyncSpan), to be given to a future, and ends
/// with that.
///
/// ```
/// use ferretto::Instrument;
///
/// async fn serve(path: &str) {}
///
/// let path = "/";
/// let request = serve(path).instrument(ferretto::span!("net", "request", path, bytes = 7));
/// # drop(request);
/// ```
///
/// What can be said about it is the same as of a [`slice!`](crate::slice!), but for `track`, `at`, `callstack` and `fields`: the span has
/// its own track and times. Arguments are copied.
///
/// ```compile_fail
/// let span = ferretto::span!("net", "request", at: ferretto::Timestamp::now());
/// ```
#[macro_export]
macro_rules! span {
    ($category:tt, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, span, begin, [$name], [] [] [], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::span!($category, $($rest)+)
    };
}

/// Something that happens at one moment. What can be said about it is the same as of a [`slice!`](crate::slice!).
///
/// ```
/// let user = "ann";
/// ferretto::instant!("app", "login", user, attempt = 2, ok = true, load = 0.5);
/// ferretto::instant!("app", format!("login of {user}"));
/// ```
#[macro_export]
macro_rules! instant {
    ($category:tt, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, event, instant, [$name], [] [] [], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::instant!($category, $($rest)+)
    };
}

/// Begins a slice that [`end!`](crate::end!) ends. Where the two are in one block, [`slice!`](crate::slice!) is safer.
///
/// ```
/// ferretto::begin!("app", "frame", number = 7);
/// ferretto::end!("app");
/// ```
#[macro_export]
macro_rules! begin {
    ($category:tt, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, event, begin, [$name], [] [] [], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::begin!($category, $($rest)+)
    };
}

/// Ends the slice of this thread, or of the `track: …`, that was begun last; arguments are added to it.
#[macro_export]
macro_rules! end {
    ($category:tt $(, $($rest:tt)*)?) => {
        $crate::__event!($category, event, end, [], [] [] [], $($($rest)*)?)
    };
    ($category:path $(, $($rest:tt)*)?) => {
        $crate::end!($category $(, $($rest)*)?)
    };
}

/// Gives a counter a new value, an integer or a float. The counter is a literal name or a [`CounterTrack`](crate::CounterTrack). Of the
/// options of [`slice!`](crate::slice!), `at: …` is the useful one here.
///
/// ```
/// use ferretto::{CounterTrack, Unit};
/// static HEAP: CounterTrack = CounterTrack::new("heap").with_unit(Unit::Bytes);
/// ferretto::counter!("mem", HEAP, 4096);
/// ferretto::counter!("mem", "load", 0.25);
/// ferretto::counter!("mem", "stack", 512, unit: Unit::Bytes);
/// ```
#[macro_export]
macro_rules! counter {
    ($category:tt, $name:literal, $value:expr, unit: $unit:expr $(, $($rest:tt)*)?) => {{
        static TRACK: $crate::CounterTrack = $crate::CounterTrack::new($name).with_unit($unit);
        $crate::counter!($category, TRACK, $value, $($($rest)*)?)
    }};
    ($category:tt, $name:literal, $value:expr $(, $($rest:tt)*)?) => {{
        static TRACK: $crate::CounterTrack = $crate::CounterTrack::new($name);
        $crate::counter!($category, TRACK, $value, $($($rest)*)?)
    }};
    ($category:tt, $track:expr, $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, event, counter, [], [] [] [.counter(&$track, &$value)], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::counter!($category, $($rest)+)
    };
}

/// Says in which state a [`StateTrack`](crate::StateTrack) is from now on. The name of the state is a text, literal or computed.
///
/// ```
/// static LINK: ferretto::StateTrack = ferretto::StateTrack::new("link");
/// ferretto::state!("net", LINK, "up", speed_mbit = 1000);
/// ```
#[macro_export]
macro_rules! state {
    ($category:tt, $track:expr, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($category, event, state, [$name], [] [] [.state(&$track)], $($($rest)*)?)
    };
    ($category:path, $($rest:tt)+) => {
        $crate::state!($category, $($rest)+)
    };
}

/// A line of the program's log, which viewers list as such: category, [`Severity`](crate::Severity), and text, with values in braces as
/// in `format!`. The text is made only if a session records the category.
///
/// ```
/// use ferretto::Severity;
/// let host = "example.org";
/// ferretto::log!("net", Severity::Warn, "no answer from {host} after {} s", 5);
/// ```
#[macro_export]
macro_rules! log {
    ($category:tt, $severity:expr, $($text:tt)+) => {
        $crate::__event!(
            $category,
            event,
            instant,
            ["log"],
            [] [] [.log($severity, &::std::format!($($text)+)) .location($crate::here!())],
        )
    };
    ($category:path, $($rest:tt)+) => {
        $crate::log!($category, $($rest)+)
    };
}

/// This place in the source, for the option `location: …`.
///
/// ```
/// ferretto::instant!("app", "here", location: ferretto::here!());
/// ```
#[macro_export]
macro_rules! here {
    () => {{
        static LOCATION: $crate::Location =
            $crate::Location::new(::core::file!(), ::core::module_path!(), ::core::line!());
        &LOCATION
    }};
}

/// Whether any session records this category now: for work that is only done for a trace.
///
/// ```
/// if ferretto::enabled!("net") {
///     // … collect what the trace point says.
/// }
/// ```
#[macro_export]
macro_rules! enabled {
    ($name:literal) => {{
        static CATEGORY: $crate::Category = $crate::Category::new($name);
        $crate::__is_compiled_in!() && $crate::Category::is_enabled(&CATEGORY)
    }};
    (($category:expr)) => {
        $crate::__is_compiled_in!() && $crate::Category::is_enabled($category)
    };
    ($category:path) => {
        $crate::__is_compiled_in!() && $crate::Category::is_enabled(&$category)
    };
}

/// Whether trace points exist at all. Not a function, so that what is in them is gone without an optimiser, too.
#[cfg(not(feature = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __is_compiled_in {
    () => {
        true
    };
}

/// With the feature `off`.
#[cfg(feature = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __is_compiled_in {
    () => {
        false
    };
}

/// Reads arguments and options one by one: into names, values and details. Then writes the event.
///
/// `$form` says what the macro is worth: `event` nothing, `slice` a guard. `$kind` is the event's type.
#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    // All is read.
    ($category:tt, $form:ident, $kind:ident, $name:tt, $names:tt $values:tt $details:tt, $(,)?) => {
        $crate::__in_category!($category, $form, $kind, $name, $names $values $details)
    };
    // Options.
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], track: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .track($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], at: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .at($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], flow: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .flow($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], flow_end: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .flow_end($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], flows: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .flows($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], flow_ends: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .flow_ends($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], correlation: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .correlation($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], location: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .location($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], callstack: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .callstack($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], arguments: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .arguments($value)], $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt [$($d:tt)*], fields: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values [$($d)* .fields(&$value)], $($($rest)*)?)
    };
    // Arguments.
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $($name:ident).+ = % $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* [$($name).+]] [$($values)* ($crate::Value::Display(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $($name:ident).+ = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* [$($name).+]] [$($values)* ($crate::Value::Debug(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $($name:ident).+ = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* [$($name).+]] [$($values)* ($crate::ToValue::to_value(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $name:literal = % $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* $name] [$($values)* ($crate::Value::Display(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $name:literal = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* $name] [$($values)* ($crate::Value::Debug(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, [$($names:tt)*] [$($values:tt)*] $d:tt, $name:literal = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, [$($names)* $name] [$($values)* ($crate::ToValue::to_value(&$value))] $d, $($($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt $d:tt, % $name:ident $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values $d, $name = % $name $(, $($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt $d:tt, ? $name:ident $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values $d, $name = ? $name $(, $($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt $d:tt, $name:ident $(, $($rest:tt)*)?) => {
        $crate::__event!($c, $f, $k, $n, $names $values $d, $name = $name $(, $($rest)*)?)
    };
    ($c:tt, $f:ident, $k:ident, $n:tt, $names:tt $values:tt $d:tt, $($wrong:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "this trace point cannot be read from here: `",
            ::core::stringify!($($wrong)+),
            "`\narguments are `name = value`, `name = %display`, `name = ?debug`, or a variable's name;\noptions are `track: …`, ",
            "`at: …`, `flow: …`, `flow_end: …`, `flows: …`, `flow_ends: …`, `correlation: …`, `location: …`, `callstack: …`, ",
            "`arguments: …`, `fields: …`"
        ))
    };
}

/// Finds the category and writes the event if that is enabled.
#[doc(hidden)]
#[macro_export]
macro_rules! __in_category {
    ($category:literal, $form:ident, $kind:ident, $name:tt, $names:tt $values:tt $details:tt) => {{
        static __FERRETTO_CATEGORY: $crate::Category = $crate::Category::new($category);
        $crate::__if_enabled!(__FERRETTO_CATEGORY, $form, $kind, $name, $names $values $details)
    }};
    (($category:expr), $form:ident, $kind:ident, $name:tt, $names:tt $values:tt [$($details:tt)*]) => {{
        static __FERRETTO_CATEGORY: $crate::Category = $crate::Category::new("");
        let category: &'static $crate::Category = $category;
        if $crate::__is_compiled_in!() && $crate::Category::is_enabled(category) {
            $crate::__emit!(
                __FERRETTO_CATEGORY, $form, $kind, $name, $names $values [.category(category) $($details)*]
            )
        } else {
            $crate::__nothing!($form)
        }
    }};
    ($category:tt, $form:ident, $kind:ident, $name:tt, $names:tt $values:tt $details:tt) => {
        $crate::__if_enabled!($category, $form, $kind, $name, $names $values $details)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __if_enabled {
    ($category:tt, $form:ident, $($event:tt)+) => {
        if $crate::__is_compiled_in!() && $crate::Category::is_enabled(&$category) {
            $crate::__emit!($category, $form, $($event)+)
        } else {
            $crate::__nothing!($form)
        }
    };
}

/// What a trace point is worth that writes nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __nothing {
    (event) => {
        ()
    };
    (slice) => {
        $crate::SliceGuard::none()
    };
    (span) => {
        $crate::AsyncSpan::none()
    };
}

/// Writes the event. What is known at compile time goes into a static: the names of arguments, and the event's name, if it is literal.
#[doc(hidden)]
#[macro_export]
macro_rules! __emit {
    ($c:tt, $form:ident, $kind:ident, [$name:literal], [$($names:tt)*] $values:tt $details:tt) => {
        $crate::__emit!(@named $c, $form, $kind(::core::option::Option::Some($name)), [$($names)*] $values $details)
    };
    ($c:tt, $form:ident, $kind:ident, [$name:expr], [$($names:tt)*] $values:tt [$($details:tt)*]) => {
        $crate::__emit!(
            @named $c, $form, $kind(::core::option::Option::None), [$($names)*] $values [.name(&$name) $($details)*]
        )
    };
    ($c:tt, $form:ident, $kind:ident, [], [$($names:tt)*] $values:tt $details:tt) => {
        $crate::__emit!(@named $c, $form, $kind(), [$($names)*] $values $details)
    };
    (@named $c:tt, $form:ident, $kind:ident($($name:expr)?), [$($names:tt)*] $values:tt $details:tt) => {{
        static __FERRETTO_ARGUMENTS: [$crate::ArgumentName; {
            let names: &[&str] = &[$($crate::__argument_name!($names)),*];
            names.len()
        }] = [$($crate::ArgumentName::new($crate::__argument_name!($names))),*];
        static __FERRETTO_POINT: $crate::TracePoint =
            $crate::TracePoint::$kind(&$c, $($name,)? &__FERRETTO_ARGUMENTS);
        $crate::__write!($c, $form, $values $details)
    }};
}

/// As the last step: with details the general way, else the short one.
#[doc(hidden)]
#[macro_export]
macro_rules! __write {
    ($c:tt, event, [$($values:tt)*] []) => {
        __FERRETTO_POINT.emit(&[$($values),*])
    };
    ($c:tt, slice, [$($values:tt)*] []) => {{
        __FERRETTO_POINT.emit(&[$($values),*]);
        $crate::SliceGuard::new(&$c)
    }};
    ($c:tt, span, [$($values:tt)*] [$($details:tt)*]) => {
        $crate::AsyncSpan::new(&__FERRETTO_POINT, &[$($values),*], $crate::SpanDetails::new()$($details)*)
    };
    ($c:tt, event, [$($values:tt)*] [$($details:tt)+]) => {
        __FERRETTO_POINT.emit_with(&[$($values),*], &$crate::Details::new()$($details)+)
    };
    ($c:tt, slice, [$($values:tt)*] [$($details:tt)+]) => {
        // The details may borrow from what lives no longer than this expression.
        match &$crate::Details::new()$($details)+ {
            details => {
                __FERRETTO_POINT.emit_with(&[$($values),*], details);
                $crate::SliceGuard::with_details(&$c, details)
            }
        }
    };
}

/// The name of an argument: a text, or identifiers with dots between them.
#[doc(hidden)]
#[macro_export]
macro_rules! __argument_name {
    ([$first:ident $(. $next:ident)*]) => {
        ::core::concat!(::core::stringify!($first) $(, ".", ::core::stringify!($next))*)
    };
    ($name:literal) => {
        $name
    };
}
