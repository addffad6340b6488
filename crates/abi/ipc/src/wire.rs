//! [`IpcFrame`] to bytes and back.
//!
//! By hand: a frame is around every message, and a program with the SDK has to carry this around. The bytes that a frame carries, most
//! of it, are not copied on the way in, and once on the way out.

use bytes::Bytes;
use ferretto_protos::IpcFrame;
use ferretto_protos::fields::ipc_frame::{
    DATA_FOR_TESTING, MSG_BIND_SERVICE, MSG_BIND_SERVICE_REPLY, MSG_INVOKE_METHOD, MSG_INVOKE_METHOD_REPLY,
    MSG_REQUEST_ERROR, REQUEST_ID, SET_PEER_IDENTITY, bind_service, bind_service_reply, invoke_method,
    invoke_method_reply, request_error, set_peer_identity,
};
use ferretto_protos::ipc_frame::bind_service_reply::MethodInfo;
use ferretto_protos::ipc_frame::{
    BindService, BindServiceReply, InvokeMethod, InvokeMethodReply, Msg, RequestError, SetPeerIdentity,
};
use ferretto_protozero::control::{ControlError, Reader, Writer};

use crate::frame_size::{FrameError, HEADER_SIZE, MAX_FRAME_SIZE};

/// A frame as it goes over the socket, in parts.
pub(crate) struct EncodedFrame<'a> {
    header: [u8; HEADER_SIZE],
    fields: Vec<u8>,
    /// The message that the frame carries: its last field.
    body: &'a [u8],
}

impl<'a> EncodedFrame<'a> {
    /// Any frame, if it may be sent.
    pub(crate) fn new(frame: &'a IpcFrame) -> Result<Self, FrameError> {
        let mut fields = Writer::new();
        put_integer(&mut fields, REQUEST_ID, frame.request_id);
        for data in &frame.data_for_testing {
            fields.bytes(DATA_FOR_TESTING, data);
        }
        match &frame.msg {
            Some(msg) => {
                let mut message = Writer::new();
                let (number, body) = put_msg(&mut message, msg);
                Self::with_message(fields, number, &message, body)
            }
            None => Self::checked(fields, &[]),
        }
    }

    /// A frame of this request with a message, of which `body` are the last bytes.
    pub(crate) fn of_request(
        request: u64,
        number: u32,
        message: &Writer,
        body: &'a [u8],
    ) -> Result<Self, FrameError> {
        let mut fields = Writer::new();
        fields.integer(REQUEST_ID, request);
        Self::with_message(fields, number, message, body)
    }

    fn with_message(
        mut fields: Writer,
        number: u32,
        message: &Writer,
        body: &'a [u8],
    ) -> Result<Self, FrameError> {
        let message = message.as_bytes();
        fields.prefix(number, message.len() + body.len()).raw(message);
        Self::checked(fields, body)
    }

    fn checked(fields: Writer, body: &'a [u8]) -> Result<Self, FrameError> {
        let fields = fields.into_bytes();
        let payload = fields.len() + body.len();
        let size = payload.saturating_add(HEADER_SIZE);
        if size > MAX_FRAME_SIZE {
            return Err(FrameError::TooLarge { size });
        }
        // A frame's size has 18 bits.
        Ok(Self { header: (payload as u32).to_le_bytes(), fields, body })
    }

    /// Header included.
    pub(crate) fn size(&self) -> usize {
        HEADER_SIZE + self.fields.len() + self.body.len()
    }

    /// The bytes, in this order.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        [&self.header, &self.fields, self.body]
    }
}

/// Writes all but the bytes at its end. The message's number, and these bytes.
fn put_msg<'a>(fields: &mut Writer, msg: &'a Msg) -> (u32, &'a [u8]) {
    let mut body = None;
    let number = match msg {
        Msg::MsgBindService(bind) => {
            put_text(fields, bind_service::SERVICE_NAME, bind.service_name.as_ref());
            MSG_BIND_SERVICE
        }
        Msg::MsgBindServiceReply(reply) => {
            put_truth(fields, bind_service_reply::SUCCESS, reply.success);
            put_integer(fields, bind_service_reply::SERVICE_ID, reply.service_id);
            for method in &reply.methods {
                let mut info = Writer::new();
                put_integer(&mut info, bind_service_reply::method_info::ID, method.id);
                put_text(&mut info, bind_service_reply::method_info::NAME, method.name.as_ref());
                fields.message(bind_service_reply::METHODS, &info);
            }
            MSG_BIND_SERVICE_REPLY
        }
        Msg::MsgInvokeMethod(invoke) => {
            put_integer(fields, invoke_method::SERVICE_ID, invoke.service_id);
            put_integer(fields, invoke_method::METHOD_ID, invoke.method_id);
            put_truth(fields, invoke_method::DROP_REPLY, invoke.drop_reply);
            body = invoke.args_proto.as_ref().map(|args| (invoke_method::ARGS_PROTO, args));
            MSG_INVOKE_METHOD
        }
        Msg::MsgInvokeMethodReply(reply) => {
            put_truth(fields, invoke_method_reply::SUCCESS, reply.success);
            put_truth(fields, invoke_method_reply::HAS_MORE, reply.has_more);
            body = reply.reply_proto.as_ref().map(|reply| (invoke_method_reply::REPLY_PROTO, reply));
            MSG_INVOKE_METHOD_REPLY
        }
        Msg::MsgRequestError(error) => {
            put_text(fields, request_error::ERROR, error.error.as_ref());
            MSG_REQUEST_ERROR
        }
        Msg::SetPeerIdentity(identity) => {
            put_identity(fields, identity);
            SET_PEER_IDENTITY
        }
    };
    let Some((field, body)) = body else {
        return (number, &[]);
    };
    fields.prefix(field, body.len());
    (number, body)
}

