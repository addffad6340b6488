//! Makes a trace of a text: `assemble TEXT TRACE`. What `tests/scripts.rs` says of texts holds here, too.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(text), Some(trace)) = (args.next(), args.next()) else {
        return Err("usage: assemble TEXT TRACE".into());
    };
    let text = std::fs::read_to_string(text)?;
    let (packets, _) = text.split_once("\n== ").unwrap_or((&text, ""));
    Ok(std::fs::write(trace, ferretto_protos::text::parse("perfetto.protos.Trace", packets)?)?)
}
