//! Tests against real peers.
