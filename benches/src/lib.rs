//! Programs that print what Ferretto costs, with its peers beside it.
