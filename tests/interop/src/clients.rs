//! What tests do with clients of ours: a producer that serves its service, a consumer that waits for the end and saves the trace.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use ferretto_consumer::{Consumer, Event, write_packet};
use ferretto_ipc::address::Address;
use ferretto_producer::{Connector, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor};

/// How long a session may take to end: more than any machine needs.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects a producer with one data source and answers the service until it goes away.
///
/// `start` is called with each config that the service starts the source with, and is to have written all its packets when it
/// returns.
///
/// # Panics
///
/// If there is no connection at that address, or the service breaks it.
pub fn serve(
    address: Address,
    name: &str,
    source: &DataSourceDescriptor,
    mut start: impl FnMut(&ProducerClient, &DataSourceConfig),
) {
    let mut options = ProducerOptions::new(name);
    options.connector = Connector::Address(address);
    let mut client = ProducerClient::new(options).expect("a producer");
    client.register_data_source(source);
    loop {
        client.wait(None, &[]).expect("events");
        while let Some(event) = client.next_event() {
            match event {
                ProducerEvent::Start { config, .. } => start(&client, &config.decode().expect("a config")),
                ProducerEvent::Flush { request_id, .. } => client.notify_flush_complete(request_id),
                ProducerEvent::Stop { instance } => client.notify_stopped(instance),
                ProducerEvent::Disconnected { .. } => return,
                _ => {}
            }
        }
    }
}

/// Waits until the consumer's session has ended, and gives the error that it ended with, if any.
///
/// # Panics
///
/// If that takes longer than a minute.
pub fn wait_for_end(consumer: &mut Consumer) -> Option<String> {
    loop {
        match consumer.poll(Some(END_TIMEOUT)) {
            Some(Event::TracingDisabled { error }) => return error,
            Some(_) => {}
            None => panic!("the session does not end"),
        }
    }
}

/// Ends the consumer's session and writes the trace into a file.
///
/// # Panics
///
/// If the session ends with an error, or not within a minute, or the file cannot be written.
pub fn end_into_file(consumer: &mut Consumer, path: &Path) {
    consumer.disable().expect("the end of the session");
    assert_eq!(wait_for_end(consumer), None);
    let mut file = File::create(path).expect("a file");
    consumer.read_buffers(|packet| write_packet(&mut file, packet)).expect("the trace");
}
