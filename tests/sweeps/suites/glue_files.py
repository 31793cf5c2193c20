"""A few rows of every task of GLUE, in the formats of its own archive and with the columns of the hub."""

import random
from pathlib import Path

WORDS = ["the", "a", "river", "runs", "under", "old", "bridge", "while", "seven", "herons", "watch", "winter"]

ZIP = {
    "CoLA": (None, "gj04\t{label}\t*\t{one}", ("0", "1")),
    "SST-2": ("sentence\tlabel", "{one}\t{label}", ("0", "1")),
    "MRPC": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", '{label}\t{i}\t{i}\t{one} "\t{two}', ("0", "1")),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{i}\tmain\tfile\t2012\t{i}\tnone\tnone\t{one}\t{two}\t{label}",
        ("0.000", "2.500", "5.000"),
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "{i}\t{i}\t{i}\t{one}\t{two}\t{label}",
        ("0", "1"),
    ),
    "MNLI": (
        "index\tpromptID\tpairID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label",
        "{i}\t{i}\t{i}n\tfiction\t{one}\t{two}\tneutral\t{label}",
        ("entailment", "neutral", "contradiction"),
    ),
    "QNLI": (
        "index\tquestion\tsentence\tlabel",
        "{i}\t{one}\t{two}\t{label}",
        ("entailment", "not_entailment"),
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel",
        "{i}\t{one}\t{two}\t{label}",
        ("entailment", "not_entailment"),
    ),
}
"""Line of column names, a row, and labels of each task in GLUE's archive; CoLA has no line of names."""

HUB = {
    "cola": ("sentence", "{one}", ("0", "1")),
    "sst2": ("sentence", "{one}", ("0", "1")),
    "mrpc": ("sentence1\tsentence2", "{one}\t{two}", ("0", "1")),
    "stsb": ("sentence1\tsentence2", "{one}\t{two}", ("0.0", "2.5", "5.0")),
    "qqp": ("question1\tquestion2", "{one}\t{two}", ("0", "1")),
    "mnli": ("premise\thypothesis", "{one}\t{two}", ("0", "1", "2")),
    "qnli": ("question\tsentence", "{one}\t{two}", ("0", "1")),
    "rte": ("sentence1\tsentence2", "{one}\t{two}", ("0", "1")),
}
"""The same for files with the columns of the hub, less `label` and `idx`."""

NUM_ROWS = {"train": 24, "dev": 9}


def write_glue(folder: Path, as_on_the_hub: bool = False) -> Path:
    """Writes train and dev files of the 8 tasks."""
    tasks = ZIP
    if as_on_the_hub:
        tasks = {
            name: (f"{columns}\tlabel\tidx", f"{row}\t{{label}}\t{{i}}", labels)
            for name, (columns, row, labels) in HUB.items()
        }
    draw = random.Random(0)
    for name, (head, row, labels) in tasks.items():
        (folder / name).mkdir(parents=True)
        parts = ["train", "dev_matched", "dev_mismatched"] if name.lower() == "mnli" else ["train", "dev"]
        for part in parts:
            lines = [head] if head else []
            for i in range(NUM_ROWS[part.partition("_")[0]]):
                one, two = (" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(2))
                lines.append(row.format(i=i, one=one, two=two, label=labels[i % len(labels)]))
            (folder / name / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder
