//! Tracks that one set of events is spread over, so that what overlaps does not lie on one track (upstream: track_compressor.cc).
//!
//! A set holds tracks that are made on demand. What begins says a *cookie*: it gets the track that the cookie had last, or else the first idle
//! one, which is that cookie's from then on, or else a new one. What is over at a known time gets the first track that is free by then.
//!
//! Memory: a few tens of bytes a track. Finding a track is one step in a table, and `log n` where an idle one is looked for.

use std::collections::BTreeSet;

use ferretto_trace_tables::{MachineId, Str, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// What tells sets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetKey {
    /// The type of its tracks.
    pub type_: &'static str,
    /// The machine.
    pub machine: MachineId,
    /// The thread, of tracks of one.
    pub utid: Option<Utid>,
    /// The process, of tracks of one.
    pub upid: Option<Upid>,
    /// Numbers that tell them apart.
    pub numbers: [i64; 2],
    /// Texts that tell them apart.
    pub texts: [Option<Str>; 2],
}

/// A set; its number is the `track_group_id` of its tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetId(pub u32);

/// Whether what begins twice must end twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// It must.
    Counted,
    /// The first end ends it: the kernel's old asynchronous slices of programs.
    Saturating,
}

/// All sets.
#[derive(Debug, Default)]
pub struct TrackSets {
    by_key: HashMap<SetKey, SetId, RandomState>,
    sets: Vec<TrackSet>,
}

#[derive(Debug, Default)]
struct TrackSet {
    lanes: Vec<Lane>,
    by_cookie: HashMap<i64, u32, RandomState>,
    /// Lanes by cookie on which nothing is open.
    idle: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    use_: Use,
    row: Option<TrackId>,
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Cookie { cookie: i64, open: u32 },
    Until(i64),
}

/// A track of a set: its place there, and its row if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The set.
    pub set: SetId,
    /// As the how manyth of the set it was made.
    pub index: u32,
    /// Its row.
    pub row: Option<TrackId>,
}

impl TrackSets {
    /// The set of this key, old or new.
    pub fn get(&mut self, key: SetKey) -> SetId {
        *self.by_key.entry(key).or_insert_with(|| {
            self.sets.push(TrackSet::default());
            SetId(u32::try_from(self.sets.len() - 1).unwrap_or(u32::MAX))
        })
    }

    /// Where something begins.
    pub fn begin(&mut self, set: SetId, cookie: i64, nesting: Nesting) -> Option<Place> {
        let tracks = self.sets.get_mut(set.0 as usize)?;
        let index = tracks.lane_of(cookie);
        let lane = tracks.lanes.get_mut(index as usize)?;
        if let Use::Cookie { open, .. } = &mut lane.use_ {
            *open = match nesting {
                Nesting::Counted => open.saturating_add(1),
                Nesting::Saturating => 1,
            };
        }
        tracks.idle.remove(&index);
        Some(Place { set, index, row: lane.row })
    }

    /// Where something ends, whether or not it has begun.
    pub fn end(&mut self, set: SetId, cookie: i64) -> Option<Place> {
        let tracks = self.sets.get_mut(set.0 as usize)?;
        let index = tracks.lane_of(cookie);
        let lane = tracks.lanes.get_mut(index as usize)?;
        if let Use::Cookie { open, .. } = &mut lane.use_ {
            *open = open.saturating_sub(1);
            if *open == 0 {
                tracks.idle.insert(index);
            }
        }
        Some(Place { set, index, row: lane.row })
    }

    /// Where something happens at once.
    pub fn instant(&mut self, set: SetId, cookie: i64) -> Option<Place> {
        self.begin(set, cookie, Nesting::Counted)?;
        self.end(set, cookie)
    }

