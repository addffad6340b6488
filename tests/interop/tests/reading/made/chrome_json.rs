//! Chrome's trace events, of all kinds and in all the ways in which numbers are written.

use std::fmt::Write;

use super::Numbers;

/// An object, with what is beside the events.
pub(crate) fn events() -> String {
    let mut numbers = Numbers::of(4);
    let mut events = vec![
        r#"{"ph":"M","pid":7,"tid":7,"name":"process_name","args":{"name":"browser"}}"#.to_owned(),
        r#"{"ph":"M","pid":7,"tid":8,"name":"thread_name","args":{"name":"painter \"the\" ünique"}}"#
            .to_owned(),
        r#"{"ph":"M","pid":7,"tid":8,"name":"thread_sort_index","args":{"sort_index":-3}}"#.to_owned(),
        r#"{"ph":"M","pid":7,"name":"process_sort_index","args":{"sort_index":2}}"#.to_owned(),
    ];
    for round in 0..60_u64 {
        let ts = 1000 + round * 100 + numbers.below(10);
        let tid = 7 + round % 3;
        let at = |after: u64| ts + after;
        let mut event = |text: String| events.push(format!("{{\"pid\":7,\"tid\":{tid},{text}}}"));
        event(format!(
            r#""ph":"X","cat":"work","name":"outer","ts":{ts}.125,"dur":80.5,"tts":{},"tdur":20"#,
            ts / 2
        ));
        event(format!(
            r#""ph":"B","cat":"work","name":"inner","ts":{},"args":{{"n":{round},"deep":{{"list":[1,2.5,"x",true,null]}}}}"#,
            at(10)
        ));
        event(format!(r#""ph":"E","cat":"work","name":"inner","ts":{},"args":{{"result":"fine"}}"#, at(40)));
        event(format!(r#""ph":"i","s":"t","name":"tick","ts":"{}.5""#, at(50)));
        if round % 5 == 0 {
            event(format!(r#""ph":"i","s":"p","name":"of the process","ts":{}"#, at(51)));
            event(format!(r#""ph":"I","s":"g","name":"of all","ts":{}"#, at(52)));
        }
        event(format!(
            r#""ph":"C","name":"load","ts":{},"args":{{"user":{},"system":"{}"}}"#,
            at(55),
            numbers.below(100),
            numbers.below(9)
        ));
        event(format!(r#""ph":"b","cat":"net","id":"0x{round:x}","name":"request","ts":{}"#, at(60)));
        event(format!(
            r#""ph":"n","cat":"net","id":"0x{round:x}","name":"header","ts":{},"args":{{"bytes":{}}}"#,
            at(62),
            numbers.below(5000)
        ));
        event(format!(r#""ph":"s","cat":"arrow","id":{round},"name":"to","ts":{}"#, at(70)));
        event(format!(r#""ph":"e","cat":"net","id":"0x{round:x}","name":"request","ts":{}"#, at(90)));
        events.push(format!(r#"{{"pid":7,"tid":9,"ph":"X","name":"receive","ts":{},"dur":9}}"#, at(85)));
        events.push(format!(
            r#"{{"pid":7,"tid":9,"ph":"f","bp":"e","cat":"arrow","id":{round},"name":"to","ts":{}}}"#,
            at(86)
        ));
    }
    // Without a name, a thread, an end; a process that is a text.
    events.push(r#"{"pid":9,"ph":"X","ts":9000,"dur":4}"#.to_owned());
    events.push(r#"{"pid":"helper","tid":"main","ph":"B","name":"endless","ts":9001}"#.to_owned());
    let mut text =
        "{\"displayTimeUnit\":\"ms\",\"metadata\":{\"by\":\"hand\",\"version\":3},\"traceEvents\":[\n"
            .to_owned();
    write!(text, "{}\n]}}\n", events.join(",\n")).expect("a text");
    text
}
