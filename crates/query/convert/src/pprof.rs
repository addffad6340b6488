//! pprof's profiles (gzipped protobuf), for `pprof` and what reads its files.
//!
//! The message is that of github.com/google/pprof, proto/profile.proto, whose field numbers are below.

use std::collections::HashMap;

use ferretto_protozero::Message;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::stacks::Stacks;
use crate::{Error, Form, Format, Options, Out, Source};

/// A pprof profile.
pub const FORMAT: Format = Format {
    name: "pprof",
    doc: "a profile for pprof, of samples or else of slices",
    extension: "pb.gz",
    is_binary: true,
    form: Form::Trace(write),
};

/// Field numbers of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

fn write(source: &Source<'_>, options: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let stacks = Stacks::with_lines(source.tables, options.stacks_of)?;
    let mut gzip = GzEncoder::new(out, Compression::default());
    std::io::Write::write_all(&mut gzip, &encode(&stacks))?;
    gzip.finish()?;
    Ok(())
}

fn encode(stacks: &Stacks) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut strings = Strings::default();
    let (name, unit) = (strings.number(stacks.of.name()), strings.number(stacks.of.unit()));
    let mut value_type = Vec::new();
    let mut message = Message::new(&mut value_type);
    message.varint(1, name);
    message.varint(2, unit);
    drop(message);
    let mut profile = Message::new(&mut bytes);
    profile.bytes(profile::SAMPLE_TYPE, &value_type);
    for (index, node) in stacks.nodes.iter().enumerate().filter(|(_, node)| node.value > 0) {
        profile.bytes(profile::SAMPLE, &sample(stacks, index, node.value));
    }
    // A location for each place, of the same number, and a function for each name and file.
    let mut functions = HashMap::new();
    for (index, place) in stacks.places.iter().enumerate() {
        let next = functions.len() as u64 + 1;
        let function_id = *functions.entry((&place.name, &place.file)).or_insert(next);
        profile.bytes(profile::LOCATION, &location(index as u64 + 1, function_id, place.line));
        if function_id == next {
            let name = strings.number(&place.name);
            let file = place.file.as_deref().map_or(0, |file| strings.number(file));
            profile.bytes(profile::FUNCTION, &function(function_id, name, file));
        }
    }
    for text in &strings.texts {
        profile.bytes(profile::STRING_TABLE, text.as_bytes());
    }
    profile.varint(profile::DEFAULT_SAMPLE_TYPE, name);
    drop(profile);
    bytes
}

/// `Sample`: locations, the innermost first, and the value.
fn sample(stacks: &Stacks, node: usize, value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    let mut at = Some(node);
    while let Some(node) = at.and_then(|at| stacks.nodes.get(at)) {
        message.varint(1, node.place as u64 + 1);
        at = node.parent;
    }
    message.varint(2, value.cast_unsigned());
    drop(message);
    bytes
}

/// `Location`, with one `Line`.
fn location(id: u64, function_id: u64, line_number: Option<u32>) -> Vec<u8> {
    let mut line = Vec::new();
    let mut message = Message::new(&mut line);
    message.varint(1, function_id);
    if let Some(number) = line_number {
        message.varint(2, number.into());
    }
    drop(message);
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(1, id);
    message.bytes(4, &line);
    drop(message);
    bytes
}

/// `Function`.
fn function(id: u64, name: u64, file: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(1, id);
    message.varint(2, name);
    message.varint(3, name);
    message.varint(4, file);
    drop(message);
    bytes
}

/// The table of texts, whose first is empty.
struct Strings {
    texts: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { texts: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use ferretto_protozero::read::Fields;

    use super::*;
    use crate::testing::{small, symbolized, written};

    #[test]
    fn samples_are_there_with_their_stacks() {
        let gzip = written(FORMAT, &small()).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(gzip.as_slice()).read_to_end(&mut bytes).unwrap();
        let fields: Vec<_> = Fields::new(&bytes).map(Result::unwrap).collect();
        let all = |number| {
            fields
                .iter()
                .filter(move |field| field.number == number)
                .filter_map(|field| field.value.as_bytes())
        };
        let texts: Vec<&[u8]> = all(profile::STRING_TABLE).collect();
        let stacks: Vec<(Vec<&[u8]>, u64)> = all(profile::SAMPLE)
            .map(|sample| {
                let parts: Vec<_> = Fields::new(sample).map(Result::unwrap).collect();
                let number = |field: u32| {
                    parts
                        .iter()
                        .filter(move |part| part.number == field)
                        .filter_map(|part| part.value.as_u64())
                };
                // A name's location has its number; the texts begin with "", what the values are and their unit.
                let frames = number(1).map(|id| texts[id as usize + 2]).collect();
                (frames, number(2).next().unwrap())
            })
            .collect();
        let expected: [(&[&[u8]], u64); 3] = [
            (&[b"outer", b"main", b"app"], 3000),
            (&[b"inner", b"outer", b"main", b"app"], 2000),
            (&[b"request", b"requests", b"app"], 500),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(frames, value)| (frames.to_vec(), value)).collect();
        assert_eq!(stacks, expected);
        assert_eq!(all(profile::LOCATION).count(), all(profile::FUNCTION).count());
    }

    #[test]
    fn lines_of_a_function_are_locations_of_it() {
        let stacks = Stacks::with_lines(&symbolized(), None).unwrap();
        let bytes = encode(&stacks);
        let of =
            |number: u32| Fields::new(&bytes).map(Result::unwrap).filter(move |field| field.number == number);
        assert_eq!((of(profile::LOCATION).count(), of(profile::FUNCTION).count()), (6, 4));
        let lines = of(profile::LOCATION).map(|location| {
            let location = Fields::new(location.value.as_bytes().unwrap()).map(Result::unwrap);
            let line =
                location.filter(|field| field.number == 4).find_map(|field| field.value.as_bytes()).unwrap();
            let line: Vec<u64> =
                Fields::new(line).filter_map(|field| field.unwrap().value.as_u64()).collect();
            line
        });
        assert_eq!(lines.collect::<Vec<_>>(), [&[1][..], &[2], &[3, 13], &[4, 4], &[3, 14], &[4, 5]]);
    }
}
