//! A program that allocates and gives back, for `heap_cost`.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Blocks that live at a time: an allocator that is asked for one and has it back at once has it at hand.
const BATCH: usize = 64;
const BATCHES: usize = 200_000;

/// Prints the nanoseconds of a block that is allocated and given back, of the fastest of some rounds.
///
/// # Errors
///
/// If a thread has failed.
pub fn pairs(threads: usize) -> Result<(), String> {
    let threads: Vec<_> = (0..threads)
        .map(|_| std::thread::spawn(|| (0..5).map(|_| round()).fold(f64::MAX, f64::min)))
        .collect();
    let mut sum = 0.0;
    let count = threads.len() as f64;
    for thread in threads {
        sum += thread.join().map_err(|_| "a thread has failed".to_owned())?;
    }
    println!("{}", sum / count);
    Ok(())
}

fn round() -> f64 {
    let mut blocks: Vec<Vec<u8>> = (0..BATCH).map(|_| Vec::new()).collect();
    let began_ns = used_ns();
    for batch in 0..BATCHES / 5 {
        for (number, block) in blocks.iter_mut().enumerate() {
            let new = Vec::with_capacity(48 + (batch + number) % 64);
            // Of the whole vector the processor would wait for what was just written, and whoever comes before would look dear.
            black_box(new.as_ptr());
            *block = new;
        }
        blocks.iter_mut().for_each(|block| *block = Vec::new());
    }
    (used_ns() - began_ns) as f64 / (BATCHES / 5 * BATCH) as f64
}

/// Of a processor's time, by this thread.
fn used_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
