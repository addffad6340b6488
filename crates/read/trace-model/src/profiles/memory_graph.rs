//! Who owns which part of memory, and how much of it is whose (upstream: memory_tracker/graph_processor.cc, graph.cc).
//!
//! A process says of its memory a tree of parts, with sizes where it knows them, and that some parts are really others': an *edge* from the
//! owner to what it owns, with an importance. From these follow, in five walks over all trees:
//!
//! 1. sizes: at least that of all children together, and that of the greatest owner; what a parent has beyond its children is a child
//!    `<unspecified>`;
//! 2. how much of each part owns nothing, and how much is owned by nobody;
//! 3. how a part that several own is shared out: those of highest importance first, equal ones in equal shares;
//! 4. the product of these shares down the tree;
//! 5. effective sizes: the size times both products, and the sum of the children's.
//!
//! Names that begin with `global/` are one tree for all processes.
//!
//! Upstream recurses, and trusts that no part owns itself over others. Here depth and number of parts are bounded, and a circle ends where it
//! closes.

use std::collections::BTreeMap;

/// Parts within parts: deeper ones are left out. Chrome has about ten. Ours.
pub const MAX_DEPTH: usize = 64;

/// A part of memory, or none of it: the root of a tree.
#[derive(Debug, Default)]
pub struct Node {
    /// What others call it; 0 is nothing.
    pub id: u64,
    /// Its parts, by name.
    pub children: BTreeMap<String, usize>,
    /// What is said of it, by name.
    pub entries: BTreeMap<String, Entry>,
    /// What it is a part of.
    pub parent: Option<usize>,
    depth: usize,
    /// The edge to what it owns, the last that was said.
    owns: Option<usize>,
    /// The edges of its owners.
    owners: Vec<usize>,
    not_owning: u64,
    not_owned: u64,
    /// Of it, what is its own; of what it owns, what it has.
    owned_share: f64,
    owning_share: f64,
    all_owned_share: f64,
    all_owning_share: f64,
}

/// Something that is said of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A number; in bytes, or of things.
    Number(u64, Unit),
    /// A text.
    Text(Vec<u8>),
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Objects,
    /// Bytes.
    Bytes,
}

/// An owner and what it owns.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The owner.
    pub source: usize,
    /// What it owns.
    pub target: usize,
    /// Of several owners those of highest importance have it.
    pub importance: i32,
}

/// All trees of one dump.
#[derive(Debug)]
pub struct Graph {
    /// The parts.
    pub nodes: Vec<Node>,
    /// Who owns what, in the order in which it was said.
    pub edges: Vec<Edge>,
    /// The root of what all processes share.
    pub shared: usize,
    /// The roots of processes.
    pub processes: BTreeMap<i32, usize>,
    by_id: BTreeMap<u64, usize>,
}

/// The names of sizes.
pub const SIZE: &str = "size";
/// See [`SIZE`].
pub const EFFECTIVE_SIZE: &str = "effective_size";

impl Default for Graph {
    fn default() -> Self {
        Self {
            nodes: vec![Node::new(None, 0)],
            edges: Vec::new(),
            shared: 0,
            processes: BTreeMap::new(),
            by_id: BTreeMap::new(),
        }
    }
}

impl Node {
    fn new(parent: Option<usize>, depth: usize) -> Self {
        Self {
            parent,
            depth,
            owned_share: 1.0,
            owning_share: 1.0,
            all_owned_share: 1.0,
            all_owning_share: 1.0,
            ..Self::default()
        }
    }

    /// Its size, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.number(SIZE)
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.entries.get(name)? {
            Entry::Number(value, _) => Some(*value),
            Entry::Text(_) => None,
        }
    }

    fn set_bytes(&mut self, name: &str, value: u64) {
        self.entries.insert(name.to_owned(), Entry::Number(value, Unit::Bytes));
    }
}

impl Graph {
    /// The root of a process.
    pub fn process(&mut self, pid: i32) -> usize {
        if let Some(root) = self.processes.get(&pid) {
            return *root;
        }
        let root = self.nodes.len();
        self.nodes.push(Node::new(None, 0));
        self.processes.insert(pid, root);
        root
    }

