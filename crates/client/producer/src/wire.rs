//! What the service says to a producer, from bytes.
//!
//! By hand, as each program with the SDK has to carry this around. Upstream: `producer_port.proto`.

use bytes::Bytes;
use ferretto_protos::fields::get_async_command_response::{
    CLEAR_INCREMENTAL_STATE, FLUSH, SETUP_DATA_SOURCE, SETUP_TRACING, START_DATA_SOURCE, STOP_DATA_SOURCE,
    clear_incremental_state, flush, setup_data_source, setup_tracing, stop_data_source,
};
use ferretto_protos::fields::initialize_connection_response::{
    DIRECT_SMB_PATCHING_SUPPORTED, USE_SHMEM_EMULATION, USING_SHMEM_PROVIDED_BY_PRODUCER,
};
use ferretto_protozero::control::{ControlError, Reader};

use crate::event::InstanceId;

/// `InitializeConnectionResponse`.
#[derive(Debug, Default)]
pub(crate) struct Initialized {
    pub(crate) uses_offered_memory: bool,
    pub(crate) supports_direct_patching: bool,
    pub(crate) wants_emulation: bool,
}

impl Initialized {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, ControlError> {
        let mut response = Self::default();
        let mut field = Reader::new(body);
        while field.next()? {
            match field.number {
                USING_SHMEM_PROVIDED_BY_PRODUCER => response.uses_offered_memory = field.truth()?,
                DIRECT_SMB_PATCHING_SUPPORTED => response.supports_direct_patching = field.truth()?,
                USE_SHMEM_EMULATION => response.wants_emulation = field.truth()?,
                _ => {}
            }
        }
        Ok(response)
    }
}

/// `GetAsyncCommandResponse`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    SetupTracing { page_size_kib: u32 },
    SetupDataSource { instance: InstanceId, config: Bytes },
    StartDataSource { instance: InstanceId, config: Bytes },
    StopDataSource { instance: InstanceId },
    Flush { request_id: u64, instances: Vec<InstanceId>, flags: u64 },
    ClearIncrementalState { instances: Vec<InstanceId> },
}

impl Command {
    /// `None` for a command of a newer service.
    pub(crate) fn decode(body: &Bytes) -> Result<Option<Self>, ControlError> {
        let mut command = None;
        let mut field = Reader::new(body);
        while field.next()? {
            let read = match field.number {
                SETUP_TRACING => read_setup_tracing,
                SETUP_DATA_SOURCE => read_setup_data_source,
                START_DATA_SOURCE => read_start_data_source,
                STOP_DATA_SOURCE => read_stop_data_source,
                FLUSH => read_flush,
                CLEAR_INCREMENTAL_STATE => read_clear_incremental_state,
                _ => continue,
            };
            command = Some(read(body, field.bytes()?)?);
        }
        Ok(command)
    }
}

fn read_setup_tracing(_: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let mut page_size_kib = 0;
    let mut field = Reader::new(message);
    while field.next()? {
        if field.number == setup_tracing::SHARED_BUFFER_PAGE_SIZE_KB {
            page_size_kib = field.integer()? as u32;
        }
    }
    Ok(Command::SetupTracing { page_size_kib })
}

fn read_setup_data_source(body: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let (instance, config) = read_instance(body, message)?;
    Ok(Command::SetupDataSource { instance, config })
}

fn read_start_data_source(body: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let (instance, config) = read_instance(body, message)?;
    Ok(Command::StartDataSource { instance, config })
}

/// The two commands above have the same fields. `message` lies in `body`.
fn read_instance(body: &Bytes, message: &[u8]) -> Result<(InstanceId, Bytes), ControlError> {
    let (mut instance, mut config) = (0, &[] as &[u8]);
    let mut field = Reader::new(message);
    while field.next()? {
        match field.number {
            setup_data_source::NEW_INSTANCE_ID => instance = field.integer()?,
            setup_data_source::CONFIG => config = field.bytes()?,
            _ => {}
        }
    }
    Ok((instance, body.slice_ref(config)))
}

fn read_stop_data_source(_: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let mut instance = 0;
    let mut field = Reader::new(message);
    while field.next()? {
        if field.number == stop_data_source::INSTANCE_ID {
            instance = field.integer()?;
        }
    }
    Ok(Command::StopDataSource { instance })
}

fn read_flush(_: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let (mut request_id, mut instances, mut flags) = (0, Vec::new(), 0);
    let mut field = Reader::new(message);
    while field.next()? {
        match field.number {
            flush::REQUEST_ID => request_id = field.integer()?,
            flush::DATA_SOURCE_IDS => field.integers(&mut instances)?,
            flush::FLAGS => flags = field.integer()?,
            _ => {}
        }
    }
    Ok(Command::Flush { request_id, instances, flags })
}

fn read_clear_incremental_state(_: &Bytes, message: &[u8]) -> Result<Command, ControlError> {
    let mut instances = Vec::new();
    let mut field = Reader::new(message);
    while field.next()? {
        if field.number == clear_incremental_state::DATA_SOURCE_IDS {
            field.integers(&mut instances)?;
        }
    }
    Ok(Command::ClearIncrementalState { instances })
}

#[cfg(test)]
mod tests {
    use ferretto_protos::GetAsyncCommandResponse;
    use ferretto_protos::get_async_command_response::{
        ClearIncrementalState, Cmd, Flush, SetupDataSource, SetupTracing, StartDataSource, StopDataSource,
    };
    use prost::Message;

    use super::*;

    fn decode(cmd: Option<Cmd>) -> Option<Command> {
        Command::decode(&GetAsyncCommandResponse { cmd }.encode_to_vec().into()).unwrap()
    }

    #[test]
    fn commands_are_protobufs() {
        let config = Bytes::from_static(b"\x0a\x01a");
        let setup = SetupTracing { shared_buffer_page_size_kb: Some(4), shm_key_windows: Some("key".into()) };
        assert_eq!(decode(Some(Cmd::SetupTracing(setup))), Some(Command::SetupTracing { page_size_kib: 4 }));
        let setup = SetupDataSource { new_instance_id: Some(1 << 40), config: Some(config.clone()) };
        assert_eq!(
            decode(Some(Cmd::SetupDataSource(setup))),
            Some(Command::SetupDataSource { instance: 1 << 40, config: config.clone() })
        );
        let start = StartDataSource { new_instance_id: Some(2), config: Some(config.clone()) };
        assert_eq!(
            decode(Some(Cmd::StartDataSource(start))),
            Some(Command::StartDataSource { instance: 2, config })
        );
        let stop = StopDataSource { instance_id: Some(3) };
        assert_eq!(decode(Some(Cmd::StopDataSource(stop))), Some(Command::StopDataSource { instance: 3 }));
        let flush = Flush { data_source_ids: vec![1, 300], request_id: Some(7), flags: Some(9) };
        assert_eq!(
            decode(Some(Cmd::Flush(flush))),
            Some(Command::Flush { request_id: 7, instances: vec![1, 300], flags: 9 })
        );
        let clear = ClearIncrementalState { data_source_ids: vec![5] };
        assert_eq!(
            decode(Some(Cmd::ClearIncrementalState(clear))),
            Some(Command::ClearIncrementalState { instances: vec![5] })
        );
        assert_eq!(decode(None), None);
    }

    #[test]
    fn a_command_of_a_newer_service_is_none() {
        // Field 99.
        assert_eq!(Command::decode(&Bytes::from_static(b"\x9a\x06\x00")), Ok(None));
    }
}
