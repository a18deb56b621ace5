"""Generate the questions that ``phasegraph try`` suggests: from headings, sentences, and shared names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

import numpy as np

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.own_questions import apart, holders, rare_names
from phasegraph.evaluation.query_files import Query
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.sentences import written

MOST_WORDS = 14
"""Maximum number of words of a question; longer questions are discarded."""
MOST_READ = 5_000
"""Maximum number of passages read for questions; larger corpora are sampled at random."""
_VAGUE = re.compile(
    r"\b(it|its|they|them|their|this|that|these|those|he|she|his|her|here|there|then|such|above|below|both|other|others"
    r"|another|same|former|latter|one|ones|we|us|our|you|yourself|earlier|later|also|too|instead|already|otherwise|following)\b",
    re.IGNORECASE,
)
"""A pattern for words that refer to another sentence; a question with such a word cannot be understood alone."""
_MARKED = re.compile(r"[|<>{}\[\]=\\#*_~]|https?:|\.\.\.|…|--? |:\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n+")
_IF = re.compile(r"If (?!not |you (?:want|need|wish|would|are|do not|don))([^,;:.()]{12,80}), ")
_TO = re.compile(
    r"(?:To|If you (?:want|need|wish|would like) to) ([a-z]+ [^,;:.()]{4,70}), (?:you|please|first|simply|just|use|add"
    r"|run|set|give|call|see|type|write|make|pass|put|start|install|create|click|select|open|do|try|choose|enter"
    r"|specify|say) "
)
_ASKS = re.compile(r"(?:What|Which|Who|How|Why|When|Where|Do|Does|Is|Are|Can|Should|May|Must|Will) [^:]+\?")
_NAME = re.compile(
    r"(?!The |An |[IVX]+ )[A-Z][a-z]+(?: (?:of|de|and|the)? ?[A-Z][\w'-]*[a-z]){1,3}|[A-Z][a-z]+[A-Z]\w*[a-z]"
)
"""A pattern for a name of two to four words, or an identifier such as GraphSource."""
_CODE = re.compile(r"`([^`\s]{3,40})` (" + "|".join((
    "returns", "writes", "reads", "takes", "prints", "shows", "makes", "needs", "means", "uses", "contains", "gives",
    "removes", "adds", "sets", "counts", "keeps", "measures", "compares", "lists", "deletes", "opens", "starts",
    "creates", "checks", "changes", "holds", "asks", "saves", "loads", "replaces", "names", "stops", "allows",
)) + r")s? (?!to |by |in |on |for )\w")  # fmt: skip
_BASE = MappingProxyType(
    {
        "adding": "add", "building": "build", "calibrating": "calibrate", "changing": "change", "choosing": "choose",
        "configuring": "configure", "connecting": "connect", "converting": "convert", "creating": "create",
        "debugging": "debug", "deleting": "delete", "deploying": "deploy", "exporting": "export", "getting": "get",
        "handling": "handle", "importing": "import", "installing": "install", "loading": "load", "managing": "manage",
        "measuring": "measure", "merging": "merge", "moving": "move", "publishing": "publish", "reading": "read",
        "removing": "remove", "running": "run", "saving": "save", "searching": "search", "serving": "serve",
        "setting": "set", "sharing": "share", "starting": "start", "stopping": "stop", "testing": "test",
        "updating": "update", "upgrading": "upgrade", "using": "use", "writing": "write",
    }
)  # fmt: skip
_PERSON = (
    "actor actress architect artist author businessman composer director economist explorer footballer inventor "
    "journalist king lawyer mathematician musician novelist painter philosopher photographer physicist player poet "
    "politician producer queen rapper scientist sculptor singer songwriter writer"
).replace(" ", "|")
_MAKERS = MappingProxyType(
    {
        "directed": ("directed", "director"), "written": ("wrote", "author"), "founded": ("founded", "founder"),
        "composed": ("composed", "composer"), "produced": ("produced", "producer"),
        "designed": ("designed", "designer"), "invented": ("invented", "inventor"), "painted": ("painted", "painter"),
        "discovered": ("discovered", "discoverer"), "created": ("created", "creator"),
    }
)  # fmt: skip
_MADE_BY = re.compile(rf"\b({'|'.join(_MAKERS)}) by (?=[A-Z])")
_BORN = re.compile(
    r"\bborn (?:on |in )?(\d|January|February|March|April|May|June|July|August|September|October|Nov|Dec)?"
)
_LIES = re.compile(r" (?:is|lies|was) (?:located |situated )?in (?:the )?[A-Z]")
_DONE = re.compile(
    r"\b(founded|built|established|released|published|opened|completed|launched) (?:in|on) [^.]{0,12}\d{4}"
)
_IS = re.compile(r" (?:is|was) (?:a|an|the|one of) ")
_WAS_PERSON = re.compile(rf" (is|was) (?:a|an|the) [^.,;]{{0,60}}\b(?:{_PERSON})\b")


@dataclass(frozen=True, slots=True)
class _Made:
    """A generated question, its kind, and the ids of the passages it was made from; `about` is the name in it."""

    text: str
    kind: str
    passages: tuple[str, ...]
    about: str = ""


def natural_questions(passages: Sequence[Passage], graph: EntityGraph, count: int = 8, seed: int = 0) -> list[Query]:
    """Generate questions that a person could ask: a few of each kind, and at most one per document if possible.

    Parameters
    ----------
    passages : sequence of Passage
        The passages from which the questions are made.
    graph : EntityGraph
        The entity graph of the passages.
    count : int, default 8
        Maximum number of questions.
    seed : int, default 0
        Seed of the sampling.

    Returns
    -------
    list of Query
        Each question is judged by the passages from which it was made, although other passages may also answer it. If
        the question is a heading of several passages, each of these passages alone answers it. ``extra["kind"]`` is the
        kind of the question, such as ``"two-step"``. The rules read English sentences only. For a corpus without
        English sentences, the questions are about names.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> rows = [Passage("a", "Vertigo", "Vertigo is a film directed by Alfred Hitchcock.")]
    >>> rows.append(Passage("b", "Alfred Hitchcock", "Alfred Hitchcock was born in Leytonstone."))
    >>> [query.text for query in natural_questions(rows, build_graph(rows), 3)]
    ['Where was the director of Vertigo born?', 'Who directed Vertigo?', 'Where was Alfred Hitchcock born?']
    """
    rng = np.random.default_rng(seed)
    order = [passages[row] for row in rng.permutation(len(passages))[:MOST_READ].tolist()]
    known = [made for passage in order for made in _of_passage(passage)]
    kinds = {kind: [made for made in known if made.kind == kind] for kind in ("asked", "how", "fact", "command", "if")}
    related = list(islice(_related(passages, graph), count // 4))
    documents = {passage.id: _document(passage) for passage in passages}
    repeated: dict[str, dict[str, None]] = {}
    for made in known:
        repeated.setdefault(made.text.lower(), {})[made.passages[0]] = None
    chosen = _by_turns([list(_two_step(order, known)), *kinds.values(), related], count, documents)
    return [
        Query(
            f"made-{number}",
            made.text,
            _judged(f"made-{number}", made.passages, repeated.get(made.text.lower())),
            {"kind": made.kind},
        )
        for number, made in enumerate(chosen, start=1)
    ]


def _judged(name: str, passages: Sequence[str], alternatives: Iterable[str] | None) -> Judgement:
    """Return the judgement of the question with the id `name`.

    If `alternatives` are given, each of these passages alone answers the question. Otherwise, all `passages` together
    answer it.
    """
    hops = [(one,) for one in passages] if alternatives is None else [tuple(alternatives)]
    return Judgement(name, tuple(hops), last_hop_known=False)


def _document(passage: Passage) -> str:
    return str(passage.extra.get("source", passage.id))


def _by_turns(kinds: Sequence[Sequence[_Made]], count: int, documents: dict[str, str]) -> list[_Made]:
    """Choose at most `count` questions, of each kind in turn; `documents` gives the document of each passage id.

    A document is used again only if too few questions are about unused documents.
    """
    chosen: list[_Made] = []
    for most in (1, 2, count):
        places = [0] * len(kinds)
        while len(chosen) < count and any(place < len(kind) for place, kind in zip(places, kinds, strict=True)):
            for row, kind in enumerate(kinds):
                while places[row] < len(kind) and len(chosen) < count:
                    made = kind[places[row]]
                    places[row] += 1
                    used = [documents[name] for one in chosen for name in one.passages]
                    fresh = all(used.count(documents[name]) < most for name in made.passages)
                    if fresh and made.text.lower() not in {one.text.lower() for one in chosen}:
                        chosen.append(made)
                        break
    return chosen


def _of_passage(passage: Passage) -> Iterator[_Made]:
    """Yield the questions of one passage: from question headings, how-to headings, and sentences."""
    lines = passage.text.split("\n", 1)
    headings = [passage.title] + ([lines[0]] if len(lines) > 1 and not lines[0].endswith((".", ":")) else [])
    for heading in headings:
        first, _, rest = heading.partition(" ")
        if (
            _ASKS.fullmatch(heading) and len(re.findall(r" [A-Z]", heading)) < 2
        ):  # more capitals suggest the title of a work
            yield from _fit(heading, "asked", passage)
        elif first.lower() in _BASE and rest and not re.search(r"[,:;?()]", rest):
            yield from _fit(f"How do I {_BASE[first.lower()]} {rest}?", "how", passage)
    name = passage.title.split(" (")[0]
    for sentence in _SENTENCE.split(passage.text):
        if found := _CODE.match(sentence):
            yield from _fit(f"What does {found[1]} {found[2].removesuffix('s')}?", "command", passage)
        sentence = sentence.replace("`", "")
        if _MARKED.search(sentence):
            continue
        if found := _IF.match(sentence):
            yield from _fit(f"What happens if {found[1]}?", "if", passage)
        elif found := _TO.match(sentence):
            yield from _fit(f"How do I {found[1]}?", "how", passage)
        if name[:1].isupper() and len(name.split()) <= 5 and sentence.startswith(name):
            yield from _of_fact(name, sentence[len(name) :], passage)


def _of_fact(name: str, rest: str, passage: Passage) -> Iterator[_Made]:
    """Yield questions made from a sentence that starts with `name`, the subject of the passage.

    `rest` is the part of the sentence after the name.
    """
    if found := _BORN.search(rest):
        yield from _fit(f"{'When' if found[1] else 'Where'} was {name} born?", "fact", passage, name)
    if found := _MADE_BY.search(rest):
        yield from _fit(f"Who {_MAKERS[found[1]][0]} {name}?", "fact", passage, name)
    if found := _DONE.search(rest):
        yield from _fit(f"When was {name} {found[1]}?", "fact", passage, name)
    if found := _WAS_PERSON.match(rest):
        yield from _fit(f"Who {found[1]} {name}?", "fact", passage, name)
    elif _LIES.match(rest):
        yield from _fit(f"Where is {name}?", "fact", passage, name)
    elif _IS.match(rest) and not _MADE_BY.search(rest):
        yield from _fit(f"What is {name}?", "fact", passage, name)


def _fit(text: str, kind: str, passage: Passage, about: str = "") -> Iterator[_Made]:
    """Yield `text` as a question of `kind` if it is short and does not refer to another sentence, for example by "it".

    In the question, "you" and "your" become "I" and "my". `about` is the name in the question.
    """
    text = re.sub(r"\b(if|that|what|when|where) you (?!are\b|were\b)", r"\1 I ", text)
    text = re.sub(r"\byour\b", "my", text)
    if len(text.split()) in range(3, MOST_WORDS + 1) and not _VAGUE.search(text) and not _MARKED.search(text):
        yield _Made(text, kind, (passage.id,), about)


def _two_step(passages: Sequence[Passage], known: Sequence[_Made]) -> Iterator[_Made]:
    """Yield "where" and "when" questions that need two passages.

    One passage is about a work and names the person who made it, for example a director. `known` contains questions
    about this person, made from a second passage.
    """
    facts: dict[str, list[_Made]] = {}
    for made in known:
        if made.about and made.text.startswith(("Where", "When")):
            facts.setdefault(made.about, []).append(made)
    for passage in passages:
        work = passage.title.split(" (")[0]
        for found in _MADE_BY.finditer(passage.text) if work else ():
            after = passage.text[found.end() :]
            maker = next((name for name in facts if after.startswith(name) and name != work), None)
            for made in facts.get(maker, ()) if maker else ():
                text = made.text.replace(str(maker), f"the {_MAKERS[found[1]][1]} of {work}")
                yield from (
                    _Made(one.text, one.kind, (passage.id, *made.passages)) for one in _fit(text, "two-step", passage)
                )


def _related(passages: Sequence[Passage], graph: EntityGraph) -> Iterator[_Made]:
    """Yield questions about the relation between the subjects of two passages; a third name occurs in both passages."""
    by_id = {passage.id: passage for passage in passages}
    seen: set[str] = set()
    for column in rare_names(graph, np.random.default_rng(len(passages))):
        pair = apart([by_id[graph.passages[row]] for row in holders(graph, column)])
        if len(pair) == 2 and _document(pair[0]) != _document(pair[1]):
            one, other = _name_of(graph, pair[0], pair[1], seen), _name_of(graph, pair[1], pair[0], seen)
            if one and other:
                seen.update((one.lower(), other.lower()))
                yield _Made(f"How are {one} and {other} related?", "related", (pair[0].id, pair[1].id))


def _name_of(graph: EntityGraph, passage: Passage, other: Passage, seen: set[str]) -> str:
    """Return a name in `passage` that `other` does not contain, for a question; "" if there is none.

    The name is the subject of the passage, or a name that the passage repeats. `seen` contains the names of earlier
    questions in lower case, which are not used again.
    """
    title = passage.title.split(" (")[0]
    if _NAME.fullmatch(title) and title.lower() not in seen and title not in other.content:
        return title
    own, theirs = (set(graph.mentions[[graph.passage_rows[one.id]]].indices.tolist()) for one in (passage, other))
    for column in sorted(own - theirs):
        name = written(graph.entities[column], passage.content)
        if _NAME.fullmatch(name) and name.lower() not in seen and passage.text.count(name) > 1:
            return name
    return ""
