"""What other programs' libraries read of files that Ferretto wrote, for tests/reading/readers.

    python3 readers.py parquet FOLDER     DuckDB and pyarrow: rows of each file, and the sum of each column of numbers
    python3 readers.py otlp FOLDER        OpenTelemetry's messages: spans, links, logs
    python3 readers.py pprof FILE         protobuf's own reader, by the field numbers of profile.proto: samples and their sums
    python3 readers.py firefox FILE       the processed profile: columns as long as their tables say, numbers of rows that there are

    python3 readers.py package ADDRESS    Perfetto's Python package asks a server: rows of an answer as pandas and polars have them
    python3 readers.py stream FILE        an Arrow stream, in pandas and polars
    python3 readers.py txt FOLDER         `trace`, `text` and `descriptors`: protobuf reads the same messages out of both

Prints lines `NAME<tab>NUMBER`; who finds a file broken ends with status 1.
"""

import gzip
import json
import pathlib
import sys


def parquet(folder):
    import duckdb
    import pyarrow.compute
    import pyarrow.parquet

    database = duckdb.connect()
    number = lambda query: database.execute(query).fetchone()[0]
    for path in sorted(pathlib.Path(folder).glob("*.parquet")):
        name = path.stem
        read = pyarrow.parquet.read_table(path)
        rows = number(f"select count(*) from '{path}'")
        same(name, read.num_rows, rows)
        print(f"{name}\t{rows}")
        for column in read.schema:
            kind = column.type
            if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
                continue
            # Sums of integers wrap in the one and widen in the other.
            one = pyarrow.compute.sum(read[column.name].cast(pyarrow.float64(), safe=False)).as_py() or 0.0
            other = number(f'select sum("{column.name}"::double) from \'{path}\'') or 0.0
            if abs(one - other) > 1e-9 * max(abs(one), abs(other)):
                fail(f"{name}.{column.name}: the sum is {one} by pyarrow, {other} by DuckDB")
            print(f"{name}.{column.name}\t{one!r}")


def otlp(folder):
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    def read(name, message):
        path = pathlib.Path(folder) / name
        if path.exists():
            message.ParseFromString(path.read_bytes())
        return message

    spans = [s for r in read("traces.pb", TracesData()).resource_spans for g in r.scope_spans for s in g.spans]
    logs = [l for r in read("logs.pb", LogsData()).resource_logs for g in r.scope_logs for l in g.log_records]
    ids = {(span.trace_id, span.span_id) for span in spans}
    same("spans with an id of their own", len(ids), len(spans))
    for span in spans:
        if span.parent_span_id and (span.trace_id, span.parent_span_id) not in ids:
            fail(f"{span.name}: its parent is not there")
    print(f"spans\t{len(spans)}")
    print(f"logs\t{len(logs)}")
    print(f"links\t{sum(len(span.links) for span in spans)}")
    unfinished = lambda span: any(a.key == "perfetto.unfinished" for a in span.attributes)
    ns = sum(s.end_time_unix_nano - s.start_time_unix_nano for s in spans if not unfinished(s))
    print(f"ns\t{ns}")


# Messages of profile.proto that are looked at: number, name, message or None for a number, whether there are several.
PPROF = {
    "ValueType": [(1, "type", None, False), (2, "unit", None, False)],
    "Sample": [(1, "location_id", None, True), (2, "value", None, True)],
    "Location": [(1, "id", None, False), (4, "line", "Line", True)],
    "Line": [(1, "function_id", None, False)],
    "Function": [(1, "id", None, False), (2, "name", None, False)],
    "Profile": [
        (1, "sample_type", "ValueType", True), (2, "sample", "Sample", True), (4, "location", "Location", True),
        (5, "function", "Function", True), (6, "string_table", "text", True),
    ],
}


def pprof(path):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="pprof", syntax="proto3")
    for message, fields in PPROF.items():
        described = file.message_type.add(name=message)
        for number, name, kind, several in fields:
            field = described.field.add(name=name, number=number, label=3 if several else 1)
            field.type = {None: field.TYPE_INT64, "text": field.TYPE_STRING}.get(kind, field.TYPE_MESSAGE)
            if field.type == field.TYPE_MESSAGE:
                field.type_name = f".pprof.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("pprof.Profile"))()
    profile.ParseFromString(gzip.decompress(pathlib.Path(path).read_bytes()))
    functions = {function.id: profile.string_table[function.name] for function in profile.function}
    locations = {location.id: [functions[line.function_id] for line in location.line] for location in profile.location}
    for sample in profile.sample:
        same("values of a sample", len(sample.value), len(profile.sample_type))
        [locations[location] for location in sample.location_id]
    print(f"samples\t{len(profile.sample)}")
    for at, kind in enumerate(profile.sample_type):
        print(f"{profile.string_table[kind.type]}\t{sum(sample.value[at] for sample in profile.sample)}")


