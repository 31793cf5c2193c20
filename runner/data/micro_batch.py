"""Types of the dictionaries between data, collators, models and the training step.

A collator turns `FlatSamples` into a `MicroBatch`. All micro-batches of one rank and one step are a `Share`.

Letters in shapes: D documents (samples), T tokens of a row, N tokens of all documents together, M targets, W words,
C classes or candidates, K columns of tags, I images, X texts, E ranked lists, H dimensions of a vector.
"""

from __future__ import annotations  # torch is not imported for types alone

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Tokenizer: TypeAlias = "PreTrainedTokenizerBase"
"""A tokenizer of transformers; the type is a string, so that transformers need not be imported."""


class FlatSamples(TypedDict, total=False):
    """Tokenised documents end to end: the input of a collator, which adds targets.

    `input_ids`, `lengths` and `keys` are always there; each task adds columns of its own.

    Example:
        >>> ids, lengths = np.array([2, 7, 3, 2, 3]), np.array([3, 2], dtype=np.int32)
        >>> flat: FlatSamples = {"input_ids": ids, "lengths": lengths, "keys": np.array([11, 12], dtype=np.uint64)}
    """

    input_ids: NDArray[np.int64]  # [N]
    lengths: NDArray[np.int32]  # tokens of each document [D]
    keys: NDArray[np.uint64]  # [D], seeds of each document's random choices; see `runner.order.keyed`
    filler: bool  # whether the documents only keep a rank busy and count for nothing
    packed: bool  # whether they are laid out in one row
    evaluation: bool  # whether they are evaluated and not trained on
    progress: float  # share of the run's steps that lie before theirs
    epochs: NDArray[np.int64]  # [D], the passes over the data before theirs
    lasting_keys: NDArray[np.uint64]  # [D], keys that are the same in every epoch
    batch_places: NDArray[np.int64]  # [D], their places in the global batch
    batch_size: int  # documents of the global batch
    batch_key: int  # the seed of random choices for the global batch as a whole
    samples: NDArray[np.int64]  # [D], their numbers in an evaluated set
    token_type_ids: NDArray[np.int8]  # [N], 1 for the second text of a pair

    # added by collators
    labels: NDArray[np.int64]  # [N], the target of each token, -100 for none
    target_weights: NDArray[np.float32]  # [N], the factor of each target's loss
    bits: NDArray[np.uint64]  # [N], the random bits of each token
    denominator: int  # the divisor of the loss, if it is not the number of targets
    causal: NDArray[np.bool_]  # [D], whether a document is read causally

    # columns of tasks
    example_labels: NDArray[Any]  # [D] int64 or float32, or [D, C] float32
    token_labels: NDArray[np.int64]  # [N], the label of each token's word
    first_pieces: NDArray[np.bool_]  # [N], whether a token begins a word
    words: NDArray[np.int32]  # [N], the number of each token's word in its set
    char_starts: NDArray[np.int32]  # [N], first character of a token in the context; -1 outside it
    char_ends: NDArray[np.int32]  # [N], the character after its last
    answer_spans: NDArray[np.int32]  # [D, 2], first and last character of the answer; -1 without one
    sample_weights: NDArray[np.float32]  # [D], the weight of each window
    tag_labels: NDArray[np.int64]  # [N, K], the label of each token's word in K columns, -100 for none
    num_choices: NDArray[np.int64]  # [D], the candidates of each list
    choice_lengths: NDArray[np.int32]  # tokens of each candidate of each list
    starts: NDArray[np.int64]  # [D], position of the answer's first token in its window; 0 for none
    ends: NDArray[np.int64]  # [D], position of its last token
    prompt_lengths: NDArray[np.int64]  # [D], tokens before the answer
    masked_places: NDArray[np.int64]  # [D], the token of each document that is masked alone
    image_counts: NDArray[np.int64]  # [D], images of each document
    images: dict[str, NDArray[np.number]]  # inputs of the vision tower, by its own names
    image_rows: dict[str, NDArray[np.int64]]  # [I], the rows that each image has in the input of that name
    undecodable: NDArray[np.bool_]  # [D], whether an image of the document cannot be decoded
    text_counts: NDArray[np.int64]  # [D], pairs: texts of each row: query, passage and hard negatives
    text_lengths: NDArray[np.int32]  # [X], tokens of each text
    text_ids: NDArray[np.int64]  # [X], the same for equal texts, never 0
    match_ids: NDArray[np.int64]  # [D], the same for rows that are no negatives of each other, 0 for none
    scores: NDArray[np.float32]  # [D], NaN for none


