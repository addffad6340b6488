//! A queue of events that wait for their turn.
//!
//! What arrived lately stands as it is; when it is a block's worth it is sorted and packed, as columns are. Blocks overlap in time no more than
//! what arrived is out of order, so that while events have their turns few blocks are unpacked at once:
//!
//! ```text
//! block 0   ├──────────┤
//! block 1           ├────────────┤         at this time ▲ blocks 1 and 2 are unpacked,
//! block 2                    ├─────────┤                  0 is gone and 3 is still packed
//! block 3                       ▲        ├──────────┤
//! ```
//!
//! Events that lie in what they came in, in their order, are a block as they are (`Runs`): they are read when the first of them has its turn.
//!
//! Memory: some eight bytes an event, none of one that lies in what it came in, and the blocks that are unpacked. Worst, where every block reaches over all of the trace, that is all of
//! them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::sync::Arc;

use ferretto_trace_tables::Cell;
use ferretto_trace_tables::helper::{Helper, Later};
use ferretto_trace_tables::packed::Packed;
use ferretto_trace_tables::store::{Kept, Store};

/// Events of a block: as many as can be sorted in a processor's cache.
const BLOCK_EVENTS: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 13;
/// Fewer are not worth packing.
const MIN_PACKED: usize = 256;
/// Of events that lie in what they came in, as many as are read at once: what they are then stays in a processor's cache, of some queues.
const RUNS_EVENTS: usize = 2048;

/// What may wait.
pub(crate) trait Waits: Sized {
    /// Its columns; nothing if it is not packed.
    fn pack(_: InTurn<'_, Self>) -> Option<Vec<Packed>> {
        None
    }

    /// As many events as there are times, out of such columns.
    fn unpack(_: &[i64], _: &[Packed]) -> Vec<(i64, Self)> {
        Vec::new()
    }

    /// Lets the helper sort and pack; gives the events back if they are not packed.
    fn pack_later(block: ToPack<Self>, _: &dyn Helper) -> Result<Later<Vec<Kept>>, ToPack<Self>> {
        Err(block)
    }

    /// Lets the helper unpack so many; gives the columns back if it does not.
    fn unpack_later(block: ToUnpack, _: &dyn Helper) -> Result<Later<Vec<(i64, Self)>>, ToUnpack> {
        Err(block)
    }

    /// What the helper has unpacked.
    fn unpacked(_: Later<Vec<(i64, Self)>>) -> Vec<(i64, Self)> {
        Vec::new()
    }

    /// Lets the helper take events out of what they came in; gives that back if it does not.
    fn read_later(runs: Runs<Self>, _: &dyn Helper) -> Result<Later<Vec<(i64, Self)>>, Runs<Self>> {
        Err(runs)
    }
}

/// Events in the order of time that lie in what they came in: that is as small as they can be packed, and costs nothing.
pub(crate) trait Run<T>: fmt::Debug + Send {
    /// How many they are.
    fn len(&self) -> usize;

    /// Whether what they came in is in memory.
    fn is_here(&self) -> bool {
        true
    }

    /// Takes them out.
    fn read(&self, to: &mut Vec<(i64, T)>);
}

/// Runs one after the other, also in time.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    runs: Vec<Box<dyn Run<T>>>,
    events: usize,
    last_ts: i64,
}

impl<T> Runs<T> {
    fn of(last_ts: i64, run: Box<dyn Run<T>>) -> Self {
        Self { events: run.len(), runs: vec![run], last_ts }
    }

    /// Whether one that begins then has room behind them.
    fn have_room(&self, first_ts: i64) -> bool {
        self.last_ts <= first_ts && self.events < RUNS_EVENTS
    }

    fn push(&mut self, last_ts: i64, run: Box<dyn Run<T>>) {
        self.events += run.len();
        self.last_ts = last_ts;
        self.runs.push(run);
    }

    pub(crate) fn read(&self) -> Vec<(i64, T)> {
        let mut events = Vec::with_capacity(self.events);
        self.runs.iter().for_each(|run| run.read(&mut events));
        events
    }
}

/// What becomes a packed block.
pub(crate) struct ToPack<T> {
    events: Vec<(i64, T)>,
    is_disordered: bool,
    store: Option<Arc<dyn Store>>,
}

