"""Published encoders that transformers does not have.

- `modeling_crammed_bert`, `modeling_gpt_bert`, `modeling_mosaic_bert`: one architecture each.
- `encoder_base`, `encoder_heads`: what they share; exported models have a copy of their architecture's file and of these.
- `registered`: makes them known to transformers, where a run uses one of them.
"""
