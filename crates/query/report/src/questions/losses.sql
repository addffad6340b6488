-- What the trace's own statistics call an error or a loss, and what buffers left out.
select name, idx, value, description
from stats
where value > 0
    and (severity in ('error', 'data_loss') or name in ('traced_buf_bytes_overwritten', 'traced_buf_chunks_discarded'))
order by name, idx
limit 1000
