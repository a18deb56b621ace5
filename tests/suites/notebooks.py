"""Shared tests of both integrations for the page that ``inspect`` shows in a notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HOSTILE = {
    'a"><script>alert(1)</script>': (
        "Ada Lovelace </script>",
        "Ada Lovelace met Lord Byron. <img src=x onerror=alert(2)>",
    ),
    "b\u202egnp.exe": ("Lord Byron", "Lord Byron died at Missolonghi.\u2066 Really."),
    "c": ("Missolonghi", "Missolonghi is a town in Greece."),
    "d": ("London", "London is on the Thames."),
}
QUESTION = "Where did the friend of Ada Lovelace die? <b>"


class InspectSuite:
    """Tests of ``inspect``; derive a class ``Test…`` and implement :meth:`made`."""

    def made(self, passages: Mapping[str, tuple[str, str]], **fields: Any) -> Any:
        """Create a retriever with ``from_documents`` or ``from_nodes``; `passages` maps ids to titles and texts."""
        raise NotImplementedError

    def test_a_notebook_shows_every_source_with_its_values_and_the_path(self) -> None:
        retriever = self.made(HOSTILE)
        found = retriever.inspect(QUESTION, 2)
        assert found.result.ids == retriever.explain(QUESTION, 2).ids
        assert set(found.everything.ids) == set(HOSTILE)
        view = found.view()
        assert {one["name"] for one in view["sources"]} == {"graph", "bm25", "vector"}
        rows = {row["id"]: row for row in view["rows"]}
        assert sorted(row["position"] or 9 for row in rows.values()) == [1, 2, 9, 9]
        for row in rows.values():
            parts = [one["contribution"] for one in row["sources"].values()]
            assert abs(sum(parts) - row["fused"]) < 1e-9
        assert rows["c"]["walk"]["path"][-1] == ["passage", "c"]
        assert view["passages"]["c"] == {"title": "Missolonghi", "text": "Missolonghi is a town in Greece."}

    def test_what_foreign_hands_wrote_is_text(self) -> None:
        page = self.made(HOSTILE).inspect(QUESTION)._repr_html_()
        assert not re.search(r"<(script|img|b>[^<]*$)", page)
        assert "&lt;script&gt;alert(1)" in page
        assert "die? &lt;b&gt;" in page
        assert "b⟨U+202E⟩gnp.exe" in page
        assert not re.search("[\u202e\u2066]", page)
        assert "http" not in page

    def test_an_acceptance_shows_what_it_rejected(self) -> None:
        found = self.made(HOSTILE, accept={"bm25": 1e9, "graph": 1e9, "vector": 1e9}).inspect(QUESTION)
        assert found.result.ids == ()
        assert len(found.everything.ids) == len(HOSTILE)
        assert {row["verdict"] for row in found.view()["rows"]} == {"rejected"}
        assert "no results: acceptance rejected every candidate" in found._repr_html_()

    async def test_it_is_the_same_awaited(self) -> None:
        retriever = self.made(HOSTILE)
        found = await retriever.ainspect(QUESTION)
        assert found.result.ids == retriever.inspect(QUESTION).result.ids
