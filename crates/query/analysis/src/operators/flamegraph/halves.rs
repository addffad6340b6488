//! Frames that become one: from roots down, and from frames up.

use std::collections::HashMap;

use datafusion::common::Result;

use super::config::{Config, View};
use super::paths::Paths;
use super::sums::Values;
use crate::limits::Held;

/// What a node takes of memory, about.
const NODE_BYTES: usize = 128;
/// Nodes by which memory is asked for.
const STEP: usize = 1 << 14;

/// A tree of nodes, each of which is for all frames of one key below one node.
#[derive(Default)]
pub(crate) struct Tree {
    numbers: HashMap<(Option<usize>, usize), usize>,
    pub(crate) parents: Vec<Option<usize>>,
    /// The first frame of each.
    frames: Vec<usize>,
}

impl Tree {
    fn add(&mut self, parent: Option<usize>, key: usize, frame: usize, held: &Held) -> Result<usize> {
        if let Some(node) = self.numbers.get(&(parent, key)) {
            return Ok(*node);
        }
        let node = self.parents.len();
        if node.is_multiple_of(STEP) {
            held.try_grow(STEP * NODE_BYTES)?;
        }
        self.numbers.insert((parent, key), node);
        self.parents.push(parent);
        self.frames.push(frame);
        Ok(node)
    }
}

/// A way from a frame to its root.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Both trees. Nodes of the second have numbers behind those of the first.
#[derive(Default)]
pub(crate) struct Halves {
    pub(crate) down: Tree,
    pub(crate) up: Tree,
    /// The node of each frame in the first.
    pub(crate) node: Vec<Option<usize>>,
    /// Frames from which the second begins, and their ways.
    pub(crate) ways: HashMap<usize, Way>,
    /// Frames and the nodes of the second that they are part of.
    pub(crate) parts: Vec<(usize, usize)>,
}

impl Halves {
    pub(crate) fn make(
        config: &Config,
        paths: &Paths,
        keys: &[usize],
        values: &[Values],
        held: &Held,
    ) -> Result<Self> {
        let mut halves = Self::default();
        halves.go_down(config, paths, keys, held)?;
        let begins = |row: usize| match config.view {
            View::Pivot => paths.is_match(row),
            _ => false,
        };
        let mut from: Vec<bool> = (0..paths.len()).map(begins).collect();
        if config.view == View::BottomUp {
            for row in (0..paths.len()).filter(|row| paths.counts(*row)) {
                if values.iter().any(|values| values.has_some(row)) {
                    let kept = paths.kept_of(row).and_then(|row| from.get_mut(row));
                    kept.into_iter().for_each(|it| *it = true);
                }
            }
        }
        for row in from.iter().enumerate().filter(|(_, it)| **it).map(|(row, _)| row) {
            let is_part = config.view == View::BottomUp || paths.counts(row);
            halves.go_up(row, is_part, paths, keys, held)?;
        }
        Ok(halves)
    }

    fn go_down(&mut self, config: &Config, paths: &Paths, keys: &[usize], held: &Held) -> Result<()> {
        if config.view == View::BottomUp {
            self.node = vec![None; paths.len()];
            return Ok(());
        }
        for (row, key) in keys.iter().enumerate() {
            let above = paths.parents.get(row).copied().flatten();
            let above_node = above.and_then(|row| self.node.get(row).copied().flatten());
            if !paths.is_kept(row) {
                self.node.push(above_node);
                continue;
            }
            let is_root = config.view == View::TopDown && paths.above(row).is_none();
            let begins = is_root || paths.is_match(row);
            if !begins && above_node.is_none() {
                self.node.push(None);
                continue;
            }
            let node = self.down.add(above_node.filter(|_| !begins), *key, row, held)?;
            self.node.push(Some(node));
        }
        Ok(())
    }

    fn go_up(
        &mut self,
        from: usize,
        is_part: bool,
        paths: &Paths,
        keys: &[usize],
        held: &Held,
    ) -> Result<()> {
        let (mut next, mut node, mut way) = (Some(from), None, None);
        while let Some(row) = next {
            let key = keys.get(row).copied().unwrap_or_default();
            let added = self.up.add(node, key, row, held)?;
            way = Some(Way { first: way.map_or(added, |way: Way| way.first), last: added });
            node = Some(added);
            if is_part {
                self.parts.push((row, added));
                if self.parts.len().is_multiple_of(STEP) {
                    held.try_grow(STEP * size_of::<(usize, usize)>())?;
                }
            }
            next = paths.above(row);
        }
        self.ways.extend(way.map(|way| (from, way)));
        Ok(())
    }

    /// How many nodes both have.
    pub(crate) fn len(&self) -> usize {
        self.down.parents.len() + self.up.parents.len()
    }

    /// Whether a node is one of the second.
    pub(crate) fn is_up(&self, node: usize) -> bool {
        node >= self.down.parents.len()
    }

    /// The node above.
    pub(crate) fn parent(&self, node: usize) -> Option<usize> {
        let first = self.down.parents.len();
        match node.checked_sub(first) {
            None => self.down.parents.get(node).copied().flatten(),
            Some(up) => self.up.parents.get(up).copied().flatten().map(|parent| parent + first),
        }
    }

    /// The first frame of a node.
    pub(crate) fn frame(&self, node: usize) -> usize {
        let frame = match node.checked_sub(self.down.parents.len()) {
            None => self.down.frames.get(node),
            Some(up) => self.up.frames.get(up),
        };
        frame.copied().unwrap_or_default()
    }
}
