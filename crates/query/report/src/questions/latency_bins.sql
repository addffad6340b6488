-- How many waits there were of each length.
select
    case
        when dur < 1000 then 0 when dur < 2000 then 1 when dur < 5000 then 2
        when dur < 10000 then 3 when dur < 20000 then 4 when dur < 50000 then 5
        when dur < 100000 then 6 when dur < 200000 then 7 when dur < 500000 then 8
        when dur < 1000000 then 9 when dur < 2000000 then 10 when dur < 5000000 then 11
        when dur < 10000000 then 12 when dur < 20000000 then 13 when dur < 50000000 then 14
        when dur < 100000000 then 15 when dur < 200000000 then 16 when dur < 500000000 then 17
        when dur < 1000000000 then 18 when dur < 2000000000 then 19 when dur < 5000000000 then 20
        else 21
    end as bin,
    count(*) as times
from _report_state
where state in ('R', 'R+') and has_end
group by bin
order by bin
