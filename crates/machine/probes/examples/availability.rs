//! Prints what this user and this kernel allow the probes to record.

fn main() {
    for source in ferretto_probes::availability() {
        println!("{}: {}", source.data_source, if source.works { "works" } else { "records nothing" });
        for limitation in &source.limitations {
            println!("  without {}: {}", limitation.what, limitation.why);
            if let Some(remedy) = &limitation.remedy {
                println!("    {remedy}");
            }
        }
    }
}
