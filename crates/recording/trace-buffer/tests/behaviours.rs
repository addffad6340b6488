//! What the buffer promises, one script each. `tests/script/mod.rs` describes the language.
//!
//! Packets are single letters where nothing more is needed: the fragment `0161` is one byte long and reads `a`.
//! A chunk of n payload bytes takes 16 + n bytes of the ring, rounded up to 16.

mod script;

/// Runs `script` and compares what it prints, apart from indentation.
#[track_caller]
fn check(script: &str, expected: &str) {
    let printed = script::run(script).unwrap_or_else(|error| panic!("bad script: {error}"));
    let expected: Vec<String> = expected.lines().map(str::trim).map(expand).collect();
    let printed: Vec<&str> = printed.lines().filter(|line| !line.starts_with("new ")).collect();
    assert_eq!(printed, expected);
}

/// Writes out a repetition at the end of a line: `packet 1 1 0 61*3`.
fn expand(line: &str) -> String {
    match line.split_once('*') {
        Some((start, times)) => {
            let (start, digits) = start.split_at(start.len() - 2);
            format!("{start}{}", digits.repeat(times.parse().expect("a number")))
        }
        None => line.to_owned(),
    }
}

mod whole_packets {
    use super::check;

    #[test]
    fn come_back_once_and_in_order() {
        check(
            "new 4096 ring
             copy 1 1 0 3 0 1 016101620163
             copy 1 1 1 1 0 1 0164
             begin
             read 2
             read 10
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 1 0 62
             end 2
             packet 1 1 0 63
             packet 1 1 0 64
             end 2
             end 0
             stats buffer_size=4096 bytes_written=64 bytes_read=64 chunks_written=2 chunks_read=2",
        );
    }

    #[test]
    fn of_no_bytes_are_passed_over_and_do_not_count_as_loss() {
        check(
            "new 4096 ring
             copy 1 1 0 4 0 1 0001610000
             copy 1 1 1 1 0 1 00
             begin
             read 10",
            "packet 1 1 0 61
             end 1",
        );
    }

    #[test]
    fn of_several_writers_come_in_the_order_of_their_chunks() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             copy 2 1 0 1 0 1 0162
             copy 1 2 7 1 0 1 0163
             copy 1 1 1 1 0 1 0164
             begin
             read 10",
            "packet 1 1 0 61
             packet 2 1 0 62
             packet 1 2 0 63
             packet 1 1 0 64
             end 4",
        );
    }

    #[test]
    fn are_not_followed_by_what_the_header_does_not_announce() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 01610162
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_read=1",
        );
    }
}

mod order {
    use super::check;

    #[test]
    fn is_by_chunk_id_when_chunks_come_late() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             copy 1 1 2 1 0 1 0163
             copy 2 1 0 1 0 1 017a
             copy 1 1 1 1 0 1 0162
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 1 0 62
             packet 1 1 0 63
             packet 2 1 0 7a
             end 4
             stats buffer_size=4096 bytes_written=128 bytes_read=128 chunks_written=4 chunks_read=4 \
             chunks_committed_out_of_order=1",
        );
    }

    #[test]
    fn goes_on_when_chunk_ids_wrap_round() {
        check(
            "new 4096 ring
             copy 1 1 4294967295 1 0 1 0161
             copy 1 1 1 1 0 1 0163
             copy 1 1 0 1 0 1 0162
             begin
             read 10",
            "packet 1 1 0 61
             packet 1 1 0 62
             packet 1 1 0 63
             end 3",
        );
    }
}

mod fragmented_packets {
    use super::check;

    #[test]
    fn are_put_together_from_consecutive_chunks() {
        check(
            "new 4096 ring
             copy 1 1 0 2 2 1 01610162
             copy 1 1 1 1 3 1 0163
             copy 1 1 2 2 1 1 01640165
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 1 0 626364
             packet 1 1 0 65
             end 3
             stats buffer_size=4096 bytes_written=96 bytes_read=96 chunks_written=3 chunks_read=3 readaheads_succeeded=1",
        );
    }

