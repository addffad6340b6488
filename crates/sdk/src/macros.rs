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

/// A slice: something that takes from here to the end of the enclosing block.
///
/// The category is a text or a declared [`Category`](crate::Category); the name is a text, literal or computed; arguments are
/// `name = value`.
///
/// ```
/// fn serve(path: &str, body: &[u8]) {
///     ferretto::slice!("net", "serve", path = path, bytes = body.len());
///     // … the slice ends with the function.
/// }
/// # serve("/", b"");
/// ```
#[macro_export]
macro_rules! slice {
    ($category:tt, $name:expr $(, $($arguments:tt)*)?) => {
        let _slice = $crate::slice_guard!($category, $name $(, $($arguments)*)?);
    };
    ($category:path, $($rest:tt)+) => {
        $crate::slice!($category, $($rest)+);
    };
}

/// A slice as [`slice!`](crate::slice!), as an expression: it ends when its value is dropped.
///
/// ```
/// let slice = ferretto::slice_guard!("db", "query", rows = 3);
/// drop(slice);
/// ```
#[macro_export]
macro_rules! slice_guard {
    ($category:tt, $name:expr $(, $($arguments:tt)*)?) => {
        $crate::__event!($category, begin($name, [$($($arguments)*)?]), category => {
            $crate::SliceGuard::new(::core::option::Option::Some(category))
        } else {
            $crate::SliceGuard::new(::core::option::Option::None)
        })
    };
    ($category:path, $($rest:tt)+) => {
        $crate::slice_guard!($category, $($rest)+)
    };
}

/// Something that happens at one moment.
///
/// ```
/// let user = "ann";
/// ferretto::instant!("app", "login", user = user, attempt = 2, ok = true, load = 0.5);
/// ferretto::instant!("app", format!("login of {user}"));
/// ```
#[macro_export]
macro_rules! instant {
    ($category:tt, $name:expr $(, $($arguments:tt)*)?) => {
        $crate::__event!($category, instant($name, [$($($arguments)*)?]), category => {} else {})
    };
    ($category:path, $($rest:tt)+) => {
        $crate::instant!($category, $($rest)+)
    };
}

/// Begins a slice of this thread that [`end!`](crate::end!) ends. Where the two are in one block, [`slice!`](crate::slice!) is safer.
///
/// ```
/// ferretto::begin!("app", "frame", number = 7);
/// ferretto::end!("app");
/// ```
#[macro_export]
macro_rules! begin {
    ($category:tt, $name:expr $(, $($arguments:tt)*)?) => {
        $crate::__event!($category, begin($name, [$($($arguments)*)?]), category => {} else {})
    };
    ($category:path, $($rest:tt)+) => {
        $crate::begin!($category, $($rest)+)
    };
}

/// Ends the slice of this thread that was begun last; arguments are added to it.
#[macro_export]
macro_rules! end {
    ($category:tt $(, $($arguments:tt)*)?) => {
        $crate::__event!($category, end([$($($arguments)*)?]), category => {} else {})
    };
    ($category:path $(, $($rest:tt)*)?) => {
        $crate::end!($category $(, $($rest)*)?)
    };
}

/// Gives a counter a new value, an integer or a float. The counter is a literal name or a [`CounterTrack`](crate::CounterTrack).
///
/// ```
/// use ferretto::{CounterTrack, Unit};
/// static HEAP: CounterTrack = CounterTrack::new("heap").with_unit(Unit::Bytes);
/// ferretto::counter!("mem", HEAP, 4096);
/// ferretto::counter!("mem", "load", 0.25);
/// ferretto::counter!("mem", "stack", 512, Unit::Bytes);
/// ```
#[macro_export]
macro_rules! counter {
    ($category:tt, $name:literal, $value:expr $(, $unit:expr)? $(,)?) => {{
        static TRACK: $crate::CounterTrack = $crate::CounterTrack::new($name)$(.with_unit($unit))?;
        $crate::counter!($category, TRACK, $value)
    }};
    ($category:tt, $track:expr, $value:expr $(,)?) => {
        $crate::__event!($category, counter($track, $value), category => {} else {})
    };
    ($category:path, $($rest:tt)+) => {
        $crate::counter!($category, $($rest)+)
    };
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
    ($category:tt) => {
        $crate::__event!($category, nothing(), category => { true } else { false })
    };
    ($category:path $(, $($rest:tt)*)?) => {
        $crate::enabled!($category $(, $($rest)*)?)
    };
}

