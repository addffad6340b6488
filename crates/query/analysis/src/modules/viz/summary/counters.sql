create perfetto table _counter_track_summary as
select distinct track_id as id from counter;