    #[test]
    fn may_have_empty_chunks_in_their_middle() {
        check(
            "new 4096 ring
             copy 1 1 0 1 2 1 0161
             copy 1 1 1 0 3 1 -
             copy 1 1 2 1 1 1 0162
             begin
             read 10",
            "packet 1 1 0 6162
             end 1",
        );
    }

    #[test]
    fn leave_the_chunk_with_their_end_in_its_place() {
        // The third writer-1 packet is in the chunk that holds the second's end, behind writer 2 in the ring.
        check(
            "new 4096 ring
             copy 1 1 0 1 2 1 0161
             copy 1 2 0 1 0 1 017a
             copy 1 1 1 2 1 1 01620163
             begin
             read 10",
            "packet 1 1 0 6162
             packet 1 2 0 7a
             packet 1 1 0 63
             end 3",
        );
    }

    #[test]
    fn without_an_end_stall_their_own_sequence_only() {
        check(
            "new 4096 ring
             copy 1 1 0 2 2 1 01610162
             copy 1 2 0 1 0 1 017a
             begin
             read 10
             copy 1 1 1 1 1 1 0163
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 2 0 7a
             end 2
             packet 1 1 0 6263
             end 1
             stats buffer_size=4096 bytes_written=96 bytes_read=96 chunks_written=3 chunks_read=3 \
             readaheads_succeeded=1 readaheads_failed=1",
        );
    }

    #[test]
    fn given_up_by_the_writer_are_no_violation() {
        // In place of the last size stands 0x0fffffff, as a varint of four bytes.
        check(
            "new 4096 ring
             copy 1 1 0 1 2 1 0161
             copy 1 1 1 1 1 1 ffffff7f
             copy 1 1 2 1 0 1 0162
             begin
             read 10
             stats",
            // Lost with the empty chunk: the writer gave up (128), and the beginning is not continued (32).
            "packet 1 1 161 62
             end 1
             stats buffer_size=4096 bytes_written=80 bytes_read=64 chunks_written=3 chunks_read=2 \
             readaheads_failed=1 trace_writer_packet_loss=1",
        );
    }
}

mod patches {
    use super::check;

    #[test]
    fn release_a_sequence_that_waits_for_them() {
        check(
            "new 4096 ring
             copy 1 1 0 2 6 1 01610500000000ff
             copy 1 1 1 1 1 1 0162
             copy 1 2 0 1 0 1 017a
             begin
             read 10
             patch 1 1 0 1 3:aabbccdd
             begin
             read 10
             patch 1 1 0 0 3:11223344
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 2 0 7a
             end 2
             patch 1
             end 0
             patch 1
             packet 1 1 0 11223344ff62
             end 1
             stats buffer_size=4096 bytes_written=96 bytes_read=96 chunks_written=3 chunks_read=3 \
             patches_succeeded=2 readaheads_succeeded=1 readaheads_failed=2",
        );
    }

    #[test]
    fn outside_the_payload_fail_and_leave_those_before_applied() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0661*1,6161616161
             patch 1 1 0 0 1:62626262 4:63636363
             patch 1 1 0 0 4294967295:63636363
             patch 1 1 1 0 0:63636363
             patch 1 2 0 0 0:63636363
             begin
             read 10
             stats",
            "patch 0
             patch 0
             patch 0
             patch 0
             packet 1 1 0 626262626161
             end 1
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_read=1 patches_failed=4",
        );
    }

    #[test]
    fn that_break_a_size_cost_the_rest_of_the_chunk_only() {
        check(
            "new 4096 ring
             copy 1 1 0 3 0 1 016104626262620163
             patch 1 1 0 0 2:05626262
             patch 1 1 0 0 2:7f626262
             copy 1 1 1 1 0 1 0164
             begin
             read 10",
            "patch 1
             patch 1
             packet 1 1 0 61
             packet 1 1 5 64
             end 2",
        );
    }

    #[test]
    fn do_not_hold_up_overwriting() {
        // The second chunk needs patches; the fourth, as large as the ring, has to push it out.
        check(
            "new 4096 ring
             copy 1 1 0 1 6 1 0161
             copy 1 1 1 1 1 1 0162
             begin
             read 10
             copy 1 1 2 1 0 1 ee1f,63*4078
             begin
             read 10
             patch 1 1 0 0 0:00000000",
            "end 0
             packet 1 1 73 63*4078
             end 1
             patch 0",
        );
    }
}

