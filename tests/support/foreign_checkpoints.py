"""Checkpoints such as others publish: made, trained and saved by transformers and tokenizers alone, dropout 0.1."""

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

WORDS = str.split(
    "the old river runs under a bridge while seven herons watch and nobody speaks of winter again who what is it "
    "animals roads traffic closed fox owl northern red blue green yellow circle square triangle how many there where "
    "left right top bottom yes no colour shape scene"
)
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% if message['role'] == 'assistant' %}</s>{% endif %} {% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
)


def sentences(count: int = 400) -> Iterator[str]:
    """Sentences of 1 to 40 words."""
    draw = random.Random(1)
    for _ in range(count):
        yield " ".join(draw.choices(WORDS, k=draw.randint(1, 40))) + "."


def wordpieces(special: list[str], unknown: str) -> Tokenizer:
    """A WordPiece tokenizer trained on the sentences."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=260, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(sentences(), trainer)
    return tokenizer


def save_foreign_bert(folder: Path) -> Path:
    """A BERT of 2 layers of 32 with its tokenizer; returns the folder."""
    made = wordpieces(BERT_SPECIAL, "[UNK]")
    ends = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    tokenizer = BertTokenizer(tokenizer_object=made, model_max_length=512)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=512, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_foreign_llava(folder: Path) -> Path:
    """A LLaVA of a CLIP and a LLaMA, each 2 layers of 32, with its processor; returns the folder."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=wordpieces([*special.values(), "<image>"], "<unk>"),
        **special,
        extra_special_tokens={"image_token": "<image>"},
        model_input_names=["input_ids", "attention_mask"],
    )
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = LlavaProcessor(
        images, tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=512, attention_dropout=0.1,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        attention_dropout=0.1,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.get_vocab()["<image>"]
    )
    torch.manual_seed(0)
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
