use super::*;

fn found() -> [Check; 3] {
    [
        Check::ok("user", "root on \u{1b}[31mLinux"),
        Check::partly("clock", "2000 ns a reading").cure(Some("boot with clocksource=tsc")),
        Check::missing("kernel events", "tracefs is not mounted").cure(None::<String>),
    ]
}

#[test]
fn each_thing_has_a_line_and_what_helps_another_one() {
    let expected = "\
ok       user           root on \\u{1b}[31mLinux
partly   clock          2000 ns a reading
                        cure: boot with clocksource=tsc
missing  kernel events  tracefs is not mounted

1 partly there, 1 missing.
";
    assert_eq!(text(&found()), expected);
    assert_eq!(text(&[Check::ok("user", "root")]), "ok       user  root\n\nAll is there.\n");
}

#[test]
fn programs_have_it_as_json() {
    let expected = r#"{"checks":[{"about":"clock","state":"partly","says":"2000 ns a reading","cure":"boot with clocksource=tsc"}]}"#;
    assert_eq!(json(&found()[1..2]).to_string(), expected);
}

#[test]
fn whoever_asks_hears_of_each_thing_once() {
    let checks = checks::all();
    for about in ["user", "kernel events", checks::SOURCES, "profile", "service", "space", "clock"] {
        assert_eq!(checks.iter().filter(|check| check.about == about).count(), 1, "{about}");
    }
    // The system's description and processes are there for everybody.
    let sources = checks.iter().find(|check| check.about == checks::SOURCES).unwrap();
    assert!(sources.state == State::Ok && sources.says.contains("linux.process_stats"), "{sources:?}");
    for check in checks.iter().filter(|check| check.state == State::Ok) {
        assert_eq!(check.cure, None, "{check:?}");
    }
}
