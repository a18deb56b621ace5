"""The memory of LlamaIndex's callback managers is bounded; a separate manager would store the events of all calls."""

import gc

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.callbacks.base import CallbackManager
from llamaindex_stores import Looked, hits, passages

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

MADE = {
    "from_nodes": lambda: CalibratedFusionRetriever.from_nodes(passages(), Looked(), progress=False),
    "index": lambda: CalibratedFusionRetriever(
        vector=VectorStoreIndex(passages(), embed_model=Looked()).as_retriever(), graph=lambda query: hits(p1=1.0)
    ),
    "function": lambda: CalibratedFusionRetriever(vector=lambda query: hits(p1=1.0, p2=0.5), graph=lambda query: []),
}


managers = []


def events_kept():
    """Return the number of events that the callback managers of this process store."""
    if not managers:
        gc.unfreeze()  # tests/conftest.py spares the collector what was there before the tests
    managers.extend(one for one in gc.get_objects() if type(one) is CallbackManager)
    gc.freeze()  # the next call finds only newer objects: to go through all of them takes half a second
    return sum(len(events) for one in managers for events in one.trace_map.values())


@pytest.mark.parametrize("name", sorted(MADE))
@pytest.mark.filterwarnings("ignore::phasegraph.PhasegraphWarning")
async def test_events_of_past_calls_are_not_kept(name):
    retriever = MADE[name]()
    retriever.retrieve("What is text of p1?")
    before = events_kept()
    for number in range(10):
        retriever.retrieve(f"What is text of p{number}?")
        await retriever.aretrieve(f"What is text of p{number}?")
    assert events_kept() - before < 10


def test_a_model_that_somebody_listens_to_keeps_its_callback_manager():
    from llama_index.core.callbacks import CBEventType, LlamaDebugHandler

    heard = LlamaDebugHandler(print_trace_on_end=False)
    model = Looked(callback_manager=CallbackManager([heard]))
    CalibratedFusionRetriever.from_nodes(passages(), model, progress=False).retrieve("What is text of p1?")
    assert model.callback_manager.handlers == [heard]
    assert heard.get_event_pairs(CBEventType.EMBEDDING)
    assert Settings.callback_manager is not model.callback_manager
