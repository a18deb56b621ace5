"""Search a source with rewritten queries (HyDE, step-back, several queries), and combine the rankings."""

from __future__ import annotations

import copy
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, TypeAlias, cast

import numpy as np

from phasegraph._support.clock import Deadline
from phasegraph._support.prompts import check_prompt, filled
from phasegraph._support.validation import check_choice, check_count, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.retrieval.payloads import Payloads
from phasegraph.retrieval.stages.models import OverModel
from phasegraph.retrieval.stages.report import StageReport
from phasegraph.retrieval.stages.rewritten_query import AskedQuery, RewrittenQuery, bound_to, is_unused, text_of
from phasegraph.sources.protocol import AnySource, Upstream, best_hits, is_fatal, reason_of
from phasegraph.sources.source_task import asearch_of, cut_note, search_of
from phasegraph.sources.steps import Outcome, Step, Tried, await_all, run_all, values_of

Combine: TypeAlias = Literal["single", "union", "rrf"]
COMBINATIONS = ("single", "union", "rrf")
MOST_TEXTS = 16
_AS_IT_IS = "the original query was searched, because rewriting had no effect ({})"
_EMBEDS_NOTHING = "the source embeds no text"
_SHARE = 0.5
"""Maximum share of a source's time for rewriting; the rest of the time is left for the search."""

HYDE_PROMPT = "Write two or three paragraphs that answer the question as a reference text would.\n\nQuestion: {query}"
STEP_BACK_PROMPT = (
    "Rewrite the question as a more general one, whose answer gives the background that is needed for it. Reply with "
    "that question only.\n\nQuestion: {query}"
)
MODALITY_PROMPTS = (
    "Write a paragraph of prose that answers the question, as a textbook or an article would.\n\nQuestion: {query}",
    "Write the source code that answers the question, with a short comment. Reply with code only.\n\nQuestion: {query}",
    "Write a small table that answers the question, one row a line, cells separated by |, the column names first. "
    "Reply with the table only.\n\nQuestion: {query}",
)
MULTI_QUERY_PROMPT = (
    "Write {n} different versions of the question, with other words and from other points of view, one a line. Reply "
    "with those {n} lines only.\n\nQuestion: {query}"
)
_NUMBERING = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s+")


class Rewriter(OverModel):
    """A function that rewrites a query with a language model; :func:`hyde` and similar functions create it.

    Each of the `prompts` contains ``{query}`` and causes one model call; all calls run in parallel. `combine` is used
    if :class:`SourceSpec` does not set it. If the original query is also searched, each rewritten text requests `share`
    of the source's number of hits; `share` is in (0, 1]. If `lines` is a number, each of the first `lines` lines of the
    answers is a separate text. If `lines` is None, each whole answer is a text.
    """

    def __init__(
        self, model: Any, prompts: tuple[str, ...], combine: Combine, *, share: float = 1.0, lines: int | None = None
    ) -> None:
        super().__init__(model)
        check_choice("combine", combine, COMBINATIONS)
        for prompt in prompts:
            check_prompt(prompt, ["query"])
        check_range("share", share, 0.0, 1.0, ends="(]")
        self.prompts, self.combine, self.share, self.lines = prompts, combine, share, lines

    def __call__(self, query: str) -> list[str]:
        """Return the texts into which the model rewrites the query."""
        return self._texts(run_all([partial(self.complete, filled(one, query=query)) for one in self.prompts]))

    async def _acall(self, query: str) -> list[str]:
        return self._texts(await await_all([self.acomplete(filled(one, query=query)) for one in self.prompts]))

    def _texts(self, answers: Sequence[Outcome]) -> list[str]:
        """Extract the rewritten texts from the outcomes of the model calls; some of the calls may have failed."""
        texts: list[str] = values_of(answers)
        if self.lines is None:
            return [text for text in texts if text.strip()]
        listed = (_NUMBERING.sub("", line).strip() for text in texts for line in text.splitlines())
        return [line for line in listed if line][: self.lines]


def hyde(model: Any, *, combine: Combine = "single", prompt: str = HYDE_PROMPT) -> Rewriter:
    """Create a function that rewrites a query as a text that would answer the query (HyDE), with one model call.

    Parameters
    ----------
    model : callable, or a language model of the framework
        A function from prompt to text.
    combine : {"single", "union", "rrf"}, default "single"
        ``single`` searches only with the rewritten text. ``union`` also searches with the query and orders all hits by
        score. ``rrf`` also searches with the query and fuses by reciprocal rank.
    prompt : str
        The prompt; it must contain ``{query}``.

    References
    ----------
    .. [1] Gao, Ma, Lin, Callan, "Precise Zero-Shot Dense Retrieval without Relevance Labels", arXiv:2212.10496

    Examples
    --------
    >>> hyde(lambda prompt: "Hitchcock was born in Leytonstone.")("Where was he born?")
    ['Hitchcock was born in Leytonstone.']
    """
    return Rewriter(model, (prompt,), combine)


