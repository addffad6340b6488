//! Sessions that outlive their consumer (upstream: `DetachConsumer`, `AttachConsumer`).

use ferretto_protos::{AttachResponse, DetachResponse};

use crate::ids::{ConsumerConn, Token};
use crate::limits;
use crate::output::Reply;
use crate::registry::Peer;
use crate::service::Service;

impl Service {
    pub(crate) fn detach(&mut self, from: ConsumerConn, token: Token, key: &str) {
        let Some(session_id) = self.session_of(from) else {
            return self.reply_consumer(from, Reply::rejected(token));
        };
        let uid = self.sessions.get(&session_id).map(|session| session.owner_uid);
        let same = |session: &crate::session::Session| {
            Some(session.owner_uid) == uid && session.detach_key.as_deref() == Some(key)
        };
        // Nobody in particular could never attach to it again.
        let is_nobody = uid == Some(Peer::UNKNOWN_UID);
        if is_nobody
            || key.is_empty()
            || key.len() > limits::MAX_KEY_BYTES
            || self.sessions.values().any(same)
        {
            return self.reply_consumer(from, Reply::rejected(token));
        }
        self.end_reading(from);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.owner = None;
            session.detach_key = Some(key.to_owned());
        }
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.session = None;
        }
        self.answer_consumer(from, token, &DetachResponse::default());
    }

    pub(crate) fn attach(&mut self, from: ConsumerConn, token: Token, key: &str) {
        let Some(consumer) = self.consumers.get_mut(&from) else { return };
        let peer = consumer.peer;
        let waits = |session: &&mut crate::session::Session| {
            peer.is_user(session.owner_uid)
                && session.owner.is_none()
                && session.detach_key.as_deref() == Some(key)
        };
        let found = self.sessions.values_mut().find(waits);
        let (Some(session), None) = (found, consumer.session) else {
            return self.reply_consumer(from, Reply::rejected(token));
        };
        session.owner = Some(from);
        session.detach_key = None;
        consumer.session = Some(session.id);
        let response = AttachResponse { trace_config: Some(session.config.raw.clone()) };
        self.answer_consumer(from, token, &response);
    }
}
