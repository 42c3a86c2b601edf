"""Actions of a browser on a page before it is read, and what it records there, as a caller requests them: clicks,
typing, pictures. Pure.

Actions are values with limits: their number, their texts and their time. JavaScript of the caller is one of them only
if the operator allows it. They run behind the same guard as the page: the target of a click is checked like a redirect.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, model_validator

from forager.core.http import (
    Action,
    CaptureJson,
    Click,
    PressKey,
    PrintPdf,
    Rest,
    RunScript,
    Screenshot,
    Scroll,
    SelectOption,
    TypeText,
    WaitFor,
    WaitQuiet,
)

MOST_ACTIONS = 30
LONGEST_SELECTOR = 500
LONGEST_TEXT = 5_000
LONGEST_SCRIPT = 10_000
MOST_SECONDS = 30.0
"""Longest time of one action, in seconds, and of all `wait` actions together."""
PDF = "pdf"
CAPTURED = "captured"

Selector = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_SELECTOR)]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
SELECTOR = "CSS selector of the element; `text=More` finds it by its words, `xpath=//a` by XPath."
OPTIONAL = "Go on without it if the page has no such element within its `seconds`."


class _PageAction(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _OnElement(_PageAction):
    selector: Selector = Field(description=SELECTOR, examples=["#more"])
    seconds: Seconds = Field(default=5.0, description="Maximum wait for the element in seconds.")
    optional: StrictBool = Field(default=False, description=OPTIONAL)


class ClickAction(_OnElement):
    """Click an element. If that leads to another page, the next actions and the result are about that one."""

    do: Literal["click"]


class TypeAction(_OnElement):
    """Replace the text of an input field."""

    do: Literal["type"]
    text: str = Field(max_length=LONGEST_TEXT, description="Text to type.", examples=["oak table"])


class SelectAction(_OnElement):
    """Choose an entry of a drop-down list."""

    do: Literal["select"]
    value: str = Field(max_length=LONGEST_TEXT, description="Value or text of the entry.", examples=["price"])


class WaitForAction(_OnElement):
    """Wait until an element is on the page."""

    do: Literal["wait_for"]
    seconds: Seconds = Field(default=10.0, description="Maximum wait for the element in seconds.")


class PressAction(_PageAction):
    """Press a key."""

    do: Literal["press"]
    key: Annotated[str, StringConstraints(min_length=1, max_length=50)] = Field(
        description="A letter, or a name such as Enter, Escape, ArrowDown, Control+A.", examples=["Enter"]
    )
    selector: Selector | None = Field(default=None, description="Element that gets the key (default: the focused one).")
    seconds: Seconds = Field(default=5.0, description="Maximum wait for the element in seconds.")
    optional: StrictBool = Field(default=False, description=OPTIONAL)


class ScrollAction(_PageAction):
    """Scroll to the end, and again while that makes the page longer."""

    do: Literal["scroll"]
    times: int = Field(default=1, strict=True, ge=1, le=50, description="At most this number of times.")


class WaitAction(_PageAction):
    """Do nothing for a while."""

    do: Literal["wait"]
    seconds: Seconds = Field(description="Seconds to wait.", examples=[1.5])


class EvaluateAction(_PageAction):
    """Run JavaScript in the page. Only if the operator allows it (`FORAGER_SCRAPE_EVALUATE`)."""

    do: Literal["evaluate"]
    script: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SCRIPT)] = Field(
        description="Statements; `await` works. A value is not returned: write it into the page.",
        examples=["document.querySelector('#banner').remove()"],
    )
    seconds: Seconds = Field(default=5.0, description="Maximum duration in seconds.")


PageAction = Annotated[
    ClickAction | TypeAction | SelectAction | WaitForAction | PressAction | ScrollAction | WaitAction | EvaluateAction,
    Field(discriminator="do"),
]


class ScreenshotOptions(BaseModel):
    """The part of the page on a screenshot. Default: the visible part."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    full_page: StrictBool = Field(default=False, description="The whole page, up to 10,000 pixels.")
    selector: Selector | None = Field(default=None, description="Only this element.", examples=["#chart"])

    @model_validator(mode="after")
    def _one_of_both(self) -> "ScreenshotOptions":
        if self.full_page and self.selector is not None:
            raise ValueError("a screenshot shows the whole page or one element; leave out full_page or selector")
        return self


class CaptureOptions(BaseModel):
    """Selects the JSON of the page's scripts that is returned as `captured`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: str = Field(default="", max_length=500, description="Only from URLs that contain this.", examples=["/api/"])
    most: int = Field(default=20, strict=True, ge=1, le=50, description="At most this number of answers.")


def not_empty(actions: tuple[PageAction, ...]) -> tuple[PageAction, ...]:
    """Require an action. Checked after each of them, so that an invalid one is reported as such."""
    if not actions:
        raise ValueError("must not be empty; leave it out")
    return actions


class PageDepth(BaseModel):
    """The part of a task that needs a browser: what to do on the page, and what to take from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    actions: tuple[PageAction, ...] = ()
    screenshot: ScreenshotOptions | None = None
    capture: CaptureOptions | None = None


def checked_actions(actions: Sequence[PageAction]) -> None:
    """Raise `ValueError` if the waits of a request take too long together."""
    waits = sum(each.seconds for each in actions if isinstance(each, WaitAction))
    if waits > MOST_SECONDS:
        raise ValueError(
            f"the waits take {waits:g} s together; at most {MOST_SECONDS:g} s are allowed. Wait for an element instead"
        )


def before_visit(depth: PageDepth | None, wanted: Sequence[str]) -> Iterator[Action]:
    """Yield what begins with the visit."""
    if CAPTURED in wanted:
        options = (depth and depth.capture) or CaptureOptions()
        yield CaptureJson(options.match, options.most)


def on_page(depth: PageDepth | None) -> Iterator[Action]:
    """Yield the requested actions, each with the name by which its failure is reported."""
    if depth is None or not depth.actions:
        return
    for number, action in enumerate(depth.actions):
        yield _action(action, f"actions.{number} ({action.do})")
    yield WaitQuiet(5.0)


def taken_of_page(depth: PageDepth | None, wanted: Sequence[str]) -> Iterator[Action]:
    """Yield what is taken of the page at the end, when it is what the caller wants to see."""
    if "screenshot" in wanted:
        options = (depth and depth.screenshot) or ScreenshotOptions()
        yield Screenshot(options.full_page, selector=options.selector, label="screenshot.selector")
    if PDF in wanted:
        yield PrintPdf()


def _action(action: PageAction, label: str) -> Action:
    match action:
        case ClickAction():
            return Click(action.selector, action.seconds, not action.optional, label)
        case TypeAction():
            return TypeText(action.selector, action.text, action.seconds, not action.optional, label)
        case SelectAction():
            return SelectOption(action.selector, action.value, action.seconds, not action.optional, label)
        case WaitForAction():
            return WaitFor(action.selector, action.seconds, not action.optional, label)
        case PressAction():
            return PressKey(action.key, action.selector, action.seconds, not action.optional, label)
        case ScrollAction():
            return Scroll(action.times)
        case WaitAction():
            return Rest(action.seconds)
        case EvaluateAction():
            return RunScript(action.script, action.seconds, label)
