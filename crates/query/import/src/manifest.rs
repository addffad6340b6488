//! What the manifest of an archive says, followed: machines, clocks and facts that hold before any file is read (upstream:
//! perfetto_manifest_reader.cc).
//!
//! A clock that a file shares with others of its machine becomes an edge between clocks. A file without one has its times moved instead.

use std::collections::HashMap;

use ferretto_trace_formats::manifest::{Attribute, Clocks, File, Machines, Manifest};
use ferretto_trace_formats::recognize::{Format, Use};
use ferretto_trace_model::Import;
use ferretto_trace_model::clock_snapshots::FileTimes;
use ferretto_trace_model::machines::OfFile;
use ferretto_trace_model::metadata::{Key, Metadatum};
use ferretto_trace_read::clocks::{Clock, Machine, Reading};
use ferretto_trace_tables::MachineId;

/// Files whose times lie to those of another one that has none itself. Ours: they may go round in a circle.
const MAX_CHAIN: usize = 16;

/// Where a file lies in its archive.
pub(crate) type Place = (usize, usize);

/// What holds for a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The machine that all of it, or what it calls 0, is of.
    pub(crate) machine: Option<MachineId>,
    /// Whose its packets are.
    pub(crate) machines: OfFile,
    /// How its times lie, if it has no clock that others have.
    pub(crate) times: Option<FileTimes>,
}

/// Does what a manifest says, and gives what holds for files: their places, paths and formats are `listed`.
pub(crate) fn follow(
    manifest: &Manifest,
    listed: &[(Place, &str, Format)],
    import: &mut Import,
) -> Result<HashMap<Place, Rules>, String> {
    let names = name_machines(manifest, import)?;
    let whole = Whole { manifest, names };
    whole.claim_clock(import)?;
    for (key, value) in &manifest.attributes {
        let value = value_of(value, import);
        import.model().set_attribute_of_archive(key, value);
    }
    let mut rules = HashMap::new();
    for file in &manifest.files {
        let of_file = whole.rules(file, import)?;
        let Some((place, _, format)) = listed.iter().find(|(_, path, _)| *path == file.path) else {
            continue;
        };
        let says = file.clocks.is_some() || of_file.machine.is_some();
        if says && (format.use_() == Use::Container || *format == Format::Manifest) {
            return Err(format!(
                "{} holds other files, or is a manifest: of it nothing can be said",
                file.path
            ));
        }
        rules.insert(*place, of_file);
    }
    Ok(rules)
}

/// A manifest by itself: what it says of the trace.
pub(crate) fn follow_alone(manifest: &Manifest, import: &mut Import) -> Result<(), String> {
    follow(manifest, &[], import).map(|_| ())
}

fn value_of(value: &Attribute, import: &mut Import) -> Metadatum {
    match value {
        Attribute::Int(number) => Metadatum::Int(*number),
        Attribute::Text(text) => Metadatum::Text(import.model().tables.strings.intern(text)),
    }
}

fn name_machines<'a>(
    manifest: &'a Manifest,
    import: &mut Import,
) -> Result<HashMap<&'a str, MachineId>, String> {
    let mut names = HashMap::new();
    for file in &manifest.files {
        let of_file: Vec<&String> = match &file.machines {
            Machines::AsItSays => Vec::new(),
            Machines::One(name) => vec![name],
            Machines::Several(machines) => machines.iter().map(|(_, name)| name).collect(),
        };
        for name in of_file {
            let machine = import.name_machine(name).ok_or("it names more machines than are told apart")?;
            names.insert(name.as_str(), machine);
        }
    }
    Ok(names)
}

/// A manifest and its machines.
struct Whole<'a> {
    manifest: &'a Manifest,
    names: HashMap<&'a str, MachineId>,
}

