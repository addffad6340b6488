-- A time of nanoseconds.
create perfetto function time_from_ns(
    -- Nanoseconds.
    nanos LONG)
-- The time in nanoseconds.
returns TIMESTAMP as select $nanos;

-- A time of microseconds.
create perfetto function time_from_us(
    -- Microseconds.
    micros LONG)
-- The time in nanoseconds.
returns LONG as select $micros * 1000;

-- A time of milliseconds.
create perfetto function time_from_ms(
    -- Milliseconds.
    millis LONG)
-- The time in nanoseconds.
returns TIMESTAMP as select $millis * 1000000;

-- A time of seconds.
create perfetto function time_from_s(
    -- Seconds.
    seconds LONG)
-- The time in nanoseconds.
returns TIMESTAMP as select $seconds * 1000000000;

-- A time of minutes.
create perfetto function time_from_min(
    -- Minutes.
    minutes LONG)
-- The time in nanoseconds.
returns TIMESTAMP as select $minutes * 60000000000;

-- A time of hours.
create perfetto function time_from_hours(
    -- Hours.
    hours LONG)
-- The time in nanoseconds.
returns TIMESTAMP as select $hours * 3600000000000;

-- A time of days.
create perfetto function time_from_days(
    -- Days.
    days LONG)
-- The time in nanoseconds.
returns LONG as select $days * 86400000000000;

-- A time in nanoseconds.
create perfetto function time_to_ns(
    -- The time.
    nanos TIMESTAMP)
-- Nanoseconds.
returns LONG as select $nanos;

-- A time in whole microseconds.
create perfetto function time_to_us(
    -- The time.
    nanos TIMESTAMP)
-- Microseconds.
returns LONG as select $nanos / 1000;

-- A time in whole milliseconds.
create perfetto function time_to_ms(
    -- The time.
    nanos TIMESTAMP)
-- Milliseconds.
returns LONG as select $nanos / 1000000;

-- A time in whole seconds.
create perfetto function time_to_s(
    -- The time.
    nanos TIMESTAMP)
-- Seconds.
returns LONG as select $nanos / 1000000000;

-- A time in whole minutes.
create perfetto function time_to_min(
    -- The time.
    nanos TIMESTAMP)
-- Minutes.
returns LONG as select $nanos / 60000000000;

-- A time in whole hours.
create perfetto function time_to_hours(
    -- The time.
    nanos TIMESTAMP)
-- Hours.
returns LONG as select $nanos / 3600000000000;

-- A time in whole days.
create perfetto function time_to_days(
    -- The time.
    nanos TIMESTAMP)
-- Days.
returns LONG as select $nanos / 86400000000000;
