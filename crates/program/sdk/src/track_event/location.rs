//! Places in source code, and stacks of them.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::track_event::numbers::numbers;

/// A place in source code. Made by [`here!`](crate::here!), and kept in a `static`: the trace says each once.
#[derive(Debug)]
pub struct Location {
    pub(crate) file: &'static str,
    pub(crate) function: &'static str,
    pub(crate) line: u32,
    number: AtomicU16,
}

impl Location {
    /// A place. `function` may be a module's path, which is what Rust tells at compile time, or empty.
    pub const fn new(file: &'static str, function: &'static str, line: u32) -> Self {
        Self { file, function, line, number: AtomicU16::new(0) }
    }

    /// Its number; 0 if there are none left.
    pub(crate) fn number(&'static self) -> u16 {
        match self.number.load(Ordering::Relaxed) {
            0 => {
                let mut numbers = numbers();
                // Only whoever holds the lock stores.
                let known = self.number.load(Ordering::Relaxed);
                let number = if known == 0 { numbers.location() } else { known };
                self.number.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }
}

/// The functions that led to an event, the outermost first.
///
/// ```
/// use ferretto::{Callstack, Frame};
///
/// let stack = Callstack::new([Frame::new("main"), Frame::new("serve").at("src/serve.rs", 17)]);
/// ferretto::instant!("net", "slow", callstack: &stack);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Callstack {
    pub(crate) frames: Vec<Frame>,
}

/// A function of a [`Callstack`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: u32,
}

/// Deeper stacks lose their outermost frames: a runaway recursion is not to fill the trace.
const MAX_FRAMES: usize = 256;

impl Callstack {
    /// A stack of these frames, the outermost first. Of more than 256 the innermost stay.
    pub fn new(frames: impl IntoIterator<Item = Frame>) -> Self {
        let mut frames: Vec<Frame> = frames.into_iter().collect();
        frames.drain(..frames.len().saturating_sub(MAX_FRAMES));
        Self { frames }
    }
}

impl Frame {
    /// A call of this function.
    pub fn new(function: impl Into<String>) -> Self {
        Self { function: function.into(), file: None, line: 0 }
    }

    /// With its place in the source.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line: u32) -> Self {
        self.file = Some(file.into());
        self.line = line;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_keeps_its_number() {
        static ONE: Location = Location::new("one.rs", "", 1);
        static OTHER: Location = Location::new("other.rs", "f", 2);
        assert_ne!(ONE.number(), 0);
        assert_eq!(ONE.number(), ONE.number());
        assert_ne!(ONE.number(), OTHER.number());
    }

    #[test]
    fn of_a_deep_stack_the_innermost_frames_stay() {
        let stack = Callstack::new((0..1000).map(|depth| Frame::new(depth.to_string())));
        assert_eq!(stack.frames.len(), MAX_FRAMES);
        assert_eq!(stack.frames.last().map(|frame| frame.function.as_str()), Some("999"));
    }
}
