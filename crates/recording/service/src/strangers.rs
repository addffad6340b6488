//! What a session may want of a program that is another user's.
//!
//! Whoever may open the consumer socket records everybody's programs; but these have few places for instances of a data source (upstream:
//! `kMaxDataSourceInstances`, eight of a type), and should not have to wait. Root, the service's own user and the program's own are no strangers.

use bytes::Bytes;
use ferretto_protos::data_source_config::BufferExhaustedPolicy;
use ferretto_protos::fields::data_source_config as field;
use ferretto_protozero::Message;

use crate::config::DataSourceSpec;
use crate::limits;
use crate::registry::{Peer, Producer, SourceSerial};
use crate::service::Service;
use crate::session::{Session, State};

impl Service {
    /// Root, and the service's own user.
    pub(crate) fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || uid == self.options.uid && uid != Peer::UNKNOWN_UID
    }

    pub(crate) fn is_stranger(&self, session: &Session, producer: &Producer) -> bool {
        let is_his_own = !producer.peer.emulated && producer.peer.is_user(session.owner_uid);
        !is_his_own && !self.is_privileged(session.owner_uid)
    }

    /// Whether one more instance of a data source leaves places to others, and to those who are no strangers.
    pub(crate) fn leaves_places(&self, session: &Session, producer: &Producer, source: SourceSerial) -> bool {
        if !self.is_stranger(session, producer) {
            return session.instances.count_of(source) < limits::MAX_INSTANCES_PER_SOURCE;
        }
        let (of_one, of_all) = match self.is_privileged(producer.peer.uid) {
            true => {
                (limits::MAX_INSTANCES_FOR_A_STRANGER_OF_ROOTS, limits::MAX_INSTANCES_FOR_STRANGERS_OF_ROOTS)
            }
            false => (limits::MAX_INSTANCES_FOR_A_STRANGER, limits::MAX_INSTANCES_FOR_STRANGERS),
        };
        let takes_places = |other: &&Session| {
            matches!(other.state, State::Configured | State::Started | State::Stopping { .. })
                && self.is_stranger(other, producer)
        };
        let (mut taken_by_one, mut taken_by_all) = (0, 0);
        for other in self.sessions.values().filter(takes_places) {
            let count = other.instances.count_of(source);
            taken_by_all += count;
            taken_by_one += if other.owner_uid == session.owner_uid { count } else { 0 };
        }
        taken_by_one < of_one && taken_by_all < of_all
    }
}

/// A data source's config as strangers' programs get it, unless it is the same: what a program does when its memory is full is not for
/// others to say, if it would wait or end.
pub(crate) fn without_stall(spec: &DataSourceSpec, config: &Bytes) -> Option<Bytes> {
    spec.wants_stall.then(|| {
        let mut raw = config.to_vec();
        // Of a field that occurs twice the last one counts.
        let drop = BufferExhaustedPolicy::BufferExhaustedDrop as u64;
        Message::new(&mut raw).varint(field::BUFFER_EXHAUSTED_POLICY, drop);
        raw.into()
    })
}