impl Whole<'_> {
    fn claim_clock(&self, import: &mut Import) -> Result<(), String> {
        let Some(said) = &self.manifest.trace_time else { return Ok(()) };
        let machine = match &said.file {
            Some(path) => self.machine_of(self.file(path, "trace_time")?, said.machine.as_deref(), import)?,
            None => MachineId(0),
        };
        let model = import.model();
        model.clocks.claim_trace_clock(Clock::of_machine(said.clock, Machine(machine.0)));
        model.set_metadata(Key::TraceTimeClockId, machine, Metadatum::Int(i64::from(said.clock)));
        Ok(())
    }

    fn file(&self, path: &str, what: &str) -> Result<&File, String> {
        self.manifest.file(path).ok_or_else(|| format!("{what}: files has no entry for {path}"))
    }

    /// The machine of a file, which must be named if there are several.
    fn machine_of(&self, file: &File, name: Option<&str>, import: &mut Import) -> Result<MachineId, String> {
        let path = &file.path;
        let is_known = |name: &str| match &file.machines {
            Machines::AsItSays => false,
            Machines::One(only) => only == name,
            Machines::Several(machines) => machines.iter().any(|(_, its)| its == name),
        };
        match (name, &file.machines) {
            (Some(name), _) if is_known(name) => self.named(name),
            (Some(name), _) => Err(format!("{path} has no machine {name}")),
            (None, Machines::One(name)) => self.named(name),
            (None, Machines::Several(_)) => {
                Err(format!("{path} is of several machines: say which one has the clock"))
            }
            (None, Machines::AsItSays) => Ok(import.host()),
        }
    }

    fn named(&self, name: &str) -> Result<MachineId, String> {
        self.names.get(name).copied().ok_or_else(|| format!("there is no machine {name}"))
    }

    fn rules(&self, file: &File, import: &mut Import) -> Result<Rules, String> {
        let mut rules = match &file.machines {
            Machines::AsItSays => Rules::default(),
            Machines::One(name) => {
                let machine = self.named(name)?;
                Rules { machine: Some(machine), machines: OfFile::One(machine), times: None }
            }
            Machines::Several(machines) => {
                let rows: Vec<(u32, MachineId)> = machines
                    .iter()
                    .map(|(id, name)| Ok((*id, self.named(name)?)))
                    .collect::<Result<_, String>>()?;
                let machine = rows.iter().find(|(id, _)| *id == 0).map(|(_, machine)| *machine);
                Rules { machine, machines: OfFile::Several(rows), times: None }
            }
        };
        let Some(said) = &file.clocks else { return Ok(rules) };
        let source = self.machine_of(file, said.machine.as_deref(), import)?;
        let (clock, ahead_ns) = self.other_clock(said, import, MAX_CHAIN)?;
        match said.clock {
            Some(id) => {
                let to = clock.unwrap_or_else(|| import.model().clocks.trace_clock());
                let from = Clock::of_machine(id, Machine(source.0));
                // No clock shows less than 0.
                let (ours, theirs) = (ahead_ns.saturating_neg().max(0), ahead_ns.max(0));
                import.model().add_snapshot(&[Reading::new(from, ours), Reading::new(to, theirs)]);
            }
            None => {
                rules.times = Some(FileTimes { clock, ahead_ns });
                if rules.machines == OfFile::AsTheySay {
                    rules.machines = OfFile::Single;
                }
            }
        }
        Ok(rules)
    }

    /// The clock that a file's is compared with, and how much more that one shows; no clock is the trace's.
    fn other_clock(
        &self,
        said: &Clocks,
        import: &mut Import,
        steps: usize,
    ) -> Result<(Option<Clock>, i64), String> {
        let other = self.file(&said.sync_to.file, "sync_to")?;
        let machine = self.machine_of(other, said.sync_to.machine.as_deref(), import)?;
        if let Some(id) = said.sync_to.clock {
            return Ok((Some(Clock::of_machine(id, Machine(machine.0))), said.offset_ns));
        }
        match other.clocks.as_ref().filter(|clocks| clocks.clock.is_none()) {
            Some(theirs) if steps > 0 => {
                let (clock, ahead_ns) = self.other_clock(theirs, import, steps - 1)?;
                Ok((clock, ahead_ns.saturating_add(said.offset_ns)))
            }
            Some(_) => Err(format!("{}: sync_to goes round in a circle, or too far", other.path)),
            None => Ok((None, said.offset_ns)),
        }
    }
}
