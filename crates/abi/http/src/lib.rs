//! Heads of HTTP requests, read within bounds, and what they say of who asks.
//!
//! Browsers tell the origin of the page that asks, and let no page change that. It keeps other sites away from what listens on a machine's own
//! address.
//!
//! ```
//! use ferretto_http::{Head, Origins};
//!
//! let bytes = b"GET /status HTTP/1.1\r\nHost: localhost:9001\r\nOrigin: https://ui.perfetto.dev\r\n\r\nrest";
//! let (len, head) = Head::parse(bytes)?.expect("it is whole");
//! assert_eq!(&bytes[len..], b"rest");
//! assert_eq!((head.method(), head.path()), ("GET", "/status"));
//!
//! let origins = Origins::new(["https://ui.perfetto.dev".to_owned()]);
//! assert!(head.values("origin").all(|origin| origins.knows(origin)));
//! # Ok::<_, ferretto_http::Error>(())
//! ```
#![forbid(unsafe_code)]

/// A browser adds every cookie of localhost, whichever port set it; more than this no browser sends.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Browsers send about fifteen.
pub const MAX_HEADERS: usize = 64;

/// Why bytes are no head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// They are something else.
    #[error("this is no HTTP request")]
    Malformed,
    /// They are too many.
    #[error(
        "the request's head is larger than {MAX_HEAD_BYTES} bytes or has more than {MAX_HEADERS} headers"
    )]
    TooLong,
}

/// The head of a request.
#[derive(Clone, Debug, Default)]
pub struct Head {
    method: String,
    path: String,
    is_http_1_0: bool,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The head that the bytes begin with, and its length; `None`: there is more to come.
    ///
    /// # Errors
    ///
    /// If they are no head, or it is larger than the bounds.
    pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, Error> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let len = match request.parse(bytes) {
            Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD_BYTES => len,
            Ok(httparse::Status::Complete(_)) => return Err(Error::TooLong),
            Ok(httparse::Status::Partial) if bytes.len() >= MAX_HEAD_BYTES => return Err(Error::TooLong),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Error::TooLong),
            Err(_) => return Err(Error::Malformed),
        };
        let text = |header: &httparse::Header<'_>| {
            (header.name.to_owned(), String::from_utf8_lossy(header.value).trim().to_owned())
        };
        let head = Self {
            method: request.method.unwrap_or_default().to_owned(),
            path: request.path.unwrap_or_default().to_owned(),
            is_http_1_0: request.version == Some(0),
            headers: request.headers.iter().map(text).collect(),
        };
        Ok(Some((len, head)))
    }

    /// Such as `GET`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What is asked for, such as `/status?a=1`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is of HTTP 1.0, whose answers end with the connection.
    #[must_use]
    pub fn is_http_1_0(&self) -> bool {
        self.is_http_1_0
    }

    /// The values of all headers of this name, in letters of any size.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Whether a header that is a list has this in it.
    #[must_use]
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.values(name).flat_map(|list| list.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
    }
}

/// Pages that may ask, by their origins.
#[derive(Clone, Debug, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Of pages from these places, such as `https://ui.perfetto.dev`.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        Self(origins.into_iter().collect())
    }

    /// Whether pages from there may ask.
    #[must_use]
    pub fn knows(&self, origin: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(usize, Head)>, Error> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_head_that_is_not_whole_has_more_to_come() {
        let whole = "POST /query HTTP/1.1\r\nHost: a\r\nAccept: b, C\r\n\r\n";
        for len in 0..whole.len() {
            assert!(matches!(parse(&whole[..len]), Ok(None)), "{len}");
        }
        let (len, head) = parse(whole).unwrap().unwrap();
        assert_eq!(len, whole.len());
        assert!(matches!(parse("GET / HTTP/1.1\r\n\r\nrest"), Ok(Some((18, _)))));
        assert!(head.has_token("accept", "c") && !head.has_token("accept", "d") && !head.is_http_1_0());
    }

    #[test]
    fn a_head_has_bounds() {
        let many = "A: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\n{many}\r\n")).unwrap_err(), Error::TooLong);
        let long = "x".repeat(MAX_HEAD_BYTES);
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\nA: {long}\r\n\r\n")).unwrap_err(), Error::TooLong);
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\nA: {long}")).unwrap_err(), Error::TooLong);
        assert_eq!(parse("\u{1}\u{2}\u{3}\r\n\r\n").unwrap_err(), Error::Malformed);
    }
}
