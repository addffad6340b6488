//! Which services producers ask for: the relay lets them have the producers' only.
//!
//! A service hears relays at the socket at which it hears producers. Who is behind a relay could ask for what is a relay's (`RelayPort`), be the
//! first that speaks for this machine, and take the places of the relays of others. So frames are looked at as far as their outermost
//! fields go, as they come; nothing of one that asks for more has gone on as a whole when that is seen.
//!
//! What decoders may understand in several ways (numbers that are too large, groups, a name given twice) is refused: no client writes it.

use ferretto_protos::fields::ipc_frame::MSG_BIND_SERVICE;

/// A `BindService` with `service_name: "ProducerPort"`, which is all that there is in it.
const PRODUCER_PORT: &[u8] = b"\x0a\x0cProducerPort";
/// Bits of a varint.
const VARINT_BITS: u32 = 64;

/// Why a producer is not listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it asks for a service that is none for producers")]
    Service,
    #[error("what it sends is no frame")]
    NoFrame,
}

/// Reads the outermost fields of frames.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    at: At,
    /// What has come of a number, and of how many bits.
    number: u64,
    bits: u32,
    /// How much of [`PRODUCER_PORT`] has come.
    matched: usize,
}

/// What the next byte is part of.
#[derive(Debug, Default, Clone, Copy)]
enum At {
    #[default]
    Tag,
    Varint,
    Length {
        of_bind: bool,
    },
    Content {
        left: u64,
        of_bind: bool,
    },
}

impl Asked {
    /// More of the body of a frame has come.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while let Some((first, rest)) = bytes.split_first() {
            bytes = match self.at {
                At::Content { left, of_bind } => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (content, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
                    self.take_content(content, left, of_bind)?;
                    rest
                }
                At::Tag | At::Varint | At::Length { .. } => {
                    self.take_digit(*first)?;
                    rest
                }
            };
        }
        Ok(())
    }

    /// The frame is whole.
    pub(crate) fn finish(&mut self) -> Result<(), Refused> {
        match self.at {
            At::Tag if self.bits == 0 => Ok(()),
            _ => Err(Refused::NoFrame),
        }
    }

    fn take_content(&mut self, content: &[u8], left: u64, of_bind: bool) -> Result<(), Refused> {
        if of_bind {
            let end = self.matched + content.len();
            if PRODUCER_PORT.get(self.matched..end) != Some(content) {
                return Err(Refused::Service);
            }
            self.matched = end;
        }
        let left = left.saturating_sub(content.len() as u64);
        self.at = if left == 0 { At::Tag } else { At::Content { left, of_bind } };
        Ok(())
    }

    fn take_digit(&mut self, byte: u8) -> Result<(), Refused> {
        let digit = u64::from(byte & 0x7f);
        if self.bits >= VARINT_BITS || (digit << self.bits) >> self.bits != digit {
            return Err(Refused::NoFrame);
        }
        self.number |= digit << self.bits;
        self.bits += 7;
        if byte & 0x80 != 0 {
            return Ok(());
        }
        self.bits = 0;
        let number = std::mem::take(&mut self.number);
        self.at = match self.at {
            At::Tag => after_tag(number)?,
            At::Length { of_bind: true } if number != PRODUCER_PORT.len() as u64 => {
                return Err(Refused::Service);
            }
            At::Length { of_bind } => {
                self.matched = 0;
                if number == 0 { At::Tag } else { At::Content { left: number, of_bind } }
            }
            At::Varint | At::Content { .. } => At::Tag,
        };
        Ok(())
    }
}

fn after_tag(tag: u64) -> Result<At, Refused> {
    let tag = u32::try_from(tag).map_err(|_| Refused::NoFrame)?;
    let (field, kind) = (tag >> 3, tag & 7);
    let of_bind = field == MSG_BIND_SERVICE;
    match kind {
        _ if field == 0 => Err(Refused::NoFrame),
        2 => Ok(At::Length { of_bind }),
        _ if of_bind => Err(Refused::NoFrame),
        0 => Ok(At::Varint),
        1 => Ok(At::Content { left: 8, of_bind }),
        5 => Ok(At::Content { left: 4, of_bind }),
        _ => Err(Refused::NoFrame),
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::IpcFrame;
    use ferretto_protos::ipc_frame::{BindService, InvokeMethod, Msg};
    use prost::Message;

    use super::*;

    fn body(msg: Msg) -> Vec<u8> {
        IpcFrame { request_id: Some(1 << 40), msg: Some(msg), ..Default::default() }.encode_to_vec()
    }

    fn bind(name: &str) -> Vec<u8> {
        body(Msg::MsgBindService(BindService { service_name: Some(name.to_owned()) }))
    }

    /// However it comes.
    fn ask(body: &[u8]) -> Result<(), Refused> {
        let by_pieces = |len: usize| {
            let mut asked = Asked::default();
            body.chunks(len).try_for_each(|piece| asked.push(piece))?;
            asked.finish()
        };
        let whole = by_pieces(body.len().max(1));
        [1, 2, 3, 7].iter().for_each(|len| assert_eq!(by_pieces(*len), whole, "{body:?} by {len}"));
        whole
    }

    #[test]
    fn producers_have_the_producers_service() {
        let args = Some(vec![0x1a; 300].into());
        let call =
            Msg::MsgInvokeMethod(InvokeMethod { method_id: Some(3), args_proto: args, ..Default::default() });
        for body in [bind("ProducerPort"), body(call), Vec::new()] {
            assert_eq!(ask(&body), Ok(()));
        }
        // Fields that the relay does not know: numbers, and both kinds of fixed size.
        let unknown = [&[0x78, 0xff, 0x01, 0x79][..], &[3; 8], &[0x7d], &[3; 4]].concat();
        assert_eq!(ask(&[unknown, bind("ProducerPort")].concat()), Ok(()));
    }

    #[test]
    fn what_is_for_relays_is_not_for_those_behind_one() {
        for name in ["RelayPort", "ConsumerPort", "ProducerPorz", "ProducerPort2", "", "Producer"] {
            assert_eq!(ask(&bind(name)), Err(Refused::Service), "{name}");
        }
        let twice = [bind("ProducerPort"), bind("RelayPort")].concat();
        assert_eq!(ask(&twice), Err(Refused::Service));
        let named_twice = [b"\x1a\x19".as_slice(), b"\x0a\x0cProducerPort", b"\x0a\x09RelayPort"].concat();
        assert_eq!(ask(&named_twice), Err(Refused::Service));
        assert_eq!(ask(b"\x1a\x00"), Err(Refused::Service), "no name");
        // Its length in more digits than it needs.
        assert_eq!(ask(b"\x1a\x8b\x80\x00\x0a\x09RelayPort"), Err(Refused::Service));
        assert_eq!(ask(b"\x1a\x8e\x80\x00\x0a\x0cProducerPort"), Ok(()));
    }

    #[test]
    fn what_can_be_understood_in_several_ways_is_refused() {
        let bodies: [&[u8]; 8] = [
            b"\x9a\x80\x80\x80\x80\x01\x0b\x0a\x09RelayPort", // a tag of more than 32 bits
            b"\x1b\x0a\x09RelayPort\x1c",                     // a group
            b"\x18\x01",                                      // not as bytes
            b"\x00\x01",                                      // no field
            b"\x7b\x7c",                                      // another group
            b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  // more than 64 bits
            b"\x7a\x05abc",                                   // the end is missing
            b"\x10",
        ];
        for body in bodies {
            assert_eq!(ask(body), Err(Refused::NoFrame), "{body:?}");
        }
    }
}
