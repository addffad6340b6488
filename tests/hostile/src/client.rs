//! A client that follows the protocol as far as its case wants it to, and no further.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ferretto_ipc::frame::{self, Decoder};
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::ipc_frame::{
    BindService, InvokeMethod, InvokeMethodReply, Msg, bind_service_reply::MethodInfo,
};
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, EnableTracingRequest, EnableTracingResponse,
    GetAsyncCommandRequest, GetTraceStatsRequest, GetTraceStatsResponse, InitializeConnectionRequest,
    IpcFrame, QueryCapabilitiesRequest, QueryServiceStateRequest, QueryServiceStateResponse,
    RegisterDataSourceRequest, SyncRequest, TraceStats,
};
use ferretto_shm::{PageSize, Seals, ServiceView, SharedMemory};
use prost::Message;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::{Refused, Target};

/// An answer that takes longer is none: the attack has stopped the service, or the service has had enough of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Until the socket may take more.
const RETRY: Duration = Duration::from_millis(1);
const PAGE_BYTES: usize = 4096;

/// One connection, blocking.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    service_id: u32,
    methods: Vec<MethodInfo>,
    last_request: u64,
    /// The last EnableTracing, and why there is no session if there is none.
    enabled: u64,
    refusal: Option<String>,
    decoder: Decoder,
}

/// What the service answered.
#[derive(Debug, Default)]
pub struct Answer {
    /// All parts together.
    pub bytes: usize,
    /// The last part; none if it refused.
    pub last: Option<Vec<u8>>,
}

impl Client {
    /// A connection at which the service called `port` is bound.
    pub fn connect(socket: &Path, port: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut client = Self {
            stream,
            service_id: 0,
            methods: Vec::new(),
            last_request: 0,
            enabled: 0,
            refusal: None,
            decoder: Decoder::new(),
        };
        let bind = Msg::MsgBindService(BindService { service_name: Some(port.to_owned()) });
        let (_, bytes) = client.frame(bind);
        client.stream.write_all(&bytes)?;
        let Some(Msg::MsgBindServiceReply(reply)) = client.next_frame()?.msg else {
            return Err(io::Error::other("no answer to a bind"));
        };
        client.service_id = reply.service_id();
        client.methods = reply.methods;
        Ok(client)
    }

    /// A producer that has introduced itself, with memory that the service is to make.
    pub fn producer(socket: &Path, name: &str, shared_memory_bytes: u32) -> io::Result<Self> {
        let mut client = Self::connect(socket, "ProducerPort")?;
        let request = InitializeConnectionRequest {
            producer_name: Some(name.to_owned()),
            shared_memory_size_hint_bytes: Some(shared_memory_bytes),
            shared_memory_page_size_hint_bytes: Some(4096),
            ..Default::default()
        };
        client.call("InitializeConnection", &request)?;
        Ok(client)
    }

    /// The same with memory that it brings along.
    pub fn producer_with_memory(socket: &Path, name: &str, bytes: usize) -> io::Result<(Self, Memory)> {
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mut client = Self::connect(socket, "ProducerPort")?;
        let request = InitializeConnectionRequest {
            producer_name: Some(name.to_owned()),
            shared_memory_size_hint_bytes: u32::try_from(bytes).ok(),
            shared_memory_page_size_hint_bytes: Some(PAGE_BYTES as u32),
            producer_provided_shmem: Some(true),
            smb_scraping_mode: Some(ProducerSmbScrapingMode::SmbScrapingEnabled as i32),
            ..Default::default()
        };
        client.send_with_fd("InitializeConnection", &request, fd.as_fd())?;
        client.wait()?;
        Ok((client, Memory { file: File::from(fd), bytes }))
    }

    /// A consumer.
    pub fn consumer(socket: &Path) -> io::Result<Self> {
        Self::connect(socket, "ConsumerPort")
    }

    /// A producer that hears what the service wants of it.
    pub fn listen(&mut self) -> io::Result<()> {
        self.send("GetAsyncCommand", &GetAsyncCommandRequest::default())
    }

    /// Registers a data source.
    pub fn register(&mut self, source: &DataSourceDescriptor) -> io::Result<()> {
        let bytes = self.register_bytes(source);
        self.stream.write_all(&bytes)
    }

    /// What [`register`](Self::register) sends, to be sent with others at once. No answer is asked for.
    pub fn register_bytes(&mut self, source: &DataSourceDescriptor) -> Vec<u8> {
        let descriptor = Some(source.encode_to_vec().into());
        self.bytes_of(
            "RegisterDataSource",
            &RegisterDataSourceRequest { data_source_descriptor: descriptor },
            true,
        )
    }