mod scraped_chunks {
    use super::check;

    #[test]
    fn are_read_without_their_last_fragment_and_stall_the_sequence() {
        check(
            "new 4096 ring
             copy 1 1 0 2 0 0 01610162
             copy 1 1 1 1 0 1 0164
             begin
             read 10
             begin
             read 10",
            "packet 1 1 0 61
             end 1
             end 0",
        );
    }

    #[test]
    fn give_the_rest_once_they_are_committed() {
        check(
            "new 4096 ring
             copy 1 1 0 3 0 0 016101620000
             begin
             read 1
             copy 1 1 0 3 0 1 016101620163
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             packet 1 1 0 62
             packet 1 1 0 63
             end 2
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_rewritten=1 chunks_read=1",
        );
    }

    #[test]
    fn move_to_the_write_cursor_when_they_grow_after_they_were_read() {
        check(
            "new 4096 ring
             copy 1 1 0 2 0 0 016100000000
             copy 1 2 0 1 0 1 017a
             begin
             read 10
             copy 1 1 0 3 0 0 016101620000
             begin
             read 10
             copy 1 1 0 3 0 1 016101620163
             copy 1 2 1 1 0 1 017b
             begin
             read 10
             stats",
            "packet 1 1 0 61
             packet 1 2 0 7a
             end 2
             packet 1 1 0 62
             end 1
             packet 1 1 0 63
             packet 1 2 0 7b
             end 2
             stats buffer_size=4096 bytes_written=160 bytes_read=160 chunks_written=5 chunks_read=5 chunks_relocated=2",
        );
    }

    #[test]
    fn stay_where_they_are_in_a_buffer_that_discards() {
        check(
            "new 4096 discard
             copy 1 1 0 2 0 0 016100000000
             begin
             read 10
             copy 1 1 0 3 0 1 016101620163
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             packet 1 1 0 62
             packet 1 1 0 63
             end 2
             stats buffer_size=4096 bytes_written=32 bytes_read=64 chunks_written=1 chunks_rewritten=1 chunks_read=2",
        );
    }

    #[test]
    fn come_in_again_with_what_is_new_after_they_were_overwritten() {
        check(
            "new 4096 ring
             copy 1 1 0 2 0 0 016100000000
             copy 1 2 0 1 0 1 ee1f,7a*4078
             copy 1 1 0 3 0 1 016101620163
             begin
             read 10
             copy 1 1 0 3 0 1 016101620163
             stats",
            "packet 1 1 65 62
             packet 1 1 0 63
             end 2
             stats buffer_size=4096 bytes_written=4160 bytes_overwritten=4128 bytes_read=32 \
             padding_bytes_written=4064 chunks_written=3 chunks_overwritten=2 chunks_discarded=1 chunks_read=1 \
             write_wrap_count=2",
        );
    }

    #[test]
    fn keep_their_flags_about_the_last_fragment_for_the_commit() {
        check(
            "new 4096 ring
             copy 1 1 0 2 6 0 01610162
             begin
             read 10
             copy 1 1 0 2 2 1 01610162
             copy 1 1 1 1 1 1 0163
             begin
             read 10",
            "packet 1 1 0 61
             end 1
             packet 1 1 0 6263
             end 1",
        );
    }
}