impl<T: Waits> ToPack<T> {
    /// Its columns: times, and what events are. None if they are not packed; then they stand in their order.
    pub(crate) fn packed(&mut self) -> Vec<Kept> {
        let turns = self.is_disordered.then(|| turns(&self.events));
        let in_turn = InTurn { events: &self.events, turns: turns.as_deref() };
        let columns = if self.events.len() < MIN_PACKED { None } else { T::pack(in_turn) };
        let Some(columns) = columns else {
            if let Some(turns) = turns {
                take_turns(&mut self.events, &turns);
            }
            return Vec::new();
        };
        let times = in_turn.column(|(ts, _)| *ts);
        let columns = [times].into_iter().chain(columns);
        columns.map(|column| Kept::new(column, self.store.as_ref())).collect()
    }
}

/// The events of a block by time.
#[derive(Debug)]
pub(crate) struct InTurn<'a, T> {
    events: &'a [(i64, T)],
    /// Which it is of the events, where that is not their order.
    turns: Option<&'a [u32]>,
}

impl<T> Clone for InTurn<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for InTurn<'_, T> {}

impl<T> InTurn<'_, T> {
    /// A column of them.
    #[inline(always)]
    pub(crate) fn column<C: Cell>(self, get: impl Fn(&(i64, T)) -> C + Copy) -> Packed {
        let Some(turns) = self.turns else { return Packed::quickly(self.events, get) };
        Packed::quickly(turns, |at| self.events.get(*at as usize).map_or(C::from_bits(None), get))
    }
}

/// A packed block.
pub(crate) struct ToUnpack {
    count: usize,
    columns: Vec<Kept>,
    store: Option<Arc<dyn Store>>,
}

impl ToUnpack {
    pub(crate) fn unpacked<T: Waits>(self) -> Vec<(i64, T)> {
        let store = self.store.as_ref();
        let columns: Vec<Packed> =
            self.columns.into_iter().map(|column| column.read(store).into_owned()).collect();
        let times = cells(columns.first(), self.count);
        T::unpack(&times, columns.get(1..).unwrap_or_default())
    }
}

/// Says how a small event is packed: by its fields, where they are cells, or by what is made of them.
macro_rules! waits {
    ($event:ident { $($field:ident: $cell:ty),* $(,)? }) => {
        $crate::order::queue::waits! {
            $event { $($field: $cell = |it| it.$field),* } => Self { $($field),* }
        }
    };
    ($event:ident { $($field:ident: $cell:ty = $get:expr),* $(,)? } => $new:expr) => {
        impl $crate::order::queue::Waits for $event {
            fn pack(
                events: $crate::order::queue::InTurn<'_, Self>,
            ) -> Option<Vec<ferretto_trace_tables::packed::Packed>> {
                Some(vec![$(
                    events.column(|(_, event)| $crate::order::queue::cell_of::<Self, $cell>(event, $get))
                ),*])
            }

            fn unpack(times: &[i64], columns: &[ferretto_trace_tables::packed::Packed]) -> Vec<(i64, Self)> {
                use ferretto_trace_tables::Cell as _;
                let mut columns = columns.iter();
                $( let $field = $crate::order::queue::cells::<$cell>(columns.next(), times.len()); )*
                let event = |(at, ts): (usize, &i64)| {
                    $( let $field: $cell = $field.get(at).copied().unwrap_or(<$cell>::from_bits(None)); )*
                    (*ts, $new)
                };
                times.iter().enumerate().map(event).collect()
            }

            fn pack_later(
                mut block: $crate::order::queue::ToPack<Self>,
                helper: &dyn ferretto_trace_tables::Helper,
            ) -> Result<
                ferretto_trace_tables::helper::Later<Vec<ferretto_trace_tables::store::Kept>>,
                $crate::order::queue::ToPack<Self>,
            > {
                Ok(ferretto_trace_tables::helper::Later::new(helper, move || block.packed()))
            }

            fn unpack_later(
                block: $crate::order::queue::ToUnpack,
                helper: &dyn ferretto_trace_tables::Helper,
            ) -> Result<
                ferretto_trace_tables::helper::Later<Vec<(i64, Self)>>,
                $crate::order::queue::ToUnpack,
            > {
                Ok(ferretto_trace_tables::helper::Later::new(helper, move || block.unpacked()))
            }

            fn unpacked(block: ferretto_trace_tables::helper::Later<Vec<(i64, Self)>>) -> Vec<(i64, Self)> {
                block.take()
            }

            fn read_later(
                runs: $crate::order::queue::Runs<Self>,
                helper: &dyn ferretto_trace_tables::Helper,
            ) -> Result<
                ferretto_trace_tables::helper::Later<Vec<(i64, Self)>>,
                $crate::order::queue::Runs<Self>,
            > {
                Ok(ferretto_trace_tables::helper::Later::new(helper, move || runs.read()))
            }
        }
    };
}
pub(crate) use waits;

