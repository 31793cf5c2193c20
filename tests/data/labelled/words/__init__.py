"""Words of tagged data: offsets, schemes of tags, and tokenizers."""
