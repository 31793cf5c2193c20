"""Conversations about images.

- `conversations`: conversations from rows; `images`: image files, decoded.
- `chat_templates`: conversations rendered, in a process of their own.
- `processors`: tokenizer and image processor of a model; `image_only`: processors that read no videos.
- `image_inputs`: an image as tokens and tensors; `conversation_encoder`: a conversation as tokens and labels.
- `conversation_sequences`: tokenised conversations in memory.
- `image_text`: `ImageTextDataModule`, the data module that serves them.
"""