def step_back(model: Any, *, prompt: str = STEP_BACK_PROMPT) -> Rewriter:
    """Create a function that rewrites a query as a more general question (step-back), with one model call.

    The source searches the query and the general question, with half as many hits for the general question. The answer
    is the union of the hits.

    Parameters
    ----------
    model : callable, or a language model of the framework
        A function from prompt to text.
    prompt : str
        The prompt; it must contain ``{query}``.

    References
    ----------
    .. [1] Zheng et al., "Take a Step Back", arXiv:2310.06117
    """
    return Rewriter(model, (prompt,), "union", share=0.5)


def modality_hyde(model: Any, *, prompts: tuple[str, ...] = MODALITY_PROMPTS) -> Rewriter:
    """Create a function that rewrites a query as three HyDE texts (prose, code, table), with three parallel calls.

    The source searches the query and the three texts. The answer is the union of the hits.

    Parameters
    ----------
    model : callable, or a language model of the framework
        A function from prompt to text.
    prompts : tuple of str
        The prompts, one for each kind of text; each prompt must contain ``{query}``.
    """
    return Rewriter(model, tuple(prompts), "union")


def multi_query(model: Any, n: int = 3, *, prompt: str = MULTI_QUERY_PROMPT) -> Rewriter:
    r"""Create a function that rewrites a query as `n` other versions of the query, with one model call.

    The source searches the query and its versions. The answer is the union of the hits.

    Parameters
    ----------
    model : callable, or a language model of the framework
        A function from prompt to text.
    n : int, default 3
        Number of versions, in [1, 15].
    prompt : str
        The prompt; it must contain ``{query}``, and may contain ``{n}`` for the number of versions.

    Examples
    --------
    >>> multi_query(lambda prompt: "1. Who made it?\n2. Whose work is it?\n3. And so on", n=2)("Who is the author?")
    ['Who made it?', 'Whose work is it?']
    """
    check_count("n", n, minimum=1)
    if n >= MOST_TEXTS:
        raise InvalidInputError(f"n must be at most {MOST_TEXTS - 1}; got {n}")
    return Rewriter(model, (filled(prompt, n=str(n)),), "union", lines=n)


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The resolved settings for rewriting the queries of one source."""

    step: Step
    combine: Combine
    share: float
    limit: int | None
    timeout: float | None
    longest: int | None

    @classmethod
    def of(
        cls, name: str, given: Any, combine: str | None, limit: int | None, timeout: float | None, longest: int | None
    ) -> Rewriting:
        """Create the settings for the source `name` from its ``rewrite`` and ``combine`` arguments.

        `limit` is the number of hits to request; None leaves the number to the source. `timeout` is the time limit of
        the source in seconds, and `longest` the maximum length of a text in characters; None means no limit.
        """
        chosen: Any = getattr(given, "combine", "single") if combine is None else combine
        step = Step(f"rewriting for source {name!r}", given, "the original query is searched")
        return cls(step, chosen, getattr(given, "share", 1.0), limit, timeout, longest)

    def read(self, answer: object) -> list[AskedQuery]:
        """Convert the rewriter's answer to queries; raise an error if a query exceeds the maximum length."""
        return read_queries(answer, self.longest)

    def argument(self, query: AskedQuery) -> AskedQuery:
        """Return the rewriter's argument: the query object if the rewriter ``reads_queries``, else the query's text."""
        return query if getattr(self.step.given, "reads_queries", False) is True else text_of(query)


def read_queries(answer: object, longest: int | None = None) -> list[AskedQuery]:
    """Check a rewriter's answer, and return it as a list of queries.

    There must be 1 to 16 queries, which are not blank and have at most `longest` characters (None: any number).
    """
    queries = [answer] if isinstance(answer, str | RewrittenQuery) else answer
    if not isinstance(queries, list | tuple):
        raise InvalidTypeError(f"a rewriter must return a text or a list of texts; got {type(answer).__name__}")
    for query in queries:
        if not isinstance(query, str | RewrittenQuery):
            raise InvalidTypeError(f"a rewriter must return texts; got a list with {type(query).__name__}")
    texts = list(map(text_of, queries))
    if not texts or not all(text.strip() for text in texts):
        raise InvalidInputError(
            "a rewriter must return texts that are not blank; "
            + (f"one of the {len(texts)} texts is blank" if texts else "the answer contains no text")
        )
    if len(texts) > MOST_TEXTS:
        raise InvalidInputError(f"a rewriter must return at most {MOST_TEXTS} texts; got {len(texts)}")
    most = max(map(len, texts))
    if longest is not None and most > longest:
        raise InvalidInputError(f"a rewriter must return texts of at most {longest:,} characters; got {most:,}")
    return list(queries)


