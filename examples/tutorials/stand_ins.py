"""Stand-ins for models, so that the tutorials run without an API key, a download or a network.

`count_words` replaces an embedding model, but knows no meanings. `reply` replaces a chat model: it copies sentences
from its prompt.
"""

import re
from zlib import crc32

SIZE = 512
COMMON = re.compile(
    r"(a|an|and|are|as|at|by|for|from|has|have|in|is|it|its"
    r"|of|on|or|our|the|this|to|who|what|when|where)"
)
POINTING = re.compile(r"\b(it|its|they|their|them|he|she|his|her)\b", re.IGNORECASE)
NAME = re.compile(
    r"(?:(?<=\w )|(?<=\w, ))[A-Z][a-z]+(?: [A-Z][a-z]+)*(?: \d+)?|[A-Z][a-z]+(?: [A-Z][a-z]+)+"
)
QUESTION = re.compile(
    r"^ *(?:human|user|follow up (?:input|message)): *(.+?)\s*$",
    re.IGNORECASE | re.MULTILINE,
)


def words(text):
    """Return the words of a text in lower case, without common words and without the plural s at the end of a word."""
    found = re.findall(r"\w+", text.lower())
    return [word.rstrip("s") for word in found if not COMMON.fullmatch(word)]


def count_words(text):
    """Return a vector of word counts for a text."""
    vector = [0.0] * SIZE
    for word in words(text):
        vector[crc32(word.encode()) % SIZE] += 1.0
    return vector


def reply(prompt):
    """Answer the last question of a prompt with up to two sentences of its numbered passages, and cite them.

    If the prompt asks for a standalone question, return the last question. If this question has a pronoun such as "it",
    add the names in the conversation.
    """
    question = QUESTION.findall(prompt)[-1]
    if "standalone question" in prompt.lower():
        names = list(dict.fromkeys(NAME.findall(prompt.rpartition(question)[0])))
        return (
            f"{question} ({', '.join(names)})"
            if POINTING.search(question) and names
            else question
        )
    asked, best = set(words(question)), {}
    for number, text in re.findall(r"^\[(\d+)\] (.+)$", prompt, re.MULTILINE):
        for sentence in re.split(r"(?<=[.?!])\s+", text.partition(": ")[2]):
            shared = len(asked & set(words(sentence)))
            if shared > max(1, best.get(number, (0,))[0]) and not sentence.endswith(
                "?"
            ):
                best[number] = (shared, f"{sentence.rstrip('.')} [{number}].")
    chosen = sorted(sorted(best, key=lambda number: -best[number][0])[:2])
    return (
        " ".join(best[number][1] for number in chosen)
        or "The passages do not answer this question."
    )
