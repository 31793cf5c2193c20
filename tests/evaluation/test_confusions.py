"""Tables of confused classes need no memory that grows with the square of the classes."""

import numpy as np

from tiryns.runner.evaluation.predictions import MATRIX_LABELS, confusion_tables


def test_of_many_classes_the_most_frequent_confusions_are_listed() -> None:
    names = [str(number) for number in range(200_000)]
    true = np.array([7, 7, 7, 8, 199_999, 7], dtype=np.int64)
    predicted = np.array([7, 8, 8, 8, 0, 9], dtype=np.int64)
    tables = confusion_tables(names, true, predicted)
    assert "confusion" not in tables
    assert tables["confusions"] == [
        {"true": "7", "as": "8", "count": 2, "share": 0.5},
        {"true": "7", "as": "9", "count": 1, "share": 0.25},
        {"true": "199999", "as": "0", "count": 1, "share": 1.0},
    ]
    assert tables["per_class"][7] == {"label": "7", "precision": 1.0, "recall": 0.25, "f1": 0.4, "support": 4}
    assert MATRIX_LABELS == 2000
    assert "confusion" not in confusion_tables(names[:2001], true[:4], predicted[:4])
    assert "confusion" in confusion_tables(names[:2000], true[:4], predicted[:4])