pub(crate) fn put_identity(fields: &mut Writer, identity: &SetPeerIdentity) {
    put_signed(fields, set_peer_identity::PID, identity.pid);
    put_signed(fields, set_peer_identity::UID, identity.uid);
    put_text(fields, set_peer_identity::MACHINE_ID_HINT, identity.machine_id_hint.as_ref());
    put_text(fields, set_peer_identity::MACHINE_NAME, identity.machine_name.as_ref());
}

fn put_integer(fields: &mut Writer, field: u32, value: Option<impl Into<u64>>) {
    if let Some(value) = value {
        fields.integer(field, value.into());
    }
}

fn put_signed(fields: &mut Writer, field: u32, value: Option<i32>) {
    if let Some(value) = value {
        fields.signed(field, value.into());
    }
}

fn put_truth(fields: &mut Writer, field: u32, value: Option<bool>) {
    put_integer(fields, field, value);
}

fn put_text(fields: &mut Writer, field: u32, value: Option<&String>) {
    if let Some(value) = value {
        fields.text(field, value);
    }
}

/// Reads a frame. Fields that this build does not know are ignored; a message that comes in parts is put together, as protobuf has it.
pub(crate) fn decode(payload: &Bytes) -> Result<IpcFrame, ControlError> {
    let mut frame = IpcFrame::default();
    let mut field = Reader::new(payload);
    while field.next()? {
        match field.number {
            REQUEST_ID => frame.request_id = Some(field.integer()?),
            DATA_FOR_TESTING => frame.data_for_testing.push(payload.slice_ref(field.bytes()?)),
            number => {
                let Some(empty) = empty_msg(number) else {
                    continue;
                };
                let is_next_part = frame
                    .msg
                    .as_ref()
                    .is_some_and(|msg| std::mem::discriminant(msg) == std::mem::discriminant(&empty));
                if !is_next_part {
                    frame.msg = Some(empty);
                }
                let message = field.bytes()?;
                if let Some(msg) = &mut frame.msg {
                    read_msg(payload, message, msg)?;
                }
            }
        }
    }
    Ok(frame)
}

fn empty_msg(number: u32) -> Option<Msg> {
    Some(match number {
        MSG_BIND_SERVICE => Msg::MsgBindService(BindService::default()),
        MSG_BIND_SERVICE_REPLY => Msg::MsgBindServiceReply(BindServiceReply::default()),
        MSG_INVOKE_METHOD => Msg::MsgInvokeMethod(InvokeMethod::default()),
        MSG_INVOKE_METHOD_REPLY => Msg::MsgInvokeMethodReply(InvokeMethodReply::default()),
        MSG_REQUEST_ERROR => Msg::MsgRequestError(RequestError::default()),
        SET_PEER_IDENTITY => Msg::SetPeerIdentity(SetPeerIdentity::default()),
        _ => return None,
    })
}

