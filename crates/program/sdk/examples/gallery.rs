//! Events of every kind, each once or a few times: to see what they look like.
//!
//!     ferretto record -o gallery.pftrace -- cargo run -p ferretto --example gallery
//!
//! and open the file in <https://ui.perfetto.dev>. Waits until somebody records.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferretto::{
    Callstack, Category, ChildOrder, CounterTrack, Flow, Frame, Merge, Severity, StateTrack, Timestamp,
    ToValue, Track, Unit, Value,
};

ferretto::categories! {
    static CATEGORIES = {
        GALLERY = "gallery", "Events of every kind";
        NEWER = "gallery.newer", "What only viewers of 2026 and later know";
        TAGGED = "gallery.tagged", "Only for sessions that ask for the tag", ["debug"];
    }
}

static SHOP: Track =
    Track::named("Shop").child_order(ChildOrder::Explicit).with_description("Orders and where they are");
static ORDERS: Track = Track::named("Orders").under(&SHOP).rank(1);
static KITCHEN: Track = Track::named("Kitchen").under(&SHOP).rank(2);

static MEMORY: CounterTrack = CounterTrack::new("Memory").with_unit(Unit::Bytes).with_unit_multiplier(1024);
static SOLD: CounterTrack = CounterTrack::new("Sold").with_unit(Unit::Named("pizzas")).incremental();
static OVEN: CounterTrack =
    CounterTrack::of(Track::named("Oven").under(&KITCHEN)).with_unit(Unit::Named("°C"));
static DOOR: StateTrack = StateTrack::new("Door");

/// A clock of hardware that nobody else knows.
const OVEN_CLOCK: u32 = 4711;
/// Long enough to be seen.
const MOMENT: Duration = Duration::from_millis(2);
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    ferretto::builder("org.example.gallery").categories(CATEGORIES).init()?;
    let start = Instant::now();
    while !GALLERY.is_enabled() {
        if start.elapsed() > TIMEOUT {
            return Err("nobody records the category gallery".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    slices_and_arguments();
    tracks();
    counters_and_states();
    flows()?;
    times();
    categories();
    // The end of a thread hands its events over; that of the main thread ends the process before.
    ferretto::flush(TIMEOUT);
    Ok(())
}

fn slices_and_arguments() {
    let _outer = ferretto::slice!(GALLERY, "outer", location: ferretto::here!());
    let list = vec![1, 2, 3];
    let table = std::collections::BTreeMap::from([("host", "example.org"), ("path", "/")]);
    {
        let _inner = ferretto::slice!(
            GALLERY,
            "arguments",
            truth = true,
            signed = -7,
            unsigned = 7_u64,
            real = 0.5,
            text = "a text",
            display = %Duration::from_secs(1).as_secs(),
            debug = ?Some(1),
            list,
            table,
            http.status = 200,
            pointer = std::ptr::without_provenance::<u8>(0xbeef),
            missing = None::<u32>,
            arguments: &[("found at run time", Value::Int(1))],
        );
        thread::sleep(MOMENT);
    }
    let slice = ferretto::slice!(GALLERY, format!("computed name {}", 1));
    slice.end_with(&[("result", "known at the end".to_value())]);
    let stack = Callstack::new([Frame::new("main").at("gallery.rs", 1), Frame::new("slices_and_arguments")]);
    ferretto::instant!(NEWER, "with a call stack", callstack: &stack);
    ferretto::log!(GALLERY, Severity::Warn, "a line of the {}", "log");
}

fn tracks() {
    ferretto::begin!(GALLERY, "order 1", track: &ORDERS);
    ferretto::instant!(GALLERY, "in the oven", track: &KITCHEN);
    thread::sleep(MOMENT);
    ferretto::end!(GALLERY, track: &ORDERS, pizzas = 2);
    // Two that overlap: tracks of one name are drawn as one.
    let guests: Vec<_> = (0..2).map(|id| Track::dynamic("Guests").with_id(id).merge(Merge::ByName)).collect();
    for (number, track) in guests.iter().enumerate() {
        ferretto::begin!(GALLERY, format!("guest {number}"), track: track);
        thread::sleep(MOMENT);
    }
    for track in &guests {
        ferretto::end!(GALLERY, track: track);
        thread::sleep(MOMENT);
    }
    let owner = Arc::new(Track::of("Table", &guests));
    ferretto::instant!(GALLERY, "reserved", track: &Track::dynamic("Seat").under_shared(&owner));
    ferretto::instant!(GALLERY, "for everybody", track: &Track::global(0x6761_6c6c_6572_7921, "Street"));
    ferretto::instant!(GALLERY, "of the process", track: &Track::process());
}

fn counters_and_states() {
    for step in 0..4_i64 {
        ferretto::counter!(GALLERY, MEMORY, 100 * step);
        ferretto::counter!(GALLERY, SOLD, 10 + step);
        ferretto::counter!(GALLERY, OVEN, 20.5 * step as f64);
        ferretto::counter!(GALLERY, "Load", 0.25, unit: Unit::Count);
        ferretto::state!(GALLERY, DOOR, if step % 2 == 0 { "open" } else { "closed" });
        thread::sleep(MOMENT);
    }
}

fn flows() -> std::io::Result<()> {
    let flow = Flow::named("delivery", 1);
    {
        let _slice = ferretto::slice!(GALLERY, "send", flow: flow, correlation: "delivery 1");
        thread::sleep(MOMENT);
    }
    let courier = thread::Builder::new().name("courier".to_owned()).spawn(move || {
        let _slice = ferretto::slice!(GALLERY, "receive", flow_end: flow, correlation: "delivery 1");
        thread::sleep(MOMENT);
    })?;
    courier.join().map_err(|_| std::io::Error::other("the courier has panicked"))
}

fn times() {
    let start = Instant::now();
    thread::sleep(MOMENT);
    // Only now it turns out to be of interest.
    static LATE: Track = Track::named("Late");
    ferretto::begin!(GALLERY, "said afterwards", track: &LATE, at: start);
    ferretto::end!(GALLERY, track: &LATE, at: Timestamp::now());
    ferretto::snapshot_clocks(&GALLERY, &[(OVEN_CLOCK, 1_000_000)]);
    ferretto::instant!(GALLERY, "by the oven's clock", at: Timestamp::on_clock(OVEN_CLOCK, 1_000_500));
}

fn categories() {
    let plugin = Category::dynamic(&format!("gallery.plugin.{}", "blur"));
    ferretto::instant!((plugin), "from a category found at run time");
    ferretto::instant!("gallery.one,gallery.two", "of a group");
    ferretto::instant!(TAGGED, "only for those who ask");
    ferretto::instant!(GALLERY, "typed fields: task_execution", fields: |event| event.nested(5).varint(1, 1));
}
