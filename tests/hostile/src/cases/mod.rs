//! The attacks, one a file.

use crate::Case;

mod arguments_read;
mod blocking_descriptors;
mod clone_early;
mod clones;
mod comes_and_goes;
mod commit_pile;
mod connect_flood;
mod crowd_of_askers;
mod crowd_of_flushers;
mod crowd_of_sources;
mod evict_chains;
mod evict_order;
mod expressions;
mod filters;
mod flush_pile;
mod flushes;
mod fold_clears;
mod fold_dear;
mod fold_large;
mod fold_moves;
mod fold_states;
mod half_frames;
mod held_flushes;
mod idle_connections;
mod large_chunks;
mod large_packets;
mod large_unread;
mod late_chunks;
mod late_sources;
mod many_requests;
mod many_sequences;
mod matches;
mod observers;
mod one_connection;
mod own_memory;
mod own_packets;
mod patch_pile;
mod protovms;
mod refused_packets;
mod semaphores;
mod setups;
mod short_periods;
mod touched_memory;
mod triggers;
mod unread_answers;
mod unreadable_chunks;
mod vm_merges;
mod vm_programs;
mod vm_refused;
mod waiting_clones;
mod widened_filters;

/// All of them.
pub const ALL: &[Case] = &[
    arguments_read::CASE,
    blocking_descriptors::CASE,
    clones::CASE,
    comes_and_goes::CASE,
    commit_pile::CASE,
    connect_flood::CASE,
    crowd_of_askers::CASE,
    crowd_of_flushers::CASE,
    crowd_of_sources::CASE,
    expressions::CASE,
    filters::CASE,
    flush_pile::CASE,
    filters::REPEATED,
    filters::COMPILED,
    flushes::CASE,
    fold_clears::CASE,
    fold_clears::TRANSFERS,
    fold_large::CASE,
    half_frames::CASE,
    held_flushes::CASE,
    idle_connections::CASE,
    large_chunks::CASE,
    large_packets::CASE,
    large_unread::READER,
    large_unread::READERS,
    large_unread::PIPE,
    large_unread::PIPES,
    late_sources::CASE,
    late_chunks::CASE,
    many_requests::CASE,
    many_sequences::CASE,
    many_sequences::READ,
    matches::CASE,
    observers::CASE,
    observers::ENDS,
    one_connection::CASE,
    own_memory::WRITTEN,
    own_memory::TORN,
    own_packets::CASE,
    patch_pile::CASE,
    protovms::CASE,
    refused_packets::CASE,
    semaphores::CASE,
    setups::CASE,
    short_periods::CASE,
    touched_memory::CASE,
    touched_memory::ONE,
    triggers::CASE,
    unread_answers::CASE,
    vm_merges::CASE,
    vm_programs::CASE,
    vm_programs::CLONES,
    vm_refused::CASE,
    waiting_clones::CASE,
    widened_filters::CASE,
    unreadable_chunks::CASE,
    evict_chains::CASE,
    evict_chains::SMALL,
    evict_chains::LARGE_RING,
    evict_chains::STATS,
    evict_order::VMS,
    evict_order::FOLDS,
    fold_dear::COUNTERS,
    fold_dear::CLOCKS,
    clone_early::CASE,
    clone_early::SMALL,
    fold_moves::CASE,
    fold_moves::MANY,
    fold_states::CASE,
];