mod chunks_committed_again {
    use super::check;

    #[test]
    fn must_not_shrink_nor_outgrow_their_room_nor_lose_flags() {
        check(
            "new 4096 ring
             copy 1 1 0 2 1 1 01610162
             copy 1 1 0 1 1 1 0161
             copy 1 1 0 3 1 1 016101620163
             copy 1 1 0 2 0 1 01610162
             begin
             read 10
             stats",
            "packet 1 1 9 62
             end 1
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_read=1 abi_violations=3",
        );
    }

    #[test]
    fn of_the_same_size_change_nothing() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             copy 1 1 0 1 0 1 0162
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_read=1",
        );
    }

    #[test]
    fn are_refused_when_they_or_later_ones_were_consumed() {
        check(
            "new 4096 ring
             copy 1 1 5 1 0 1 0161
             begin
             read 10
             copy 1 1 5 2 0 1 01610162
             copy 1 1 4 1 0 1 0163
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             end 0
             stats buffer_size=4096 bytes_written=32 bytes_read=32 chunks_written=1 chunks_discarded=2 chunks_read=1",
        );
    }
}

mod losses {
    use super::check;

    #[test]
    fn gaps_between_chunks_are_told() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             copy 1 1 2 1 0 1 0163
             begin
             read 10",
            "packet 1 1 0 61
             packet 1 1 3 63
             end 2",
        );
    }

    #[test]
    fn gaps_are_told_across_passes() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             begin
             read 10
             copy 1 1 2 1 0 1 0163
             begin
             read 10",
            "packet 1 1 0 61
             end 1
             packet 1 1 3 63
             end 1",
        );
    }

    /// Upstream does not expect to be asked on, and tells the gap before the chunk that it stands at once more.
    #[test]
    fn gaps_are_told_once_when_a_reader_asks_on_after_the_end_of_a_pass() {
        check(
            "new 4096 ring
             copy 1 1 0 0 0 1 -
             copy 1 1 2 2 2 1 01610162
             begin
             read 2
             read 1
             copy 1 1 1 1 0 1 0163
             begin
             read 1",
            "packet 1 1 3 61
             end 1
             end 0
             packet 1 1 0 63
             end 1",
        );
    }

    #[test]
    fn a_missing_middle_costs_the_packet_only() {
        check(
            "new 4096 ring
             copy 1 1 0 2 2 1 01610162
             copy 1 1 2 2 1 1 01640165
             begin
             read 10",
            // 1 present, 2 gap, 8 an end without a beginning, 16 a beginning without its next.
            "packet 1 1 0 61
             packet 1 1 27 65
             end 2",
        );
    }

    #[test]
    fn a_continuation_without_a_beginning_is_told() {
        check(
            "new 4096 ring
             copy 1 1 0 2 1 1 01610162
             begin
             read 10",
            "packet 1 1 9 62
             end 1",
        );
    }

    #[test]
    fn a_beginning_that_is_not_continued_is_told() {
        check(
            "new 4096 ring
             copy 1 1 0 1 2 1 0161
             copy 1 1 1 1 0 1 0162
             begin
             read 10",
            "packet 1 1 33 62
             end 1",
        );
    }

    #[test]
    fn of_one_sequence_are_not_told_on_another() {
        check(
            "new 4096 ring
             copy 1 1 0 1 1 1 0161
             copy 1 2 0 1 0 1 017a
             copy 1 1 1 1 0 1 0162
             begin
             read 10",
            "packet 1 2 0 7a
             packet 1 1 9 62
             end 2",
        );
    }
}

mod overwriting {
    use super::check;

