//! Listens: a thread a connection.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::Engine;
use crate::exchange::{Exchange, Trouble};
use crate::guard::Guard;
use crate::routes;

/// Connections at once. A notebook has one; each is a thread.
const MAX_CONNECTIONS: usize = 64;

/// Answers on an address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    guard: Guard,
    connections: AtomicUsize,
}

impl Server {
    /// Listens there. Pages from `origins` may ask, besides those of the Perfetto UI.
    ///
    /// # Errors
    ///
    /// If the address is none, or is in use.
    pub fn bind(
        address: impl ToSocketAddrs,
        engine: Engine,
        origins: impl IntoIterator<Item = String>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Shared { engine, guard: Guard::new(origins), connections: AtomicUsize::new(0) };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends.
    pub fn run(&self) {
        for stream in self.listener.incoming() {
            match stream {
                Ok(stream) => self.shared.clone().take(stream),
                // Of descriptors there are none: some will be closed.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
        }
    }
}

impl Shared {
    fn take(self: Arc<Self>, stream: TcpStream) {
        let Ok(mut exchange) = Exchange::new(stream) else { return };
        if self.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            let _ = exchange.answer("503 Service Unavailable", "", b"there are too many connections\n", true);
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let shared = self.clone();
        let serve = move || {
            shared.serve(exchange);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("connection".to_owned()).spawn(serve).is_err() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve(&self, mut exchange: Exchange) {
        loop {
            match self.serve_next(&mut exchange) {
                Ok(true) => {}
                Ok(false) => return exchange.hang_up(),
                Err(Trouble::Over) => return,
                Err(Trouble::Bad(status, text)) => {
                    let headers = "Content-Type: text/plain; charset=utf-8\r\n";
                    let _ = exchange.answer(status, headers, format!("{text}\n").as_bytes(), true);
                    return exchange.hang_up();
                }
            }
        }
    }

    /// True if another request may come.
    fn serve_next(&self, exchange: &mut Exchange) -> Result<bool, Trouble> {
        let head = exchange.head()?;
        let is_last = head.is_http_1_0() || head.has_token("Connection", "close");
        let origin = self.guard.admit(&head).map_err(|why| Trouble::Bad("403 Forbidden", why.to_owned()))?;
        let mut headers = String::new();
        if let Some(origin) = origin {
            headers = format!("Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n");
        }
        match head.method() {
            "OPTIONS" => {
                headers += "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\nAccess-Control-Allow-Headers: *\r\n\
                            Access-Control-Allow-Private-Network: true\r\nAccess-Control-Max-Age: 600\r\n";
                exchange.answer("204 No Content", &headers, b"", is_last)?;
            }
            "GET" | "POST" => routes::serve(&self.engine, exchange, &head, &headers, is_last)?,
            _ => return Err(Trouble::Bad("405 Method Not Allowed", "GET and POST are served".to_owned())),
        }
        Ok(!is_last)
    }
}
