//! `cut IN OUT FROM TO`: nanoseconds from the start, `-` for none.
use std::fs::File;

use ferretto_cut::{Moment, Options, UnpackedFile, cut};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let moment = |text: &str| (text != "-").then(|| Moment::FromStart(text.parse().unwrap()));
    let source = UnpackedFile::new(File::open(&args[1]).unwrap());
    let out = File::create(&args[2]).unwrap();
    let options = Options { from: moment(&args[3]), to: moment(&args[4]), ..Options::default() };
    let report = cut(&source, &args[1], &options, out);
    println!("{report:?}");
}
