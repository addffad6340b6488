//! What storage does: commands of UFS, and what F2FS counts of its reads and writes (upstream: ftrace_parser.cc, iostat_tracker.cc).

use super::apply::At;
use super::numbers as event;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::wire;

/// Commands of SCSI by their number.
const COMMANDS: [(u32, &str); 28] = [
    (0, "TEST UNIT READY"),
    (3, "REQUEST SENSE"),
    (4, "FORMAT UNIT"),
    (8, "READ (6)"),
    (10, "WRITE (6)"),
    (18, "INQUIRY"),
    (27, "START STOP UNIT"),
    (29, "SEND DIAGNOSTIC"),
    (37, "READ CAPACITY (10)"),
    (40, "READ (10)"),
    (42, "WRITE (10)"),
    (47, "VERIFY"),
    (52, "PRE-FETCH (10)"),
    (53, "SYNCHRONIZE CACHE (10)"),
    (59, "WRITE BUFFER"),
    (60, "READ BUFFER"),
    (66, "UNMAP"),
    (85, "MODE SELECT (10)"),
    (90, "MODE SENSE (10)"),
    (136, "READ (16)"),
    (138, "WRITE (16)"),
    (144, "PRE-FETCH (16)"),
    (145, "SYNCHRONIZE CACHE (16)"),
    (158, "READ CAPACITY (16)"),
    (160, "REPORT LUNS"),
    (162, "SECURITY PROTOCOL IN"),
    (181, "SECURITY PROTOCOL OUT"),
    (u32::MAX, "UNDEFINED"),
];