/// What an event has in a column.
#[inline(always)]
pub(crate) fn cell_of<T, C>(event: &T, get: impl Fn(&T) -> C) -> C {
    get(event)
}

/// The first rows of a column.
pub(crate) fn cells<C: Cell>(column: Option<&Packed>, rows: usize) -> Vec<C> {
    let mut cells = Vec::with_capacity(rows);
    if let Some(column) = column {
        column.unpack(rows, &mut cells);
    }
    cells
}

/// Events that wait.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// In the order in which they arrived.
    blocks: Vec<Block<T>>,
    /// What arrived last.
    open: Vec<(i64, T)>,
    is_disordered: bool,
    /// The number of the next block.
    next: usize,
    /// Blocks of lower numbers came before the last reading of the buffers.
    settled: usize,
    store: Option<Arc<dyn Store>>,
    /// Who packs and unpacks.
    helper: Option<Arc<dyn Helper>>,
}

#[derive(Debug)]
struct Block<T> {
    number: usize,
    first_ts: i64,
    events: Events<T>,
}

#[derive(Debug)]
enum Events<T> {
    Plain(std::vec::IntoIter<(i64, T)>),
    /// In what they came in.
    Within(Runs<T>),
    /// So many, as columns: their times, and what they are.
    Packed(usize, Vec<Kept>),
    /// The same, perhaps not packed yet.
    Packing(usize, Later<Vec<Kept>>),
    /// So many whose turn is near.
    Unpacking(usize, Later<Vec<(i64, T)>>),
}

impl<T: Waits> Waiting<T> {
    pub(crate) fn of(ts: i64, event: T) -> Self {
        Self { open: vec![(ts, event)], ..Self::empty() }
    }

    /// Of a queue that begins with a run.
    pub(crate) fn of_run(times: (i64, i64), run: Box<dyn Run<T>>) -> Self {
        let mut waiting = Self::empty();
        waiting.push_run(times, run);
        waiting
    }

    fn empty() -> Self {
        Self {
            blocks: Vec::new(),
            open: Vec::new(),
            is_disordered: false,
            next: 0,
            settled: 0,
            store: None,
            helper: None,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, ts: i64, event: T) {
        if self.open.len() >= BLOCK_EVENTS {
            self.seal();
        }
        self.is_disordered |= self.open.last().is_some_and(|(last, _)| *last > ts);
        self.open.push((ts, event));
    }

    /// Adds events between these times.
    pub(crate) fn push_run(&mut self, (first_ts, last_ts): (i64, i64), run: Box<dyn Run<T>>) {
        self.seal();
        if let Some(Block { number, events: Events::Within(runs), .. }) = self.blocks.last_mut()
            && *number >= self.settled
            && runs.have_room(first_ts)
        {
            return runs.push(last_ts, run);
        }
        self.add_block(first_ts, Events::Within(Runs::of(last_ts, run)));
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.blocks.iter().map(|block| block.events.len()).sum::<usize>()
    }

    /// All that has arrived came before this reading of the buffers.
    pub(crate) fn settle(&mut self) {
        self.seal();
        self.settled = self.next;
    }

    /// Blocks lie in the store from now on.
    pub(crate) fn move_to(&mut self, store: &Arc<dyn Store>) {
        if self.store.is_some() {
            return;
        }
        for block in &mut self.blocks {
            block.events.settle();
            block.events.leave_runs(store);
            if let Events::Packed(_, columns) = &mut block.events {
                columns.iter_mut().for_each(|column| column.move_to(store));
            }
        }
        self.store = Some(store.clone());
    }

    /// Somebody packs and unpacks from now on.
    pub(crate) fn set_helper(&mut self, helper: &Arc<dyn Helper>) {
        if self.helper.is_none() {
            self.helper = Some(helper.clone());
        }
    }

    pub(crate) fn sorted(mut self) -> InOrder<T> {
        self.seal();
        let (settled, rest): (Vec<_>, Vec<_>) =
            self.blocks.into_iter().partition(|block| block.number < self.settled);
        let first_of_rest = rest.iter().map(|block| block.first_ts).min();
        let packed: BinaryHeap<_> = settled.into_iter().map(Turn::of).collect();
        let other = packed.peek().map(|block: &Turn<_>| block.turn.0);
        InOrder {
            packed,
            opened: BinaryHeap::new(),
            current: None,
            other,
            rest,
            first_of_rest,
            next: self.next,
            store: self.store,
            helper: self.helper,
            is_ahead: false,
        }
    }

    #[cold]
    #[inline(never)]
    fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let first_ts = self.open.iter().map(|(ts, _)| *ts).min().unwrap_or(i64::MIN);
        let count = self.open.len();
        let block = ToPack {
            events: std::mem::take(&mut self.open),
            is_disordered: std::mem::take(&mut self.is_disordered),
            store: self.store.clone(),
        };
        let block = match &self.helper {
            Some(helper) if count >= MIN_PACKED => T::pack_later(block, &**helper),
            _ => Err(block),
        };
        let events = match block {
            Ok(later) => {
                self.open = Vec::with_capacity(count);
                Events::Packing(count, later)
            }
            Err(mut block) => match block.packed() {
                columns if columns.is_empty() => Events::Plain(block.events.into_iter()),
                columns => {
                    self.open = block.events;
                    self.open.clear();
                    Events::Packed(count, columns)
                }
            },
        };
        self.add_block(first_ts, events);
    }