    /// The part of this number, or that at this path below a root. Nothing if it is too deep.
    pub fn part(&mut self, root: usize, path: &str, id: u64) -> Option<usize> {
        if let Some(known) = self.by_id.get(&id) {
            return Some(*known);
        }
        if path.split('/').filter(|name| !name.is_empty()).count() > MAX_DEPTH {
            return None;
        }
        let mut at = root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = match self.nodes.get(at)?.children.get(name) {
                Some(child) => *child,
                None => self.add_child(at, name),
            };
        }
        self.nodes.get_mut(at)?.id = id;
        if id != 0 {
            self.by_id.insert(id, at);
        }
        Some(at)
    }

    /// Says of a part what was not said before.
    pub fn say(&mut self, node: usize, name: String, entry: Entry) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.entries.entry(name).or_insert(entry);
        }
    }

    /// Says that one part owns another, if both are known.
    pub fn add_edge(&mut self, source_id: u64, target_id: u64, importance: i32) {
        let (Some(source), Some(target)) = (self.by_id.get(&source_id), self.by_id.get(&target_id)) else {
            return;
        };
        let (source, target, number) = (*source, *target, self.edges.len());
        self.edges.push(Edge { source, target, importance });
        if let Some(node) = self.nodes.get_mut(source) {
            node.owns = Some(number);
        }
        if let Some(node) = self.nodes.get_mut(target) {
            node.owners.push(number);
        }
    }

    /// The five walks.
    pub fn work_out_sizes(&mut self) {
        for node in self.children_and_owners_first() {
            self.work_out_size(node);
        }
        let order = self.children_and_owners_first();
        for node in &order {
            self.work_out_sub_sizes(*node);
        }
        for node in &order {
            self.share_out(*node);
        }
        for node in self.parents_and_owned_first() {
            self.multiply_shares(node);
        }
        for node in &order {
            self.work_out_effective_size(*node);
        }
    }

    fn add_child(&mut self, parent: usize, name: &str) -> usize {
        let child = self.nodes.len();
        let depth = self.nodes.get(parent).map_or(0, |node| node.depth + 1);
        self.nodes.push(Node::new(Some(parent), depth));
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children.insert(name.to_owned(), child);
        }
        child
    }

    fn children(&self, node: usize) -> impl DoubleEndedIterator<Item = usize> {
        self.nodes.get(node).into_iter().flat_map(|node| node.children.values().copied())
    }

    fn owners(&self, node: usize) -> impl DoubleEndedIterator<Item = &Edge> {
        let edges = self.nodes.get(node).into_iter().flat_map(|node| &node.owners);
        edges.filter_map(|edge| self.edges.get(*edge))
    }

    fn owned_by(&self, node: usize) -> Option<&Edge> {
        self.nodes.get(node)?.owns.and_then(|edge| self.edges.get(edge))
    }

    fn size(&self, node: usize) -> Option<u64> {
        self.nodes.get(node)?.size()
    }

    fn is_leaf(&self, node: usize) -> bool {
        self.nodes.get(node).is_none_or(|node| node.children.is_empty())
    }

    /// The roots, as a stack whose top is first: what is shared, then the processes.
    fn roots(&self) -> Vec<usize> {
        self.processes.values().rev().copied().chain([self.shared]).collect()
    }

    fn children_and_owners_first(&self) -> Vec<usize> {
        let mut to_visit = self.roots();
        let mut state = vec![Visit::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = to_visit.pop() {
            let Some(visit) = state.get_mut(node) else { continue };
            match visit {
                Visit::New => {
                    *visit = Visit::Open;
                    to_visit.push(node);
                    to_visit.extend(self.children(node).rev());
                    to_visit.extend(self.owners(node).rev().map(|edge| edge.source));
                }
                Visit::Open => {
                    // It is this one's end, or a circle closes here.
                    *visit = Visit::Done;
                    order.push(node);
                }
                Visit::Done => {}
            }
        }
        order
    }

    fn parents_and_owned_first(&self) -> Vec<usize> {
        let mut to_visit = self.roots();
        let mut is_done = vec![false; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        let done = |is_done: &[bool], node: usize| is_done.get(node).copied().unwrap_or(true);
        while let Some(node) = to_visit.pop() {
            let waits_for_owned = self.owned_by(node).is_some_and(|edge| !done(&is_done, edge.target));
            let parent = self.nodes.get(node).and_then(|node| node.parent);
            if done(&is_done, node) || waits_for_owned || parent.is_some_and(|parent| !done(&is_done, parent))
            {
                continue;
            }
            to_visit.extend(self.children(node).rev());
            to_visit.extend(self.owners(node).rev().map(|edge| edge.source));
            if let Some(is_done) = is_done.get_mut(node) {
                *is_done = true;
            }
            order.push(node);
        }
        order
    }

    fn work_out_size(&mut self, node: usize) {
        let children: Vec<usize> = self.children(node).collect();
        let aggregated = add_up(children.iter().map(|child| self.size_below(node, *child)));
        let greatest_owner = {
            let mut greatest = None;
            for size in self.owners(node).map(|edge| self.size(edge.source)) {
                greatest = match greatest {
                    Some(greatest) => Some(size.unwrap_or(0).max(greatest)),
                    None => size,
                };
            }
            greatest
        };
        let own = self.size(node);
        let Some(it) = self.nodes.get_mut(node) else { return };
        it.entries.remove(SIZE);
        if own.is_none() && aggregated.is_none() && greatest_owner.is_none() {
            return;
        }
        let aggregated = aggregated.unwrap_or(0);
        let size = own.unwrap_or(0).max(aggregated).max(greatest_owner.unwrap_or(0));
        it.set_bytes(SIZE, size);
        if size > aggregated && !children.is_empty() {
            let rest = match it.children.get("<unspecified>") {
                Some(there) => *there,
                None => self.add_child(node, "<unspecified>"),
            };
            self.say(rest, SIZE.to_owned(), Entry::Number(size - aggregated, Unit::Bytes));
        }
    }

    /// The size of what is below a part, without what another part below `root` has. As deep as trees are.
    fn size_below(&self, root: usize, node: usize) -> Option<u64> {
        if self.owned_by(node).is_some_and(|edge| self.is_below(edge.target, root)) {
            return Some(0);
        }
        if self.is_leaf(node) {
            return Some(self.size(node).unwrap_or(0));
        }
        add_up(self.children(node).map(|child| self.size_below(root, child)))
    }

    fn is_below(&self, mut node: usize, root: usize) -> bool {
        loop {
            if node == root {
                return true;
            }
            match self.nodes.get(node).and_then(|node| node.parent) {
                Some(parent) => node = parent,
                None => return false,
            }
        }
    }

    fn work_out_sub_sizes(&mut self, node: usize) {
        let Some(size) = self.size(node) else { return };
        let (mut not_owning, mut not_owned) = (size, size);
        if !self.is_leaf(node) {
            (not_owning, not_owned) = (0, 0);
            for child in self.children(node) {
                let Some(it) = self.nodes.get(child) else { continue };
                if it.owns.is_none() {
                    not_owning = u64::wrapping_add(not_owning, it.not_owning);
                }
                if it.owners.is_empty() {
                    not_owned = u64::wrapping_add(not_owned, it.not_owned);
                    continue;
                }
                let greatest =
                    self.owners(child).map(|edge| self.size(edge.source).unwrap_or(0)).max().unwrap_or(0);
                not_owned = not_owned.wrapping_add(it.size().unwrap_or(0).wrapping_sub(greatest));
            }
        }
        if let Some(it) = self.nodes.get_mut(node) {
            it.not_owning = it.not_owning.wrapping_add(not_owning);
            it.not_owned = it.not_owned.wrapping_add(not_owned);
        }
    }

    fn share_out(&mut self, node: usize) {
        if self.size(node).is_none() {
            return;
        }
        let mut owners: Vec<(i32, u64, usize)> = self
            .owners(node)
            .map(|edge| {
                let has = self.nodes.get(edge.source).map_or(0, |owner| owner.not_owning);
                (edge.importance, has, edge.source)
            })
            .collect();
        if owners.is_empty() {
            return;
        }
        owners.sort_by_key(|(importance, has, _)| (std::cmp::Reverse(*importance), *has));
        let mut given = 0;
        for equal in owners.chunk_by(|a, b| a.0 == b.0) {
            let mut given_to_each = 0.0;
            for (at, (_, has, owner)) in equal.iter().enumerate() {
                if *has > given {
                    given_to_each += (*has - given) as f64 / (equal.len() - at) as f64;
                    given = *has;
                }
                if *has != 0
                    && let Some(owner) = self.nodes.get_mut(*owner)
                {
                    owner.owning_share = given_to_each / *has as f64;
                }
            }
        }
        if let Some(it) = self.nodes.get_mut(node).filter(|it| it.not_owned != 0) {
            it.owned_share = it.not_owned.wrapping_sub(given) as f64 / it.not_owned as f64;
        }
    }

    fn multiply_shares(&mut self, node: usize) {
        if self.size(node).is_none() {
            return;
        }
        let parent = self.nodes.get(node).and_then(|it| it.parent).and_then(|parent| self.nodes.get(parent));
        let above = parent.map(|parent| (parent.all_owned_share, parent.all_owning_share));
        let target = self.owned_by(node).and_then(|edge| self.nodes.get(edge.target));
        let of_target = target.map(|target| target.all_owning_share);
        let Some(it) = self.nodes.get_mut(node) else { return };
        it.all_owned_share = it.owned_share * above.map_or(1.0, |(owned, _)| owned);
        it.all_owning_share = match (of_target, above) {
            (Some(of_target), _) => it.owning_share * of_target,
            (None, Some((_, owning))) => owning,
            (None, None) => 1.0,
        };
    }

    fn work_out_effective_size(&mut self, node: usize) {
        let Some(it) = self.nodes.get(node) else { return };
        let Some(size) = it.size() else {
            if let Some(it) = self.nodes.get_mut(node) {
                it.entries.remove(EFFECTIVE_SIZE);
            }
            return;
        };
        let effective = if it.children.is_empty() {
            (size as f64 * it.all_owning_share * it.all_owned_share) as u64
        } else {
            let children = it.children.values().filter_map(|child| self.nodes.get(*child));
            children
                .filter(|child| child.size().is_some())
                .fold(0, |sum: u64, child| sum.wrapping_add(child.number(EFFECTIVE_SIZE).unwrap_or(0)))
        };
        self.say(node, EFFECTIVE_SIZE.to_owned(), Entry::Number(effective, Unit::Bytes));
    }
}

/// Nothing if the first is nothing and no other is there.
fn add_up(sizes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    sizes.fold(None, |sum, size| match sum {
        Some(sum) => Some(u64::wrapping_add(sum, size.unwrap_or(0))),
        None => size,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    New,
    Open,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts as `PID PATH SIZE`, their numbers from 1; edges; sizes and effective sizes of the parts.
    fn check(parts: &[(i32, &str, Option<u64>)], edges: &[(u64, u64, i32)], expected: &[(u64, u64)]) {
        let mut graph = Graph::default();
        let mut nodes = Vec::new();
        for ((pid, path, size), id) in parts.iter().zip(1..) {
            let root = graph.process(*pid);
            let root = if path.starts_with("global/") { graph.shared } else { root };
            let node = graph.part(root, path, id).unwrap();
            if let Some(size) = size {
                graph.say(node, SIZE.to_owned(), Entry::Number(*size, Unit::Bytes));
            }
            nodes.push(node);
        }
        for (source, target, importance) in edges {
            graph.add_edge(*source, *target, *importance);
        }
        graph.work_out_sizes();
        let found: Vec<_> = nodes
            .iter()
            .map(|node| {
                let node = &graph.nodes[*node];
                (node.size().unwrap_or(0), node.number(EFFECTIVE_SIZE).unwrap_or(0))
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sizes_add_up_and_what_is_shared_is_shared_out() {
        check(
            &[(1, "a/b", Some(4)), (1, "a/c", Some(6)), (1, "a", Some(15))],
            &[],
            &[(4, 4), (6, 6), (15, 15)],
        );
        // Two processes hold what is shared, one of them with more right.
        let parts = [(1, "x", Some(4)), (2, "y", Some(4)), (1, "global/z", Some(4))];
        check(&parts, &[(1, 3, 0), (2, 3, 0)], &[(4, 2), (4, 2), (4, 0)]);
        check(&parts, &[(1, 3, 2), (2, 3, 0)], &[(4, 4), (4, 0), (4, 0)]);
    }

    #[test]
    fn circles_and_deep_trees_end() {
        check(&[(1, "a", Some(4)), (1, "b", Some(4))], &[(1, 2, 0), (2, 1, 0)], &[(4, 4), (4, 4)]);
        let mut graph = Graph::default();
        let root = graph.process(1);
        assert_eq!(graph.part(root, &"a/".repeat(MAX_DEPTH + 1), 1), None);
        assert!(graph.part(root, &"a/".repeat(MAX_DEPTH), 2).is_some());
        graph.add_edge(2, 2, 0);
        graph.work_out_sizes();
    }
}