/// Adds the fields of `message`, which lies in `payload`.
fn read_msg(payload: &Bytes, message: &[u8], msg: &mut Msg) -> Result<(), ControlError> {
    let mut field = Reader::new(message);
    while field.next()? {
        match (&mut *msg, field.number) {
            (Msg::MsgBindService(bind), bind_service::SERVICE_NAME) => {
                bind.service_name = Some(field.text()?.to_owned());
            }
            (Msg::MsgBindServiceReply(reply), bind_service_reply::SUCCESS) => {
                reply.success = Some(field.truth()?);
            }
            (Msg::MsgBindServiceReply(reply), bind_service_reply::SERVICE_ID) => {
                reply.service_id = Some(field.integer()? as u32);
            }
            (Msg::MsgBindServiceReply(reply), bind_service_reply::METHODS) => {
                reply.methods.push(read_method(field.bytes()?)?);
            }
            (Msg::MsgInvokeMethod(invoke), invoke_method::SERVICE_ID) => {
                invoke.service_id = Some(field.integer()? as u32);
            }
            (Msg::MsgInvokeMethod(invoke), invoke_method::METHOD_ID) => {
                invoke.method_id = Some(field.integer()? as u32);
            }
            (Msg::MsgInvokeMethod(invoke), invoke_method::ARGS_PROTO) => {
                invoke.args_proto = Some(payload.slice_ref(field.bytes()?));
            }
            (Msg::MsgInvokeMethod(invoke), invoke_method::DROP_REPLY) => {
                invoke.drop_reply = Some(field.truth()?);
            }
            (Msg::MsgInvokeMethodReply(reply), invoke_method_reply::SUCCESS) => {
                reply.success = Some(field.truth()?);
            }
            (Msg::MsgInvokeMethodReply(reply), invoke_method_reply::HAS_MORE) => {
                reply.has_more = Some(field.truth()?);
            }
            (Msg::MsgInvokeMethodReply(reply), invoke_method_reply::REPLY_PROTO) => {
                reply.reply_proto = Some(payload.slice_ref(field.bytes()?));
            }
            (Msg::MsgRequestError(error), request_error::ERROR) => {
                error.error = Some(field.text()?.to_owned());
            }
            (Msg::SetPeerIdentity(identity), set_peer_identity::PID) => {
                identity.pid = Some(field.integer()? as i32);
            }
            (Msg::SetPeerIdentity(identity), set_peer_identity::UID) => {
                identity.uid = Some(field.integer()? as i32);
            }
            (Msg::SetPeerIdentity(identity), set_peer_identity::MACHINE_ID_HINT) => {
                identity.machine_id_hint = Some(field.text()?.to_owned());
            }
            (Msg::SetPeerIdentity(identity), set_peer_identity::MACHINE_NAME) => {
                identity.machine_name = Some(field.text()?.to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_method(message: &[u8]) -> Result<MethodInfo, ControlError> {
    let mut info = MethodInfo::default();
    let mut field = Reader::new(message);
    while field.next()? {
        match field.number {
            bind_service_reply::method_info::ID => info.id = Some(field.integer()? as u32),
            bind_service_reply::method_info::NAME => info.name = Some(field.text()?.to_owned()),
            _ => {}
        }
    }
    Ok(info)
}

/// What a host says to a client.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) request: u64,
    /// The field of `IPCFrame`, which says what of the following there is; 0 if there is no message for clients.
    pub(crate) number: u32,
    pub(crate) is_success: bool,
    pub(crate) service_id: u32,
    pub(crate) methods: Vec<(String, u32)>,
    pub(crate) has_more: bool,
    pub(crate) body: Bytes,
    pub(crate) error: String,
}

/// As [`decode`], for clients, which most programs are.
pub(crate) fn decode_answer(payload: &Bytes) -> Result<Answer, ControlError> {
    let mut answer = Answer::default();
    let mut field = Reader::new(payload);
    while field.next()? {
        match field.number {
            REQUEST_ID => answer.request = field.integer()?,
            number @ MSG_BIND_SERVICE..=SET_PEER_IDENTITY => {
                if answer.number != number {
                    answer = Answer { request: answer.request, number, ..Answer::default() };
                }
                read_answer(payload, field.bytes()?, &mut answer)?;
            }
            _ => {}
        }
    }
    Ok(answer)
}

/// Adds the fields of `message`, which lies in `payload`.
fn read_answer(payload: &Bytes, message: &[u8], answer: &mut Answer) -> Result<(), ControlError> {
    let mut field = Reader::new(message);
    while field.next()? {
        match (answer.number, field.number) {
            (MSG_BIND_SERVICE_REPLY, bind_service_reply::SUCCESS)
            | (MSG_INVOKE_METHOD_REPLY, invoke_method_reply::SUCCESS) => answer.is_success = field.truth()?,
            (MSG_BIND_SERVICE_REPLY, bind_service_reply::SERVICE_ID) => {
                answer.service_id = field.integer()? as u32;
            }
            (MSG_BIND_SERVICE_REPLY, bind_service_reply::METHODS) => {
                if let MethodInfo { id: Some(id), name: Some(name) } = read_method(field.bytes()?)? {
                    answer.methods.push((name, id));
                }
            }
            (MSG_INVOKE_METHOD_REPLY, invoke_method_reply::HAS_MORE) => answer.has_more = field.truth()?,
            (MSG_INVOKE_METHOD_REPLY, invoke_method_reply::REPLY_PROTO) => {
                answer.body = payload.slice_ref(field.bytes()?);
            }
            (MSG_REQUEST_ERROR, request_error::ERROR) => field.text()?.clone_into(&mut answer.error),
            _ => {}
        }
    }
    Ok(())
}