    fn add_block(&mut self, first_ts: i64, events: Events<T>) {
        // It is surely packed by now.
        if let Some(last) = self.blocks.last_mut() {
            last.events.settle();
        }
        self.blocks.push(Block { number: self.next, first_ts, events });
        self.next += 1;
    }
}

/// Which event comes first, second and so on: by time; what arrived first stays first.
fn turns<T>(events: &[(i64, T)]) -> Vec<u32> {
    let times = || events.iter().map(|(ts, _)| *ts);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let range = last.wrapping_sub(first) as u64;
    // A block has no more.
    let places = 0..events.len() as u32;
    if range >= 1 << (u64::BITS - BLOCK_BITS) {
        let mut places: Vec<u32> = places.collect();
        places.sort_by_key(|at| events.get(*at as usize).map(|(ts, _)| *ts));
        return places;
    }
    // Numbers are sorted several times as fast as events.
    let key = |(at, ts): (u32, i64)| (ts.wrapping_sub(first) as u64) << BLOCK_BITS | u64::from(at);
    let mut keys: Vec<u64> = places.zip(times()).map(key).collect();
    let bits = u64::BITS - range.leading_zeros();
    match keys.len() >= RADIX && bits <= MAX_DIGITS * RADIX_BITS {
        true => sort_by_digits(&mut keys, bits),
        false => keys.sort_unstable(),
    }
    keys.into_iter().map(|key| (key & (BLOCK_EVENTS as u64 - 1)) as u32).collect()
}

/// Puts events into the order of their turns.
fn take_turns<T>(events: &mut Vec<(i64, T)>, turns: &[u32]) {
    let mut unsorted: Vec<Option<(i64, T)>> = events.drain(..).map(Some).collect();
    events.extend(turns.iter().filter_map(|at| unsorted.get_mut(*at as usize)?.take()));
}

/// Bits of a digit: as many counters as stay in a processor's first cache.
const RADIX_BITS: u32 = 11;
const RADIX: usize = 1 << RADIX_BITS;
/// More of them take as long as comparing.
const MAX_DIGITS: u32 = 3;

