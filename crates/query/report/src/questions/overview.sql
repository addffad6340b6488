-- How much there is of everything.
select
    (select ends - begins from _report_window) as span,
    trace_start() as begins,
    trace_end() as ends,
    (select count(distinct ucpu) from sched) as cpus,
    (select count(*) from sched) as switches,
    (select sum(dur) from _report_sched) as ran,
    (select sum(dur) from _report_state where state in ('R', 'R+')) as waited,
    (select count(*) from _report_state where state in ('R', 'R+') and has_end) as waits,
    (select sum(dur) from _report_state where state glob 'D*') as blocked,
    (select count(*) from slice) as slices,
    (select count(*) from slice where dur < 0) as slices_without_end,
    (select count(distinct track_id) from counter) as counters
