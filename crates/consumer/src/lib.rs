//! The client's half of recording a trace: configuring, starting, reading back.