    /// Enables a session with this config. It may be refused.
    pub fn enable(&mut self, config: &[u8]) -> io::Result<()> {
        let request =
            EnableTracingRequest { trace_config: Some(config.to_vec().into()), ..Default::default() };
        self.send("EnableTracing", &request)?;
        self.enabled = self.last_request;
        Ok(())
    }

    /// Enables a session on which the attack depends, and waits until it is there.
    pub fn have_enabled(&mut self, config: &[u8]) -> io::Result<()> {
        match self.try_to_enable(config)? {
            Some(why) => Err(Refused::because(format!("a session was refused: {why}"))),
            None => Ok(()),
        }
    }

    /// Enables a session, waits until it is there, and says why it is not.
    pub fn try_to_enable(&mut self, config: &[u8]) -> io::Result<Option<String>> {
        self.enable(config)?;
        self.settle()?;
        Ok(self.refusal.take())
    }

    /// What the service counted in this consumer's session.
    pub fn stats(&mut self) -> io::Result<TraceStats> {
        let answer = self.ask("GetTraceStats", &GetTraceStatsRequest::default())?;
        let body = answer.last.ok_or_else(|| Refused::because("no stats"))?;
        let response = GetTraceStatsResponse::decode(&*body).map_err(io::Error::other)?;
        Ok(response.trace_stats.unwrap_or_default())
    }

    /// How many sessions there are.
    pub fn sessions(&mut self) -> io::Result<i32> {
        let answer =
            self.ask("QueryServiceState", &QueryServiceStateRequest { sessions_only: Some(true) })?;
        let response = QueryServiceStateResponse::decode(&*answer.last.unwrap_or_default());
        Ok(response.map_err(io::Error::other)?.service_state.unwrap_or_default().num_sessions())
    }

    /// A chunk in the message itself, as producers without shared memory send it.
    pub fn commit(&mut self, request: &CommitDataRequest) -> io::Result<()> {
        let bytes = self.bytes_of("CommitData", request, true);
        self.stream.write_all(&bytes)
    }

    /// Calls a method, and waits for no answer.
    pub fn send(&mut self, method: &str, args: &impl Message) -> io::Result<()> {
        let bytes = self.bytes_of(method, args, false);
        self.stream.write_all(&bytes)
    }

    /// Calls a method with a descriptor, and waits for no answer.
    pub fn send_with_fd(&mut self, method: &str, args: &impl Message, fd: BorrowedFd<'_>) -> io::Result<()> {
        let bytes = self.bytes_of(method, args, false);
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let (flags, bytes) = (SendFlags::NOSIGNAL, [IoSlice::new(&bytes)]);
        sendmsg(self.stream.as_fd(), &bytes, &mut control, flags)?;
        Ok(())
    }

