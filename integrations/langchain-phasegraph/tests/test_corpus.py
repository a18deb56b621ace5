"""The shared tests of retrievers that own their documents, for LangChain."""

import asyncio
import copy
import hashlib
import pickle
import re
import uuid
from functools import cache

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_stores import STORES, Fixed
from tests.suites.corpus import CorpusSuite

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from phasegraph import IntegrityError, InvalidInputError, InvalidTypeError, PhasegraphWarning, StoreError


@cache
def word_vector(word, size):
    """Return the vector of a word, which depends on nothing else."""
    seed = int(hashlib.sha256(word.encode(errors="replace")).hexdigest()[:8], 16)
    return np.random.default_rng(seed).standard_normal(size)


class Hashed(Embeddings):
    """An embedding model with a vector for every word; the vector of a text is the sum of its words' vectors."""

    def __init__(self, name="plain", size=16):
        self.model_name, self.size = name, size

    def embed_query(self, text):
        if self.model_name == "silent":
            raise OSError("no route to host")
        words = text.lower().replace(".", "").split() or [""]
        salted = [f"{word}{'' if self.model_name == 'plain' else self.model_name}" for word in words]
        return sum(word_vector(word, self.size) for word in salted).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


class Counting(Hashed):
    """An embedding model that records the embedded texts."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return super().embed_documents(texts)


Counting.__name__ = "Hashed"


class TestLangChain(CorpusSuite):
    framework = "langchain"
    embeds_query = "embed_query"
    copiers = (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))  # noqa: S301

    def document(self, name, text, **metadata):
        return Document(text, id=name, metadata=metadata)

    def model(self, name="plain", size=16):
        return Hashed(name, size)

    def counting(self):
        return Counting()

    def made(self, documents, path=None, model=None, **fields):
        fields = ({} if path is None else {"vector_store": self.vector_store}) | fields
        return PhaseGraphRetriever.from_documents(documents, model or Hashed(), path=path, **fields)

    def opened(self, path, model=None, **fields):
        return PhaseGraphRetriever.load(path, model or Hashed(), **fields)

    def graph_of(self, documents, *model):
        return EntityGraphRetriever.from_documents(documents, *model)

    def opened_graph(self, path, model=None, **fields):
        return EntityGraphRetriever.load(path, model, **fields)

    def add(self, retriever, documents):
        return retriever.add_documents(documents)

    def aadd(self, retriever, documents):
        return retriever.aadd_documents(documents)

    def ask(self, retriever, query, **only):
        found = retriever.invoke(query, **({"filter": only} if only else {}))
        return [(one.id, one.page_content, one.metadata) for one in found]


@pytest.mark.parametrize("name", sorted(STORES))
def test_a_retriever_is_built_over_what_a_store_holds_with_its_ids(name):
    store = STORES[name]()
    retriever = PhaseGraphRetriever.from_vectorstore(store, k=9)
    found = retriever.explain("text of p3")
    assert set(found.ids) == {f"p{number}" for number in range(9)}
    best = found.evidence("p3")
    assert {one.source for one in best.sources if one.rank is not None} == {"vector", "graph", "bm25"}
    assert np.allclose(retriever._corpus.index.graph.embeddings[0], Fixed().embed_query("text of p0"), atol=1e-6)
    retriever.add_documents([Document("text of p99", id="new", metadata={"page": 99})])
    retriever.delete(["p0"])
    assert [one.id for one in store.similarity_search("text of p99", k=20) if one.id in ("new", "p0")] == ["new"]
    assert {one.id for one in retriever.invoke("text of p99", k=20)} == {*(f"p{n}" for n in range(1, 9)), "new"}


def test_a_passage_that_was_added_to_the_store_alone_is_warned_about_until_the_retriever_has_it():
    store = STORES["InMemory"]()
    retriever, added = PhaseGraphRetriever.from_vectorstore(store), Document("text of p99", id="new")
    store.add_documents([added])
    with pytest.warns(PhasegraphWarning, match="1 of 10 hits of 'vector' are not in the graph"):
        retriever.invoke("text of p99")
    retriever.add_documents([added])
    assert "not in the graph" not in str(retriever.explain("text of p99").reports)


def test_a_retriever_over_an_empty_store_says_how_to_start():
    with pytest.raises(InvalidInputError, match=r"InMemoryVectorStore is empty: .*retriever\.delete"):
        PhaseGraphRetriever.from_vectorstore(InMemoryVectorStore(Hashed()))


def test_a_store_that_another_model_filled_is_refused():
    store = InMemoryVectorStore.from_documents([Document(f"Ada met Bo {n}.", id=f"a{n}") for n in range(4)], Hashed())
    store.embedding = Hashed("other")
    with pytest.raises(
        InvalidInputError,
        match=r"the store was embedded with another model, but the given model is Hashed other.*build the store again",
    ):
        PhaseGraphRetriever.from_vectorstore(store)
    store.embedding = Hashed()
    retriever = PhaseGraphRetriever.from_vectorstore(store)
    with pytest.raises(InvalidInputError, match="your own store"):
        retriever.reembed(Hashed())


def test_a_faiss_index_that_approximates_its_vectors_is_not_compared():
    faiss, langchain = pytest.importorskip("faiss"), pytest.importorskip("langchain_community.vectorstores")
    from langchain_community.docstore import InMemoryDocstore

    texts = [f"Ada met Bo {n}." for n in range(40)]
    index = faiss.IndexPQ(16, 1, 2)
    index.train(np.asarray(Hashed().embed_documents(texts), dtype=np.float32))
    store = langchain.FAISS(Hashed(), index, InMemoryDocstore(), {})
    store.add_texts(texts)
    assert len(PhaseGraphRetriever.from_vectorstore(store).ids()) == 40


def test_a_store_whose_contents_cannot_be_read_says_what_to_do():
    class Other(STORES["InMemory"]().__class__.__mro__[1]):
        def similarity_search(self, query, k=4, **kwargs):
            return []

        @classmethod
        def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
            return cls()

    with pytest.raises(InvalidInputError, match=r"Other.*cannot be read.*from_documents"):
        PhaseGraphRetriever.from_vectorstore(Other())
    with pytest.raises(InvalidTypeError, match="vectorstore"):
        PhaseGraphRetriever.from_vectorstore([1])


def test_what_is_no_embedding_model_is_refused():
    with pytest.raises(InvalidTypeError, match="embeddings must be"):
        PhaseGraphRetriever.from_documents([Document("Ada met Bo.", id="a")], lambda text: [1.0])


def test_selection_by_embeddings_works_without_a_store():
    documents = [Document("Ada met Bo in Paris.", id=f"twin{n}") for n in range(3)]
    documents.append(Document("Bo met Dee at sea.", id="other"))
    retriever = PhaseGraphRetriever.from_documents(documents, Hashed(), selection="log_det", k=2)
    assert "other" in {one.id for one in retriever.invoke("Whom did Ada meet in Paris, and whom Bo?")}


def test_pieces_of_one_file_under_its_id_added_one_by_one_do_not_replace_each_other():
    first = Document("Ada met Bo.", metadata={"id": "file"})
    retriever = PhaseGraphRetriever.from_documents([first], Hashed())
    assert retriever.add_documents([first]) == ["file"]
    with pytest.raises(InvalidInputError, match=r"'id' gives the id 'file'.*another text.*Document\.id"):
        retriever.add_documents([Document("Cy sang.", metadata={"id": "file"})])
    retriever.add_documents([Document("Cy sang.", id="file")])
    assert [one.page_content for one in retriever.invoke("Cy")] == ["Cy sang."]


def test_documents_that_are_changed_after_they_were_given_stay_as_they_were():
    documents = [Document("Ada met Bo.", id="a", metadata={"team": "red"})]
    retriever = PhaseGraphRetriever.from_documents(documents, Hashed())
    documents[0].metadata.clear()
    retriever.invoke("Ada")[0].metadata["team"] = "blue"
    assert retriever.invoke("Ada")[0].metadata == {"team": "red"}


def test_what_is_wrong_is_said_before_anything_is_embedded(tmp_path):
    class Costly(Hashed):
        def embed_documents(self, texts):
            raise AssertionError

    for wrong, fields in [(Document(" ", metadata={"page": 3}), {}), (Document("Ada met Bo."), {"k": -1})]:
        with pytest.raises(InvalidInputError, match=r"'page': 3|k must"):
            PhaseGraphRetriever.from_documents([wrong], Costly(), path=tmp_path / "new", **fields)
    with pytest.raises(InvalidTypeError, match="a list of documents; got Document"):
        PhaseGraphRetriever.from_documents(wrong, Costly())
    PhaseGraphRetriever.from_documents([Document("Ada met Bo.")], Hashed(), path=tmp_path / "new")
    with pytest.raises(InvalidInputError, match="must have text"):
        PhaseGraphRetriever.load(tmp_path / "new", Hashed()).add_documents([Document(" ")])
    with pytest.raises(InvalidTypeError, match="embeddings must be"):
        PhaseGraphRetriever.load(tmp_path / "new", None)
    graph = EntityGraphRetriever.from_documents([Document("Ada met Bo.")], embeddings=Hashed())
    graph.save(tmp_path / "graph")
    with pytest.raises(InvalidInputError, match="embeddings="):
        EntityGraphRetriever.load(tmp_path / "graph").add_documents([Document("Cy sang.")])


def test_what_left_the_store_by_other_ways_can_be_deleted_and_replaced():
    store = STORES["FAISS L2"]()
    retriever = PhaseGraphRetriever.from_vectorstore(store, k=9)
    store.delete(["p1", "p2"])
    retriever.delete(["p1"])
    retriever.add_documents([Document("text of p2", id="p2")])
    assert set(store.index_to_docstore_id.values()) == {f"p{number}" for number in (0, 2, 3, 4, 5, 6, 7, 8)}


def test_ids_that_qdrant_does_not_take_change_nothing():
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    models = pytest.importorskip("qdrant_client.models")
    kind = pytest.importorskip("langchain_qdrant").QdrantVectorStore
    client.create_collection("c", vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE))
    store, ids = kind(client, "c", Hashed()), [str(uuid.UUID(int=number)) for number in range(3)]
    store.add_documents([Document("Ada met Bo."), Document("Cy sang.")], ids=ids[:2])
    retriever = PhaseGraphRetriever.from_vectorstore(store)
    with pytest.raises(StoreError, match="nothing was changed"):
        retriever.add_documents([Document("Dee danced.", id="dee")])
    retriever.add_documents([Document("Dee danced.", id=ids[2]), Document("Cy slept.", id=ids[1])])
    retriever.delete(ids[:1])
    assert {one.id: one.payload["page_content"] for one in client.scroll("c")[0]} == {
        ids[1]: "Cy slept.",
        ids[2]: "Dee danced.",
    }


def test_a_lancedb_store_is_changed_by_its_own_ids_and_never_wiped(tmp_path):
    kind = pytest.importorskip("langchain_community.vectorstores").LanceDB
    pytest.importorskip("lancedb")

    def made(name, **fields):
        store = kind(uri=str(tmp_path / name), embedding=Hashed(), table_name="t", **fields)
        store.add_documents([Document(text, metadata={"n": 1}) for text in ("Ada met Bo.", "Cy sang.", "Dee danced.")])
        return store, PhaseGraphRetriever.from_vectorstore(store)

    store, retriever = made("one")
    with pytest.raises(StoreError, match="mode='append'"):
        retriever.add_documents([Document("Eve slept.", metadata={"n": 2})])
    assert len(store.get_table().to_arrow()) == 3
    store, retriever = made("two", mode="append")
    with pytest.warns(PhasegraphWarning, match="without an id"):
        retriever.delete([retriever.invoke("Who sang?")[0].id])
    retriever.add_documents([Document("Eve slept.", metadata={"n": 2})])
    texts = {row["text"] for row in store.get_table().to_arrow().to_pylist()}
    assert texts == {"Ada met Bo.", "Dee danced.", "Eve slept."}


@pytest.mark.parametrize("kind", [PhaseGraphRetriever, EntityGraphRetriever])
def test_a_folder_that_does_not_exist_is_named_as_such(kind, tmp_path):
    nope, empty = (re.escape(repr(str(tmp_path / name))) for name in ("nope", "empty"))
    with pytest.raises(IntegrityError, match=f"^the folder {nope} does not exist: check the path$"):
        kind.load(tmp_path / "nope", Fixed())
    (tmp_path / "empty").mkdir()
    with pytest.raises(IntegrityError, match=rf"^{empty} is not a folder of a retriever: it has no folder\.json"):
        kind.load(tmp_path / "empty", Fixed())


PAGES = [Document(f"Ada met Bo in {n}.", metadata={"source": f"{n // 2}.md"}) for n in range(6)]


def test_langchains_index_writes_to_a_retriever_with_every_cleanup(tmp_path):
    def told(documents, cleanup):
        done = index(
            documents, manager, retriever.as_document_index(), cleanup=cleanup, source_id_key="source",
            key_encoder="sha256",
        )  # fmt: skip
        texts = sorted(one.text for one in retriever._corpus.index.records.values())
        assert texts == sorted(
            one.text for one in PhaseGraphRetriever.load(path, Hashed())._corpus.index.records.values()
        )
        return [done[f"num_{name}"] for name in ("added", "updated", "skipped", "deleted")], texts

    path, base = tmp_path / "corpus", "Zoe stays."
    retriever = PhaseGraphRetriever.from_documents(
        [Document(base, id="z", metadata={"source": "z"})], Hashed(), path=path
    )
    manager = InMemoryRecordManager("pages")
    manager.create_schema()
    whole = sorted([base, *(one.page_content for one in PAGES)])
    assert told(PAGES, None) == ([6, 0, 0, 0], whole)
    assert told(PAGES, "incremental") == ([0, 0, 6, 0], whole)
    changed = [Document("Cy sang.", metadata={"source": "0.md"}), *PAGES[1:]]
    assert told(changed, None)[0] == [1, 0, 5, 0]
    counts, texts = told(changed[:2], "incremental")
    assert counts == [0, 0, 2, 1]
    assert "Ada met Bo in 0." not in texts
    counts, texts = told(changed[:3], "full")
    assert counts == [0, 0, 3, 3]
    assert texts == sorted([base, "Cy sang.", "Ada met Bo in 1.", "Ada met Bo in 2."])
    counts, texts = told([PAGES[2]], "scoped_full")
    assert counts == [0, 0, 1, 0]
    held = retriever.as_document_index()
    assert [one.page_content for one in held.get(["z", "no"])] == [base]
    assert held.delete(["no"])["num_deleted"] == 0
    assert held.invoke("Who sang?")[0].page_content == "Cy sang."


def test_langchains_index_deletes_the_last_document():
    retriever = PhaseGraphRetriever.from_documents(PAGES[:1], Hashed())
    manager, held = InMemoryRecordManager("pages"), retriever.as_document_index()
    manager.create_schema()
    held.delete(retriever.ids())
    for documents, count in ((PAGES, 6), ([], 0), (PAGES[:2], 2)):
        index(documents, manager, held, cleanup="full", source_id_key="source", key_encoder="sha256")
        assert (len(retriever.ids()), len(retriever.invoke("Who met Bo?", k=9))) == (count, count)


def test_langchains_index_writes_to_a_retriever_asynchronously():
    retriever = PhaseGraphRetriever.from_documents([Document("Zoe stays.", id="z")], Hashed())
    manager = InMemoryRecordManager("pages")
    manager.create_schema()

    async def written():
        adapter = retriever.as_document_index()
        await aindex(PAGES, manager, adapter, cleanup="full", source_id_key="source", key_encoder="sha256")
        return await aindex(PAGES[:2], manager, adapter, cleanup="full", source_id_key="source", key_encoder="sha256")

    assert asyncio.run(written())["num_deleted"] == 4
    assert retriever.documents() == {"": 1, "0.md": 2}


def test_a_retriever_over_a_store_saves_only_its_pipeline_and_says_so(tmp_path):
    store = InMemoryVectorStore.from_documents([Document("Ada met Bo.", id="a")], Hashed())
    retriever = PhaseGraphRetriever.from_vectorstore(store, k=2)
    with pytest.warns(PhasegraphWarning, match="'fitted' contains only the fitted pipeline.*pipeline="):
        retriever.save(tmp_path / "fitted")
    assert PhaseGraphRetriever.from_vectorstore(store, pipeline=tmp_path / "fitted").fitted_pipeline.k == 2


def test_documents_that_json_cannot_store_are_not_saved(tmp_path):
    retriever = PhaseGraphRetriever.from_documents([Document("Ada.", metadata={"team": {"red"}})], Hashed())
    with pytest.raises(InvalidInputError, match="'team'"):
        retriever.save(tmp_path / "folder")
    own = PhaseGraphRetriever.from_documents([Document("Ada.")], Hashed(), tokenizer=str.split)
    with pytest.raises(InvalidInputError, match="tokenizer"):
        own.save(tmp_path / "folder")
    assert not list(tmp_path.glob("folder/*.json"))


def test_passages_that_the_store_deleted_are_warned_about_once_with_the_call_that_deletes_them():
    store = InMemoryVectorStore.from_documents([Document(f"Ada met Bo {n}.", id=f"a{n}") for n in range(8)], Hashed())
    retriever = PhaseGraphRetriever.from_vectorstore(store, k=8)
    store.delete(["a3"])
    with pytest.warns(PhasegraphWarning, match=r"hits dropped.*retriever\.delete\(\[\.\.\.\]\)") as said:
        assert len(retriever.invoke("Who met Bo 3?")) == 7
    assert len(said) == 1
    retriever.invoke("Who met Bo 3?")
    retriever.delete(["a3"])
    assert "a3" not in retriever.ids()


def test_no_documents_and_a_retriever_of_a_store_are_refused_by_name():
    for make in (PhaseGraphRetriever.from_documents, EntityGraphRetriever.from_documents):
        with pytest.raises(
            InvalidInputError,
            match=r"documents is empty: give .*build it from one document, and then call retriever\.delete",
        ):
            make([], embeddings=Hashed())
    store = InMemoryVectorStore.from_documents([Document("Ada met Bo.", id="a")], Hashed())
    with pytest.raises(InvalidTypeError, match=r"attribute \.vectorstore"):
        PhaseGraphRetriever.from_vectorstore(store.as_retriever())


@pytest.mark.parametrize("folder", [False, True])
def test_a_document_without_an_id_leaves_the_equal_passage_of_another_document_in_place(folder, tmp_path):
    notice = "All rights reserved."
    held = [Document(notice, metadata={"source": "a"}), Document("Ada met Bo.", metadata={"source": "b"})]
    retriever = PhaseGraphRetriever.from_documents(held, Hashed(), path=tmp_path / "f" if folder else None)
    added = Document(notice, metadata={"source": "c"})
    (first,) = retriever.add_documents([added])
    assert retriever.documents() == {"a": 1, "b": 1, "c": 1}
    assert [one.id for one in retriever.invoke("rights", filter={"source": "c"})] == [first]
    assert retriever.add_documents([added]) == [first]
    assert retriever.documents() == {"a": 1, "b": 1, "c": 1}
    assert retriever.sync([added]).unchanged == 1
    (again,) = retriever.add_documents([held[0]])
    assert [one.id for one in retriever.invoke("rights", filter={"source": "a"})] == [again]
    retriever.add_documents([Document(notice)])
    assert retriever.documents() == {"a": 1, "b": 1, "c": 1, "": 1}
    retriever.delete(where={"source": "a"})
    assert retriever.add_documents([added]) == [first]
    assert retriever.documents() == {"b": 1, "c": 1, "": 1}
    retriever.add_documents([held[0]])
    retriever.add_documents([Document(notice, id=again, metadata={"source": "d"})])  # this id was given, not made
    assert retriever.documents() == {"b": 1, "c": 1, "d": 1, "": 1}


def test_more_ids_than_a_statement_can_name_are_deleted_in_parts(monkeypatch):
    """asyncpg takes at most 32,767 ids in one statement."""
    monkeypatch.setattr("langchain_phasegraph.corpus._PAGE", 2)
    store = STORES["InMemory"]()
    retriever = PhaseGraphRetriever.from_vectorstore(store)
    asked, ask, delete = [], store.get_by_ids, store.delete
    store.get_by_ids = lambda ids: asked.append(len(ids)) or ask(ids)
    store.delete = lambda ids: asked.append(len(ids)) or delete(ids)
    assert retriever.delete([f"p{number}" for number in range(5)]) == 5
    assert asked == [2, 2, 1, 2, 2, 1]
    assert len(store.store) == 4


@pytest.mark.parametrize("name", ["InMemory", "FAISS L2"])
def test_a_look_up_in_memory_has_no_time_limit(name, monkeypatch):
    """A busy machine must not let deleted passages stay, and a change of threads takes time."""
    monkeypatch.setattr("phasegraph.retrieval.deletions.within", lambda *_: pytest.fail("a look-up in a thread"))
    store = STORES[name]()
    retriever = PhaseGraphRetriever.from_vectorstore(store)
    first = retriever.invoke("Ada")[0].id
    store.delete([first])
    with pytest.warns(PhasegraphWarning, match="dropped: their passages are not in the store"):
        assert first not in [one.id for one in retriever.invoke("Ada")]
