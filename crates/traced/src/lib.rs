//! Gives the tracing service its sockets, timers, files and signals.