    /// The bytes of a call of a method.
    pub fn bytes_of(&mut self, method: &str, args: &impl Message, drop_reply: bool) -> Vec<u8> {
        let found = self.methods.iter().find(|known| known.name() == method);
        let invoke = InvokeMethod {
            service_id: Some(self.service_id),
            method_id: Some(found.map_or(0, MethodInfo::id)),
            args_proto: Some(args.encode_to_vec().into()),
            drop_reply: Some(drop_reply),
        };
        self.frame(Msg::MsgInvokeMethod(invoke)).1
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends bytes as they are, as far as the service takes them before the attack is over.
    pub fn write_for(&mut self, mut bytes: &[u8], target: &Target) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        while !bytes.is_empty() && target.goes_on() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY),
                Err(error) => return Err(error),
            }
        }
        self.stream.set_nonblocking(false)
    }

    /// Sends as much of some bytes as the service takes at once.
    pub fn write_some(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let written = self.stream.write(bytes);
        self.stream.set_nonblocking(false)?;
        match written {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Calls a method and waits for the end of its answer.
    pub fn call(&mut self, method: &str, args: &impl Message) -> io::Result<()> {
        self.ask(method, args).map(drop)
    }

    /// The same, and what it was.
    pub fn ask(&mut self, method: &str, args: &impl Message) -> io::Result<Answer> {
        self.send(method, args)?;
        self.wait_for(self.last_request)
    }

    /// Waits for the last answer to the call made last.
    pub fn wait(&mut self) -> io::Result<()> {
        self.wait_for(self.last_request).map(drop)
    }

    /// Waits until the service has served all calls of a producer up to now.
    pub fn sync(&mut self) -> io::Result<()> {
        self.call("Sync", &SyncRequest::default())
    }

    /// Waits until the service has served all calls of a consumer up to now.
    pub fn settle(&mut self) -> io::Result<()> {
        self.call("QueryCapabilities", &QueryCapabilitiesRequest::default())
    }

    /// The socket, for those who mean to leave it in a state.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    fn wait_for(&mut self, request: u64) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let frame = self.next_frame()?;
            let (id, reply) = match frame.msg {
                Some(Msg::MsgInvokeMethodReply(reply)) => (frame.request_id.unwrap_or(0), reply),
                _ => (frame.request_id.unwrap_or(0), InvokeMethodReply::default()),
            };
            if id == self.enabled {
                self.refusal = refusal(&reply);
            }
            if id != request {
                continue;
            }
            answer.bytes += reply.reply_proto.as_ref().map_or(0, |body| body.len());
            if !reply.has_more() {
                answer.last = reply.success().then(|| reply.reply_proto.unwrap_or_default().to_vec());
                return Ok(answer);
            }
        }
    }

    fn frame(&mut self, msg: Msg) -> (u64, Vec<u8>) {
        self.last_request += 1;
        let frame = IpcFrame { request_id: Some(self.last_request), msg: Some(msg), ..Default::default() };
        (self.last_request, frame::encode(&frame).expect("cases send frames of a size that there is"))
    }

    fn next_frame(&mut self) -> io::Result<IpcFrame> {
        let mut buffer = [0; 64 * 1024];
        loop {
            if let Some(frame) = self.decoder.next().map_err(io::Error::other)? {
                return Ok(frame);
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::ConnectionReset.into()),
                len => self.decoder.push(&buffer[..len]),
            }
        }
    }
}

/// Why EnableTracing made no session, or ended it.
fn refusal(reply: &InvokeMethodReply) -> Option<String> {
    let body = reply.reply_proto.as_deref().unwrap_or_default();
    match EnableTracingResponse::decode(body) {
        Ok(response) if reply.success() => response.error.filter(|error| !error.is_empty()),
        _ => Some("rejected".to_owned()),
    }
}

/// Shared memory that a producer brought along, to be written as it likes.
#[derive(Debug)]
pub struct Memory {
    file: File,
    bytes: usize,
}

impl Memory {
    /// Writes into the file.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)
    }

    /// Takes all pages out of it.
    pub fn tear(&self) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, how, 0, self.bytes as u64)?)
    }

    /// One more mapping of it.
    pub fn map(&self) -> io::Result<Arc<SharedMemory>> {
        let fd = self.file.try_clone()?.into();
        SharedMemory::from_fd(fd, Seals::Required).map(Arc::new).map_err(io::Error::other)
    }

    /// Looks at all pages through a mapping: it has them from then on.
    pub fn look_at_all(mapping: &Arc<SharedMemory>) -> io::Result<()> {
        let view = ServiceView::new(mapping.clone(), PageSize::DEFAULT).map_err(io::Error::other)?;
        view.scrape(|_| false, |_, _, _| ());
        Ok(())
    }

    /// Every page one complete chunk, of writers from 1 to `writers` in turn, numbered from `first`.
    pub fn fill_with_complete_chunks(&self, writers: u16, first: u32) -> io::Result<()> {
        /// One chunk in the page, and it is complete (upstream: `shared_memory_abi.h`).
        const LAYOUT: u32 = 1 << 28 | 3;
        for (page, offset) in (0u32..).zip((0..self.bytes as u64).step_by(PAGE_BYTES)) {
            let writer = (page % u32::from(writers)) as u16 + 1;
            let mut bytes = vec![0; PAGE_BYTES];
            bytes[..4].copy_from_slice(&LAYOUT.to_le_bytes());
            // The page's header has 8 bytes; then the chunk's: its number, its writer, how many packets.
            bytes[8..12].copy_from_slice(&(first + page).to_le_bytes());
            bytes[12..14].copy_from_slice(&writer.to_le_bytes());
            bytes[14..16].copy_from_slice(&1u16.to_le_bytes());
            // A packet that fills it: its length in two bytes of a varint, and fields of no meaning.
            let len = PAGE_BYTES - 18;
            bytes[16] = (len & 0x7f) as u8 | 0x80;
            bytes[17] = (len >> 7) as u8;
            self.file.write_all_at(&bytes, offset)?;
        }
        Ok(())
    }
}
