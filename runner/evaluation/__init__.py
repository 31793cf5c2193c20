"""What a model says of a data set: collected rank by rank, joined, measured, and written to files.

`predictions` collects and joins; one file per task makes labels (`labels`), labels of words (`words`), spans (`spans`) or
texts (`written_answers`) of it; `files` writes them. `metrics` are the figures of tasks, `squad` compares answers,
`monitor` names the figure that chooses the best checkpoint.
"""
