//! Any bytes as an ELF file, and stacks of whatever is in it: names, frames, lines, and an end.
#![no_main]

use ferretto_symbols::lines::{Debug, DebugFiles, Kept, MAX_PLACES};
use ferretto_symbols::{Elf, demangle};
use ferretto_unwind::{Cache, MAX_FRAMES, Mapping, Registers, Space};
use libfuzzer_sys::fuzz_target;

/// Bytes of the input that are registers and a stack.
const STACK_BYTES: usize = 256;
/// Where the file is mapped.
const START: u64 = 0x5000_0000;

/// Addresses whose lines are looked for: those that the file's code has, and some.
fn lines(file: &[u8], elf: &Elf) {
    let kept = Kept::default();
    let Ok(debug) = Debug::read(file, &kept) else { return };
    let text = elf.text.clone().unwrap_or(0..64);
    let addresses: Vec<u64> = text.clone().step_by(16).take(64).chain([0, u64::MAX, text.end]).collect();
    let files = DebugFiles { package: Some(debug.clone()), alternate: Some(debug.clone()), main: debug };
    let _ = files.find(&addresses, &kept, &mut |_| Some(file.to_vec()), &mut |_, places| {
        assert!((1..=MAX_PLACES).contains(&places.len()));
    });
}

fuzz_target!(|data: &[u8]| {
    let (stack, file) = data.split_at(data.len().min(STACK_BYTES));
    let Ok(elf) = Elf::read(file) else { return };
    lines(file, &elf);
    let mut space = Space::default();
    let end = START + file.len().next_multiple_of(4096) as u64;
    space.map(Mapping { start: START, end, offset: 0, file: () }, Some(&elf));
    let word = |at: usize| {
        stack.get(at * 8..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u64::from_ne_bytes(*it))
    };
    let mut cache = Cache::default();
    for pc in [
        START + word(0) % (end - START),
        word(0),
        elf.text.as_ref().map_or(0, |text| START.wrapping_add(text.start)),
    ] {
        let registers = Registers { pc, sp: word(1), fp: word(1).wrapping_add(word(2) % 512), lr: word(3) };
        let (frames, _) = space.unwind(registers, stack, &mut cache);
        assert!(frames.len() <= MAX_FRAMES);
        for address in frames {
            let place = address.wrapping_sub(START);
            if let Some(name) = elf.address_of(place).and_then(|address| elf.name_of(address)) {
                let _ = demangle(name);
            }
        }
    }
});
