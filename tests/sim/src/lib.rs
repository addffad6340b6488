//! The whole system in one thread, under a seeded, faulty world.
