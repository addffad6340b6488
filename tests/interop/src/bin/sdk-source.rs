//! Offers a data source of its own, `ferretto.texts`, to whatever service listens on the system's producer socket, until it is ended.
//!
//! While sessions record it, two threads write texts, numbered per thread and session: `LABEL NUMBER`, with the label out of the
//! session's config (`legacy_config`). All three kinds of answers come late, from threads of their own, which write `LABEL started`,
//! `LABEL flushed REASON` and `LABEL stopped` before. Prints what the service asks for.

#![forbid(unsafe_code)]

use std::error::Error;
use std::thread;
use std::time::Duration;

use ferretto::protos::{DataSourceDescriptor, fields};
use ferretto::{Ack, DataSource, DataSourceHandle, FlushFlags, SetupArgs, TraceContext};

/// Between texts.
const PAUSE: Duration = Duration::from_millis(2);
/// How late answers are. Sessions wait for seconds.
const DELAY: Duration = Duration::from_millis(100);

static TEXTS: DataSourceHandle<Texts> = DataSourceHandle::new();

#[derive(Default)]
struct Texts {
    label: String,
}

/// Whether the reader has seen the beginning of this sequence.
#[derive(Default)]
struct HasBegun(bool);

impl DataSource for Texts {
    type IncrementalState = HasBegun;
    /// Texts of this thread.
    type ThreadState = u32;

    fn on_setup(&mut self, args: &SetupArgs<'_>) {
        self.label = args.config.decode().expect("a config").legacy_config().to_owned();
        println!("setup {} of session {}", self.label, args.config.tracing_session_id());
    }

    fn on_start(&mut self, ack: Ack) {
        println!("start {}", self.label);
        self.later("started".to_owned(), ack);
    }

    fn on_flush(&mut self, flags: FlushFlags, ack: Ack) {
        self.later(format!("flushed {:?}", flags.reason()), ack);
    }

    fn on_stop(&mut self, ack: Ack) {
        println!("stop {}", self.label);
        self.later("stopped".to_owned(), ack);
    }
}

impl Texts {
    /// Writes a last word for the session from another thread, and answers.
    fn later(&self, word: String, ack: Ack) {
        let label = self.label.clone();
        thread::spawn(move || {
            thread::sleep(DELAY);
            TEXTS.trace(|ctx| {
                let is_its = ctx.instance().is_some_and(|texts| texts.label == label);
                if is_its {
                    write(ctx, &format!("{label} {word}"));
                }
            });
            ack.done();
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    ferretto::init("ferretto.source")?;
    TEXTS.register(DataSourceDescriptor { name: Some("ferretto.texts".to_owned()), ..Default::default() })?;
    let writers = [(); 2].map(|()| thread::spawn(write_forever));
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    Ok(())
}

fn write_forever() {
    loop {
        TEXTS.trace(|ctx| {
            let Some(label) = ctx.instance().map(|texts| texts.label.clone()) else { return };
            *ctx.thread_state() += 1;
            let number = *ctx.thread_state();
            write(ctx, &format!("{label} {number}"));
        });
        thread::sleep(PAUSE);
    }
}

fn write(ctx: &mut TraceContext<'_, Texts>, text: &str) {
    let had_begun = std::mem::replace(&mut ctx.incremental_state().0, true);
    let now = ctx.now();
    let mut packet = ctx.new_packet();
    packet.varint(fields::trace_packet::TIMESTAMP, now);
    // SEQ_INCREMENTAL_STATE_CLEARED, or SEQ_NEEDS_INCREMENTAL_STATE.
    packet.varint(fields::trace_packet::SEQUENCE_FLAGS, if had_begun { 2 } else { 1 });
    packet.nested(fields::trace_packet::FOR_TESTING).string(fields::test_event::STR, text);
}
