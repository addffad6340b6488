//! Descriptors that block whoever closes them, sent to a service that did not ask for any.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ferretto_protos::QueryCapabilitiesRequest;

use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "blocking_descriptors",
    tells: "sockets that linger for 10 s when they are closed, passed with calls that take no descriptor",
    needs_many: false,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const LINGER: Duration = Duration::from_secs(10);
const DESCRIPTORS: usize = 20;

fn run(target: &Target) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    let mut far_ends = Vec::new();
    for _ in 0..DESCRIPTORS {
        if !target.goes_on() {
            break;
        }
        let (near, far) = lingering()?;
        far_ends.push(far);
        consumer.send_with_fd("QueryCapabilities", &QueryCapabilitiesRequest::default(), near.as_fd())?;
        // Theirs is the last one, whose closing lingers.
        drop(near);
        consumer.wait()?;
    }
    Ok(())
}

/// A connection whose far end reads nothing and whose near end is full.
fn lingering() -> io::Result<(OwnedFd, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    rustix::net::sockopt::set_socket_linger(&near, Some(LINGER))?;
    near.set_nonblocking(true)?;
    while io::Write::write(&mut &near, &[0; 64 * 1024]).is_ok() {}
    Ok((near.into(), far))
}