class MicroBatch(TypedDict, total=False):
    """Documents in rows, with their targets: the input of a task model's forward pass.

    Padded rows [D, T] have an `attention_mask`. A packed row [1, T] has `position_ids`, `cu_seqlens` and `max_length`
    instead. `weight` is always there; the other entries are those of the objective.

    Example:
        >>> import torch
        >>> targets: MicroBatch = {"target_positions": torch.tensor([1]), "targets": torch.tensor([7]), "weight": 1.0}
        >>> ids, mask = torch.tensor([[2, 4, 3], [2, 3, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
        >>> padded: MicroBatch = {"input_ids": ids, "attention_mask": mask, **targets}
        >>> ids, ends = torch.tensor([[2, 4, 3, 2, 3]]), torch.tensor([0, 3, 5], dtype=torch.int32)
        >>> packed: MicroBatch = {"input_ids": ids, "cu_seqlens": ends, "max_length": 3, **targets}
        >>> packed["position_ids"] = torch.tensor([[0, 1, 2, 0, 1]])
    """

    input_ids: Tensor  # int64 [D, T], or [1, T] if packed
    attention_mask: Tensor  # int64 [D, T], 1 for tokens and 0 for padding
    position_ids: Tensor  # int64 [1, T], from 0 in each document
    cu_seqlens: Tensor  # int32 [D + 1], where documents begin and the last one ends
    max_length: int  # tokens of the longest document
    token_type_ids: Tensor  # int64 like `input_ids`, 1 for the second text of a pair

    # targets
    labels: Tensor  # int64 like `input_ids`, -100 for no target
    target_positions: Tensor  # int64 [M], places of the targets, counted row by row
    targets: Tensor  # int64 [M]
    target_weights: Tensor  # float32 [M], the factor of each target's loss; 1 without it
    weight: float | Tensor  # the divisor of the loss, to be summed over the global batch
    denominators: dict[str, float]  # those of parts of the loss with one of their own; summed likewise
    batch_totals: dict[str, float]  # `weight` and `denominators` of the global batch, where they are known
    sample_keys: Tensor  # int64 [D], seeds of each document's dropout
    samples: Tensor  # int64 [D], their numbers in an evaluated set; -1 for fillers
    sources: Tensor  # int64 [D], of a mixture: the source of each document by its place

    # language modelling both ways and causally
    causal: Any  # which documents are read causally: `runner.models.packed.causal.Causal`
    causal_targets: Tensor  # bool [M], the targets in them
    causal_share: float  # the weight of their mean loss

    # enhanced masked language modelling
    row_seeds: Tensor  # int32 like `input_ids`, seeds of the decoder's masks
    encoder_input_ids: Tensor  # int64 like `input_ids`, as the encoder sees them
    encoder_target_positions: Tensor  # int64 [M]
    encoder_targets: Tensor  # int64 [M]
    encoder_rate: Tensor  # float32, the share of the tokens that the encoder does not see

    # finetuning tasks
    example_labels: Tensor  # classification: int64 or float32 [D], or float32 [D, C]
    problem_type: str  # the kind of problem that they make, by transformers' name for it
    read_positions: Tensor  # token classification: int64, the places that the head reads
    word_positions: Tensor  # int64 [W], the place of each word's first piece
    words: Tensor  # int64 [W], the number of each word in its set
    tag_targets: Tensor  # joint tagging: int64 [M, K], the label in each of K columns, -100 for none
    starts: Tensor  # question answering: int64 [D], position of the answer's first token in its window; 0 for none
    ends: Tensor  # int64 [D], position of its last token
    sample_weights: Tensor  # float32 [D], the weight of each window
    in_context: Tensor  # bool like `input_ids`, the tokens that an answer may have
    # pairs of texts, each of which is a document
    text_rows: Tensor  # int64 [X], the row of the micro-batch that each text is of, and
    text_columns: Tensor  # int64 [X], its place there: 0 the query, 1 the passage, then hard negatives
    text_ids: Tensor  # int64 [X], the same for equal texts, 0 in fillers
    match_ids: Tensor  # int64 [D], the same for rows that are no negatives of each other, 0 for none
    scores: Tensor  # float32 [D], NaN for none
    batch_places: Tensor  # int64 [D], the place of each row in the global batch, its size for fillers
    batch_size: int  # rows of the global batch
    penalty_scale: float  # sparse vectors: the factor of the regulariser in the step
    num_choices: Tensor  # ranking: int64 [E], the candidates of each list, each of which is a document
    choice_places: Tensor  # int64 [D], the cell of each candidate in `grades`, counted row by row
    grades: Tensor  # float32 [E, C], NaN beyond a list and for unknown
    taught: Tensor  # float32 [X, H], a teacher's vectors of the texts, once it was asked
    # vision-language
    prompt_lengths: Tensor  # int64 [D], tokens before the answer
    image_counts: Tensor  # int64 [D], images of each document
    images: dict[str, Tensor]  # A vision tower's inputs, by its own names
    image_rows: dict[str, Tensor]  # int64 [I], the rows that each image has in the input of that name
    undecodable: Tensor  # int64, the `samples` with an image that cannot be decoded

    # figures, which move to the `Share`
    tokens: int  # without padding
    padded_tokens: int  # with padding
    token_pairs: int  # pairs of tokens that see each other: the sum of the squared lengths
    hash_low: int  # low half of the sum of the documents' hashes; see `runner.run.audit`
    hash_high: int  # high half of it
    sample_names: list[str]  # [D], of a stream: the documents by name