    #[test]
    fn tells_what_it_cost() {
        // Each chunk takes 2032 bytes; the third pushes out the first and the last 32 bytes of the ring.
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 2 0 1 0 1 d60f,62*2006
             copy 1 1 1 1 0 1 d60f,63*2006
             begin
             read 10
             stats",
            "packet 1 2 0 62*2006
             packet 1 1 65 63*2006
             end 2
             stats buffer_size=4096 bytes_written=6096 bytes_overwritten=2032 bytes_read=4064 \
             chunks_written=3 chunks_overwritten=1 chunks_read=2 write_wrap_count=1",
        );
    }

    #[test]
    fn of_what_was_read_costs_nothing() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 1 1 1 0 1 d60f,62*2006
             begin
             read 10
             copy 1 1 2 1 0 1 0163
             begin
             read 10
             stats",
            "packet 1 1 0 61*2006
             packet 1 1 0 62*2006
             end 2
             packet 1 1 0 63
             end 1
             stats buffer_size=4096 bytes_written=4096 bytes_read=4096 chunks_written=3 chunks_read=3",
        );
    }

    #[test]
    fn takes_the_earlier_chunks_of_the_sequence_with_it() {
        // Chunk 3 lies first in the ring but chunks 1 and 2 come before it in the sequence.
        check(
            "new 4096 ring
             copy 1 1 3 1 0 1 0163
             copy 1 1 1 1 0 1 0161
             copy 1 1 2 1 0 1 0162
             copy 1 1 4 1 0 1 ce1f,64*4046
             begin
             read 10
             stats",
            "packet 1 1 65 64*4046
             end 1
             stats buffer_size=4096 bytes_written=4160 bytes_overwritten=96 bytes_read=4064 \
             padding_bytes_cleared=64 chunks_written=4 chunks_overwritten=3 chunks_read=1 \
             chunks_committed_out_of_order=2 write_wrap_count=1",
        );
    }

    #[test]
    fn leaves_a_gap_where_a_new_chunk_covers_a_part_of_an_old_one() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 2 0 1 0 1 d60f,62*2006
             copy 1 3 0 1 0 1 d60f,63*2006
             copy 1 3 1 1 0 1 0164
             begin
             read 10
             stats",
            "packet 1 3 0 63*2006
             packet 1 3 0 64
             end 2
             stats buffer_size=4096 bytes_written=6128 bytes_overwritten=4064 bytes_read=2064 \
             padding_bytes_written=2000 chunks_written=4 chunks_overwritten=2 chunks_read=2 write_wrap_count=1",
        );
    }
}

mod buffers_that_discard {
    use super::check;

    #[test]
    fn close_for_good_at_the_first_chunk_that_does_not_fit() {
        check(
            "new 4096 discard
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 1 1 1 0 1 d60f,62*2006
             copy 1 1 2 1 0 1 d60f,63*2006
             begin
             read 10
             copy 1 1 3 1 0 1 0164
             begin
             read 10
             stats",
            "packet 1 1 0 61*2006
             packet 1 1 0 62*2006
             end 2
             end 0
             stats buffer_size=4096 bytes_written=4064 bytes_read=4064 chunks_written=2 chunks_discarded=2 chunks_read=2",
        );
    }
}

mod clones {
    use super::check;

    #[test]
    fn hold_what_is_unread_and_take_nothing_more() {
        check(
            "new 4096 ring
             copy 1 1 0 3 0 1 016101620163
             copy 1 2 0 1 0 0 017a
             begin
             read 1
             clone
             copy 1 1 1 1 0 1 0164
             patch 1 1 0 0 0:00000000
             compact
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             clone
             patch 0
             packet 1 1 0 62
             packet 1 1 0 63
             end 2
             stats buffer_size=4096 bytes_written=64 bytes_read=32 chunks_written=2 chunks_read=1",
        );
    }

    #[test]
    fn remember_gaps_and_losses() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 0161
             begin
             read 10
             copy 1 1 2 2 1 1 01620163
             clone
             begin
             read 10",
            "packet 1 1 0 61
             end 1
             clone
             packet 1 1 11 63
             end 1",
        );
    }
}

mod malformed_chunks {
    use super::check;

