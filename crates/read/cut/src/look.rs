//! The passes that look: when a trace begins, and what a range needs from outside of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;

use ferretto_trace_read::{End, Reader};

use crate::around::Search;
use crate::blocks::Blocks;
use crate::bounds::Bounds;
use crate::cut::{Around, Error, Options};
use crate::filter::Processes;
use crate::index::Index;
use crate::passes::{parts_of, pass, read, reader, reader_of};
use crate::range::{Moment, Range};
use crate::sizes::Sizes;
use crate::source::Source;
use crate::usual::SliceEvent;
use crate::walk::Walk;

/// How a file is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grain {
    /// Read first, to guess when a trace begins and since when its CPUs' data are complete.
    pub(crate) glance_bytes: u64,
    /// The size of blocks.
    pub(crate) block_bytes: u64,
}

/// Some rounds of what services collect; and blocks that are read in a moment, and yet are few.
pub(crate) const GRAIN: Grain = Grain { glance_bytes: 16 << 20, block_bytes: 1 << 19 };

/// What the first pass has found.
#[derive(Debug)]
pub(crate) struct First {
    pub(crate) walk: Walk,
    pub(crate) read: End,
    pub(crate) bounds: Bounds,
    pub(crate) span: (i64, i64),
    pub(crate) sizes: Sizes,
    pub(crate) search: Option<Search>,
    pub(crate) pids: Option<BTreeSet<i32>>,
}

/// The pass that looks, and what it has found.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) indexes: Vec<Index>,
    pub(crate) blocks: Blocks,
}

impl Look {
    pub(crate) fn new(ranges: &[Range], bounds: &Bounds, grain: Grain) -> Self {
        let indexes = ranges.iter().map(|range| Index::new(*range, bounds)).collect();
        Self { indexes, blocks: Blocks::of(grain.block_bytes) }
    }

    fn pass(
        &mut self,
        reader: Reader<impl Read>,
        walk: Walk,
        bounds: &mut Bounds,
    ) -> Result<(Walk, End), Error> {
        let Self { indexes, blocks } = self;
        let both = RefCell::new((indexes, bounds));
        let usual = |walk: &mut Walk, packet: &[u8]| {
            let event = SliceEvent::of(packet)?;
            let told = walk.take_usual(&event)?;
            let (indexes, bounds) = &mut *both.borrow_mut();
            bounds.take_usual(told.ts, event.is_begin);
            let mut is_wanted = false;
            for index in indexes.iter_mut() {
                is_wanted |= index.take_usual(&event, &told);
            }
            Some((told.sequence, is_wanted))
        };
        read(reader, walk, Some(blocks), usual, |walk, seen| {
            let (indexes, bounds) = &mut *both.borrow_mut();
            let parts = parts_of(seen);
            bounds.take(walk, seen, parts.as_ref());
            let mut is_wanted = false;
            for index in indexes.iter_mut() {
                is_wanted |= index.take(walk, seen, parts.as_ref());
            }
            Ok(is_wanted)
        })
    }
}

impl First {
    /// Looks at all of a trace at once, if what it begins with tells when it begins: nearly all traces do.
    pub(crate) fn with_look<S: Source + ?Sized>(
        source: &S,
        options: &Options,
        grain: Grain,
    ) -> Result<(Self, Option<Look>), Error> {
        if options.around.is_some() || options.process.is_some() {
            return Ok((Self::of(source, options, false)?, None));
        }
        let mut guessed = Bounds::default();
        let glance = reader_of(source, grain.glance_bytes)?;
        let (walk, end) = Look::new(&[], &guessed, grain).pass(glance, Walk::default(), &mut guessed)?;
        let is_whole = end.bytes < grain.glance_bytes;
        let glance = Self::new(walk, end, guessed);
        if is_whole {
            return Ok((glance?, None));
        }
        let Ok(glance) = glance else { return Ok((Self::of(source, options, false)?, None)) };
        let Ok(range) = glance.range(options) else { return Ok((Self::of(source, options, false)?, None)) };
        let mut look = Look::new(&[range], &glance.bounds, grain);
        let mut bounds = Bounds::default();
        let (walk, end) = look.pass(reader(source)?, Walk::default(), &mut bounds)?;
        let first = Self::new(walk, end, bounds)?;
        let is_right = first.range(options).is_ok_and(|is| is == range)
            && first.bounds.agrees(&glance.bounds)
            && first.walk.untold == 0;
        Ok((first, is_right.then_some(look)))
    }

    pub(crate) fn new(walk: Walk, read: End, bounds: Bounds) -> Result<Self, Error> {
        if read.packets == 0 && (read.broken_at.is_some() || read.torn_at.is_some()) {
            return Err(Error::NotATrace { offset: read.broken_at.or(read.torn_at).unwrap_or(0) });
        }
        let span = bounds.span().ok_or(Error::NoTimes)?;
        Ok(Self { walk, read, bounds, span, sizes: Sizes::new(), search: None, pids: None })
    }

    pub(crate) fn of<S: Source + ?Sized>(
        source: &S,
        options: &Options,
        with_sizes: bool,
    ) -> Result<Self, Error> {
        let mut bounds = Bounds::default();
        let mut sizes = Sizes::new();
        let mut search = options.around.as_ref().map(|around| Search::new(&around.name));
        let mut processes = options.process.as_deref().map(Processes::new);
        let (walk, read) = pass(source, Walk::default(), |walk, seen| {
            let ts = bounds.take(walk, seen, parts_of(seen).as_ref());
            if with_sizes {
                sizes.take(ts, seen.bytes.len());
            }
            if let Some(search) = &mut search {
                search.take(walk, seen);
            }
            if let Some(processes) = &mut processes {
                processes.arrive(seen);
            }
            Ok(())
        })?;
        let first = Self::new(walk, read, bounds)?;
        let pids = processes.map(|processes| processes.pids);
        if let (Some(name), true) = (&options.process, pids.as_ref().is_some_and(BTreeSet::is_empty)) {
            return Err(Error::NoProcess { name: name.clone() });
        }
        Ok(Self { sizes, search, pids, ..first })
    }

    pub(crate) fn range(&self, options: &Options) -> Result<Range, Error> {
        let in_trace = |moment: Option<Moment>| moment.map(|moment| moment.in_trace(self.span.0));
        let mut range = Range {
            from: in_trace(options.from).unwrap_or(i64::MIN),
            to: in_trace(options.to).unwrap_or(i64::MAX),
        };
        if let Some(Around { name, margin_ns }) = &options.around {
            let found = self.search.as_ref().and_then(Search::found);
            let (begin, end) = found.ok_or_else(|| Error::NoSlice { name: name.clone() })?;
            range.from = begin.saturating_sub(*margin_ns);
            range.to = end.map_or(i64::MAX, |end| end.saturating_add(*margin_ns).saturating_add(1));
        }
        if range.from > range.to {
            return Err(Error::Backwards { from: range.from, to: range.to });
        }
        Ok(range)
    }

    /// The pass that looks.
    pub(crate) fn look<S: Source + ?Sized>(
        &mut self,
        source: &S,
        ranges: &[Range],
        grain: Grain,
    ) -> Result<Look, Error> {
        let mut look = Look::new(ranges, &self.bounds, grain);
        let walk = std::mem::take(&mut self.walk).again();
        (self.walk, _) = look.pass(reader(source)?, walk, &mut Bounds::default())?;
        Ok(look)
    }
}
