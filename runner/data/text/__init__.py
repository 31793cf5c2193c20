"""Documents for pretraining: sources, held-out documents, tokenizer, chunks, and the data module; also as a stream."""
