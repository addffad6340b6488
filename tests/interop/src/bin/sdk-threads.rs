//! Many threads, each with slices at a rate: `sdk-threads THREADS RATE SECONDS`. Whoever is late catches up.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use ferretto::CounterTrack;

static DONE: CounterTrack = CounterTrack::new("done");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let [threads, rate, seconds] = numbers[..] else { return Err("sdk-threads THREADS RATE SECONDS".into()) };
    ferretto::init("ferretto.threads")?;
    let (start, seconds) = (Instant::now(), seconds as f64);
    let thread = |number| {
        let name = format!("worker-{number}");
        std::thread::Builder::new().name(name).spawn(move || work(rate as f64, seconds, start))
    };
    let threads: Vec<_> = (0..threads).map(thread).collect::<Result<_, _>>()?;
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}

fn work(rate: f64, seconds: f64, start: Instant) {
    let mut slices = 0;
    loop {
        let passed = start.elapsed().as_secs_f64().min(seconds);
        while slices < (passed * rate) as u64 {
            match slices % 4 {
                0 => drop(ferretto::slice!("threads.read", "read", number = slices)),
                1 => drop(ferretto::slice!("threads.compute", "compute")),
                2 => drop(ferretto::slice!("threads.compute", "store", place = "disk")),
                _ => drop(ferretto::slice!("threads.read", "look")),
            }
            slices += 1;
        }
        ferretto::counter!("threads.read", DONE, slices as i64);
        if passed >= seconds {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
