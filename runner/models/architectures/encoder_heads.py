"""Heads of tasks on the published encoders of this folder, exported with them.

Letters in shapes: B rows, T tokens, D width, V vocabulary, C labels.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from .encoder_base import EncoderConfig, PublishedEncoder


class Headed(PublishedEncoder):
    """An encoder of the class `body` with a head."""

    add_head: Callable[[EncoderConfig], None]

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = self.body(config)
        self.add_head(config)
        self.post_init()

    def encode(self, input_ids: Tensor | None, arguments: dict[str, object]) -> BaseModelOutput:
        """Returns the outputs of the encoder for the arguments of a model."""
        arguments.pop("return_dict", None)
        return self.model(input_ids=input_ids, **arguments)


class ForMaskedLM(Headed):
    """An encoder with a decoder tied to the table of tokens, behind a `head` [.., D] to [.., D]."""

    _tied_weights_keys = {"decoder.weight": "model.embeddings.tok_embeddings.weight"}  # noqa: RUF012
    decoder_bias: ClassVar[bool] = True

    def add_head(self, config: EncoderConfig) -> None:
        """Adds head and decoder."""
        self.head = self.transform(config)
        self.decoder: nn.Module = nn.Linear(config.hidden_size, config.vocab_size, bias=self.decoder_bias)

    def transform(self, config: EncoderConfig) -> nn.Module:
        """Returns the module before the decoder."""
        return nn.Identity()

    def get_output_embeddings(self) -> nn.Module:
        """Returns the decoder."""
        return self.decoder

    def set_output_embeddings(self, value: nn.Module) -> None:
        """Replaces the decoder."""
        self.decoder = value

    def forward(
        self, input_ids: Tensor | None = None, labels: Tensor | None = None, **kwargs: object
    ) -> MaskedLMOutput:
        """Logits [B, T, V], and the loss of labels [B, T] that are not -100."""
        outputs = self.encode(input_ids, kwargs)
        logits = self.decoder(self.head(outputs[0]))
        loss = None if labels is None else self.loss_function(logits, labels, self.config.vocab_size)
        return MaskedLMOutput(loss, logits, outputs.hidden_states)


class ForSequenceClassification(Headed):
    """An encoder with a classifier of texts: one layer with tanh, and the labels."""

    def add_head(self, config: Any) -> None:
        """Adds the classifier."""
        self.classifier = nn.Sequential(
            nn.Linear(config.hidden_size, config.hidden_size),
            nn.Tanh(),
            nn.Dropout(config.hidden_dropout_prob),
            nn.Linear(config.hidden_size, config.num_labels),
        )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: object,
    ) -> SequenceClassifierOutput:
        """Logits [B, C], and the loss of labels [B]."""
        outputs = self.encode(input_ids, {**kwargs, "attention_mask": attention_mask})
        hidden = outputs[0]
        if self.config.classifier_pooling == "cls":
            pooled_states = hidden[:, 0]
        elif attention_mask is None:
            pooled_states = hidden.mean(1)
        else:
            seen = attention_mask[..., None].to(hidden.dtype)
            pooled_states = (hidden * seen).sum(1) / seen.sum(1)
        logits = self.classifier(pooled_states)
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states)


class ForTokenClassification(Headed):
    """An encoder with a classifier of tokens."""

    def add_head(self, config: Any) -> None:
        """Adds the classifier."""
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(
        self, input_ids: Tensor | None = None, labels: Tensor | None = None, **kwargs: object
    ) -> TokenClassifierOutput:
        """Logits [B, T, C], and the loss of labels [B, T] that are not -100."""
        outputs = self.encode(input_ids, kwargs)
        logits = self.classifier(self.dropout(outputs[0]))
        loss = None if labels is None else self.loss_function(logits, labels, self.config)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states)


class ForQuestionAnswering(Headed):
    """An encoder that scores each token as the first and the last of an answer."""

    def add_head(self, config: EncoderConfig) -> None:
        """Adds the scores."""
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    def forward(
        self,
        input_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **kwargs: object,
    ) -> QuestionAnsweringModelOutput:
        """Logits [B, T] of first and last tokens, and the loss of positions [B]."""
        outputs = self.encode(input_ids, kwargs)
        starts, ends = self.qa_outputs(outputs[0]).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(starts, ends, start_positions, end_positions)
        return QuestionAnsweringModelOutput(loss, starts, ends, outputs.hidden_states)
