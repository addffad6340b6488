//! The bytes of an event that has more to say than its point: `TrackEvent`, and the texts that it uses for the first time.

use ferretto_protos::fields::{
    debug_annotation, event_name, inline_callstack, interned_data, log_message, log_message_body,
    source_location, trace_packet, track_event,
};
use ferretto_protozero::Message;
use ferretto_protozero::control::Writer;

use crate::track_event::category::Category;
use crate::track_event::details::{Correlation, Details};
use crate::track_event::location::{Callstack, Location};
use crate::track_event::point::{ArgumentName, EventType};
use crate::track_event::sequence::{Event, IncrementalState};
use crate::track_event::track::{Kind, Track};
use crate::track_event::value::{Value, ValueWriter};
use crate::track_event::wishes::SessionOptions;

/// Stands for a name that the session does not want (upstream's text).
const FILTERED_NAME: &str = "FILTERED";

/// What this packet refers to for the first time.
pub(crate) type NewTexts = Vec<NewText>;

#[derive(Debug)]
pub(crate) enum NewText {
    /// A text with its number, by the field of `InternedData` that says it.
    Name(u32, u16, &'static str),
    Location(u16, &'static Location),
    LogBody(u64, String),
}

/// Writes an event.
pub(crate) struct EventWriter<'a, 'm> {
    pub(crate) message: &'a mut Message<'m, Vec<u8>>,
    /// The event's track, if it is not the thread's, and its number, which may take a system call.
    pub(crate) track: Option<(&'a Track, u64)>,
    pub(crate) options: SessionOptions,
    pub(crate) state: &'a mut IncrementalState,
    pub(crate) new_texts: &'a mut NewTexts,
}

impl EventWriter<'_, '_> {
    pub(crate) fn put_event(&mut self, event: &Event<'_>) {
        let point = event.point;
        self.message.varint(track_event::TYPE, point.event_type() as u64);
        let details = event.details;
        let category = details.and_then(|details| details.category).or(point.category());
        // The end of a slice is known by its track alone.
        if let Some(category) = category
            && point.event_type() != EventType::End
        {
            self.put_category(category);
        }
        match details.and_then(|details| details.name) {
            Some(_) if self.options.without_dynamic_names => {
                self.text(track_event::NAME, FILTERED_NAME);
            }
            Some(name) => self.text(track_event::NAME, name),
            None => self.put_static_name(point.name(), point.name_number()),
        }
        self.state.thread_time.put(self.message, self.options, event.now);
        if let Some(location) = details.and_then(|details| details.location).or(point.location()) {
            self.put_location(track_event::SOURCE_LOCATION_IID, track_event::SOURCE_LOCATION, location);
        }
        if let Some(details) = details {
            self.put_details(details);
        }
        if !self.options.without_arguments {
            if let Some(constant) = point.constant() {
                self.put_argument(constant.name(), &Value::Str(constant.value()));
            }
            for (name, value) in point.arguments().iter().zip(event.values) {
                self.put_argument(name, value);
            }
        }
    }

    /// Not inlined, as what it is for is seldom: an event is 10 KB otherwise.
    #[inline(never)]
    fn number(&mut self, field: u32, value: u64) {
        self.message.varint(field, value);
    }

    /// As [`number`](Self::number).
    #[inline(never)]
    fn text(&mut self, field: u32, value: &str) {
        self.message.string(field, value);
    }

    /// As [`number`](Self::number).
    #[inline(never)]
    fn fixed64(&mut self, field: u32, value: u64) {
        self.message.fixed64(field, value);
    }

    fn put_category(&mut self, category: &'static Category) {
        for member in category.members() {
            member.note_use();
            match member.number() {
                0 => self.text(track_event::CATEGORIES, member.name()),
                number => {
                    self.message.varint(track_event::CATEGORY_IIDS, number.into());
                    if self.state.categories.insert(number.into()) {
                        let text = NewText::Name(interned_data::EVENT_CATEGORIES, number, member.name());
                        self.new_texts.push(text);
                    }
                }
            }
        }
    }

    fn put_static_name(&mut self, name: Option<&'static str>, number: u16) {
        match (name, number) {
            (None, _) => {}
            (Some(name), 0) => self.text(track_event::NAME, name),
            (Some(name), number) => {
                self.message.varint(track_event::NAME_IID, number.into());
                if self.state.names.insert(number.into()) {
                    self.new_texts.push(NewText::Name(interned_data::EVENT_NAMES, number, name));
                }
            }
        }
    }

    fn put_details(&mut self, details: &Details<'_>) {
        if let Some((track, uuid)) = self.track {
            self.number(track_event::TRACK_UUID, uuid);
            if let Some(value) = details.counter_value {
                self.put_counter_value(track, uuid, value);
            }
        }
        for flow in details.flows.iter() {
            self.fixed64(track_event::FLOW_IDS, flow.id());
        }
        for flow in details.ending_flows.iter() {
            self.fixed64(track_event::TERMINATING_FLOW_IDS, flow.id());
        }
        match details.correlation {
            Some(Correlation::Number(id)) => self.number(track_event::CORRELATION_ID, id),
            Some(Correlation::Text(id)) => self.text(track_event::CORRELATION_ID_STR, id),
            None => {}
        }
        if let Some(callstack) = details.callstack {
            self.put_callstack(callstack);
        }
        if let Some((severity, text)) = details.log {
            self.put_log(severity as u64, text);
        }
        if !self.options.without_arguments {
            for (name, value) in details.arguments {
                self.put_dynamic_argument(name, value);
            }
        }
        if let Some(write) = details.fields {
            write(self.message);
        }
    }

    fn put_counter_value(&mut self, track: &Track, uuid: u64, value: Value<'_>) {
        let is_incremental = matches!(&track.kind, Kind::Counter(counter) if counter.is_incremental);
        let value = match value {
            Value::Uint(value) => Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
            Value::Int(value) => Value::Int(value),
            Value::Float(value) => Value::Float(value),
            // No macro makes such a counter.
            _ => return,
        };
        match (value, is_incremental.then(|| self.state.replace_counter(uuid, value)).flatten()) {
            (Value::Int(value), Some(Value::Int(last))) => {
                self.number(track_event::COUNTER_VALUE, value.wrapping_sub(last) as u64);
            }
            (Value::Int(value), _) => self.number(track_event::COUNTER_VALUE, value as u64),
            (Value::Float(value), Some(Value::Float(last))) => {
                self.fixed64(track_event::DOUBLE_COUNTER_VALUE, (value - last).to_bits());
            }
            (Value::Float(value), _) => self.fixed64(track_event::DOUBLE_COUNTER_VALUE, value.to_bits()),
            _ => {}
        }
    }

    fn put_location(&mut self, iid_field: u32, field: u32, location: &'static Location) {
        match location.number() {
            0 => self.message.bytes(field, describe(location).as_bytes()),
            number => {
                self.number(iid_field, number.into());
                self.learn_location(number, location);
            }
        }
    }

    fn learn_location(&mut self, number: u16, location: &'static Location) {
        if self.state.locations.insert(number.into()) {
            self.new_texts.push(NewText::Location(number, location));
        }
    }

    fn put_callstack(&mut self, callstack: &Callstack) {
        let mut message = Writer::new();
        for frame in &callstack.frames {
            let mut nested = Writer::new();
            nested.text(inline_callstack::frame::FUNCTION_NAME, &frame.function);
            if let Some(file) = &frame.file {
                nested
                    .text(inline_callstack::frame::SOURCE_FILE, file)
                    .integer(inline_callstack::frame::LINE_NUMBER, frame.line.into());
            }
            message.message(inline_callstack::FRAMES, &nested);
        }
        self.message.bytes(track_event::CALLSTACK, message.as_bytes());
    }

    fn put_log(&mut self, severity: u64, text: &str) {
        // Readers want the body by number. Each has its own, as no number may get another text.
        self.state.log_bodies += 1;
        let number = self.state.log_bodies;
        self.new_texts.push(NewText::LogBody(number, text.to_owned()));
        let mut log = self.message.nested(track_event::LOG_MESSAGE);
        log.varint(log_message::BODY_IID, number);
        log.varint(log_message::PRIO, severity);
    }

    fn put_argument(&mut self, name: &ArgumentName, value: &Value<'_>) {
        if let Value::Missing = value {
            return;
        }
        let mut argument = self.message.nested(track_event::DEBUG_ANNOTATIONS);
        match name.number() {
            0 => argument.string(debug_annotation::NAME, name.name()),
            number => {
                argument.varint(debug_annotation::NAME_IID, number.into());
                if self.state.argument_names.insert(number.into()) {
                    let text = NewText::Name(interned_data::DEBUG_ANNOTATION_NAMES, number, name.name());
                    self.new_texts.push(text);
                }
            }
        }
        ValueWriter::new(argument).put(value);
    }

    fn put_dynamic_argument(&mut self, name: &str, value: &Value<'_>) {
        if let Value::Missing = value {
            return;
        }
        let mut argument = self.message.nested(track_event::DEBUG_ANNOTATIONS);
        argument.string(debug_annotation::NAME, name);
        ValueWriter::new(argument).put(value);
    }
}

/// Says what the packet's event refers to for the first time.
pub(crate) fn put_new_texts(packet: &mut Message<'_, Vec<u8>>, new_texts: &NewTexts) {
    if new_texts.is_empty() {
        return;
    }
    let mut data = packet.nested(trace_packet::INTERNED_DATA);
    for text in new_texts {
        match text {
            NewText::Name(field, number, name) => {
                // EventCategory, EventName and DebugAnnotationName have the same two fields.
                let mut entry = Writer::new();
                entry.integer(event_name::IID, (*number).into()).text(event_name::NAME, name);
                data.bytes(*field, entry.as_bytes());
            }
            NewText::Location(number, location) => {
                let mut entry = describe(location);
                entry.integer(source_location::IID, (*number).into());
                data.bytes(interned_data::SOURCE_LOCATIONS, entry.as_bytes());
            }
            NewText::LogBody(number, body) => {
                let mut entry = data.nested(interned_data::LOG_MESSAGE_BODY);
                entry.varint(log_message_body::IID, *number);
                entry.string(log_message_body::BODY, body);
            }
        }
    }
}

fn describe(location: &Location) -> Writer {
    let mut message = Writer::new();
    message.text(source_location::FILE_NAME, location.file);
    if !location.function.is_empty() {
        message.text(source_location::FUNCTION_NAME, location.function);
    }
    message.integer(source_location::LINE_NUMBER, location.line.into());
    message
}