def combined(name: str, rankings: Sequence[Ranking], combine: Combine) -> Ranking:
    """Combine the rankings that the source `name` returned for several versions of a query.

    ``rrf`` fuses by reciprocal rank with rank constant 60. ``union`` orders hits by score. If a hit is in several
    rankings, its score in the first of these rankings counts. The combined ranking has the background of the first
    ranking.

    >>> lists = [Ranking("v", ["a", "b"], [0.9, 0.5]), Ranking("v", ["b", "c"], [0.8, 0.7])]
    >>> combined("v", lists, "union").ids, combined("v", lists, "rrf").ids
    (('a', 'c', 'b'), ('b', 'a', 'c'))
    """
    first, *others = rankings
    if not others:
        return first
    size = first.size
    dropped, deleted = sum(one.dropped for one in rankings), sum(one.deleted for one in rankings)
    payloads = _joined([one.payloads for one in rankings])
    if combine == "rrf":
        rule = FusionPipeline.reciprocal_rank()
        found = rule.decide(
            [replace(one, source=f"{row:02}") for row, one in enumerate(rankings)], k=sum(map(len, rankings))
        )
        return Ranking(name, found.ids, found.fused, size=size, payloads=payloads, dropped=dropped, deleted=deleted)
    rows: dict[str, tuple[float, float]] = {}
    for one in rankings:
        raw = one.scores if one.raw is None else one.raw
        for identifier, score, given in zip(one.ids, one.scores.tolist(), raw.tolist(), strict=True):
            rows.setdefault(identifier, (score, given))
    scores, raws = np.array(list(rows.values())).reshape(-1, 2).T
    return replace(first, ids=tuple(rows), scores=scores, raw=raws, payloads=payloads, dropped=dropped, deleted=deleted)