/// An event, if its category, literal or declared, is enabled; and what to do then or else. What is known of it at compile time goes into a
/// static.
#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($name:literal, $($rest:tt)+) => {{
        static __FERRETTO_CATEGORY: $crate::Category = $crate::Category::new($name);
        $crate::__event!(__FERRETTO_CATEGORY, $($rest)+)
    }};
    ($category:tt, $kind:ident $event:tt, $found:ident => $then:block else $otherwise:block) => {
        if $crate::Category::is_enabled(&$category) {
            $crate::__emit!($category, $kind $event);
            #[allow(unused_variables)]
            let $found: &'static $crate::Category = &$category;
            $then
        } else $otherwise
    };
}

/// Writes an event: names that are literals are sent once, others each time.
#[doc(hidden)]
#[macro_export]
macro_rules! __emit {
    ($category:tt, nothing()) => {};
    ($category:tt, counter($track:expr, $value:expr)) => {{
        static __FERRETTO_POINT: $crate::TracePoint = $crate::TracePoint::counter(&$category);
        __FERRETTO_POINT.emit_counter(&$track, &$value);
    }};
    ($category:tt, end([$($arguments:tt)*])) => {{
        $crate::__arguments!($($arguments)*);
        static __FERRETTO_POINT: $crate::TracePoint = $crate::TracePoint::end(&$category, &__FERRETTO_ARGUMENTS);
        __FERRETTO_POINT.emit($crate::__values!($($arguments)*));
    }};
    ($category:tt, $kind:ident($name:literal, [$($arguments:tt)*])) => {{
        $crate::__arguments!($($arguments)*);
        static __FERRETTO_POINT: $crate::TracePoint = $crate::TracePoint::$kind(
            &$category,
            ::core::option::Option::Some($name),
            &__FERRETTO_ARGUMENTS,
        );
        __FERRETTO_POINT.emit($crate::__values!($($arguments)*));
    }};
    ($category:tt, $kind:ident($name:expr, [$($arguments:tt)*])) => {{
        $crate::__arguments!($($arguments)*);
        static __FERRETTO_POINT: $crate::TracePoint =
            $crate::TracePoint::$kind(&$category, ::core::option::Option::None, &__FERRETTO_ARGUMENTS);
        __FERRETTO_POINT.emit_named(
            ::core::convert::AsRef::<str>::as_ref(&$name),
            $crate::__values!($($arguments)*),
        );
    }};
}

/// The names of `name = value` pairs, which are identifiers or literals, as a static.
#[doc(hidden)]
#[macro_export]
macro_rules! __arguments {
    (@name $name:ident) => { ::core::stringify!($name) };
    (@name $name:literal) => { $name };
    ($($name:tt = $value:expr),* $(,)?) => {
        static __FERRETTO_ARGUMENTS: [$crate::ArgumentName; {
            let names: &[&str] = &[$($crate::__arguments!(@name $name)),*];
            names.len()
        }] = [$($crate::ArgumentName::new($crate::__arguments!(@name $name))),*];
    };
}

/// The values of `name = value` pairs.
#[doc(hidden)]
#[macro_export]
macro_rules! __values {
    ($($name:tt = $value:expr),* $(,)?) => {
        &[$($crate::ToValue::to_value(&$value)),*]
    };
}