    /// The first packet can be saved whatever follows it, and the next chunk is not affected.
    #[track_caller]
    fn check_prefix_is_kept(num_fragments: u16, payload: &str) {
        check(
            &format!(
                "new 4096 ring
                 copy 1 1 0 {num_fragments} 0 1 {payload}
                 copy 1 1 1 1 0 1 0162
                 begin
                 read 10
                 stats"
            ),
            "packet 1 1 0 61
             packet 1 1 0 62
             end 2
             stats buffer_size=4096 bytes_written=64 bytes_read=64 chunks_written=2 chunks_read=2 abi_violations=1",
        );
    }

    #[test]
    fn announcing_too_many_fragments_lose_those_only() {
        check_prefix_is_kept(2, "0161");
        check_prefix_is_kept(65535, "0161");
    }

    #[test]
    fn with_a_size_beyond_their_end_lose_the_rest() {
        check_prefix_is_kept(2, "01610262");
        check_prefix_is_kept(3, "01610f620163");
        check_prefix_is_kept(2, "0161feffffff7f62");
    }

    #[test]
    fn with_a_size_that_does_not_end_lose_the_rest() {
        check_prefix_is_kept(2, "016180");
        check_prefix_is_kept(2, "0161,ff*9,01");
        check_prefix_is_kept(2, "0161,ff*10,01");
        check_prefix_is_kept(2, "0161,80*40,00");
    }

    #[test]
    fn with_sizes_longer_than_need_be_are_fine() {
        check(
            "new 4096 ring
             copy 1 1 0 2 0 1 8180800061,81,80*8,00,62
             begin
             read 10",
            "packet 1 1 0 61
             packet 1 1 0 62
             end 2",
        );
    }

    #[test]
    fn larger_than_the_buffer_or_than_any_chunk_are_refused() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 f01f,61*4080
             copy 1 1 0 1 0 0 0161,00*4080
             new 131072 ring
             copy 1 1 0 1 0 0 0161,00*65535
             copy 1 1 0 2 0 1 ffff01,61*32767,ffff01,61*32767
             stats",
            "stats buffer_size=131072 abi_violations=2",
        );
    }

    #[test]
    fn without_a_payload_are_stored_and_read_as_nothing() {
        check(
            "new 4096 ring
             copy 1 1 0 0 0 1 -
             copy 1 1 1 1 0 1 0161
             begin
             read 10
             stats",
            "packet 1 1 0 61
             end 1
             stats buffer_size=4096 bytes_written=48 bytes_read=32 chunks_written=2 chunks_read=1",
        );
    }

    #[test]
    fn cannot_set_flags_of_the_buffers_own() {
        // 0x80 and 0x40 mean something in the buffer, nothing in shared memory.
        check(
            "new 4096 ring
             copy 1 1 0 1 248 1 0161
             copy 1 1 1 1 0 1 0162
             begin
             read 10",
            "packet 1 1 0 61
             packet 1 1 0 62
             end 2",
        );
    }
}

mod compaction {
    use super::check;

    #[test]
    fn moves_what_is_unread_to_the_front() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 2 0 1 2 1 0162
             copy 1 3 0 2 0 0 0163,00*60
             begin
             read 10
             compact
             copy 1 2 1 1 1 1 0164
             copy 1 3 0 2 0 1 01630165
             begin
             read 10
             stats",
            "packet 1 1 0 61*2006
             packet 1 3 0 63
             end 2
             packet 1 2 0 6264
             packet 1 3 0 65
             end 2
             stats buffer_size=4096 bytes_written=2208 bytes_read=2208 chunks_written=5 chunks_read=5 \
             chunks_relocated=1 readaheads_succeeded=1 readaheads_failed=1 compactions=1",
        );
    }

    #[test]
    fn is_put_off_while_unread_chunks_lie_on_both_sides_of_the_write_cursor() {
        check(
            "new 4096 ring
             copy 1 1 0 1 0 1 d60f,61*2006
             copy 1 2 0 1 2 1 d60f,62*2006
             copy 1 3 0 1 2 1 d60f,63*2006
             begin
             read 10
             compact
             stats",
            "end 0
             stats buffer_size=4096 bytes_written=6096 bytes_overwritten=2032 chunks_written=3 \
             chunks_overwritten=1 write_wrap_count=1 readaheads_failed=2 compactions_skipped=1",
        );
    }
}