/// What is counted, and its field.
type Counts = [(u32, &'static str)];

const IOSTAT: &Counts = {
    use event::f2fs_iostat as field;
    &[
        (field::APP_WIO, "write_app_total"),
        (field::APP_DIO, "write_app_direct"),
        (field::APP_BIO, "write_app_buffered"),
        (field::APP_MIO, "write_app_mapped"),
        (field::FS_DIO, "write_fs_data"),
        (field::FS_NIO, "write_fs_node"),
        (field::FS_MIO, "write_fs_meta"),
        (field::FS_GC_DIO, "write_gc_data"),
        (field::FS_GC_NIO, "write_gc_node"),
        (field::FS_CP_DIO, "write_cp_data"),
        (field::FS_CP_NIO, "write_cp_node"),
        (field::FS_CP_MIO, "write_cp_meta"),
        (field::APP_RIO, "read_app_total"),
        (field::APP_DRIO, "read_app_direct"),
        (field::APP_BRIO, "read_app_buffered"),
        (field::APP_MRIO, "read_app_mapped"),
        (field::FS_DRIO, "read_fs_data"),
        (field::FS_GDRIO, "read_fs_gdata"),
        (field::FS_CDRIO, "read_fs_cdata"),
        (field::FS_NRIO, "read_fs_node"),
        (field::FS_MRIO, "read_fs_meta"),
        (field::FS_DISCARD, "other_fs_discard"),
    ]
};

const LATENCY: &Counts = {
    use event::f2fs_iostat_latency as field;
    &[
        (field::D_RD_PEAK, "read_data_peak"),
        (field::D_RD_AVG, "read_data_avg"),
        (field::D_RD_CNT, "read_data_cnt"),
        (field::N_RD_PEAK, "read_node_peak"),
        (field::N_RD_AVG, "read_node_avg"),
        (field::N_RD_CNT, "read_node_cnt"),
        (field::M_RD_PEAK, "read_meta_peak"),
        (field::M_RD_AVG, "read_meta_avg"),
        (field::M_RD_CNT, "read_meta_cnt"),
        (field::D_WR_S_PEAK, "write_sync_data_peak"),
        (field::D_WR_S_AVG, "write_sync_data_avg"),
        (field::D_WR_S_CNT, "write_sync_data_cnt"),
        (field::N_WR_S_PEAK, "write_sync_node_peak"),
        (field::N_WR_S_AVG, "write_sync_node_avg"),
        (field::N_WR_S_CNT, "write_sync_node_cnt"),
        (field::M_WR_S_PEAK, "write_sync_meta_peak"),
        (field::M_WR_S_AVG, "write_sync_meta_avg"),
        (field::M_WR_S_CNT, "write_sync_meta_cnt"),
        (field::D_WR_AS_PEAK, "write_async_data_peak"),
        (field::D_WR_AS_AVG, "write_async_data_avg"),
        (field::D_WR_AS_CNT, "write_async_data_cnt"),
        (field::N_WR_AS_PEAK, "write_async_node_peak"),
        (field::N_WR_AS_AVG, "write_async_node_avg"),
        (field::N_WR_AS_CNT, "write_async_node_cnt"),
        (field::M_WR_AS_PEAK, "write_async_meta_peak"),
        (field::M_WR_AS_AVG, "write_async_meta_avg"),
        (field::M_WR_AS_CNT, "write_async_meta_cnt"),
    ]
};

impl Model {
    /// Whether an event is of these; if so, it has its slice or its values.
    pub(super) fn storage(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>, message: &[u8]) -> bool {
        match number {
            event::ufshcd_command::NUMBER => self.ufs_command(at, payload),
            event::f2fs_iostat::NUMBER => {
                let dev = wire::number(message, event::f2fs_iostat::DEV).unwrap_or(0);
                self.f2fs_counts(at, ("f2fs_iostat", dev), IOSTAT, message);
            }
            event::f2fs_iostat_latency::NUMBER => {
                let dev = wire::number(message, event::f2fs_iostat_latency::DEV).unwrap_or(0);
                self.f2fs_counts(at, ("f2fs_iostat_latency", dev), LATENCY, message);
            }
            _ => return false,
        }
        true
    }

    fn ufs_command(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::ufshcd_command as field;
        /// `ufs_trace_str_t`.
        const SENT: u32 = 0;
        const COMPLETED: u32 = 1;
        let machine = at.cpu.machine;
        let what = payload.u32(field::STR_T);
        let busy = match (payload.u32(field::DOORBELL), what) {
            (0, COMPLETED) => 0,
            (0, _) => 1,
            (doorbell, _) => doorbell.count_ones(),
        };
        let track = TrackType::counter("ufs_command_count", &[]);
        let track = self.track(machine, track, |strings| strings.intern("io.ufs.command.count"));
        self.push_counter(at.ts, track, busy.into());
        let tag = payload.u32(field::TAG);
        let dimensions = [("ufs_tag", ArgValue::Int(tag.into()))];
        let track = TrackType::slices("ufs_command_tag", &dimensions);
        let name = format!("io.ufs.command.tag[{tag:03}]");
        let track = self.track(machine, track, |strings| strings.intern(&name));
        if what == SENT {
            let name = command(payload.u32(field::OPCODE), payload.u32(field::GROUP_ID));
            let name = Some(self.tables.strings.intern(&name));
            self.begin_slice(at.ts, track, None, name, &[]);
        } else {
            self.end_slice(at.ts, track, None, None, &[]);
        }
    }

    fn f2fs_counts(
        &mut self,
        at: At<'_>,
        (type_, dev): (&'static str, u64),
        counts: &Counts,
        message: &[u8],
    ) {
        let device = format!("{}:{}", dev >> 8 & 0xff, dev & 0xff);
        for (field, key) in counts {
            let dimensions = [("linux_device", self.text_arg(&device)), ("counter_key", self.text_arg(key))];
            let track = TrackType::counter(type_, &dimensions);
            let name = format!("{type_}.[{device}].{key}");
            let track = self.track(at.cpu.machine, track, |strings| strings.intern(&name));
            let value = wire::number(message, *field).unwrap_or(0);
            self.push_counter(at.ts, track, value as f64);
        }
    }
}

fn command(opcode: u32, group: u32) -> String {
    let found = COMMANDS.iter().find(|(number, _)| *number == opcode || *number == u32::MAX);
    let name = found.map_or("UNDEFINED", |(_, name)| name);
    if group > 0 { format!("{name} (GID=0x{group:x})") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_have_their_names_and_groups() {
        let names = [(40, 0), (42, 0x16), (200, 0)].map(|(opcode, group)| super::command(opcode, group));
        assert_eq!(names, ["READ (10)", "WRITE (10) (GID=0x16)", "UNDEFINED"]);
    }
}
