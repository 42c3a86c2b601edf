"""The step that asks a language model for the described fields of a stored page.

One attempt sends at most two questions: the second one for the fields whose first answer is no quote of the page. The
cost of both, the checked answers for the next time and the result are one transaction. If a process dies between a
question and that transaction, the price of the attempt counts as spent, and the question is sent again with the same
idempotency key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from forager.core.errors import Permanent, Transient, Unconfigured
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Halt, Outcome, Reject
from forager.core.reading import parse
from forager.core.table import Effect
from forager.extract.schemas.described import QuotesRead, check_quotes, reduce_page
from forager.extract.schemas.spec import SchemaField
from forager.pipelines.scrape.describe import Answer, LanguageModel, described_of, question_hash, read_answer, refused
from forager.pipelines.scrape.extractor import Extractor
from forager.pipelines.scrape.job import ANY_PAGE, DescribedAnswer, DescribeTask, Result
from forager.pipelines.scrape.schema_extractor import extractor_of
from forager.pipelines.scrape.steps import Reading, read_page
from forager.sdk.queries import one_row
from forager.sdk.service import Service

LONGEST_ANSWER = 2_000
"""Characters of a rejected answer that are kept."""


@dataclass(slots=True)
class _Asked:
    """Results and spending of one attempt."""

    found: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Value and quote by field."""
    rejected: list[tuple[str, str, Any]] = field(default_factory=list)
    """Field, reason and answer of everything that was no quote."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    calls: int = 0
    is_complete: bool = True
    """False if a second question got no answer: the next attempt sends it again."""


@dataclass(frozen=True, slots=True)
class DescribeStep:
    service: Service
    extractors: Mapping[str, Extractor]
    model: LanguageModel | None
    no_model: str

    async def describe(self, task: DescribeTask, fetch: Fetch) -> Outcome:
        if self.model is None:
            raise Unconfigured(f"Described fields cannot be read: {self.no_model}. Then resume the job.")
        page = await fetch(Request(task.page))
        reading = await self._read_again(task, page, fetch)
        fields = reading.undescribed(described_of(task.page_schema))
        kind = page.headers.get("Content-Type")
        reduced = await parse(fetch, reduce_page, page.body, kind and str(kind), page.url, self.model.page_bytes)
        key = {
            "page_hash": sha256(reduced.text.encode()).hexdigest(),
            "question_hash": question_hash(self.model.name, fields),
        }
        stored = await one_row(self.service.database, DescribedAnswer, **key)
        if stored is not None:
            asked = _Asked({name: (value, quote) for name, (value, quote) in stored.found.items()})
        elif reduced.text:
            name = sha256("".join(key.values()).encode()).hexdigest()[:48]
            outcome = await self._ask(fetch, self.model, reduced.text, fields, page.url, name)
            if isinstance(outcome, Halt):
                return outcome
            asked = outcome
        else:
            asked = _Asked(is_complete=False)  # nothing to ask about, and nothing to remember
        for name, (value, quote) in asked.found.items():
            reading.quoted(name, value, quote)
        facts = {
            **reading.facts(),
            "calls": asked.calls,
            "tokens_in": asked.tokens_in,
            "tokens_out": asked.tokens_out,
            "rejected": len(asked.rejected),
            "cached": int(stored is not None),
            "cut": int(reduced.is_cut),
        }
        return Done(
            records=(reading.result(task),),
            cost=asked.cost,
            facts=facts,
            rejected=[_reject(task, *each) for each in asked.rejected],
            effects=[_remember(key, self.model.name, asked)] if stored is None and asked.is_complete else (),
        )

    async def _read_again(self, task: DescribeTask, page: Response, fetch: Fetch) -> Reading:
        """Read the stored page once more by selectors: the result then needs nothing of the task that fetched it."""
        extractor = extractor_of(task.page_schema or {}, self.extractors, self.extractors[ANY_PAGE])
        reading = Reading(extractor, None, task.min_confidence, task.markdown)
        reading.add(page, await parse(fetch, read_page, *reading.question(page)))
        reading.fetched(task.fetched_at, rendered=task.rendered)
        reading.stored, reading.requests = dict(task.stored or {}), 0 if task.from_store else 1
        return reading

    async def _ask(
        self, fetch: Fetch, model: LanguageModel, text: str, fields: Mapping[str, SchemaField], url: str, key: str
    ) -> _Asked | Halt:
        response = await fetch(model.request(text, fields, (), key))
        if response.status != 200:
            return refused(response)
        asked = _Asked()
        again = await self._check(fetch, model, read_answer(response), text, fields, url, asked)
        if not again:
            return asked
        try:
            response = await fetch(model.request(text, {name: fields[name] for name in again}, again, key))
        except (Transient, Permanent) as error:
            # What the first answer gave has been paid for and stays. This call counts if it may have been charged.
            asked.cost += model.worst_call if getattr(error, "maybe_done", False) else 0
            asked.is_complete = False
            return asked
        if response.status != 200:
            asked.is_complete = False
            return asked
        await self._check(fetch, model, read_answer(response), text, {name: fields[name] for name in again}, url, asked)
        return asked

    async def _check(
        self,
        fetch: Fetch,
        model: LanguageModel,
        answer: Answer,
        text: str,
        fields: Mapping[str, SchemaField],
        url: str,
        asked: _Asked,
    ) -> list[str]:
        """Add an answer to what is known. Returns the fields to ask again: those whose answer does not count."""
        asked.calls += 1
        asked.cost += model.cost_of(answer)
        if answer.usage is not None:
            asked.tokens_in += answer.usage.tokens_in
            asked.tokens_out += answer.usage.tokens_out
        if not answer.is_valid:
            asked.rejected.append(("*", "the answer is not a JSON object", None))
            return list(fields)
        wanted = {name: each.model_dump(mode="json", by_alias=True, exclude_none=True) for name, each in fields.items()}
        given = {name: answer.values[name] for name in fields if name in answer.values}
        quotes: QuotesRead = await parse(
            fetch, check_quotes, text.encode(), orjson.dumps(given).decode(), orjson.dumps(wanted).decode(), url
        )
        for name, value in quotes.values.items():
            asked.found[name] = value, quotes.quotes[name]
        for name, why in quotes.rejected.items():
            asked.rejected.append((name, why, given[name]))
        return list(quotes.rejected)


def _reject(task: DescribeTask, name: str, why: str, answer: Any) -> Reject:
    shown = answer if len(orjson.dumps(answer)) <= LONGEST_ANSWER else str(answer)[:LONGEST_ANSWER]
    return Reject(Result, f"{name}: {why}"[:1_000], {"field": name, "answer": shown}, key=task.key())


def _remember(key: Mapping[str, str], model: str, asked: _Asked) -> Effect:
    values = {
        "found": {name: list(each) for name, each in asked.found.items()},
        "model": model,
        "tokens_in": asked.tokens_in,
        "tokens_out": asked.tokens_out,
        "cost": asked.cost,
    }
    return Effect(DescribedAnswer, key, set=values, insert=True)
