//! The client's half of producing a trace: arbiter, trace writers, data source instances, reconnection.
