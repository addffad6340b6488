//! Stacks, each kept once for all processes.
//!
//! Processes have the same files at different addresses. A frame is known by its file and its place in there, so that a thousand children of one program
//! have the stacks of one; where the file is mapped is said of the first of them.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::library::LIBRARY;
use crate::processes::Frame;

/// What takes samples in programs that have it linked.
const CRATE: &str = "ferretto_heap_client";
/// Stacks that are told apart; samples with others have no place. A program has some thousand to some ten thousand.
const MAX_STACKS: usize = 200_000;
/// Their frames: nearly all are of several stacks.
const MAX_FRAMES: usize = 1 << 20;

/// A file's number, a place in it, and the name of code that is in no file.
type Key = (Option<u32>, u64, Option<Arc<str>>);

/// All that were met.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    frame_numbers: HashMap<Key, u32, RandomState>,
    frames: Vec<Frame>,
    numbers: HashMap<Arc<[u32]>, u32, RandomState>,
    stacks: Vec<Arc<[u32]>>,
}

impl Stacks {
    /// The number of a stack, innermost frame first; none if there is no room for more.
    pub(crate) fn number(&mut self, frames: &[Frame]) -> Option<u32> {
        let own = own_frames(frames);
        // Of a stack that ends in the library the library is what is known.
        let frames = frames.get(own..).filter(|rest| !rest.is_empty()).unwrap_or(frames);
        let numbers: Option<Vec<u32>> = frames.iter().map(|frame| self.frame(frame)).collect();
        let numbers: Arc<[u32]> = numbers?.into();
        if let Some(known) = self.numbers.get(&numbers) {
            return Some(*known);
        }
        let number =
            u32::try_from(self.stacks.len()).ok().filter(|number| (*number as usize) < MAX_STACKS)?;
        self.stacks.push(numbers.clone());
        self.numbers.insert(numbers, number);
        Some(number)
    }

    fn frame(&mut self, frame: &Frame) -> Option<u32> {
        let file = frame.mapping.as_ref().map(|mapping| mapping.file.number);
        let key = (file, frame.address, frame.made().cloned());
        if let Some(known) = self.frame_numbers.get(&key) {
            return Some(*known);
        }
        let number =
            u32::try_from(self.frames.len()).ok().filter(|number| (*number as usize) < MAX_FRAMES)?;
        self.frames.push(frame.clone());
        self.frame_numbers.insert(key, number);
        Some(number)
    }

    /// The frames of a stack, innermost first.
    pub(crate) fn frames(&self, number: u32) -> impl DoubleEndedIterator<Item = &Frame> {
        let stack = self.stacks.get(number as usize).map_or(&[][..], |stack| stack);
        stack.iter().filter_map(|frame| self.frames.get(*frame as usize))
    }
}

/// How many frames are those of what has taken the sample.
fn own_frames(frames: &[Frame]) -> usize {
    let first = frames.iter().take_while(|frame| is_of_library(frame) || is_of_core(frame));
    first.enumerate().filter(|(_, frame)| is_of_library(frame)).last().map_or(0, |(at, _)| at + 1)
}

/// A function of Rust's core: between the library's own there are some, in builds that are not optimised.
fn is_of_core(frame: &Frame) -> bool {
    frame.name().is_some_and(|name| name.contains("4core"))
}

/// What has taken the sample: the library, or the same crate within a program, whose names have it, mangled or not.
fn is_of_library(frame: &Frame) -> bool {
    let path = frame.mapping.as_ref().map_or("", |mapping| &mapping.file.path);
    path.rsplit('/').next() == Some(LIBRARY) || frame.name().is_some_and(|name| name.contains(CRATE))
}
