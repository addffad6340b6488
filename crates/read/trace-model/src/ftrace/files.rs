//! Checkpoints of F2FS (upstream: ftrace_parser.cc).

use super::apply::At;
use super::numbers::f2fs_write_checkpoint as field;
use super::on_tracks::OF_PROCESS;
use super::payload::Payload;
use crate::args::{Arg, ArgValue};
use crate::model::Model;
use crate::slices::Label;
use crate::tracks::{Blueprint, Dimensions};

const CHECKPOINT: Blueprint = Blueprint::slice("f2fs_write_checkpoint", OF_PROCESS);

/// Bits of the reason, from the lowest.
const REASONS: [&str; 8] =
    ["Umount", "Fastboot", "Sync", "Recovery", "Discard", "Trimmed", "Pause", "Resize"];

/// Phases of a checkpoint; the one between begins and ends nothing.
const START: u32 = 0;
const FINISH: u32 = 2;

impl Model {
    /// `f2fs_write_checkpoint`.
    pub(super) fn f2fs_checkpoint(&mut self, at: At<'_>, payload: &Payload<'_>) {
        let phase = payload.u32(field::PHASE);
        if phase != START && phase != FINISH {
            return;
        }
        let (tables, processes) = self.processes(at.cpu.machine);
        let upid = processes.process(tables, at.tid.into());
        let dimensions = Dimensions { upid: Some(upid), ..Dimensions::default() };
        let track = self.kernel_track(&CHECKPOINT, at.cpu.machine, dimensions, |strings| {
            strings.intern(&format!("f2fs_ckpt {}", at.tid))
        });
        self.end_slice(at.ts, track, None, None, &[]);
        if phase == FINISH {
            return;
        }
        let reason = payload.i32(field::REASON);
        let mut args = Vec::new();
        self.add(&mut args, "dev", "dev", ArgValue::Uint(payload.u64(field::DEV)));
        self.add(&mut args, "reason_int", "reason_int", ArgValue::Int(reason.into()));
        if reason == 0 {
            let unknown = self.text_arg("Unknown");
            self.add(&mut args, "reason_str", "reason_str", unknown);
        }
        let names = REASONS.iter().enumerate().filter(|(bit, _)| reason >> bit & 1 != 0);
        for (index, (_, name)) in names.enumerate() {
            let name = self.text_arg(name);
            self.add(&mut args, "reason_str", &format!("reason_str[{index}]"), name);
        }
        let args = self.args.intern(&args);
        let name = Some(self.tables.strings.intern("F2fs Write Checkpoint"));
        let (slices, mut out) = self.slices();
        slices.begin(&mut out, at.ts, track, Label { category: None, name, args });
    }

    fn add(&mut self, args: &mut Vec<Arg>, flat_key: &str, key: &str, value: ArgValue) {
        let (flat_key, key) = (self.tables.strings.intern(flat_key), self.tables.strings.intern(key));
        args.push(Arg { flat_key, key, value });
    }
}
