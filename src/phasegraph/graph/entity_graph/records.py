"""What an extractor says about a passage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from phasegraph.errors import InvalidInputError, InvalidTypeError

Triple: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Extraction:
    """The names, and what is said of them, in one passage.

    Parameters
    ----------
    passage_id : str
    entities : sequence of str
        Names, once for every time they are mentioned.
    triples : sequence of (subject, predicate, object)
        Facts the passage states; subject and object count as mentioned.
    titles : sequence of str
        Names of what the whole passage is about: its title and the title's other forms.
    lead : str
        The name the passage starts with ("Ada Lovelace was …"): what it is probably about.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Naming the passage: for names that are not text, and triples that do not have three of them.

    Examples
    --------
    >>> Extraction("p1", ["ada lovelace"], [("ada lovelace", "worked with", "charles babbage")]).entities
    ('ada lovelace',)
    """

    passage_id: str
    entities: Sequence[str] = ()
    triples: Sequence[Triple] = ()
    titles: Sequence[str] = ()
    lead: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.passage_id, str) or not self.passage_id:
            raise InvalidTypeError(f"passage_id must be a non-empty string; got {self.passage_id!r}")
        for field in ("entities", "titles"):
            names = getattr(self, field)
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise InvalidTypeError(f"{field} of passage {self.passage_id!r} must be a list; got {names!r}")
            if not all(isinstance(name, str) for name in names):
                raise InvalidTypeError(f"{field} of passage {self.passage_id!r} must be strings; got {names!r:.120}")
            object.__setattr__(self, field, tuple(names))
        if isinstance(self.triples, str) or not isinstance(self.triples, Iterable):
            raise InvalidTypeError(f"triples of passage {self.passage_id!r} must be a list; got {self.triples!r:.80}")
        object.__setattr__(self, "triples", tuple(_triple(self.passage_id, each) for each in self.triples))


def _triple(passage_id: str, given: object) -> Triple:
    if not isinstance(given, list | tuple):
        raise InvalidTypeError(f"triples of passage {passage_id!r} must be lists of three strings; got {given!r}")
    if len(given) != 3:
        raise InvalidInputError(
            f"triples of passage {passage_id!r} must have three parts; got {len(given)}: {given!r:.120}"
        )
    if not all(isinstance(part, str) for part in given):
        raise InvalidTypeError(f"triples of passage {passage_id!r} must hold strings; got {given!r:.120}")
    subject, predicate, obj = given
    return subject, predicate, obj


class Extractor(Protocol):
    """What makes an :class:`Extraction` of a passage: the door for other ways of reading text."""

    def __call__(self, passage_id: str, title: str, text: str, /) -> Extraction:
        """The record of one passage."""
        ...
