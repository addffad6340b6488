//! The state as a tree of nodes, and the account of the memory it takes.
//!
//! A node begins as what a packet has, a number or bytes. Bytes become a message when a field in them is
//! selected, and a field becomes a repeated one when it is selected, or merged, as such. So the tree learns
//! the schema from the program.
//!
//! The account is upstream's: [`NODE_SIZE`] for each node and again for its entry in its parent, and the
//! length of bytes. Scripts can tell at which allocation the limit is hit, so the order of allocations counts,
//! and so does what upstream forgets to give back in some error cases. Here that memory is freed, but stays on
//! the account: see the calls of [`Tree::forget`].

use std::mem;
use std::num::NonZeroU32;

use crate::abort::{AbortReason, Step};
use crate::map::Map;
use crate::wire::{Fields, Scalar, Value};

/// What a node, and an entry of a map, are accounted with (upstream: allocator.h, `kNodeSize` on 64 bits).
/// Nodes here are smaller.
pub(crate) const NODE_SIZE: usize = 48;

const _: () = assert!(size_of::<Node>() + size_of::<NodeId>() <= NODE_SIZE);

/// Copying so many bytes counts as a step.
const BYTES_A_STEP: usize = 64;

/// A node's place in the tree, counted from 1 so that none takes no more room. Valid until the node is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    pub(crate) const ROOT: Self = Self(NonZeroU32::MIN);

    pub(crate) fn new(index: usize) -> Option<Self> {
        index.checked_add(1).and_then(|number| u32::try_from(number).ok()).and_then(NonZeroU32::new).map(Self)
    }

    #[inline]
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) content: Content,
    /// Set on the fields that the merge under way has replaced: a second value makes the field a repeated one.
    /// A merge that aborts leaves it set, as upstream does.
    pub(crate) merged: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Content {
    /// Created by a select; nothing has been set yet.
    #[default]
    Empty,
    Scalar(Scalar),
    /// A string, or a message that nothing has been selected in.
    Bytes(Box<[u8]>),
    /// Fields by their numbers.
    Message(Map),
    /// A repeated field by index. After deletions there may be gaps.
    Indexed(Map),
    /// A repeated field by the value of its elements' key field.
    Mapped(Map),
}

