//! Frames, method tables, requests and replies, and descriptors in transit over sockets.
//!
//! The two ends of a connection are state machines without I/O: [`host::HostConnection`] (the service's end) and
//! [`client::ClientConnection`] (a producer's or a consumer's end). Bytes and descriptors go in with `handle_*`, requests,
//! events and bytes to send come out with `poll_*`. [`socket`] has the thin sockets that carry them, [`link::ClientLink`] joins
//! a client and its socket for any poll loop. Nothing here knows what a method means.
//!
//! ```
//! use ferretto_ipc::client::{ClientConnection, Event};
//! use ferretto_ipc::host::{HostConnection, Reply};
//! use ferretto_ipc::methods;
//! use ferretto_protos::{QueryCapabilitiesRequest, QueryCapabilitiesResponse};
//!
//! let mut client = ClientConnection::new("ConsumerPort");
//! let mut host = HostConnection::new(&[methods::CONSUMER_PORT]);
//!
//! // What a driver does with sockets: carry bytes from the one to the other.
//! fn carry(client: &mut ClientConnection, host: &mut HostConnection) {
//!     while let Some(transmit) = client.poll_transmit() {
//!         let bytes = transmit.bytes.to_vec();
//!         client.transmitted(bytes.len());
//!         host.handle_bytes(&bytes).unwrap();
//!     }
//!     while let Some(transmit) = host.poll_transmit() {
//!         let bytes = transmit.bytes.to_vec();
//!         host.transmitted(bytes.len());
//!         client.handle_bytes(&bytes).unwrap();
//!     }
//! }
//!
//! carry(&mut client, &mut host);
//! assert!(matches!(client.poll_event(), Some(Event::Bound)));
//!
//! let id = client.invoke("QueryCapabilities", &QueryCapabilitiesRequest::default(), None, true).unwrap();
//! carry(&mut client, &mut host);
//! let request = host.poll_request().unwrap();
//! assert_eq!(request.method_name(), "QueryCapabilities");
//! host.reply(request.id, Reply::message(&QueryCapabilitiesResponse::default()), false, None).unwrap();
//! carry(&mut client, &mut host);
//! assert!(matches!(client.poll_event(), Some(Event::Reply { request, body: Some(_), .. }) if request == id));
//! ```
#![forbid(unsafe_code)]

pub mod address;
pub mod client;
pub mod descriptors;
pub mod frame;
mod frame_size;
pub mod host;
pub mod identity;
pub mod link;
pub mod log;
pub mod methods;
mod outgoing;
pub mod recorder;
pub mod remote;
pub mod socket;
mod trust;
pub mod walk;
mod wire;

pub use outgoing::{MAX_QUEUED_BYTES, QueueError, Transmit};
