//! Frames, method tables, requests and replies, and descriptors in transit over sockets.
