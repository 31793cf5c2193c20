"""The conversations of a split without tokens and pixels, for predictions, reports and tokenizers."""

from collections.abc import Iterable

from megatron.energon import Sample, stateless
from megatron.energon import edataclass as sample_type
from megatron.energon.cache.file_store import WebdatasetFileStore
from megatron.energon.epathlib import EPath
from PIL import Image

from tiryns.runner.data.energon.tasks import ConversationTaskEncoder, identity, read_conversation
from tiryns.runner.data.vision.conversation_encoder import ConversationEncoder
from tiryns.runner.data.vision.conversations import Conversation, ConversationReader
from tiryns.runner.data.vision.images import decode_image


@sample_type
class FoundConversation(Sample):
    """A conversation, whose images are named by data set and file, and the identity of its sample."""

    conversation: Conversation
    identity: str


class ReadConversations(ConversationTaskEncoder):
    """A task encoder that yields conversations, without tokens or pixels."""

    def __init__(self, reader: ConversationReader) -> None:
        self.reader = reader

    @stateless
    def encode_sample(self, sample: Sample) -> FoundConversation:
        """The conversation. Raises ValueError for a sample without one."""
        conversation, _ = read_conversation(sample, self.reader)
        named = conversation._replace(images=[_file(sample, name) for name in conversation.images])
        return FoundConversation.derive_from(sample, conversation=named, identity=identity(sample))


class ShardImages:
    """Images from shards, by data set and file."""

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB. Raises UndecodableImage for a broken one."""
        path, _, name = reference.rpartition("#")
        content, _ = WebdatasetFileStore(EPath(path))[name]
        return decode_image(content, f"{where}: the image {name!r}")


class Examples:
    """The conversations of a split, and the number of each sample by its identity."""

    def __init__(self, found: Iterable[FoundConversation], encoder: ConversationEncoder) -> None:
        by_name = {item.identity: item.conversation for item in found}
        self.examples = list(by_name.values())
        self.numbers = {name: number for number, name in enumerate(by_name)}
        self.encoder, self.images = encoder, ShardImages()

    def __len__(self) -> int:
        return len(self.examples)


def _file(sample: Sample, name: str) -> str:
    """The file of an image: that of its ending, or, for energon's own types, the one that is no text."""
    assert sample.__sources__
    source = sample.__sources__[0]
    named = f"{sample.__key__}.{name}"
    others = (file for file in source.file_names if not file.endswith((".json", ".txt")))
    return f"{source.dataset_path}#{named if named in source.file_names else next(others, name)}"
