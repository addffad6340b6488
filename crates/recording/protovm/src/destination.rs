//! The cursor that walks the state, and what the operations do where it stands.

use crate::abort::{AbortReason, Step};
use crate::map::Map;
use crate::tree::{Content, NodeId, Tree};
use crate::wire::{Fields, Scalar, Value};

/// A place in the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// `None` once it was deleted here.
    node: Option<NodeId>,
    /// The node whose map has this one. `None` for the root, and for the elements that an iteration goes through:
    /// deleting those only empties them.
    parent: Option<NodeId>,
    /// The key that this node has there.
    key: u64,
}

/// The flags of a merge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeFlags {
    pub(crate) skip_submessages: bool,
    pub(crate) del_if_src_empty: bool,
}

impl Destination {
    pub(crate) const ROOT: Self = Self { node: Some(NodeId::ROOT), parent: None, key: 0 };

    /// An element of a repeated field, in an iteration.
    pub(crate) const fn element(node: NodeId) -> Self {
        Self { node: Some(node), parent: None, key: 0 }
    }

    /// A place in a node's map.
    const fn child(node: NodeId, parent: NodeId, key: u64) -> Self {
        Self { node: Some(node), parent: Some(parent), key }
    }

    /// The node, unless it was deleted.
    pub(crate) const fn node_here(&self) -> Option<NodeId> {
        self.node
    }

    /// The root, or what counts as one.
    pub(crate) fn is_root(&self) -> Step<bool> {
        self.node()?;
        Ok(self.parent.is_none())
    }

    fn node(&self) -> Step<NodeId> {
        Ok(self.node.ok_or(AbortReason::Deleted)?)
    }

    /// Whether there is such a field. What is here becomes a message.
    pub(crate) fn has_field(&self, tree: &mut Tree, field: u32) -> Step<bool> {
        let node = self.node()?;
        tree.become_message(node)?;
        Ok(tree.child(node, field.into()).is_some())
    }

    /// Steps into a field that is no repeated one. It is created if it does not exist.
    pub(crate) fn enter_field(&mut self, tree: &mut Tree, field: u32) -> Step {
        let node = self.node()?;
        let child = find_or_create_field(tree, node, field)?;
        match tree.content(child) {
            repeated @ (Content::Indexed(_) | Content::Mapped(_)) => {
                Err(repeated.wrong_kind("a single field").into())
            }
            _ => {
                *self = Self::child(child, node, field.into());
                Ok(())
            }
        }
    }

    /// Steps into an element of a repeated field. It is created if it does not exist and is the next one.
    pub(crate) fn enter_index(&mut self, tree: &mut Tree, field: u32, index: u32) -> Step {
        let repeated = find_or_create_field(tree, self.node()?, field)?;
        tree.become_indexed(repeated)?;
        let element = match tree.child(repeated, index.into()) {
            Some(element) => element,
            None => {
                let len = tree.content(repeated).map().map_or(0, |elements| elements.len());
                if u64::from(index) > len as u64 {
                    return Err(AbortReason::IndexBeyondEnd { index, len }.into());
                }
                tree.create_child(repeated, index.into())?
            }
        };
        *self = Self::child(element, repeated, index.into());
        Ok(())
    }

    /// Steps into the element of a repeated field whose `key_field` is `key`. It is created, empty, if it does
    /// not exist.
    pub(crate) fn enter_key(&mut self, tree: &mut Tree, field: u32, key_field: u32, key: u64) -> Step {
        let repeated = find_or_create_field(tree, self.node()?, field)?;
        tree.become_mapped(repeated, key_field)?;
        let element = match tree.child(repeated, key) {
            Some(element) => element,
            None => tree.create_child(repeated, key)?,
        };
        *self = Self::child(element, repeated, key);
        Ok(())
    }

    /// The repeated field to iterate over, if there is one.
    pub(crate) fn repeated_field(&self, tree: &mut Tree, field: u32) -> Step<Option<NodeId>> {
        let node = self.node()?;
        tree.become_message(node)?;
        let Some(repeated) = tree.child(node, field.into()) else { return Ok(None) };
        tree.become_indexed(repeated)?;
        Ok(Some(repeated))
    }

    pub(crate) fn scalar(&self, tree: &Tree) -> Step<Scalar> {
        match tree.content(self.node()?) {
            Content::Scalar(scalar) => Ok(*scalar),
            other => Err(other.wrong_kind("a number").into()),
        }
    }

