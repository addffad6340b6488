//! Addresses of vsock (vsock(7)), by which a virtual machine and its host reach each other: neither the standard library nor rustix has
//! them.

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, SocketAddrAny};

/// The address of one end of a vsock connection, for the calls of `rustix::net`.
///
/// ```
/// use ferretto_sys::VsockAddr;
/// use rustix::net::addr::SocketAddrArg as _;
///
/// let address = VsockAddr { cid: 2, port: 30001 };
/// assert_eq!(VsockAddr::from_any(&address.as_any()), Some(address));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VsockAddr {
    /// The context id: 2 is the host.
    pub cid: u32,
    /// The port.
    pub port: u32,
}

impl VsockAddr {
    /// `None` for an address of another kind.
    pub fn from_any(address: &SocketAddrAny) -> Option<Self> {
        let is_whole = address.addr_len() as usize >= size_of::<SockaddrVm>();
        if address.address_family() != AddressFamily::VSOCK || !is_whole {
            return None;
        }
        // SAFETY: so many bytes are initialized, and they are numbers, of which each value is one.
        // JUSTIFICATION: an address is seen through a pointer only.
        let raw = unsafe { address.as_ptr().cast::<SockaddrVm>().read_unaligned() };
        Some(Self { cid: raw.cid, port: raw.port })
    }
}

// SAFETY: the pointer is to a whole address of the family that it says, which lives until `f` returns.
// JUSTIFICATION: rustix takes foreign kinds of addresses in this way only.
unsafe impl SocketAddrArg for VsockAddr {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        let raw = SockaddrVm {
            family: AddressFamily::VSOCK.as_raw(),
            reserved: 0,
            port: self.port,
            cid: self.cid,
            flags: 0,
            zero: [0; 3],
        };
        f((&raw const raw).cast(), size_of::<SockaddrVm>() as SocketAddrLen)
    }
}

/// `struct sockaddr_vm` of linux/vm_sockets.h.
#[repr(C)]
struct SockaddrVm {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    flags: u8,
    zero: [u8; 3],
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    #[test]
    fn an_address_is_as_long_as_the_kernels_and_no_other_kind_is_taken_for_one() {
        let address = VsockAddr { cid: u32::MAX, port: 7 };
        assert_eq!(address.as_any().addr_len(), 16);
        assert_eq!(VsockAddr::from_any(&address.as_any()), Some(address));
        let inet = SocketAddrAny::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 7)));
        assert_eq!(VsockAddr::from_any(&inet), None);
    }
}
