//! Arguments that are made when they are asked for are those that would have been written.

use std::error::Error;

use ferretto_trace_model::Import;
use ferretto_trace_model::args::{Arg, ArgValue};
use ferretto_trace_model::ftrace::kept::RowArgs;
use ferretto_trace_read::Reader;
use ferretto_trace_tables::{ArgSetId, Strings, Tables};

const TRACE: &str = r#"
packet { ftrace_events { cpu: 0
  event { timestamp: 100 pid: 5 sched_switch { prev_comm: "a" prev_pid: 5 prev_prio: 120 prev_state: 1 next_comm: "b" next_pid: 6 next_prio: 98 } }
  event { timestamp: 110 pid: 6 sched_waking { comm: "a" pid: 5 prio: 120 success: 1 target_cpu: 0 } }
  event { timestamp: 120 pid: 6 cpu_frequency { state: 1000 cpu_id: 0 } }
  event { timestamp: 130 pid: 6 generic { event_name: "own" field { name: "x" int_value: -3 } field { name: "y" str_value: "text" } } }
} }
packet { ftrace_events { cpu: 1 compact_sched {
  intern_table: "c" intern_table: "d"
  switch_timestamp: 100 switch_timestamp: 20 switch_timestamp: 20
  switch_prev_state: 0 switch_prev_state: 1 switch_prev_state: 2
  switch_next_pid: 7 switch_next_pid: 8 switch_next_pid: 7
  switch_next_prio: 120 switch_next_prio: 121 switch_next_prio: 122
  switch_next_comm_index: 0 switch_next_comm_index: 1 switch_next_comm_index: 0
  waking_timestamp: 130 waking_pid: 5 waking_target_cpu: 1 waking_prio: 120 waking_comm_index: 0 waking_common_flags: 8
} } }
"#;

/// Keys and values as text.
type Texts = Vec<(String, String)>;

#[test]
fn what_is_kept_is_what_would_be_written() -> Result<(), Box<dyn Error>> {
    let trace = ferretto_protos::text::parse("perfetto.protos.Trace", TRACE)?;
    let (written, _) = import(&trace, RowArgs::Written)?;
    let (mut kept, mut args) = import(&trace, RowArgs::Kept)?;
    let (left, _) = import(&trace, RowArgs::Left)?;
    assert_eq!(written.ftrace_event.len(), 7);
    assert_eq!((args.len(), kept.args.len() < written.args.len()), (7, true));
    assert!((0..left.ftrace_event.len()).all(|row| left.ftrace_event.arg_set_id.get(row).is_none()));
    for row in 0..written.ftrace_event.len() {
        let mut list = Vec::new();
        args.of_row(row, &mut kept.strings, &mut list);
        let made: Texts = list.iter().map(|arg| text(arg, &kept.strings)).collect();
        let set = written.ftrace_event.arg_set_id.get(row);
        assert_eq!(made, set.map(|set| of_set(&written, set)).unwrap_or_default(), "row {row}");
        assert!(!made.is_empty());
    }
    Ok(())
}

fn import(
    trace: &[u8],
    row_args: RowArgs,
) -> Result<(Tables, ferretto_trace_model::ftrace::kept::KeptArgs), Box<dyn Error>> {
    let mut import = Import::default().ftrace_args(row_args);
    Reader::new(trace).for_each(|packet, place| import.push(packet, place))?;
    Ok(import.finish_with_args())
}

fn text(arg: &Arg, strings: &Strings) -> (String, String) {
    let value = match arg.value {
        ArgValue::Int(value) => value.to_string(),
        ArgValue::Uint(value) => value.to_string(),
        ArgValue::Text(value) => strings.get(value).to_owned(),
        other => format!("{other:?}"),
    };
    (strings.get(arg.key).to_owned(), value)
}

fn of_set(tables: &Tables, set: ArgSetId) -> Texts {
    let rows = (0..tables.args.len()).filter(|row| tables.args.arg_set_id.at(*row) == set);
    let text = |row: usize| {
        let of = |text: Option<_>| text.map(|text| tables.strings.get(text).to_owned());
        let value = tables.args.int_value.get(row).map(|value| value.to_string());
        (
            of(tables.args.key.at(row)).unwrap_or_default(),
            value.or(of(tables.args.string_value.at(row))).unwrap_or_default(),
        )
    };
    rows.map(text).collect()
}
