//! Makes a script that shows a difference as small as it gets.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// An operation of a script.
pub(crate) trait Operation: Clone + Display {
    /// The same, a little simpler, in several ways, the boldest first. It must be simpler by a measure that ends.
    fn simpler(&self) -> Vec<Self>;

    /// Leaves out what may not stand where it stands.
    fn repaired(script: Vec<Self>) -> Vec<Self>;

    /// May upstream die of it, for a reason that is known?
    fn is_dangerous(&self) -> bool {
        false
    }
}

/// Tries no more than this many scripts.
const MAX_TRIES: usize = 20_000;

/// Nor longer than this: a script that does not end takes long to fail.
const MAX_TIME: Duration = Duration::from_secs(300);

/// The script as text, an operation a line.
pub(crate) fn to_text(script: &[impl Operation]) -> String {
    script.iter().map(|operation| format!("{operation}\n")).collect()
}

/// Gives a script for which `fails` still holds, and no longer if any one operation is left out or made simpler (or
/// after [`MAX_TRIES`] or [`MAX_TIME`]).
pub(crate) fn shrink<O: Operation>(script: Vec<O>, fails: impl FnMut(&[O]) -> bool) -> Vec<O> {
    let mut shrinker = Shrinker { script, fails, tries: 0, started: Instant::now() };
    while shrinker.leave_out() | shrinker.simplify() {}
    shrinker.script
}

struct Shrinker<O, F> {
    script: Vec<O>,
    fails: F,
    tries: usize,
    started: Instant,
}

impl<O: Operation, F: FnMut(&[O]) -> bool> Shrinker<O, F> {
    fn keep_if_it_fails(&mut self, candidate: Vec<O>) -> bool {
        self.tries += 1;
        let candidate = O::repaired(candidate);
        let may_try = self.tries <= MAX_TRIES && self.started.elapsed() < MAX_TIME;
        let fails = may_try && (self.fails)(&candidate);
        if fails {
            self.script = candidate;
        }
        fails
    }

    /// Leaves out runs of operations, long ones first. Was any left out?
    fn leave_out(&mut self) -> bool {
        let before = self.script.len();
        let mut run = before.div_ceil(2);
        while run > 0 {
            let mut start = 0;
            while start < self.script.len() {
                let end = (start + run).min(self.script.len());
                let candidate = [&self.script[..start], &self.script[end..]].concat();
                if !self.keep_if_it_fails(candidate) {
                    start += run;
                }
            }
            run /= 2;
        }
        self.script.len() < before
    }

    /// Makes each operation as simple as it gets. Was any made simpler?
    fn simplify(&mut self) -> bool {
        let mut any = false;
        let mut index = 0;
        while index < self.script.len() {
            let candidates = self.script[index].simpler();
            let found = candidates.into_iter().any(|operation| {
                let mut candidate = self.script.clone();
                candidate[index] = operation;
                self.keep_if_it_fails(candidate)
            });
            any |= found;
            index += usize::from(!found);
        }
        any
    }
}

/// Simpler numbers: none, half, one less.
pub(crate) fn simpler_numbers(number: u64, least: u64) -> Vec<u64> {
    let mut simpler = vec![least, least + number.saturating_sub(least) / 2, number.saturating_sub(1)];
    simpler.retain(|&candidate| candidate >= least && candidate < number);
    simpler.dedup();
    simpler
}

/// Shorter bytes: each run left out, long runs first.
pub(crate) fn shorter_bytes(bytes: &[u8]) -> Vec<Vec<u8>> {
    /// Not every byte of a long payload: that would be too many tries.
    const MAX_RUNS: usize = 16;
    let mut shorter = Vec::new();
    let mut run = bytes.len();
    while run > 0 {
        if bytes.len() / run <= MAX_RUNS {
            for start in (0..bytes.len()).step_by(run) {
                let end = (start + run).min(bytes.len());
                shorter.push([&bytes[..start], &bytes[end..]].concat());
            }
        }
        run /= 2;
    }
    if let Some((_, shorter_by_one)) = bytes.split_last() {
        shorter.push(shorter_by_one.to_vec());
    }
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Number(u64);

    impl Display for Number {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(formatter)
        }
    }

    impl Operation for Number {
        fn simpler(&self) -> Vec<Self> {
            simpler_numbers(self.0, 0).into_iter().map(Number).collect()
        }

        fn repaired(script: Vec<Self>) -> Vec<Self> {
            script
        }
    }

    #[test]
    fn what_does_not_matter_goes() {
        let script: Vec<Number> = (0..100).map(Number).collect();
        let fails =
            |script: &[Number]| script.contains(&Number(3)) && script.iter().any(|number| number.0 >= 37);
        assert_eq!(shrink(script, fails), [Number(3), Number(37)]);
    }

    #[test]
    fn shrinking_what_always_fails_leaves_nothing() {
        assert_eq!(shrink((0..100).map(Number).collect(), |_| true), []);
    }
}
