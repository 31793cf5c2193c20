"""Text for pretraining that cannot be read: by format, by how files are given, by settings that do not fit the files."""

import gzip
import io
import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.malformed.models import Evil


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def arrow(**columns: object) -> bytes:
    out, table = io.BytesIO(), pa.table(columns)
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


LINES = [f"the heron number {n} watches the river" for n in range(60)]
ROWS = "".join(json.dumps({"text": line}) + "\n" for line in LINES)
PARQUET = parquet(text=LINES)
ARROW = arrow(text=LINES)

PICKLE = pickle.dumps(Evil())
OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([Evil()], dtype=object), allow_pickle=True)

FILES: dict[str, str | bytes] = {
    "herons.txt": "\n\n".join(LINES), "t/pickle.arrow": PICKLE, "t/pickle.parquet": PICKLE,
    "t/pickle.npy": PICKLE, "t/pickle.pkl": PICKLE, "t/pickle.jsonl": PICKLE, "t/pickle.txt": PICKLE,
    "t/objects.npy": OBJECTS.getvalue(), "t/objects.parquet": OBJECTS.getvalue(),
    "t/late_cut.jsonl": ROWS + '{"text": "a', "t/late_type.jsonl": ROWS + '{"text": 5}',
    "t/late_gone.jsonl": ROWS + '{"body": "a"}', "t/nul.txt": "\0" * 5000, "t/spaces.txt": "  \n\n \t \n",
    "t/bom.txt": b"\xef\xbb\xbf", "t/utf16.txt": "\n\n".join(LINES).encode("utf-16"),
    "t/latin.md": "caf\xe9\n\n".encode("latin-1") * 9, "t/surrogate.txt": b"fine\n\n\xed\xa0\x80 not\n\n",
    "t/name.txt/inside.bin": "x", "t/cut.txt.gz": gzip.compress("\n\n".join(LINES).encode() * 50)[:200],
    "t/not.txt.gz": "plain text", "t/empty.txt.gz": "",
    "t/crc.txt.gz": gzip.compress("\n\n".join(LINES).encode())[:-8] + bytes(8),
    "t/not.jsonl.zst": "plain text", "t/not.csv.bz2": "plain text", "t/not.txt.lz4": "plain text",
    "t/gz.parquet.gz": gzip.compress(PARQUET), "t/empty.json": "", "t/empty.jsonl": "", "t/empty.csv": "",
    "t/empty.tsv": "", "t/empty.parquet": b"", "t/empty.arrow": b"", "t/null.json": "null",
    "t/five.json": "5", "t/string.json": '"text"', "t/strings.json": '["a", 5]',
    "t/list_of_lists.json": "[[1, 2], [3]]", "t/deep.json": "[" * 100_000 + "]" * 100_000,
    "t/deep.jsonl": '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
    "t/deep_objects.json": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "t/cut.json": '[{"text": "a"}, {"text": "b', "t/latin.json": '[{"text": "caf\xe9"}]'.encode("latin-1"),
    "t/nan.json": '[{"text": NaN}]', "t/huge_number.jsonl": '{"text": ' + "9" * 5000 + "}\n",
    "t/ids_huge.jsonl": '{"input_ids": [1, ' + "9" * 30 + "]}\n" * 40,
    "t/ids_negative.jsonl": '{"input_ids": [1, -5, 2]}\n' * 40,
    "t/ids_float.jsonl": '{"input_ids": [1, 2.5]}\n' * 40,
    "t/ids_bool.jsonl": '{"input_ids": [true, false]}\n' * 40,
    "t/ids_text.jsonl": '{"input_ids": "1 2 3"}\n' * 40, "t/ids_null.jsonl": '{"input_ids": null}\n' * 40,
    "t/ids_nested.jsonl": '{"input_ids": [[1], [2]]}\n' * 40,
    "t/ids.parquet": parquet(input_ids=[[1, 2], [2**40, 5]] * 30),
    "t/ids_text.parquet": parquet(input_ids=["a", "b"]),
    "t/ids_float.parquet": parquet(input_ids=[[1.5], [2.0]]),
    "t/ids_null.parquet": parquet(input_ids=pa.array([[1], None])), "t/list.jsonl": '{"text": "a"}\n["b"]\n',
    "t/null.jsonl": '{"text": "a"}\n{"text": null}\n', "t/object.jsonl": '{"text": {"en": "a"}}\n',
    "t/later.jsonl": '{"text": "a"}\n{"body": "a"}\n', "t/csv.jsonl": "text,label\na,b\n",
    "t/latin.jsonl": '{"text": "a"}\n{"text": "caf\xe9"}\n'.encode("latin-1"),
    "t/surrogate.jsonl": '{"text": "\\ud800"}\n' * 40, "t/open.csv": 'id,text\n1,"a\n2,b\n',
    "t/twice.csv": "text,text\na,b\n", "t/blank_name.csv": ",\na,b\nc,d\n" * 9,
    "t/nul.csv": b"id,text\n1,a\0b\n2,c\n", "t/wide.csv": "id,text\n1,a,b,c\n",
    "t/ragged.tsv": "id\ttext\n1\ta\n2\n", "t/binary.csv": bytes(range(256)) * 9,
    "t/cut.parquet": PARQUET[: len(PARQUET) // 2],
    "t/flip.parquet": PARQUET[:40] + b"\xff" * 60 + PARQUET[100:], "t/csv.parquet": "text\na\nb\n",
    "t/numbers.parquet": parquet(text=[1, 2, 3]), "t/binary.parquet": parquet(text=[b"\xff\xfe", b"a"]),
    "t/lists.parquet": parquet(text=[["a"], ["b"]]), "t/structs.parquet": parquet(text=[{"en": "a"}]),
    "t/nulls.parquet": parquet(text=pa.array([None, None], pa.string())),
    "t/other.parquet": parquet(body=["a"]), "t/no_rows.parquet": parquet(text=pa.array([], pa.string())),
    "t/no_columns.parquet": parquet(), "t/cut.arrow": ARROW[: len(ARROW) // 2],
    "t/flip.arrow": ARROW[:64] + b"\xff" * 64 + ARROW[128:], "t/numbers.arrow": arrow(text=[1, 2]),
    "t/other.arrow": arrow(body=["a"]), "t/saved/state.json": "{", "t/saved_list/state.json": "[]",
    "t/saved_none/state.json": '{"_data_files": []}', "t/saved_no_key/state.json": "{}",
    "t/saved_gone/state.json": '{"_data_files": [{"filename": "gone.arrow"}]}',
    "t/saved_out/state.json": '{"_data_files": [{"filename": "../../herons.txt"}]}',
    "t/saved_five/state.json": '{"_data_files": 5}', "t/splits/dataset_dict.json": "{",
    "t/splits_list/dataset_dict.json": "[1]", "t/splits_gone/dataset_dict.json": '{"splits": ["train"]}',
    "t/splits_out/dataset_dict.json": '{"splits": ["../.."]}', "t/folder/a.bin": "x",
    "t/mixed/a.jsonl": '{"text": "x"}\n', "t/mixed/b.jsonl": '{"input_ids": [1, 2]}\n',
    "t/store/index.json": "{", "t/store_list/index.json": "[]", "t/store_empty/x": "",
}  # fmt: skip