class Share(TypedDict, total=False):
    """One rank's share of a global batch: its micro-batches, and the sums of their counts and hashes."""

    micro_batches: list[MicroBatch]
    weight: float  # this and the following are sums over the micro-batches; see there
    denominators: dict[str, float]  # empty where the loss has no other divisor than `weight`
    tokens: int
    padded_tokens: int
    token_pairs: int
    hash_low: int
    hash_high: int
    sample_ids: Tensor  # int64 [D, 2], epoch and index of each document of the share
    sample_names: list[str]  # [D], of a stream: the documents by name
    epoch: int  # of a stream of documents: passes begun before its last one


Collate = Callable[[FlatSamples], MicroBatch]
"""A collator as a run calls it."""


Batch = dict[str, Any]
"""A `DataLoader`'s batch by column: tensors [B, T] of rows, or [1, T] of one packed row, and any other values."""


class TokenizerArguments(TypedDict):
    """The arguments of a collator that follow from the tokenizer."""

    pad_token_id: int
    mask_token_id: int
    vocab_size: int
    special_token_ids: Sequence[int]
    tokenizer: Tokenizer


class TaskArguments(TypedDict, total=False):
    """The arguments of a collator that data of one task adds."""

    labels: Sequence[str]  # classification: the labels' names, in the order of their numbers
    problem_type: str  # classification of texts: transformers' name for it
    context_column: str
    doc_stride: int  # question answering: tokens that neighbouring windows share
    image_token_id: int  # vision-language: the token that stands for a feature of an image
    image_example: Any  # an `EncodedImage`
    end_token_id: int  # the token that ends an answer
    prompts: tuple[str, str]  # pairs: what is put before a query and before a passage
    pair_sets: Sequence[Any]  # pairs: the `PairSequences` of all sets
    texts_per_row: int  # pairs: query, passage, and the most hard negatives of a row


class CollatorArguments(TokenizerArguments, TaskArguments, total=False):
    """The arguments that a data module gives the objective's collator."""

    text_column: str
    label_column: str | None
    max_sequence_length: int
    token_counts: Callable[[], NDArray[np.int64]]  # how often each token occurs in training data
    label_counts: Callable[[], Any]  # how often each label does


def tokenizer_arguments(tokenizer: Tokenizer) -> TokenizerArguments:
    """Returns a tokenizer, its token ids and vocabulary size for collators. The padding id replaces a missing mask id."""
    pad, mask = tokenizer.pad_token_id, tokenizer.mask_token_id
    return {
        "pad_token_id": pad, "mask_token_id": pad if mask is None else mask, "vocab_size": len(tokenizer),
        "special_token_ids": tokenizer.all_special_ids, "tokenizer": tokenizer,
    }  # fmt: skip