/// Sorts keys that stand in the order of their lower `BLOCK_BITS`, by so many bits above those.
fn sort_by_digits(keys: &mut Vec<u64>, bits: u32) {
    let mut sorted = vec![0; keys.len()];
    for place in 0..bits.div_ceil(RADIX_BITS) {
        let digit = |key: u64| (key >> (BLOCK_BITS + place * RADIX_BITS)) as usize % RADIX;
        let mut ends = [0u32; RADIX];
        keys.iter().for_each(|key| ends[digit(*key)] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        for key in &*keys {
            let end = &mut ends[digit(*key)];
            if let Some(to) = sorted.get_mut(*end as usize) {
                *to = *key;
            }
            *end += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

impl<T: Waits> Events<T> {
    fn len(&self) -> usize {
        match self {
            Self::Plain(events) => events.len(),
            Self::Within(runs) => runs.events,
            Self::Packed(count, _) | Self::Packing(count, _) | Self::Unpacking(count, _) => *count,
        }
    }

    /// What was to be packed is.
    fn settle(&mut self) {
        if let Self::Packing(count, later) = self {
            // In memory of this thread.
            *self = Self::Packed(*count, later.get().clone());
        }
    }

    /// What lies in what it came in is packed, so that this may go.
    fn leave_runs(&mut self, store: &Arc<dyn Store>) {
        let Self::Within(runs) = self else { return };
        if !runs.runs.iter().any(|run| run.is_here()) {
            return;
        }
        let mut block = ToPack { events: runs.read(), is_disordered: false, store: Some(store.clone()) };
        let columns = block.packed();
        *self = match columns.is_empty() {
            true => Self::Plain(block.events.into_iter()),
            false => Self::Packed(block.events.len(), columns),
        };
    }

    /// Lets the helper unpack it, if it is packed.
    fn unpack_later(&mut self, store: Option<&Arc<dyn Store>>, helper: &dyn Helper) {
        self.settle();
        if let Self::Within(runs) = self {
            let runs = std::mem::replace(runs, Runs { runs: Vec::new(), events: 0, last_ts: 0 });
            let events = runs.events;
            *self = match T::read_later(runs, helper) {
                Ok(later) => Self::Unpacking(events, later),
                Err(runs) => Self::Within(runs),
            };
            return;
        }
        let Self::Packed(count, columns) = self else { return };
        let count = *count;
        let block = ToUnpack { count, columns: std::mem::take(columns), store: store.cloned() };
        *self = match T::unpack_later(block, helper) {
            Ok(later) => Self::Unpacking(count, later),
            Err(block) => Self::Packed(count, block.columns),
        };
    }

    fn unpacked(mut self, store: Option<&Arc<dyn Store>>) -> std::vec::IntoIter<(i64, T)> {
        self.settle();
        match self {
            Self::Plain(events) => events,
            Self::Within(runs) => runs.read().into_iter(),
            Self::Packed(count, columns) => {
                ToUnpack { count, columns, store: store.cloned() }.unpacked().into_iter()
            }
            Self::Unpacking(_, later) => T::unpacked(later).into_iter(),
            Self::Packing(..) => Vec::new().into_iter(),
        }
    }
}

/// A block, by when and by which it is its turn.
#[derive(Debug)]
struct Turn<B> {
    turn: Reverse<(i64, usize)>,
    events: B,
}

impl<T> Turn<Events<T>> {
    fn of(block: Block<T>) -> Self {
        Self { turn: Reverse((block.first_ts, block.number)), events: block.events }
    }
}

impl<B> PartialEq for Turn<B> {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl<B> Eq for Turn<B> {}

impl<B> PartialOrd for Turn<B> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<B> Ord for Turn<B> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.turn.cmp(&other.turn)
    }
}

/// The events of a queue while turns are taken.
pub(crate) struct InOrder<T> {
    /// Blocks whose first event has not had its turn.
    packed: BinaryHeap<Turn<Events<T>>>,
    /// Others that are not over.
    opened: BinaryHeap<Opened<T>>,
    /// The one whose turn it is, or was last.
    current: Option<Opened<T>>,
    /// Whose turn it is of the others.
    other: Option<(i64, usize)>,
    /// What came later, and its earliest time.
    rest: Vec<Block<T>>,
    first_of_rest: Option<i64>,
    next: usize,
    store: Option<Arc<dyn Store>>,
    helper: Option<Arc<dyn Helper>>,
    /// The next block is unpacked before its turn.
    is_ahead: bool,
}

type Opened<T> = Turn<std::vec::IntoIter<(i64, T)>>;

impl<T: Waits> InOrder<T> {
    #[inline]
    pub(crate) fn next_ts(&self) -> Option<i64> {
        let current = self.current.as_ref().map(|block| block.turn.0.0);
        let other = self.other.map(|(ts, _)| ts);
        current.into_iter().chain(other).chain(self.first_of_rest).min()
    }

    /// Takes those up to this time, unless one that came later is before them; says when the next one is, or nothing if none was taken.
    #[inline(always)]
    pub(crate) fn drain_until(&mut self, until: i64, mut each: impl FnMut(i64, T)) -> Option<Option<i64>> {
        let until = until.min(self.first_of_rest.unwrap_or(i64::MAX));
        let mut are_any = false;
        loop {
            let other = self.other.unwrap_or((i64::MAX, usize::MAX));
            if self.current.as_ref().is_none_or(|block| block.turn.0 > other) {
                self.switch();
                if self.current.is_none() {
                    return are_any.then(|| self.next_ts());
                }
                continue;
            }
            let Some(block) = &mut self.current else { return are_any.then(|| self.next_ts()) };
            let Reverse((mut ts, number)) = block.turn;
            while ts <= until && (ts, number) < other {
                let Some((_, event)) = block.events.next() else { break };
                are_any = true;
                each(ts, event);
                match block.events.as_slice().first() {
                    Some((next, _)) => ts = *next,
                    None => {
                        self.current = None;
                        break;
                    }
                }
            }
            if let Some(block) = &mut self.current {
                block.turn = Reverse((ts, number));
                // Another block may have something before that.
                if ts > until && (ts, number) < other {
                    let next = ts.min(self.first_of_rest.unwrap_or(i64::MAX));
                    return are_any.then_some(Some(next));
                }
            }
        }
    }

    /// It is another block's turn.
    #[cold]
    fn switch(&mut self) {
        self.opened.extend(self.current.take());
        while let Some(first) = self.packed.peek_mut() {
            // The heaps have the earliest at their top, as the greatest.
            if self.opened.peek().is_some_and(|opened| opened.turn > first.turn) {
                break;
            }
            let block = PeekMut::pop(first);
            let events = block.events.unpacked(self.store.as_ref());
            if !events.as_slice().is_empty() {
                self.opened.push(Turn { turn: block.turn, events });
            }
        }
        self.current = self.opened.pop();
        let opened = self.opened.peek().map(|block| block.turn.0);
        let packed = self.packed.peek().map(|block| block.turn.0);
        self.other = opened.into_iter().chain(packed).min();
        if let (true, Some(helper)) = (self.is_ahead, &self.helper)
            && let Some(mut next) = self.packed.peek_mut()
            && matches!(next.events, Events::Packed(..) | Events::Packing(..) | Events::Within(..))
        {
            next.events.unpack_later(self.store.as_ref(), &**helper);
        }
    }

    /// The helper is to unpack each block before its turn.
    pub(crate) fn go_ahead(&mut self) {
        self.is_ahead = true;
    }

    pub(crate) fn into_waiting(self) -> Waiting<T> {
        let packed = self.packed.into_iter().map(|block| (block.turn, block.events));
        let opened = self.opened.into_iter().chain(self.current);
        let opened = opened.map(|block| (block.turn, Events::Plain(block.events)));
        let block = |(Reverse((first_ts, number)), events)| Block { number, first_ts, events };
        let mut blocks: Vec<Block<T>> = packed.chain(opened).map(block).chain(self.rest).collect();
        blocks.sort_by_key(|block| block.number);
        Waiting {
            blocks,
            open: Vec::new(),
            is_disordered: false,
            next: self.next,
            settled: 0,
            store: self.store,
            helper: self.helper,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ftrace::Switch;

    /// Events that arrived at such times, each with its number; those before the last `rest` are settled.
    fn queue(times: &[i64], rest: usize) -> Waiting<Switch> {
        let mut queue: Option<Waiting<Switch>> = None;
        for (number, ts) in times.iter().enumerate() {
            if number + rest == times.len()
                && let Some(queue) = &mut queue
            {
                queue.settle();
            }
            let event = Switch { prev_state: number as i64, ..Switch::default() };
            match &mut queue {
                Some(queue) => queue.push(*ts, event),
                None => queue = Some(Waiting::of(*ts, event)),
            }
        }
        let mut queue = queue.unwrap();
        if rest == 0 {
            queue.settle();
        }
        queue
    }

    /// Takes all, a step of time after the other.
    fn drained(queue: Waiting<Switch>, step: i64) -> (Vec<(i64, i64)>, Waiting<Switch>) {
        let (mut queue, mut seen) = (queue.sorted(), Vec::new());
        while let Some(ts) = queue.next_ts() {
            let before = seen.len();
            let until = ts.saturating_add(step);
            let next = queue.drain_until(until, |ts, event| seen.push((ts, event.prev_state)));
            let Some(next) = next else { break };
            assert_eq!(next, queue.next_ts());
            assert_eq!(seen[before].0, ts);
            assert!(seen[before..].iter().all(|(ts, _)| *ts <= until));
        }
        (seen, queue.into_waiting())
    }

    fn sorted(times: &[i64]) -> Vec<(i64, i64)> {
        let mut all: Vec<(i64, i64)> = times.iter().zip(0..).map(|(ts, number)| (*ts, number)).collect();
        all.sort();
        all
    }

    #[test]
    fn blocks_that_overlap_come_out_by_time_and_as_they_arrived() {
        let events = 5 * BLOCK_EVENTS as i64 + 100;
        let orders: [fn(i64) -> i64; 5] = [
            |n| n,
            |n| -n,
            |n| n / 3 * 3 % 1000,
            // One program's events after another's.
            |n| n % (BLOCK_EVENTS as i64 * 2 + 77) * 10,
            |n| (n % 2) << 60,
        ];
        for order in orders {
            let times: Vec<i64> = (0..events).map(order).collect();
            for step in [0, 1, 500, i64::MAX] {
                let (seen, rest) = drained(queue(&times, 0), step);
                assert_eq!((seen == sorted(&times), rest.len()), (true, 0));
            }
        }
    }

    /// Switches that lie somewhere.
    #[derive(Debug)]
    struct Lying(Vec<(i64, i64)>);

    impl Run<Switch> for Lying {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn read(&self, to: &mut Vec<(i64, Switch)>) {
            to.extend(
                self.0.iter().map(|(ts, number)| (*ts, Switch { prev_state: *number, ..Switch::default() })),
            );
        }
    }

    /// The same queue, whose events lie in runs of up to so many as far as they are in order.
    fn queue_of_runs(times: &[i64], most: usize) -> Waiting<Switch> {
        let mut queue: Option<Waiting<Switch>> = None;
        let numbered: Vec<(i64, i64)> = times.iter().copied().zip(0..).collect();
        for run in numbered.chunk_by(|(a, _), (b, _)| a <= b).flat_map(|run| run.chunks(most)) {
            let times = (run[0].0, run[run.len() - 1].0);
            match &mut queue {
                // Some wait one by one between them.
                Some(queue) if run.len() % 5 == 0 => {
                    for (ts, number) in run {
                        queue.push(*ts, Switch { prev_state: *number, ..Switch::default() });
                    }
                }
                Some(queue) => queue.push_run(times, Box::new(Lying(run.to_vec()))),
                None => queue = Some(Waiting::of_run(times, Box::new(Lying(run.to_vec())))),
            }
        }
        let mut queue = queue.unwrap();
        assert_eq!(queue.len(), times.len());
        queue.settle();
        queue
    }

    #[test]
    fn events_that_lie_in_runs_come_out_as_others_do() {
        let orders: [fn(i64) -> i64; 4] = [|n| n, |n| n % 701 * 10, |n| n / 3 * 3 % 10_000, |n| -n];
        for order in orders {
            let times: Vec<i64> = (0..20_000).map(order).collect();
            for (most, step) in [(50, 0), (500, 1), (501, 3000), (5000, i64::MAX)] {
                let (seen, rest) = drained(queue_of_runs(&times, most), step);
                assert_eq!((seen == sorted(&times), rest.len()), (true, 0));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn what_came_later_holds_back_what_is_later_than_it(
            seed in any::<u64>(), rest in 1usize..BLOCK_EVENTS, step in 0i64..5000,
        ) {
            let time = |n: i64| (n as u64).wrapping_mul(seed | 1).wrapping_add(seed) as i64 >> 50;
            let times: Vec<i64> = (0..3 * BLOCK_EVENTS as i64).map(|n| n / 4 + time(n)).collect();
            let (settled, later) = times.split_at(times.len() - rest);
            let first = *later.iter().min().unwrap();
            let (mut seen, mut rest) = drained(queue(&times, rest), step);
            let expected: Vec<_> = sorted(settled).into_iter().filter(|(ts, _)| *ts <= first).collect();
            prop_assert!(seen == expected);
            rest.settle();
            seen.extend(drained(rest, step).0);
            seen.sort();
            prop_assert!(seen == sorted(&times));
        }
    }
}
