//! A config with two mistakes is refused for the one that upstream finds first (tracing_service_impl.cc, `EnableTracing`).

mod world;

use ferretto_service::{ConsumerConn, FileHandle};
use world::{World, config};

/// Whose configs are refused.
const UID: u32 = 1000;

struct Mistake {
    /// Stands in the config.
    text: String,
    /// What the error says.
    error: &'static str,
    /// What it collides with.
    before: Before,
}

/// What happened before the config came. In the order in which it can be brought about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    Nothing,
    /// A trace of the same name, which is over.
    Recent,
    /// A session of the consumer itself.
    OwnSession,
    SameName,
    SameSemaphore,
    /// All sessions that a user may have.
    AllOfUser,
    /// All sessions that there may be.
    All,
    /// A session that wants to be alone. It ends all others, so it goes with none of them.
    Exclusive,
}

/// Upstream's order. The rows of one field are one after another in the config too.
fn mistakes() -> Vec<Mistake> {
    let plain = |text: &str, error| Mistake { text: text.to_owned(), error, before: Before::Nothing };
    let meets = |before, error| Mistake { text: String::new(), error, before };
    vec![
        meets(Before::OwnSession, "has a tracing session already"),
        plain("duration_ms: 86400001", "duration_ms is"),
        plain("bugreport_filename: \"a/b\"", "bugreport_filename"),
        plain("deferred_start: true", "does not allow deferred_start"),
        plain("buffers { size_kb: 5 }", "multiples of 4 KiB"),
        plain("buffers { size_kb: 200000 }", "of buffers; the config asks for"),
        plain(&"buffers { size_kb: 4 } ".repeat(129), "a session has at most"),
        plain(
            "buffers { size_kb: 4 name: \"a\" } buffers { size_kb: 4 name: \"a\" }",
            "two buffers are named",
        ),
        plain("data_sources { config { name: \"x\" target_buffer: 999 } }", "wants target_buffer 999"),
        meets(Before::Exclusive, "a session with exclusive_prio 5 is running"),
        plain("exclusive_prio: 1", "may only be used by root"),
        meets(Before::SameName, "exists already"),
        Mistake {
            text: "session_semaphores { name: \"s\" max_other_session_count: 0 }".to_owned(),
            error: "session semaphore",
            before: Before::SameSemaphore,
        },
        meets(Before::Recent, "was started less than 300 s ago"),
        meets(Before::AllOfUser, "user 1000 has 5"),
        meets(Before::All, "there are 15 concurrent"),
        plain("trace_filter {}", "trace_filter.bytecode"),
        plain("priority_boost { policy: POLICY_SCHED_OTHER priority: 21 }", "priority_boost needs policy"),
        plain("write_into_file: true", "got neither"),
        plain("buffers { size_kb: 0 }", "buffers[0].size_kb is 0"),
    ]
}

fn other(world: &mut World, uid: u32, text: &str) -> ConsumerConn {
    let consumer = world.consumer(uid);
    world.enable(consumer, text);
    assert_eq!(world.ended(consumer), None, "{text}");
    consumer
}

fn bring_about(before: Before, world: &mut World, consumer: ConsumerConn) {
    match before {
        Before::Nothing => {}
        Before::Recent => {
            let text = "enable_extra_guardrails: true unique_session_name: \"n\"";
            let recent = other(world, UID, text);
            world.free(recent);
        }
        Before::OwnSession => {
            world.enable(consumer, &config(""));
            assert_eq!(world.ended(consumer), None);
        }
        Before::SameName => {
            other(world, UID, "unique_session_name: \"n\"");
        }
        Before::SameSemaphore => {
            other(world, 5, "session_semaphores { name: \"s\" max_other_session_count: 1 }");
        }
        Before::AllOfUser => {
            let looking = world.consumer(UID);
            for _ in world.query(looking).tracing_sessions.len()..5 {
                other(world, UID, "");
            }
        }
        Before::All => {
            for index in world.service.session_count()..15 {
                other(world, 100 + index as u32, "");
            }
        }
        Before::Exclusive => {
            other(world, 0, "exclusive_prio: 5");
        }
    }
}

