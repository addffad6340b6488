//! Who a process is, and which machine it is on, as told over sockets where the kernel does not say (TCP, vsock).
//!
//! None of it is proven: whoever can connect can claim to be anybody. Upstream: `host_impl.cc`, `relay_service.cc`.

use std::ffi::CStr;

use ferretto_protos::IpcFrame;
use ferretto_protos::ipc_frame::{Msg, SetPeerIdentity};
use ferretto_protozero::fnv::fnv1a;
use ferretto_sys::read_file;

use crate::address::environment;
use crate::frame::{self, FrameError};

/// Overrides the machine's name.
pub const MACHINE_NAME_ENV: &str = "PERFETTO_MACHINE_NAME";

/// The machine that the service runs on. Others never have this id.
pub const HOST_MACHINE_ID: u32 = 0;

/// Changes at every boot, and is the same for all processes of a machine.
const BOOT_ID: &CStr = c"/proc/sys/kernel/random/boot_id";

/// The name of this machine: from `PERFETTO_MACHINE_NAME`, else the kernel's ("Linux").
pub fn machine_name() -> String {
    let set = environment(MACHINE_NAME_ENV).and_then(|name| name.into_string().ok());
    let set = set.filter(|name| !name.is_empty());
    set.unwrap_or_else(|| rustix::system::uname().sysname().to_string_lossy().into_owned())
}

/// What a process of this machine says of itself in its first frame.
pub fn peer_identity(pid: i32, uid: u32) -> SetPeerIdentity {
    let boot_id = read_file(BOOT_ID);
    SetPeerIdentity {
        pid: Some(pid),
        uid: Some(uid.cast_signed()),
        machine_id_hint: Some(String::from_utf8_lossy(boot_id.trim_ascii()).into_owned()),
        machine_name: Some(machine_name()),
    }
}

/// The frame that carries an identity, before any other of a connection.
pub fn identity_frame(identity: SetPeerIdentity) -> Result<Vec<u8>, FrameError> {
    let msg = Some(Msg::SetPeerIdentity(identity));
    frame::encode(&IpcFrame { request_id: Some(0), msg, ..Default::default() })
}

/// The id of another machine: from what a peer there gives as a hint, else from its address without port. Never [`HOST_MACHINE_ID`].
///
/// ```
/// use ferretto_ipc::identity::machine_id;
/// assert_eq!(machine_id("", "10.0.0.2"), machine_id("10.0.0.2", "elsewhere"));
/// assert_eq!(machine_id("a", ""), 0x8601_ec8c);
/// ```
pub fn machine_id(hint: &str, peer_host: &str) -> u32 {
    let text = if hint.is_empty() { peer_host } else { hint };
    // The lower half.
    match fnv1a(text.as_bytes()) as u32 {
        HOST_MACHINE_ID => 1,
        id => id,
    }
}
