//! The probes as a daemon, without a command line: `PERFETTO_PRODUCER_SOCK_NAME=… cargo run -p ferretto-probes --example probes`.

fn main() -> Result<(), ferretto_probes::Error> {
    ferretto_probes::run(ferretto_probes::ProbesOptions { stop_on_signals: true, ..Default::default() })
}