mod overwritten_packets {
    use super::check;

    /// A chunk as large as the ring, which pushes out everything else.
    fn pushed_out(before: &str) -> String {
        format!("new 4096 ring\n{before}\ncopy 9 1 0 1 0 1 ee1f,7a*4078")
    }

    #[test]
    fn are_given_whole_and_in_order_to_who_wants_them() {
        check(
            &pushed_out(
                "want 1 3
                 copy 1 1 0 2 0 1 01610162
                 copy 3 7 0 1 0 1 0478797a7a
                 copy 1 1 1 1 0 1 0163",
            ),
            "gone 1 1 61
             gone 1 1 62
             gone 3 7 78797a7a
             gone 1 1 63",
        );
    }

    #[test]
    fn of_other_producers_are_not_given() {
        check(
            &pushed_out(
                "want 1
                 copy 2 1 0 1 0 1 0161
                 copy 2 1 1 1 2 1 0162
                 copy 2 1 2 1 1 1 0163",
            ),
            "",
        );
    }

    #[test]
    fn bring_those_before_them_along() {
        // Chunk 1 is in the way first; chunk 0, which came late, goes before it.
        check(
            &pushed_out(
                "want 1
                 copy 1 1 1 1 0 1 0162
                 copy 1 1 0 1 0 1 0161",
            ),
            "gone 1 1 61
             gone 1 1 62",
        );
    }

    #[test]
    fn are_put_together_from_fragments() {
        check(
            &pushed_out(
                "want 1
                 copy 1 1 0 2 2 1 01610162
                 copy 1 1 1 1 3 1 0163
                 copy 1 1 2 2 1 1 01640165",
            ),
            "gone 1 1 61
             gone 1 1 626364
             gone 1 1 65",
        );
    }

    #[test]
    fn are_not_given_if_a_part_is_missing_or_unpatched_or_they_are_empty() {
        check(
            &pushed_out(
                "want 1
                 copy 1 1 0 2 2 1 01610162
                 copy 1 1 2 2 1 1 01630164
                 copy 1 1 3 1 6 1 0165
                 copy 1 2 0 3 0 1 0001660000
                 copy 1 3 0 2 0 1 01670768",
            ),
            "gone 1 1 61
             gone 1 1 64
             gone 1 2 66
             gone 1 3 67",
        );
    }

    #[test]
    fn are_not_those_that_were_read() {
        check(
            &pushed_out(
                "want 1
                 copy 1 1 0 2 0 1 01610162
                 copy 1 1 1 1 0 1 0163
                 begin
                 read 1",
            ),
            "packet 1 1 0 61
             end 1
             gone 1 1 62
             gone 1 1 63",
        );
    }

    #[test]
    fn are_given_once_when_their_chunk_was_scraped_and_comes_again() {
        check(
            &format!(
                "{}
                 copy 1 1 0 3 0 1 016101620163
                 copy 9 1 1 1 0 1 ee1f,7a*4078",
                pushed_out("want 1\ncopy 1 1 0 3 0 0 016101620163")
            ),
            "gone 1 1 61
             gone 1 1 62
             gone 1 1 63",
        );
    }

    #[test]
    fn do_not_exist_where_new_chunks_are_discarded() {
        check(
            "new 4096 discard
             want 1
             copy 1 1 0 1 0 1 0161
             copy 1 1 1 1 0 1 ee1f,7a*4078
             stats",
            "stats buffer_size=4096 bytes_written=32 chunks_written=1 chunks_discarded=1",
        );
    }
}
