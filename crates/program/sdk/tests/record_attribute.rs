//! `#[ferretto::record]` on tests: each leaves a trace, and how it ended does not matter.

use std::path::{Path, PathBuf};

use ferretto::protos::trace_config::{BufferConfig, DataSource};
use ferretto::protos::{DataSourceConfig, Trace, TraceConfig, TrackEventConfig};
use prost::Message;

/// Where cargo lets tests write. The default place lies above it.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn in_traces(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // Cargo makes the first mark with the folder, and the second in one that it finds.
    let is_target =
        |folder: &&Path| ["CACHEDIR.TAG", ".rustc_info.json"].iter().any(|mark| folder.join(mark).exists());
    let target = program.ancestors().find(is_target).unwrap();
    target.join("traces").join(name)
}

fn count(file: &Path, text: &str) -> usize {
    let trace = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let trace = Trace::decode(&*trace).unwrap();
    let mentions = |packet: &Vec<u8>| packet.windows(text.len()).any(|part| part == text.as_bytes());
    trace.packet.iter().map(Message::encode_to_vec).filter(mentions).count()
}

mod plain {
    #[ferretto::record]
    pub(super) fn works() -> u32 {
        ferretto::instant!("record", "mark of plain");
        7
    }
}

mod other {
    #[ferretto::record]
    pub(super) fn works() -> Result<u32, String> {
        ferretto::instant!("record", "mark of other");
        Err("early")?;
        Ok(7)
    }
}

#[test]
fn functions_of_one_name_have_traces_of_their_own() {
    assert_eq!(plain::works(), 7);
    assert_eq!(other::works(), Err("early".to_owned()));
    for (module, mark) in [("plain", "mark of plain"), ("other", "mark of other")] {
        let file = in_traces(&format!("ferretto.record_attribute.{module}.works.pftrace"));
        assert_eq!(count(&file, mark), 1, "{module}");
        assert!(count(&file, "works") > 0, "the call itself is a slice");
        std::fs::remove_file(file).unwrap();
    }
}

#[ferretto::record(path = format!("{FOLDER}/panics.pftrace"))]
fn panics() {
    ferretto::instant!("record", "mark of the end");
    panic!("on purpose");
}

#[test]
fn a_panic_is_recorded() {
    let panic = std::panic::catch_unwind(panics).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert_eq!(count(&Path::new(FOLDER).join("panics.pftrace"), "mark of the end"), 1);
}

#[ferretto::record(categories = ["wanted*"], buffer_kb = 64, path = Path::new(FOLDER).join("options.pftrace"))]
fn with_options() {
    ferretto::instant!("wanted.one", "mark of one");
    ferretto::instant!("unwanted", "mark of two");
}

#[test]
fn options_are_heeded() {
    with_options();
    let file = Path::new(FOLDER).join("options.pftrace");
    assert_eq!((count(&file, "mark of one"), count(&file, "mark of two")), (1, 0));
    let trace = Trace::decode(&*std::fs::read(file).unwrap()).unwrap();
    let stats = trace.packet.iter().find_map(|packet| match &packet.data {
        Some(ferretto::protos::trace_packet::Data::TraceStats(stats)) => Some(stats.clone()),
        _ => None,
    });
    assert_eq!(stats.unwrap().buffer_stats[0].buffer_size(), 64 * 1024);
}

fn config() -> TraceConfig {
    let events = TrackEventConfig {
        enabled_categories: vec!["by.config".to_owned()],
        disabled_categories: vec!["*".to_owned()],
        ..Default::default()
    };
    let source = DataSourceConfig {
        name: Some("track_event".to_owned()),
        track_event_config: Some(events),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(64), ..Default::default() }],
        data_sources: vec![DataSource { config: Some(source), ..Default::default() }],
        ..Default::default()
    }
}

#[ferretto::record(config = config(), path = Path::new(FOLDER).join("message.pftrace"))]
fn with_message() {
    ferretto::instant!("by.config", "mark by config");
    ferretto::instant!("record", "mark without");
}

#[ferretto::record(
    config = r#"buffers { size_kb: 64 } data_sources { config { name: "track_event"
        track_event_config { enabled_categories: "by.config" disabled_categories: "*" } } }"#,
    path = Path::new(FOLDER).join("text.pftrace"),
)]
fn with_text() {
    ferretto::instant!("by.config", "mark by config");
    ferretto::instant!("record", "mark without");
}

#[test]
fn a_whole_config_is_taken() {
    with_message();
    with_text();
    for file in ["message.pftrace", "text.pftrace"] {
        let file = Path::new(FOLDER).join(file);
        assert_eq!((count(&file, "mark by config"), count(&file, "mark without")), (1, 0));
    }
}

#[ferretto::record]
#[test]
fn above_test() {
    ferretto::instant!("record", "above");
}

#[test]
#[ferretto::record]
fn below_test() {
    ferretto::instant!("record", "below");
}

#[ferretto::record(path = Path::new(FOLDER).join("tokio-above.pftrace"))]
#[tokio::test]
async fn above_the_test_of_a_runtime() -> Result<(), std::io::Error> {
    tokio::task::yield_now().await;
    ferretto::instant!("record", "awaited");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ferretto::record(path = Path::new(FOLDER).join("tokio-below.pftrace"))]
async fn below_the_test_of_a_runtime() {
    let task = tokio::spawn(async { ferretto::instant!("record", "awaited elsewhere") });
    task.await.unwrap();
}

struct Method(u32);

impl Method {
    #[ferretto::record(path = Path::new(FOLDER).join("method.pftrace"))]
    async fn method<T: Copy>(&mut self, value: T) -> (u32, T) {
        self.0 += 1;
        tokio::task::yield_now().await;
        ferretto::instant!("record", "mark of a method");
        (self.0, value)
    }
}

#[tokio::test]
async fn methods_and_tasks_are_recorded() {
    let mut method = Method(1);
    assert_eq!(method.method("x").await, (2, "x"));
    assert_eq!(count(&Path::new(FOLDER).join("method.pftrace"), "mark of a method"), 1);
}

#[ferretto::record(path = "/dev/null/impossible/x.pftrace")]
fn nowhere() {}

#[ferretto::record(config = "bufers {}")]
fn mistaken() {}

#[test]
fn what_is_wrong_is_said() {
    for (function, words) in [
        (nowhere as fn(), ["`nowhere` was not recorded", "/dev/null/impossible"]),
        (mistaken as fn(), ["`mistaken` was not recorded", "did you mean `buffers`"]),
    ] {
        let panic = std::panic::catch_unwind(function).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn many_at_once_wait_for_each_other() {
    #[ferretto::record(path = format!("{FOLDER}/many-{number}.pftrace"))]
    fn one(number: usize) {
        ferretto::instant!("record", "mark", text = &*format!("number {number}."));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let threads: Vec<_> = (0..16).map(|number| std::thread::spawn(move || one(number))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for number in 0..16 {
        let file = PathBuf::from(format!("{FOLDER}/many-{number}.pftrace"));
        assert_eq!(count(&file, &format!("number {number}.")), 1);
    }
}