def _joined(payloads: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Merge mappings of ids to payloads; if an id is repeated, its first payload is used."""
    if not all(isinstance(one, Payloads) for one in payloads):
        return ChainMap(*cast("Any", payloads))
    held = ChainMap(*(cast("Payloads", one).by_id for one in payloads))
    evidence = ChainMap(*cast("Any", [cast("Payloads", one).evidence for one in payloads]))
    return Payloads(list(held), list(held.values()), evidence)


class _Rewritten:
    """A wrapper around a source for one call: it rewrites the query, and searches with the rewritten queries."""

    def __init__(self, name: str, source: Any, rewriting: Rewriting, deadline: Deadline) -> None:
        self.name, self.source, self.rewriting, self.deadline = name, source, rewriting, deadline
        self.reports: list[StageReport] = []
        self._own: list[str] = []
        self._given: RewrittenQuery | None = None

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return a copy for a rewritten query; the copy adds reports and notes to the same lists."""
        made = copy.copy(self)
        made.source, made._given = bound_to(self.source, query), query
        return made

    def _argument(self, query: str) -> AskedQuery:
        """Return the rewriter's argument for the query of this call."""
        return self.rewriting.argument(self._given or query)

    @property
    def notes(self) -> list[str]:
        """The notes on problems that the source repaired, and on the rewriting."""
        return [*getattr(self.source, "notes", ()), *self._own]

    @property
    def _own_deadline(self) -> Deadline:
        """The deadline of the rewriter: half of the remaining time, so that the other half is left for the search.

        The remaining time is at most the `timeout` of the source.
        """
        return self.deadline.part(_SHARE, most=self.rewriting.timeout)

    def _queries(self, query: str, tried: Tried) -> list[tuple[AskedQuery, int | None]]:
        """Return the queries to search, each with its number of hits; None leaves the number to the source.

        `tried` is the outcome of the rewriting. If it failed, the only query is the original query.
        """
        how = self.rewriting
        texts: list[AskedQuery] = [query] if tried.error is not None else tried.value
        detail = {"texts": tuple(map(text_of, texts))} if tried.error is None else {}
        self.reports.append(StageReport("rewrite", tried.status, tried.reason, tried.milliseconds, self.name, detail))
        if tried.error is not None:
            self._own.append(_AS_IT_IS.format(tried.reason))
            return [(query, how.limit)]
        if how.combine == "single":
            return [(text, how.limit) for text in dict.fromkeys(texts)]
        less = how.limit if how.limit is None else max(1, int(how.limit * how.share))
        return [(query, how.limit), *((text, less) for text in dict.fromkeys(texts) if text != query)]

    def _cut(self, ranking: Ranking, limit: int | None) -> Ranking:
        if limit is None or not isinstance(ranking, Ranking) or len(ranking) <= limit:
            return ranking
        self._own.append(cut_note(len(ranking), limit))
        return best_hits(ranking, limit)

    def _combined(self, asked: Sequence[tuple[AskedQuery, int | None]], outcomes: Sequence[Any]) -> Ranking:
        failed = [error for _, error in outcomes if error is not None]
        rankings = values_of(outcomes)
        if failed:
            self._own.append(f"{len(failed)} of {len(asked)} searches with rewritten texts failed")
        return combined(self.name, rankings, self.rewriting.combine)

    def _note_use(self, query: str, asked: Sequence[tuple[AskedQuery, int | None]]) -> None:
        """Change the report of the rewriting to ``unused`` if the source did not embed any rewritten text.

        `asked` are the queries that were searched, each with its number of hits.
        """
        others = [text for text, _ in asked if text != query]
        if others and all(is_unused(text, query) for text in others):
            self.reports[-1] = replace(self.reports[-1], status="unused", reason=_EMBEDS_NOTHING)
            self._own.append(_AS_IT_IS.format(_EMBEDS_NOTHING))
            self.rewriting.step.note_unused(_EMBEDS_NOTHING)

    def _contain(self, query: str, asked: Sequence[tuple[AskedQuery, int | None]], error: Exception) -> None:
        """Handle the `error` of a search with rewritten texts: report that the search failed.

        Raise `error` instead if the original query was also searched, or if the error ends the whole call. `asked` are
        the queries that were searched, each with its number of hits.
        """
        if is_fatal(error) or any(text == query for text, _ in asked):
            raise error
        reason = f"the source failed on the rewritten texts ({reason_of(error)})"
        self.reports[-1] = replace(self.reports[-1], status="failed", reason=reason)
        self._own.append(_AS_IT_IS.format(reason))


class _BlockingRewritten(_Rewritten):
    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rewrite the query, search with the rewritten queries, and return the combined answer."""
        given = (self._argument(query),)
        asked = self._queries(query, self.rewriting.step.run(given, self._own_deadline, self.rewriting.read))

        def one(rewritten: AskedQuery, wanted: int | None) -> Ranking:
            source = bound_to(self.source, rewritten)
            return self._cut(source.search(text_of(rewritten), wanted, upstream), wanted)

        try:
            if len(asked) == 1:
                found = one(*asked[0])
            else:
                found = self._combined(asked, run_all([partial(one, *given) for given in asked]))
        except Exception as error:  # noqa: BLE001 - _contain raises every other error again
            self._contain(query, asked, error)
            return one(query, self.rewriting.limit)
        self._note_use(query, asked)
        return found


class _AwaitingRewritten(_Rewritten):
    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Return the same answer as ``search``, without blocking the event loop."""
        given = (self._argument(query),)
        asked = self._queries(query, await self.rewriting.step.arun(given, self._own_deadline, self.rewriting.read))

        async def one(rewritten: AskedQuery, wanted: int | None) -> Ranking:
            source = bound_to(self.source, rewritten)
            return self._cut(await source.asearch(text_of(rewritten), wanted, upstream), wanted)

        try:
            if len(asked) == 1:
                found = await one(*asked[0])
            else:
                found = self._combined(asked, await await_all([one(*given) for given in asked]))
        except Exception as error:  # noqa: BLE001 - _contain raises every other error again
            self._contain(query, asked, error)
            return await one(query, self.rewriting.limit)
        self._note_use(query, asked)
        return found


class _EitherRewritten(_BlockingRewritten, _AwaitingRewritten):
    pass


def rewritten(name: str, source: AnySource, rewriting: Rewriting, deadline: Deadline) -> Any:
    """Wrap a source; the wrapper rewrites the query, and then searches the source.

    The wrapper has ``search`` if the source has it, and ``asearch`` if the source has it.
    """
    kinds: Mapping[tuple[bool, bool], Callable[..., _Rewritten]] = {
        (True, False): _BlockingRewritten, (False, True): _AwaitingRewritten,
    }  # fmt: skip
    has = search_of(source) is not None, asearch_of(source) is not None
    return kinds.get(has, _EitherRewritten)(name, source, rewriting, deadline)
