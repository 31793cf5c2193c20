"""The conversations of a split without tokens and pixels: for predictions, reports and tokenizers."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from megatron.energon import Sample, stateless
from megatron.energon import edataclass as sample_type
from megatron.energon.cache.file_store import WebdatasetFileStore
from megatron.energon.epathlib import EPath
from PIL import Image

from iolaus.runner.data.energon.tasks import ConversationTaskEncoder, identity, read_conversation
from iolaus.runner.data.vision.conversation_encoder import ConversationEncoder
from iolaus.runner.data.vision.conversations import Conversation, ConversationReader
from iolaus.runner.data.vision.images import decode_image


@sample_type
class FoundConversation(Sample):
    """A conversation with the identity of its sample; its images are named by data set and file."""

    conversation: Conversation
    identity: str


class ReadConversations(ConversationTaskEncoder):
    """A task encoder that yields conversations, without tokens or pixels."""

    def __init__(self, reader: ConversationReader) -> None:
        self.reader = reader

    @stateless
    def encode_sample(self, sample: Sample) -> FoundConversation:
        """The conversation. Raises ValueError for a sample that is none."""
        conversation, _ = read_conversation(sample, self.reader)
        images = [_file(sample, name) for name in conversation.images]
        return FoundConversation.derive_from(
            sample, conversation=conversation._replace(images=images), identity=identity(sample)
        )


class ShardImages:
    """Images by data set and file, found in the shards."""

    def read(self, reference: str, where: str) -> Image.Image:
        """The image in RGB. Raises UndecodableImage where it is broken."""
        path, _, name = reference.rpartition("#")
        content, _ = WebdatasetFileStore(EPath(path))[name]
        return decode_image(content, f"{where}: the image {name!r}")


class Examples:
    """The conversations of a split, and the number each sample has in it."""

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
    endings = {file.removeprefix(f"{sample.__key__}."): file for file in source.file_names}
    other = (
        file for ending, file in endings.items() if PurePosixPath(ending).suffix not in (".json", ".txt")
    )
    return f"{source.dataset_path}#{endings.get(name) or next(other, name)}"
