//! Stacks as traces have them.

use std::collections::HashMap;

use ferretto_protos::TracePacket;

/// What a sequence has said so far of functions, frames and stacks.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    names: HashMap<u64, String>,
    frames: HashMap<u64, u64>,
    stacks: HashMap<u64, Vec<u64>>,
}

impl Stacks {
    /// Takes in what a packet says.
    pub(crate) fn hear(&mut self, packet: &TracePacket) {
        let data = packet.interned_data.clone().unwrap_or_default();
        for name in data.function_names {
            self.names.insert(name.iid(), String::from_utf8(name.str.unwrap().to_vec()).unwrap());
        }
        for frame in data.frames {
            self.frames.insert(frame.iid(), frame.function_name_id());
        }
        for stack in data.callstacks {
            self.stacks.insert(stack.iid(), stack.frame_ids);
        }
    }

    /// The functions of a stack, from the outermost on.
    pub(crate) fn functions(&self, stack: u64) -> Option<Vec<String>> {
        let name = |frame: &u64| self.names.get(&self.frames[frame]).cloned().unwrap_or_default();
        Some(self.stacks.get(&stack)?.iter().map(name).collect())
    }
}
