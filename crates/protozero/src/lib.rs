//! Writes protobuf into memory that may end in the middle of a message; reads it without copying.
