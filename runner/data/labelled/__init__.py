"""Labelled rows for finetuning: one file per task, and the data module that serves them."""
