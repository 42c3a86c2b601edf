"""The language model for described fields: the request, its price, and what its answers mean. Pure.

An amount is in micro-dollars: a price of one dollar per million tokens is one micro-dollar per token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256
from typing import Any, Literal

import orjson

from forager.core.errors import Permanent, RateLimited, Transient
from forager.core.http import Request, Response, SecretRef
from forager.core.outcome import Halt
from forager.core.states import ErrorType, Reason
from forager.extract.schemas.described import VERSION, answers_of, messages
from forager.extract.schemas.spec import MOST_DESCRIBED_BYTES, PageSchema, SchemaField
from forager.pipelines.scrape import reasons

API_KEY = "FORAGER_LLM_API_KEY"
"""The name of the secret, not the secret."""
CALLS = 2
"""Questions about one page: one, and a second one if an answer was not a quote of the page."""
QUESTION_BYTES = MOST_DESCRIBED_BYTES * 3 + 4_000
"""Bytes of a question besides the page: its instructions, the names (twice) and the descriptions, quoted as JSON."""
BYTES_A_TOKEN = 4
"""Bytes per token of ordinary text. A token has at least one byte, so the bytes of a text limit its tokens."""
MICRO = Decimal(1_000_000)
TokenLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one answer, as the endpoint counted them."""

    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model."""

    values: Mapping[str, Any]
    """The answer for each field; empty if it contained nothing that can be used."""
    usage: Usage | None
    """None if the endpoint did not count them: the highest possible cost is then assumed."""
    is_valid: bool
    """False if it is not a JSON object."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """An OpenAI-compatible endpoint and its model, with the price of its tokens in USD per million."""

    url: str
    name: str
    price_in: Decimal
    price_out: Decimal
    page_bytes: int = 24_000
    answer_tokens: int = 1_000
    timeout: float = 60.0
    has_key: bool = True
    limit_name: TokenLimit = "max_tokens"

    @property
    def worst_call(self) -> int:
        """The most that one call can cost: every byte of its text is a token, and the answer is as long as it may."""
        return self.cost(Usage(self.page_bytes + QUESTION_BYTES, self.answer_tokens))

    @property
    def worst_page(self) -> int:
        """The price that is reserved before a question about a page is sent."""
        return CALLS * self.worst_call

    @property
    def expected_page(self) -> int:
        """The expected price of a full page, whose first answer is right."""
        return self.cost(Usage(self.page_bytes // BYTES_A_TOKEN + 400, self.answer_tokens // 4))

    def cost(self, usage: Usage) -> int:
        exact = self.price_in * usage.tokens_in + self.price_out * usage.tokens_out
        return int(exact.to_integral_value(ROUND_CEILING))

    def cost_of(self, answer: Answer) -> int:
        return self.worst_call if answer.usage is None else self.cost(answer.usage)

    def request(self, page: str, fields: Mapping[str, SchemaField], rejected: Sequence[str], key: str) -> Request:
        """Return the question. An endpoint that knows `Idempotency-Key` charges a repeated question once."""
        body: dict[str, Any] = {
            "model": self.name,
            "messages": messages(page, fields, rejected),
            "response_format": {"type": "json_object"},
            self.limit_name: self.answer_tokens,
        }
        if self.limit_name == "max_tokens":  # models that take the other name refuse a temperature
            body["temperature"] = 0
        auth = SecretRef(API_KEY, prefix="Bearer ") if self.has_key else None
        return Request(
            f"{self.url.rstrip('/')}/chat/completions",
            method="POST",
            headers={"Content-Type": "application/json", "Idempotency-Key": f"{key}-{2 if rejected else 1}"},
            body=orjson.dumps(body),
            auth=auth,
            timeout=self.timeout,
            max_bytes=4 * 1024 * 1024,
            max_redirects=0,
        )


def usd(micro: int) -> Decimal:
    return Decimal(micro) / MICRO


def question_hash(model: str, fields: Mapping[str, SchemaField]) -> str:
    """Return the identity of a question: the same fields, in the same words, to the same model."""
    asked = {name: each.model_dump(mode="json", exclude_none=True) for name, each in sorted(fields.items())}
    return sha256(orjson.dumps([VERSION, model, asked], option=orjson.OPT_SORT_KEYS)).hexdigest()


def described_of(schema: Mapping[str, Any] | None) -> dict[str, SchemaField]:
    """Return the described fields of a task's schema."""
    return {} if schema is None else PageSchema.model_validate(schema).described


def read_answer(response: Response) -> Answer:
    """Return a model's answer. An answer of another shape is one without values."""
    try:
        data = orjson.loads(response.body)
        content = data["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return Answer({}, _usage(response), is_valid=False)
    values = answers_of(content)
    return Answer(values or {}, _usage(response), is_valid=values is not None)


def _usage(response: Response) -> Usage | None:
    try:
        told = orjson.loads(response.body)["usage"]
        counted = told["prompt_tokens"], told["completion_tokens"]
    except (ValueError, LookupError, TypeError):
        return None
    if all(type(each) is int and 0 <= each < 2**40 for each in counted):
        return Usage(*counted)
    return None


def refused(response: Response) -> Halt:
    """Return or raise the outcome of any status but 200: `Halt` if an operator must act, else `Transient` or
    `Permanent`."""
    status, message = response.status, _message(response)
    told = f"{status}: {message}" if message else str(status)
    facts = {"api_status": status, "api_ms": response.elapsed_ms}
    if status in (401, 403):
        return Halt(f"The language model refused the key ({told}). Set FORAGER_LLM_API_KEY and resume the job.")
    if status == 402 or (status == 429 and "quota" in message.lower()):
        return Halt(f"The account of the language model has no credit left ({told}). Add some and resume the job.")
    if status == 404:
        return Halt(
            f"The language model was not found ({told}). Correct FORAGER_LLM_URL or FORAGER_LLM_MODEL, restart Forager"
            " and resume the job."
        )
    if status == 429:
        raise RateLimited(
            f"The language model limited the rate of requests ({told}).",
            retry_after=response.retry_after(),
            facts=facts,
        )
    if status >= 500 or status == 408:
        failed = f"The language model failed ({told})."
        raise Transient(failed, facts=facts, reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    raise Permanent(
        f"The language model refused the question ({told}).",
        evidence=response.evidence(),
        facts=facts,
        reason=reasons.MODEL_REFUSED,
        error_type=ErrorType.HTTP,
    )


def _message(response: Response) -> str:
    """Return the endpoint's own words about an error, shortened: `error.message`, as OpenAI has it."""
    try:
        error = orjson.loads(response.body)["error"]
        text = error["message"] if isinstance(error, dict) else error
    except (ValueError, LookupError, TypeError):
        return ""
    return " ".join(str(text).split())[:200]
