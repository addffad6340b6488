//! The service on a thread of this process.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Stream;
use rustix::event::{EventfdFlags, eventfd};

use crate::connection::Door;
use crate::daemon::{Error, listen, system};
use crate::server::Server;

/// How to run a service in this process.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Where else producers may connect, beside [`Host::connect_producer`].
    pub producer_addresses: Vec<Address>,
    /// Where else consumers may connect, beside [`Host::connect_consumer`].
    pub consumer_address: Option<Address>,
    /// Relays of other machines may connect at `producer_addresses`, too.
    pub relays: bool,
    /// Of producers and consumers that connect, others than root's and this process's user's are hung up on. Abstract addresses have no
    /// permissions otherwise.
    pub own_user_only: bool,
}

/// A running service; it stops, with all its sessions, when this is dropped.
///
/// ```
/// use ferretto_traced::in_process::{Host, HostOptions};
///
/// let host = Host::spawn(HostOptions::default())?;
/// let consumer = host.connect_consumer()?;
/// # Ok::<(), ferretto_traced::daemon::Error>(())
/// ```
#[derive(Debug)]
pub struct Host {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    producer_addresses: Vec<Address>,
}

#[derive(Debug)]
enum Order {
    Serve(Door, Stream),
    Stop,
}

impl Host {
    /// Starts the service's thread. Its sockets are there when this returns.
    pub fn spawn(options: HostOptions) -> Result<Self, Error> {
        let mut server = Server::new().map_err(system("set up the event loop"))?;
        let mut producer_addresses = Vec::new();
        for address in &options.producer_addresses {
            let door =
                Door { relays: options.relays, own_user_only: options.own_user_only, ..Door::PRODUCERS };
            producer_addresses.push(listen(&mut server, door, address)?);
        }
        if let Some(address) = &options.consumer_address {
            let door = Door { own_user_only: options.own_user_only, ..Door::CONSUMERS };
            listen(&mut server, door, address)?;
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|error| system("make an eventfd")(error.into()))?);
        server.watch(&*wake).map_err(system("watch for orders"))?;
        let (orders, receiver) = channel();
        let woken = wake.clone();
        let serve = move || serve(server, &receiver, &woken);
        let thread = std::thread::Builder::new().name("ferretto-service".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(system("start the service's thread"))?);
        Ok(Self { orders, wake, thread, producer_addresses })
    }

    /// Where producers may connect, with the ports that the system chose where it was asked to (port 0).
    pub fn producer_addresses(&self) -> &[Address] {
        &self.producer_addresses
    }

    /// A socket that is connected to the service's producer side.
    pub fn connect_producer(&self) -> Result<Stream, Error> {
        self.connect(Door::PRODUCERS)
    }

    /// A socket that is connected to the service's consumer side.
    pub fn connect_consumer(&self) -> Result<Stream, Error> {
        self.connect(Door::CONSUMERS)
    }

    fn connect(&self, door: Door) -> Result<Stream, Error> {
        let (client, server) = Stream::pair().map_err(system("make a socket pair"))?;
        self.order(Order::Serve(door, server));
        Ok(client)
    }

    fn order(&self, order: Order) {
        // A thread that has ended has closed its sockets: clients see that.
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the service's thread has panicked");
        }
    }
}

fn serve(mut server: Server, orders: &Receiver<Order>, woken: &OwnedFd) {
    loop {
        let readable = match server.turn() {
            Ok(readable) => readable,
            Err(error) => return tracing::error!("the service ends: {error}"),
        };
        if readable.is_empty() {
            continue;
        }
        let _ = rustix::io::read(woken, &mut [0; 8]);
        while let Ok(order) = orders.try_recv() {
            match order {
                Order::Stop => return,
                Order::Serve(door, stream) => {
                    if let Err(error) = server.add_client(door, stream) {
                        tracing::error!("cannot serve a client: {error}");
                    }
                }
            }
        }
    }
}
