//! `merge OUT IN…`
use std::fs::File;

use ferretto_cut::{Machines, UnpackedFile, merge};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let sources: Vec<_> = args[2..].iter().map(|path| UnpackedFile::new(File::open(path).unwrap())).collect();
    println!(
        "{:?}",
        merge(
            &sources,
            if std::env::var_os("APART").is_some() { Machines::Apart } else { Machines::default() },
            File::create(&args[1]).unwrap()
        )
    );
}
