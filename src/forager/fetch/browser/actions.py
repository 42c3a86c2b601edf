"""Performs the script of a visit: wait, scroll, click, screenshot. An element that is missing is skipped, unless it is
required."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from forager.core.errors import Permanent, TimedOut
from forager.core.visit import MOST_SCROLLS, Action, Click, Screenshot, Scroll, WaitFor, WaitQuiet

if TYPE_CHECKING:
    from playwright.async_api import Page

MOST_SCREENSHOT = 16 * 1024 * 1024
TALLEST = 10_000
"""Maximum pixels of a full-page screenshot: an endless page would fill the browser's memory."""
SCREENSHOT_TIMEOUT = 10.0
GROWTH = 1.0
"""Seconds that a page is given to grow after it was scrolled."""
LONGEST = 600.0

# A page that fits into the window cannot be scrolled, and has loaded everything already: returns null.
_TO_THE_END = """() => {
  const h = document.documentElement.scrollHeight;
  if (h <= window.innerHeight) return null;
  window.scrollTo(0, h);
  return h;
}"""
_LOOKS_WRONG = """() => {
  const came = performance.getEntriesByType('navigation')[0];
  const text = document.body ? document.body.innerText : '';
  const wall = "input[type=password], [class*=captcha i], [id*=captcha i], iframe[src*=captcha]";
  return (came && came.responseStatus >= 400) || text.length < 200 || document.querySelector(wall) !== null;
}"""
_IS_LONGER = "before => document.documentElement.scrollHeight > before"

Pause = Callable[[], Awaitable[None]]


def most_seconds(script: Sequence[Action], longest_pause: float) -> float:
    """Return the longest time that a script can take. A visit that takes longer is stuck."""
    return sum(_seconds(action, longest_pause) for action in script)


async def perform(page: "Page", script: Sequence[Action], pause: Pause) -> bytes | None:
    """Perform all actions in order, with a pause before each. Returns the last screenshot, if one was taken."""
    shot: bytes | None = None
    for action in script:
        if isinstance(action, Screenshot) and action.if_wrong and not await page.evaluate(_LOOKS_WRONG):
            continue
        await pause()
        match action:
            case WaitFor():
                await _wait_for(page, action)
            case WaitQuiet():
                await _patiently(page.wait_for_load_state("networkidle", timeout=_ms(action.timeout)))
            case Scroll():
                await _scroll(page, action, pause)
            case Click():
                await _click(page, action)
            case Screenshot():
                shot = await _screenshot(page, action)
    return shot


async def _wait_for(page: "Page", action: WaitFor) -> None:
    there = await _patiently(
        page.wait_for_selector(action.selector, state="attached", timeout=_ms(action.timeout)), action.selector
    )
    if action.must and not there:
        raise TimedOut(f"nothing that {action.selector!r} names appeared within {action.timeout:g} s.")


async def _click(page: "Page", action: Click) -> None:
    done = await _patiently(page.click(action.selector, timeout=_ms(action.timeout)), action.selector)
    if action.must and not done:
        raise TimedOut(f"nothing that {action.selector!r} names could be clicked within {action.timeout:g} s.")
    # A click may lead to another page: the next actions apply to that one.
    await _patiently(page.wait_for_load_state("domcontentloaded", timeout=_ms(LONGEST)))


async def _scroll(page: "Page", action: Scroll, pause: Pause) -> None:
    for turn in range(min(action.times, MOST_SCROLLS)):
        if turn:
            await pause()
        before = await page.evaluate(_TO_THE_END)
        if before is None or not await _patiently(page.wait_for_function(_IS_LONGER, arg=before, timeout=_ms(GROWTH))):
            return


async def _screenshot(page: "Page", action: Screenshot) -> bytes | None:
    """Take a screenshot. Returns None if it is too big."""
    width = page.viewport_size["width"] if page.viewport_size else 1280
    tall = action.full_page and await page.evaluate("() => document.documentElement.scrollHeight") > TALLEST
    taken = await page.screenshot(
        full_page=action.full_page,
        timeout=_ms(SCREENSHOT_TIMEOUT),
        clip={"x": 0, "y": 0, "width": width, "height": TALLEST} if tall else None,
    )
    return taken if len(taken) <= MOST_SCREENSHOT else None


async def _patiently(waiting: Awaitable[object], selector: str | None = None) -> bool:
    """Return whether the element appeared in time. Raises `Permanent` for an invalid selector, which is a mistake in
    the script."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as PageTimeout

    try:
        await waiting
    except PageTimeout:
        return False
    except Error as error:
        if selector is not None and ("parsing" in str(error) or "not a valid selector" in str(error)):
            raise Permanent(f"the selector {selector!r} cannot be read. Correct the script.") from None
        raise
    return True


def _seconds(action: Action, pause: float) -> float:
    match action:
        case WaitFor() | WaitQuiet() | Click():
            return pause + action.timeout + GROWTH
        case Scroll():
            return min(action.times, MOST_SCROLLS) * (pause + GROWTH + GROWTH)
        case Screenshot():
            return pause + SCREENSHOT_TIMEOUT + GROWTH


def _ms(seconds: float) -> float:
    return max(1.0, min(seconds, LONGEST) * 1000)