def firefox(path):
    profile = json.loads(pathlib.Path(path).read_text())
    meta, shared = profile["meta"], profile.get("shared", {})
    same("the version is that of a processed profile", isinstance(meta["preprocessedProfileVersion"], int), True)
    kinds = {schema["name"] for schema in meta["markerSchema"]}
    samples = markers = 0
    for thread in profile["threads"]:
        part = lambda name: thread.get(name) or shared.get(name)
        strings = thread.get("stringArray") or shared.get("stringArray")
        for name in ["samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable"]:
            table = part(name)
            for column, cells in table.items():
                if isinstance(cells, list):
                    same(f"{name}.{column}", len(cells), table["length"])
        within(part("stackTable")["frame"], part("frameTable")["length"])
        within(part("stackTable")["prefix"], part("stackTable")["length"])
        within(part("frameTable")["func"], part("funcTable")["length"])
        within(part("funcTable")["name"], len(strings))
        within(thread["samples"]["stack"], part("stackTable")["length"])
        within(thread["markers"]["name"], len(strings))
        within(thread["markers"]["category"], len(meta["categories"]))
        for data in thread["markers"]["data"]:
            if data and data["type"] not in kinds:
                fail(f"{data['type']}: there is no such kind of marker")
        samples += thread["samples"]["length"]
        markers += thread["markers"]["length"]
    print(f"samples\t{samples}")
    print(f"markers\t{markers}")


def txt(folder):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    read = lambda name: (pathlib.Path(folder) / name).read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(read("descriptors")).file:
        pool.Add(file)
    trace_type = message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.Trace"))
    trace = trace_type.FromString(read("trace"))
    text = read("text").decode()
    if text_format.Parse(text, trace_type()) != trace:
        fail("the text says something else than the trace")
    lines = text_format.MessageToString(trace).count("\n")
    same("lines", text.count("\n"), lines)
    print(f"packets\t{len(trace.packet)}")


def package(address):
    from perfetto.trace_processor import TraceProcessor

    with TraceProcessor(addr=address) as trace:
        question = "select name, count(*) as n, sum(dur) as dur from slice group by name order by name"
        rows = [(row.name, row.n, row.dur) for row in trace.query(question)]
        pandas, polars = trace.query(question).as_pandas_dataframe(), trace.query(question).as_polars_dataframe()
        same("rows in pandas", len(pandas), len(rows))
        same("rows in polars", polars.height, len(rows))
        same("sums in pandas", int(pandas["dur"].sum()), sum(row[2] for row in rows))
        print(f"names\t{len(rows)}")
        print(f"slices\t{sum(row[1] for row in rows)}")
        print(f"dur\t{sum(row[2] for row in rows)}")
        try:
            trace.query("select nam from slice")
            fail("a wrong query has an answer")
        except Exception as error:
            if "did you mean name" not in str(error):
                fail(f"a wrong query says {error}")


def stream(path):
    import polars
    import pyarrow.ipc

    with open(path, "rb") as file:
        pandas = pyarrow.ipc.open_stream(file).read_all().to_pandas()
    same("rows", len(pandas), polars.read_ipc_stream(path).height)
    same("sums", int(pandas["dur"].sum()), int(polars.read_ipc_stream(path)["dur"].sum()))
    print(f"slices\t{len(pandas)}")
    print(f"dur\t{int(pandas['dur'].sum())}")


def within(rows, length):
    for row in rows:
        if row is not None and not 0 <= row < length:
            fail(f"row {row} of {length}")


def same(what, one, other):
    if one != other:
        fail(f"{what}: {one} is not {other}")


def fail(why):
    sys.exit(f"readers: {why}")


if __name__ == "__main__":
    ways = [parquet, otlp, pprof, firefox, package, stream, txt]
    {way.__name__: way for way in ways}[sys.argv[1]](sys.argv[2])