impl Content {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Scalar(_) => "a number",
            Self::Bytes(_) => "bytes",
            Self::Message(_) => "a message",
            Self::Indexed(_) => "a repeated field",
            Self::Mapped(_) => "a map",
        }
    }

    pub(crate) const fn map(&self) -> Option<&Map> {
        match self {
            Self::Message(map) | Self::Indexed(map) | Self::Mapped(map) => Some(map),
            Self::Empty | Self::Scalar(_) | Self::Bytes(_) => None,
        }
    }

    const fn map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Message(map) | Self::Indexed(map) | Self::Mapped(map) => Some(map),
            Self::Empty | Self::Scalar(_) | Self::Bytes(_) => None,
        }
    }

    pub(crate) fn wrong_kind(&self, wanted: &'static str) -> AbortReason {
        AbortReason::WrongKind { wanted, found: self.kind() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The root is the first, and not on the account.
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    used: usize,
    limit: usize,
    /// Grows with the work done for a packet, whatever comes of it.
    pub(crate) steps: u64,
    /// So many there may be.
    pub(crate) max_steps: u64,
}

impl Tree {
    pub(crate) fn new(limit: usize) -> Self {
        Self { nodes: vec![Node::default()], free: Vec::new(), used: 0, limit, steps: 0, max_steps: u64::MAX }
    }

    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Ids are handed out by `create` and forgotten on `release`, so they are always in bounds.
    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    #[inline]
    pub(crate) fn content(&self, id: NodeId) -> &Content {
        &self.node(id).content
    }

    /// The entry of `id`'s map at `key`. Nothing if it has no map.
    #[inline]
    pub(crate) fn child(&mut self, id: NodeId, key: u64) -> Option<NodeId> {
        let map = self.content(id).map()?;
        let (found, steps) = (map.get(key), map.look_up_steps());
        self.steps += steps;
        found
    }

    /// Takes `id`'s map out of it, to be put back with [`put_map`](Self::put_map).
    pub(crate) fn take_map(&mut self, id: NodeId) -> Map {
        self.node_mut(id).content.map_mut().map(mem::take).unwrap_or_default()
    }

    pub(crate) fn put_map(&mut self, id: NodeId, map: Map) {
        if let Some(place) = self.node_mut(id).content.map_mut() {
            *place = map;
        }
    }

    // Work.

    /// Work that was done, or is about to be.
    #[inline]
    pub(crate) fn spend(&mut self, steps: u64) -> Step {
        self.steps += steps;
        if self.steps > self.max_steps { Err(AbortReason::TooManySteps.into()) } else { Ok(()) }
    }

    // Memory.

    fn account(&mut self, wanted: usize) -> Step {
        let used = self.used.saturating_add(wanted);
        if used > self.limit {
            return Err(AbortReason::MemoryLimit { wanted, used: self.used, limit: self.limit }.into());
        }
        self.used = used;
        Ok(())
    }

    fn unaccount(&mut self, size: usize) {
        self.used = self.used.saturating_sub(size);
    }

    /// A copy of `bytes`, on the account.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Step<Box<[u8]>> {
        self.account(bytes.len())?;
        self.steps += (bytes.len() / BYTES_A_STEP) as u64;
        Ok(bytes.into())
    }

    /// A node that is not in the tree yet.
    pub(crate) fn create(&mut self, content: Content) -> Step<NodeId> {
        self.account(NODE_SIZE)?;
        let node = Node { content, merged: false };
        if let Some(id) = self.free.pop() {
            *self.node_mut(id) = node;
            return Ok(id);
        }
        let Some(id) = NodeId::new(self.nodes.len()) else {
            // 4 billion nodes: no limit is meant to allow that.
            self.unaccount(NODE_SIZE);
            return Err(
                AbortReason::MemoryLimit { wanted: NODE_SIZE, used: self.used, limit: self.limit }.into()
            );
        };
        self.nodes.push(node);
        Ok(id)
    }

    pub(crate) fn create_field(&mut self, value: Value<'_>) -> Step<NodeId> {
        match value {
            Value::Scalar(scalar) => self.create(Content::Scalar(scalar)),
            Value::Bytes(bytes) => {
                let copy = self.copy(bytes)?;
                self.create(Content::Bytes(copy)).inspect_err(|_| self.unaccount(bytes.len()))
            }
        }
    }

    /// Replaces a number by another, or bytes by others, without a new node; `false` if that cannot be.
    ///
    /// The account takes the same way as if a node were created and the old one deleted: what is in use in between
    /// must be below the limit, too.
    pub(crate) fn overwrite(&mut self, id: NodeId, value: Value<'_>) -> Step<bool> {
        match (self.content(id), value) {
            (Content::Scalar(_), Value::Scalar(scalar)) => {
                self.account(NODE_SIZE)?;
                self.unaccount(NODE_SIZE);
                self.node_mut(id).content = Content::Scalar(scalar);
            }
            (Content::Bytes(old), Value::Bytes(bytes)) => {
                let old_len = old.len();
                self.account(bytes.len())?;
                self.account(NODE_SIZE).inspect_err(|_| self.unaccount(bytes.len()))?;
                self.unaccount(NODE_SIZE + old_len);
                self.overwrite_bytes(id, bytes);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Replaces bytes that are on the account by others that are, in the same memory if they are as many.
    pub(crate) fn overwrite_bytes(&mut self, id: NodeId, bytes: &[u8]) {
        self.steps += (bytes.len() / BYTES_A_STEP) as u64;
        match &mut self.node_mut(id).content {
            Content::Bytes(old) if old.len() == bytes.len() => old.copy_from_slice(bytes),
            content => *content = Content::Bytes(bytes.into()),
        }
    }

    /// Puts a created node into a map: `false`, and the node is deleted, if there is one at `key`.
    ///
    /// If there is no memory for the entry the node is deleted, too.
    pub(crate) fn insert(&mut self, map: &mut Map, key: u64, node: NodeId) -> Step<bool> {
        if let Err(stop) = self.account(NODE_SIZE) {
            self.delete(node);
            return Err(stop);
        }
        self.steps += map.look_up_steps();
        let inserted = map.insert(key, node);
        if !inserted {
            self.unaccount(NODE_SIZE);
            self.delete(node);
        }
        Ok(inserted)
    }

    /// Creates an empty child of a node that has a map.
    pub(crate) fn create_child(&mut self, parent: NodeId, key: u64) -> Step<NodeId> {
        let child = self.create(Content::Empty)?;
        let mut map = self.take_map(parent);
        let inserted = self.insert(&mut map, key, child);
        self.put_map(parent, map);
        inserted.map(|_| child)
    }

    /// Deletes a node that is in no map (any more), with all below it.
    pub(crate) fn delete(&mut self, id: NodeId) {
        let size = self.release(id);
        self.unaccount(size);
    }

    /// Deletes an entry that was taken out of a map.
    pub(crate) fn delete_entry(&mut self, id: NodeId) {
        self.delete(id);
        self.unaccount(NODE_SIZE);
    }

    /// Deletes all below a node, and makes it empty.
    pub(crate) fn delete_content(&mut self, id: NodeId) {
        let content = mem::take(&mut self.node_mut(id).content);
        let size = self.release_content(content);
        self.unaccount(size);
    }

    fn delete_map(&mut self, map: Map) {
        let size = self.release_content(Content::Message(map));
        self.unaccount(size);
    }

    /// Deletes a node in no map, where upstream forgets to: the account keeps its size.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.release(id);
    }

    /// Deletes all below a node, where upstream forgets to: the account keeps its size.
    pub(crate) fn forget_content(&mut self, id: NodeId) {
        let content = mem::take(&mut self.node_mut(id).content);
        self.release_content(content);
    }

    /// Frees a node and all below it; its size on the account, without its entry in a map.
    ///
    /// Recurses as deep as the state is, which [`MAX_DEPTH`](crate::MAX_DEPTH) bounds.
    fn release(&mut self, id: NodeId) -> usize {
        let node = mem::take(self.node_mut(id));
        self.free.push(id);
        self.steps += 1;
        NODE_SIZE + self.release_content(node.content)
    }

    fn release_content(&mut self, content: Content) -> usize {
        match content {
            Content::Empty | Content::Scalar(_) => 0,
            Content::Bytes(bytes) => bytes.len(),
            Content::Message(map) | Content::Indexed(map) | Content::Mapped(map) => {
                map.iter().map(|(_, child)| NODE_SIZE + self.release(child)).sum()
            }
        }
    }

    // What nodes become.

    /// Makes a node a message, if it can be one.
    pub(crate) fn become_message(&mut self, id: NodeId) -> Step {
        match &mut self.node_mut(id).content {
            Content::Message(_) => Ok(()),
            content @ Content::Empty => {
                *content = Content::Message(Map::default());
                Ok(())
            }
            Content::Bytes(bytes) => {
                let bytes = mem::take(bytes);
                let (content, result) = match self.parse_message(&bytes) {
                    Ok(fields) => {
                        self.unaccount(bytes.len());
                        (Content::Message(fields), Ok(()))
                    }
                    Err(stop) => (Content::Bytes(bytes), Err(stop)),
                };
                self.node_mut(id).content = content;
                result
            }
            other => Err(other.wrong_kind("a message").into()),
        }
    }

    fn parse_message(&mut self, bytes: &[u8]) -> Step<Map> {
        let mut map = Map::default();
        let mut fields = Fields::new(bytes);
        loop {
            let next = fields.next();
            let parsed = self.spend(fields.take_looked_at()).and_then(|()| match next {
                Some((field, value)) => self.parse_field(&mut map, field, value).map(|()| true),
                None => Ok(false),
            });
            match parsed {
                Ok(true) => {}
                Ok(false) => return Ok(map),
                Err(stop) => {
                    self.delete_map(map);
                    return Err(stop);
                }
            }
        }
    }

    fn parse_field(&mut self, map: &mut Map, field: u32, value: Value<'_>) -> Step {
        let node = self.create_field(value)?;
        let Some(present) = map.get(field.into()) else {
            return self.insert(map, field.into(), node).map(drop);
        };
        if let Err(stop) = self.become_indexed(present) {
            self.delete(node);
            return Err(stop);
        }
        self.append(present, node).map(drop)
    }

    /// Adds a created node to the end of a repeated field.
    pub(crate) fn append(&mut self, repeated: NodeId, node: NodeId) -> Step<bool> {
        let mut elements = self.take_map(repeated);
        let index = elements.len() as u64;
        let inserted = self.insert(&mut elements, index, node);
        self.put_map(repeated, elements);
        inserted
    }

    /// Makes a field a repeated one, in which it is the first.
    pub(crate) fn become_indexed(&mut self, id: NodeId) -> Step {
        match &mut self.node_mut(id).content {
            Content::Indexed(_) => Ok(()),
            content @ Content::Empty => {
                *content = Content::Indexed(Map::default());
                Ok(())
            }
            content @ Content::Mapped(_) => Err(content.wrong_kind("a repeated field").into()),
            Content::Scalar(_) | Content::Bytes(_) | Content::Message(_) => {
                self.wrap(id, 0, Content::Indexed(Map::default()))
            }
        }
    }

    /// Makes a repeated field a map with `key_field` of its elements as the key.
    pub(crate) fn become_mapped(&mut self, id: NodeId, key_field: u32) -> Step {
        match &mut self.node_mut(id).content {
            Content::Mapped(_) => Ok(()),
            content @ Content::Empty => {
                *content = Content::Mapped(Map::default());
                Ok(())
            }
            Content::Bytes(_) | Content::Message(_) => {
                let key = self.key_of(id, key_field)?;
                self.wrap(id, key, Content::Mapped(Map::default()))
            }
            Content::Indexed(elements) => {
                let elements = mem::take(elements);
                self.map_elements(id, elements, key_field)
            }
            content @ Content::Scalar(_) => Err(content.wrong_kind("a map").into()),
        }
    }

    /// Moves a node's content to a new node, the only entry of the map that the node becomes.
    ///
    /// When there is memory for the node but not for its entry, the content is lost, as upstream loses it.
    fn wrap(&mut self, id: NodeId, key: u64, mut outer: Content) -> Step {
        let inner = self.create(Content::Empty)?;
        let node = self.node_mut(id);
        mem::swap(&mut node.content, &mut outer);
        self.node_mut(inner).content = outer;
        let mut map = self.take_map(id);
        let inserted = self.insert(&mut map, key, inner);
        self.put_map(id, map);
        inserted.map(drop)
    }

    /// If an element has no key, upstream loses it and those before it. Of two with the same key it loses the
    /// second.
    fn map_elements(&mut self, id: NodeId, mut elements: Map, key_field: u32) -> Step {
        let mut mapped = Map::default();
        while let Some(element) = elements.pop_first() {
            let key = match self.spend(1).and_then(|()| self.key_of(element, key_field)) {
                Ok(key) => key,
                Err(stop) => {
                    self.forget(element);
                    self.release_content(Content::Mapped(mapped));
                    self.put_map(id, elements);
                    return Err(stop);
                }
            };
            if !mapped.insert(key, element) {
                self.forget(element);
            }
        }
        self.node_mut(id).content = Content::Mapped(mapped);
        Ok(())
    }

    fn key_of(&mut self, id: NodeId, key_field: u32) -> Step<u64> {
        let no_key = AbortReason::NoKey { field: key_field };
        let key = match self.content(id) {
            Content::Bytes(bytes) => {
                let mut fields = Fields::new(bytes);
                let key = fields.find(|&(field, _)| field == key_field).and_then(|(_, value)| value.number());
                let looked_at = fields.take_looked_at();
                self.spend(looked_at)?;
                key
            }
            Content::Message(fields) => {
                fields.get(key_field.into()).and_then(|field| match self.content(field) {
                    Content::Scalar(scalar) => Some(scalar.value),
                    _ => None,
                })
            }
            other => return Err(other.wrong_kind("an element of a map").into()),
        };
        Ok(key.ok_or(no_key)?)
    }
}