    /// Replaces what is here.
    pub(crate) fn set(&self, tree: &mut Tree, value: Value<'_>) -> Step {
        let node = self.node()?;
        match (value, tree.content(node)) {
            (Value::Scalar(scalar), Content::Empty | Content::Scalar(_)) => {
                tree.node_mut(node).content = Content::Scalar(scalar);
                Ok(())
            }
            (Value::Bytes(bytes), Content::Empty | Content::Bytes(_) | Content::Message(_)) => {
                let copy = tree.copy(bytes)?;
                tree.delete_content(node);
                tree.node_mut(node).content = Content::Bytes(copy);
                Ok(())
            }
            (Value::Scalar(_), other) => Err(other.wrong_kind("a number").into()),
            (Value::Bytes(_), other) => Err(other.wrong_kind("bytes").into()),
        }
    }

    /// Deletes what is here. The root becomes empty, and its memory stays on the account, as with upstream.
    pub(crate) fn delete(&mut self, tree: &mut Tree) -> Step {
        let node = self.node()?;
        let Some(parent) = self.parent else {
            tree.forget_content(node);
            return Ok(());
        };
        let mut siblings = tree.take_map(parent);
        if siblings.remove(self.key).is_some() {
            tree.delete_entry(node);
        }
        tree.put_map(parent, siblings);
        *self = Self { node: None, parent: None, key: 0 };
        Ok(())
    }

    /// Replaces the fields of the message here by those of `message`, without looking into them.
    pub(crate) fn merge(&self, tree: &mut Tree, message: &[u8], flags: MergeFlags) -> Step {
        let node = self.node()?;
        if !matches!(tree.content(node), Content::Empty | Content::Message(_) | Content::Bytes(_)) {
            return Err(tree.content(node).wrong_kind("a message").into());
        }
        if message.is_empty() {
            return Ok(());
        }
        tree.become_message(node)?;
        let mut fields = Fields::new(message);
        while let Some((field, value)) = fields.next() {
            tree.spend(fields.take_looked_at())?;
            merge_field(tree, node, field, value, flags)?;
        }
        tree.spend(fields.take_looked_at())?;
        let fields = tree.take_map(node);
        tree.steps += fields.len() as u64 * (1 + fields.look_up_steps() / 2);
        fields.for_each(|field| tree.node_mut(field).merged = false);
        tree.put_map(node, fields);
        Ok(())
    }
}

fn find_or_create_field(tree: &mut Tree, node: NodeId, field: u32) -> Step<NodeId> {
    tree.become_message(node)?;
    match tree.child(node, field.into()) {
        Some(child) => Ok(child),
        None => tree.create_child(node, field.into()),
    }
}

fn merge_field(tree: &mut Tree, message: NodeId, field: u32, value: Value<'_>, flags: MergeFlags) -> Step {
    let Some(present) = tree.child(message, field.into()) else {
        let new = tree.create_field(value)?;
        let mut fields = tree.take_map(message);
        let inserted = tree.insert(&mut fields, field.into(), new);
        tree.put_map(message, fields);
        inserted?;
        tree.node_mut(new).merged = true;
        return Ok(());
    };
    if flags.del_if_src_empty && value == Value::Bytes(&[]) {
        let mut fields = tree.take_map(message);
        fields.remove(field.into());
        tree.put_map(message, fields);
        tree.delete_entry(present);
        return Ok(());
    }
    if flags.skip_submessages && matches!(tree.content(present), Content::Message(_)) {
        // A select before this merge made it a message, to merge into it.
        return Ok(());
    }
    if !tree.node(present).merged && tree.overwrite(present, value)? {
        tree.node_mut(present).merged = true;
        return Ok(());
    }
    let new = tree.create_field(value)?;
    if let map @ Content::Mapped(_) = tree.content(present) {
        let reason = map.wrong_kind("a field to merge");
        tree.forget(new);
        return Err(reason.into());
    }
    if tree.node(present).merged
        && let Err(stop) = tree.become_indexed(present)
    {
        tree.forget(new);
        return Err(stop);
    }
    if matches!(tree.content(present), Content::Indexed(_)) {
        merge_element(tree, present, new);
        return Ok(());
    }
    tree.delete(present);
    let mut fields = tree.take_map(message);
    fields.replace(field.into(), new);
    tree.put_map(message, fields);
    tree.node_mut(new).merged = true;
    Ok(())
}

/// The first element of a merge replaces those that were there. One for which there is no memory is dropped
/// without an error, as upstream does.
fn merge_element(tree: &mut Tree, repeated: NodeId, new: NodeId) {
    if !tree.node(repeated).merged {
        tree.delete_content(repeated);
        let node = tree.node_mut(repeated);
        node.content = Content::Indexed(Map::default());
        node.merged = true;
    }
    let _dropped = tree.append(repeated, new);
}
