//! Who may ask: programs, and pages of the UI.
//!
//! A browser lets any page send requests to this machine. What it says of the page keeps others out: its origin, where there is one, and else
//! whether the request is one between sites. A page whose name was made to lead here by its owner's name server is known by the
//! name that it asks for: what listens on an address of its own has no other.

use std::net::IpAddr;

use ferretto_http::{Head, Origins};

/// Pages that may ask in any case: the UI, and one that is built on this machine (upstream: httpd.cc).
const UI_ORIGINS: [&str; 3] = ["https://ui.perfetto.dev", "http://localhost:10000", "http://127.0.0.1:10000"];

/// The rules.
#[derive(Debug)]
pub(crate) struct Guard(Origins);

impl Guard {
    /// Pages of `others` may ask, too.
    pub(crate) fn new(others: impl IntoIterator<Item = String>) -> Self {
        Self(Origins::new(UI_ORIGINS.map(str::to_owned).into_iter().chain(others)))
    }

    /// The origin of the page that asks, if it is a page that does; or why it may not.
    pub(crate) fn admit<'a>(&self, head: &'a Head) -> Result<Option<&'a str>, &'static str> {
        if !head.values("Host").all(is_own_name) {
            return Err("requests are for localhost or an address, and not for another name");
        }
        let origin = head.values("Origin").next();
        if !head.values("Origin").all(|origin| self.0.knows(origin)) {
            return Err("pages of this origin may not ask: --allow-origin lets them");
        }
        let is_of_a_page = |site: &str| site != "none" && site != "same-origin";
        if origin.is_none() && head.values("Sec-Fetch-Site").any(is_of_a_page) {
            return Err("other sites may not ask");
        }
        Ok(origin)
    }
}

/// `localhost:9001`, `127.0.0.1`, `[::1]:9001`.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_pages_of_the_ui_may_ask() {
        let guard = Guard::new(["https://own.example".to_owned()]);
        for (headers, may) in [
            ("", true),
            ("Host: localhost:9001", true),
            ("Host: 127.0.0.1:9001", true),
            ("Host: [::1]:9001", true),
            ("Host: evil.example:9001", false),
            ("Host: localhost.evil.example", false),
            ("Host: localhost\r\nHost: evil.example", false),
            ("Origin: https://ui.perfetto.dev", true),
            ("Origin: https://own.example", true),
            ("Origin: https://evil.example", false),
            ("Origin: null", false),
            ("Origin: https://ui.perfetto.dev\r\nOrigin: https://evil.example", false),
            ("Sec-Fetch-Site: cross-site", false),
            ("Sec-Fetch-Site: same-site", false),
            ("Sec-Fetch-Site: none", true),
            ("Origin: https://ui.perfetto.dev\r\nSec-Fetch-Site: cross-site", true),
        ] {
            let line = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
            let request = format!("GET /status HTTP/1.1\r\n{line}\r\n");
            let (_, head) = Head::parse(request.as_bytes()).unwrap().unwrap();
            assert_eq!(guard.admit(&head).is_ok(), may, "{headers}");
        }
    }
}