/// The error of a config with these mistakes; `None` if it is accepted.
fn refusal(mistakes: &[&Mistake]) -> Option<String> {
    let mut world = World::default();
    let consumer = world.consumer(UID);
    let mut before: Vec<Before> = mistakes.iter().map(|mistake| mistake.before).collect();
    before.sort();
    for before in before {
        bring_about(before, &mut world, consumer);
    }
    let texts: Vec<&str> = mistakes.iter().map(|mistake| mistake.text.as_str()).collect();
    let text = format!("enable_extra_guardrails: true unique_session_name: \"n\" {}", texts.join(" "));
    world.enable(consumer, &text);
    world.ended(consumer)
}

/// Both cannot be the case.
fn exclude_each_other(a: &Mistake, b: &Mistake) -> bool {
    let is_session =
        |mistake: &Mistake| mistake.before > Before::Recent && mistake.before < Before::Exclusive;
    a.before == Before::Exclusive && is_session(b) || b.before == Before::Exclusive && is_session(a)
}

#[test]
fn of_two_mistakes_upstreams_first_is_told() {
    assert_eq!(refusal(&[]), None);
    let mistakes = mistakes();
    for (index, first) in mistakes.iter().enumerate() {
        let error = refusal(&[first]).unwrap_or_else(|| panic!("accepted: {}", first.error));
        assert!(error.contains(first.error), "{error:?} lacks {:?}", first.error);
        for second in mistakes.iter().skip(index + 1).filter(|second| !exclude_each_other(first, second)) {
            let error = refusal(&[first, second]).unwrap_or_default();
            assert!(
                error.contains(first.error),
                "{error:?} lacks {:?}; second: {}",
                first.error,
                second.error
            );
        }
    }
}

#[test]
fn lockdown_counts_though_the_config_is_refused() {
    let mut world = World::default();
    let consumer = world.consumer(0);
    world.enable(consumer, "lockdown_mode: LOCKDOWN_SET duration_ms: 604800001");
    assert!(world.ended(consumer).is_some());
    let stranger = world.producer("p");
    assert!(world.producers[&stranger].response.is_none());
}

#[test]
fn names_of_finished_sessions_are_taken_until_they_are_freed() {
    let mut world = World::default();
    let text = config("unique_session_name: \"n\"");
    let (first, second) = (world.consumer(1), world.consumer(1));
    world.enable(first, &text);
    world.disable(first);
    world.enable(second, &text);
    assert!(world.ended(second).unwrap().contains("exists already"));
    world.free(first);
    world.enable(second, &text);
    assert_eq!(world.ended(second), None);
}

#[test]
fn a_freed_sessions_name_is_free_though_its_file_is_not_written_yet() {
    let mut world = World::default();
    let text = config("unique_session_name: \"n\" exclusive_prio: 1 write_into_file: true");
    let first = world.consumer(0);
    world.enable_into(first, &text, FileHandle(1));
    world.files_wait = true;
    world.free(first);
    assert_eq!(world.service.session_count(), 1);
    world.enable(first, &config("unique_session_name: \"n\" exclusive_prio: 1"));
    assert_eq!(world.ended(first).as_deref(), Some(""), "the answer to the first call");
    assert_eq!(world.service.session_count(), 2);
}

#[test]
fn traces_without_name_keep_their_distance_too() {
    let mut world = World::default();
    let consumer = world.consumer(1);
    let text = "enable_extra_guardrails: true";
    world.enable(consumer, text);
    world.free(consumer);
    world.ended(consumer);
    for (wait_ms, is_refused) in [(300_000, true), (999, true), (1, false)] {
        world.advance_ms(wait_ms);
        world.enable(consumer, text);
        assert_eq!(world.ended(consumer).is_some(), is_refused, "{wait_ms}");
    }
}
