//! Linux data sources: ftrace, process and system statistics.
