"""The kinds of nodes that stand for texts, ids and triples, and functions that read and copy nodes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from phasegraph import InvalidTypeError
from phasegraph.retrieval import EvidenceBlock, corpus_ids, is_taken

if TYPE_CHECKING:
    import phasegraph.graph


class UnnamedNode(TextNode):
    """A node for a text without an id; the node has a generated id, which does not identify a passage."""

    @classmethod
    def class_name(cls) -> str:
        """Return the class name that the framework serializes for this node."""
        return str(TextNode.class_name())


class NamedNode(UnnamedNode):
    """A placeholder for a passage with a known id and an unknown text."""


class TripleNode(UnnamedNode):
    """A node for a triple; its source relationship names the passage that states the triple."""


def own_id(node: BaseNode) -> str | None:
    """Return the node's id; None if the id was generated and therefore does not identify a passage."""
    named = isinstance(node, NamedNode) or not isinstance(node, UnnamedNode)
    return node.id_ if named else None


def text_of(node: BaseNode) -> str:
    """Return a node's text; "" for a triple, which has the id of its passage, but not the passage's text."""
    if isinstance(node, TripleNode):
        return ""
    return node.text if isinstance(node, TextNode) else node.get_content()


def metadata_of(node: BaseNode) -> Mapping[str, Any]:
    """Return a node's metadata, with the id of the node's document under ``ref_doc_id``."""
    document = node.ref_doc_id
    return node.metadata if document is None else ChainMap(node.metadata, {"ref_doc_id": document})


class Annotated(dict[str, Any]):
    """Node metadata that contain evidence, but leave the evidence out of ``repr`` and thus out of ``node.hash``.

    Therefore, a node with evidence and the same node without evidence are equal for retrievers that compare hashes.
    """

    def __repr__(self) -> str:
        return repr({key: value for key, value in self.items() if not isinstance(value, EvidenceBlock)})


def copy_of(node: BaseNode, identifier: str, key: str | None = None, block: EvidenceBlock | None = None) -> BaseNode:
    """Copy a node and give the copy an id; the copy has its own metadata, relationships and lists of keys.

    The evidence `block` is stored in the metadata under `key`, unless `block` is None. Prompts and embeddings leave
    this key out.
    """
    if block is not None and is_taken(key, node.metadata):
        block = None
    update: dict[str, Any] = {
        "id_": identifier,
        "metadata": dict(node.metadata),
        "relationships": dict(node.relationships),
    }
    for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
        update[name] = list(getattr(node, name))
        if block is not None and key not in update[name]:
            update[name].append(key)
    if block is not None:
        update["metadata"] = Annotated(update["metadata"] | {key: block})
    return node.model_copy(update=update)


def held_by_id(nodes: Iterable[BaseNode]) -> dict[str, BaseNode]:
    """Return the nodes by id; raise InvalidInputError if an id is repeated."""
    if isinstance(nodes, BaseNode | str) or not isinstance(nodes, Iterable):
        raise InvalidTypeError(f"nodes must be a list of nodes; got {type(nodes).__name__}")
    listed = list(nodes)
    wrong = next((one for one in listed if not isinstance(one, BaseNode)), None)
    if wrong is not None:
        raise InvalidTypeError(f"nodes must be a list of nodes; it contains a {type(wrong).__name__}")
    ids = [node.id_ for node in listed]
    if not set(map(type, ids)) <= {str} or not all(map(str.strip, ids)) or len(set(ids)) < len(ids):
        ids = corpus_ids(((node.id_, node.metadata, "") for node in listed), "nodes")
    return dict(zip(ids, listed, strict=True))


def node_of(record: phasegraph.graph.PassageRecord) -> BaseNode:
    """Convert a stored passage to the original node, with all its metadata and relationships."""
    return metadata_dict_to_node(dict(record.metadata), text=record.text)
