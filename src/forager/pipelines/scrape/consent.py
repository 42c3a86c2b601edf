"""The button to click in a consent banner: refuse if possible, else accept. Other buttons are ignored."""

CONSENT = ", ".join(
    (
        "#onetrust-reject-all-handler",
        "#CybotCookiebotDialogBodyButtonDecline",
        "[data-testid='uc-deny-all-button']",
        "button[data-consent='reject' i]",
        "button[class*='reject-all' i]",
        "button[id*='reject' i]",
        "button[class*='cookie' i][class*='decline' i]",
        "#cookie-close",
        "#onetrust-accept-btn-handler",
        "button[data-consent='accept' i]",
        "button[id*='cookie' i][id*='accept' i]",
        "button[class*='cookie' i][class*='accept' i]",
        "#cookie-acknowledge",
    )
)
CONSENT_WAIT = 0.4
"""Seconds to wait for a banner after the page's content. Short, because most pages have none."""
