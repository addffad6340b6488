//! `cut IN OUT FROM TO`: nanoseconds from the start, `-` for none.
use std::fs::File;

use ferretto_cut::{Moment, UnpackedFile, cut};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let moment = |text: &str| (text != "-").then(|| Moment::FromStart(text.parse().unwrap()));
    let source = UnpackedFile::new(File::open(&args[1]).unwrap());
    let out = File::create(&args[2]).unwrap();
    let report = cut(&source, &args[1], moment(&args[3]), moment(&args[4]), out);
    println!("{report:?}");
}
