//! The ring that gives back whole packets, in order, with every loss accounted for.