    /// Where something of a known length goes. Looks at all tracks of the set, one after the other, as upstream does.
    pub fn scoped(&mut self, set: SetId, ts: i64, dur: i64) -> Option<Place> {
        let lanes = &mut self.sets.get_mut(set.0 as usize)?.lanes;
        let until = Use::Until(ts.saturating_add(dur));
        let is_free = |lane: &Lane| matches!(lane.use_, Use::Until(end) if end <= ts);
        let index = match lanes.iter().position(is_free) {
            Some(index) => index,
            None => {
                lanes.push(Lane { use_: until, row: None });
                lanes.len() - 1
            }
        };
        let lane = lanes.get_mut(index)?;
        lane.use_ = until;
        Some(Place { set, index: u32::try_from(index).ok()?, row: lane.row })
    }

    /// The first track, that others may be shown below it.
    pub fn first(&mut self, set: SetId) -> Option<Place> {
        let tracks = self.sets.get_mut(set.0 as usize)?;
        if tracks.lanes.is_empty() {
            tracks.lane_of(0);
        }
        Some(Place { set, index: 0, row: tracks.lanes.first()?.row })
    }

    /// The row of a place has been made.
    pub fn set_row(&mut self, place: Place, row: TrackId) {
        let lanes = self.sets.get_mut(place.set.0 as usize).map(|set| &mut set.lanes);
        if let Some(lane) = lanes.and_then(|lanes| lanes.get_mut(place.index as usize)) {
            lane.row = Some(row);
        }
    }
}

impl TrackSet {
    fn lane_of(&mut self, cookie: i64) -> u32 {
        if let Some(index) = self.by_cookie.get(&cookie) {
            return *index;
        }
        let use_ = Use::Cookie { cookie, open: 0 };
        let idle = self.idle.first().copied();
        let index = match idle.and_then(|index| Some((index, self.lanes.get_mut(index as usize)?))) {
            Some((index, lane)) => {
                if let Use::Cookie { cookie: before, .. } = std::mem::replace(&mut lane.use_, use_) {
                    self.by_cookie.remove(&before);
                }
                index
            }
            None => {
                self.lanes.push(Lane { use_, row: None });
                let index = u32::try_from(self.lanes.len() - 1).unwrap_or(u32::MAX);
                self.idle.insert(index);
                index
            }
        };
        self.by_cookie.insert(cookie, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> SetKey {
        SetKey {
            type_: "t",
            machine: MachineId(0),
            utid: None,
            upid: None,
            numbers: [0; 2],
            texts: [None; 2],
        }
    }

    /// The same, looked for from the first lane on.
    #[derive(Default)]
    struct Plain(Vec<(i64, u32)>);

    impl Plain {
        fn lane_of(&mut self, cookie: i64) -> usize {
            let found = self.0.iter().position(|lane| lane.0 == cookie);
            let found = found.or_else(|| self.0.iter().position(|lane| lane.1 == 0));
            let index = found.unwrap_or(self.0.len());
            if index == self.0.len() {
                self.0.push((cookie, 0));
            }
            self.0[index].0 = cookie;
            index
        }
    }

    proptest! {
        #[test]
        fn lanes_are_those_of_a_search_from_the_first_on(
            script in proptest::collection::vec((0i64..6, 0u8..3), 0..60),
        ) {
            let mut sets = TrackSets::default();
            let set = sets.get(key());
            let mut plain = Plain::default();
            for (cookie, what) in script {
                let index = plain.lane_of(cookie);
                let open = &mut plain.0[index].1;
                let place = match what {
                    0 => {
                        *open += 1;
                        sets.begin(set, cookie, Nesting::Counted)
                    }
                    1 => {
                        *open = 1;
                        sets.begin(set, cookie, Nesting::Saturating)
                    }
                    _ => {
                        *open = open.saturating_sub(1);
                        sets.end(set, cookie)
                    }
                };
                prop_assert_eq!(place.unwrap().index as usize, index);
            }
        }
    }

    #[test]
    fn what_overlaps_in_time_gets_tracks_of_its_own() {
        let mut sets = TrackSets::default();
        let set = sets.get(key());
        let lanes = [(0, 10), (5, 10), (10, 1), (20, 1)]
            .map(|(ts, dur)| sets.scoped(set, ts, dur).map(|place| place.index));
        assert_eq!(lanes, [Some(0), Some(1), Some(0), Some(0)]);
    }
}
