"""Conversations about images.

- `conversations`: conversations from rows; `images`: image files, decoded, and as tokens and tensors.
- `chat_templates`: conversations rendered, in a process of their own.
- `processors`: tokenizer and image processor (size, crop, patches) of a model.
- `conversation_encoder`: a conversation as tokens and labels.
- `image_text`: `ImageTextDataModule`, the data module that serves them.
"""
