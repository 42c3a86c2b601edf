"""Profile, company and job-posting pages of a sandbox site, by path: the same data in the layouts of the web. Pure.

`/jobs/<layout>/<n>`       a posting; `layout` is one of `JOB_LAYOUTS`
`/profiles/<layout>/<n>`   a person; `layout` is one of `PROFILE_LAYOUTS`
`/companies/<layout>/<n>`  a company's home page; its contact and about pages are under it

The values of a page are known beforehand (`job`, `person`, `company`), so that a test can check an extraction.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from html import escape
from urllib.parse import parse_qs

from forager.sandbox.wire import HTML, WireRequest

# The pages of a sandbox site, by path: honest ones, and one of each kind that a crawler meets. Pure.
#
# `/`, `/page/<n>`         text and links
# `/shell`                 an empty shell: `/app.js` fills it in a browser
# `/challenge`             a script sets a cookie and loads the page again; with the cookie it is a page
# `/blocked`               403 with a captcha
# `/login`                 a login form in the place of a page
# `/status/<code>`         that status; `?after=5` adds `Retry-After`, `?after_date=5` the same as a date
# `/redirect?to=<url>`     302, or `&status=<code>`
# `/slow?seconds=<n>`      a page after this number of seconds
# `/huge?bytes=<n>`        an answer as long as that
# `/cookie`                lists the cookies of the request


TEXT = b"text/plain; charset=utf-8"
SCRIPT = b"text/javascript"
PAGES = 1_000
_WORDS = "Oak table, two metres long, made in our own workshop from local wood. "
_SITE_FILL = (
    "document.getElementById('root').innerHTML = '<h1 id=\"filled\">Filled by a script</h1><p>' + "
    f"'{_WORDS}'.repeat(10) + '</p>';"
)


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """The answer of a site to one request."""

    status: int = 200
    body: bytes = b""
    kind: bytes = HTML
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds until it is sent."""
    padding: int = 0
    """Number of additional bytes, written at the speed at which they are read."""


def retry_after(seconds: float, *, date: bool = False) -> dict[str, str]:
    """Return the header, as seconds or as the moment that they end."""
    return {"Retry-After": formatdate(time.time() + seconds, usegmt=True) if date else str(round(seconds))}


def page(title: str, body: str, status: int = 200) -> SiteAnswer:
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return SiteAnswer(status, text.encode())


def usual_answer(request: WireRequest) -> SiteAnswer:
    """Return the answer of a site without special settings."""
    _, first, *rest = (*request.path.split("/"), "")
    asked = {name: values[0] for name, values in parse_qs(request.query).items()}
    if first in ("", "page"):
        return _listed(first, rest[0] if rest else "")
    if first == "status" and rest and rest[0].isdigit():
        return _status(int(rest[0]), asked)
    if first == "redirect":
        return SiteAnswer(int(asked.get("status", 302)), headers={"Location": asked.get("to", "/")})
    if first == "slow":
        return SiteAnswer(200, _honest(1).body, delay=float(asked.get("seconds", 1)))
    if first == "huge":
        return SiteAnswer(200, b"<!doctype html><p>", padding=int(asked.get("bytes", 48 * 1024 * 1024)))
    if first == "challenge":
        return _challenge(request.headers.get(b"cookie", b""))
    if first == "cookie":
        return SiteAnswer(200, request.headers.get(b"cookie", b""), TEXT)
    return _FIXED.get(first, page("Not found", "<h1>404</h1><p>There is no such page.</p>", 404))


def _listed(first: str, number: str) -> SiteAnswer:
    if not first:
        links = "".join(f"<li><a href='/page/{n}'>Table {n}</a></li>" for n in range(1, 11))
        return page("Tables", f"<h1>Tables</h1><ul>{links}</ul><p>{_WORDS * 10}</p>")
    if not number.isdigit() or not 1 <= int(number) <= PAGES:
        return page("Not found", "<h1>404</h1><p>There is no such table.</p>", 404)
    return _honest(int(number))


def _honest(number: int) -> SiteAnswer:
    more = f"<a href='/page/{number % PAGES + 1}'>Next</a>"
    return page(f"Table {number}", f"<h1>Table {number}</h1><p>{_WORDS * 20}</p>{more}")


def _status(status: int, asked: Mapping[str, str]) -> SiteAnswer:
    headers: dict[str, str] = {}
    if "after" in asked:
        headers = retry_after(float(asked["after"]))
    elif "after_date" in asked:
        headers = retry_after(float(asked["after_date"]), date=True)
    return SiteAnswer(status, page(str(status), f"<h1>{status}</h1>").body, headers=headers)


def _challenge(cookies: bytes) -> SiteAnswer:
    if b"passed=yes" in cookies:
        return _honest(1)
    return page("One moment", "<script>document.cookie='passed=yes;path=/';location.reload();</script>", 403)


_FIXED = {
    "shell": page("App", "<div id='root'></div><script src='/app.js'></script>"),
    "app.js": SiteAnswer(200, _SITE_FILL.encode(), SCRIPT),
    "blocked": page("Robot check", "<p>Are you a robot?</p><div class='h-captcha'></div>", 403),
    "login": page("Sign in", "<h1>Sign in</h1><form method='post'><input name='user'><input type='password'></form>"),
}


JOB_LAYOUTS = ("jsonld", "microdata", "plain", "script", "lazy", "sparse", "foreign", "banner", "malformed")
PROFILE_LAYOUTS = ("jsonld", "plain", "script", "sparse", "wall")
COMPANY_LAYOUTS = ("jsonld", "pages", "script", "sparse")

_TITLES = ("Bar Manager", "Data Engineer", "Night Nurse", "Joiner", "Tram Driver", "Pastry Chef", "Land Surveyor")
_COMPANIES = ("Still", "Oak & Sons", "Harbour Works", "Lantern Foods", "Northern Trams", "Quiet Rooms", "Fieldstone")
_CITIES = (("Phoenix", "AZ"), ("Boston", "MA"), ("Tulsa", "OK"), ("Reno", "NV"), ("Austin", "TX"))
_NAMES = ("Ada Larsson", "Bo Nilsen", "Carla Ruiz", "Dmitri Orlov", "Esra Demir", "Femi Okafor", "Grace Lim")
_FILL = "We look for somebody who likes the work and stays calm when it gets loud. Shifts are planned a month ahead. "


def job(n: int) -> dict[str, str]:
    city, state = _CITIES[n % len(_CITIES)]
    low = 40_000 + 500 * (n % 40)
    return {
        "title": f"{_TITLES[n % len(_TITLES)]} {n}",
        "company": _COMPANIES[n % len(_COMPANIES)],
        "city": city,
        "state": state,
        "low": str(low),
        "high": str(low + 10_000),
        "description": f"Posting {n}. {_FILL * 3}".strip(),
    }


def person(n: int) -> dict[str, str]:
    city, state = _CITIES[n % len(_CITIES)]
    return {
        "name": _NAMES[n % len(_NAMES)],
        "headline": f"{_TITLES[n % len(_TITLES)]} at {_COMPANIES[n % len(_COMPANIES)]}",
        "company": _COMPANIES[n % len(_COMPANIES)],
        "city": city,
        "state": state,
        "summary": f"Profile {n}. {_FILL}".strip(),
    }


def company(n: int) -> dict[str, str]:
    city, state = _CITIES[n % len(_CITIES)]
    name = _COMPANIES[n % len(_COMPANIES)]
    return {
        "name": f"{name} {n}",
        "description": f"{name} {n} has made the same thing well since 1931, for people who use it every day.",
        "email": f"hello{n}@example.com",
        "phone": f"+1 602 555 {1000 + n % 9000:04d}",
        "city": city,
        "state": state,
        "street": f"{n + 1} Main Street",
    }


def scrape_answer(request: WireRequest) -> SiteAnswer | None:
    """Return the page of a path, or None if it is not one of these."""
    _, kind, *rest = (*request.path.split("/"), "", "", "")
    layout, number, *under = rest
    make = _KINDS.get(kind, {}).get(layout)
    if make is None or not number.isdigit():
        return None
    n = int(number)
    if kind == "companies" and layout == "pages" and under[0] in _UNDER:
        return _UNDER[under[0]](n)
    return make(n) if not under[0] else page("Not found", "<h1>404</h1>", 404)


# ── job postings ──


def _job_data(n: int) -> dict[str, object]:
    facts = job(n)
    return {
        "@context": "https://schema.org",
        "@type": "JobPosting",
        "title": facts["title"],
        "description": f"<p>{facts['description']}</p>",
        "hiringOrganization": {"@type": "Organization", "name": facts["company"]},
        "jobLocation": {
            "@type": "Place",
            "address": {
                "@type": "PostalAddress",
                "addressLocality": facts["city"],
                "addressRegion": facts["state"],
                "addressCountry": "US",
            },
        },
        "baseSalary": {
            "@type": "MonetaryAmount",
            "currency": "USD",
            "value": {
                "@type": "QuantitativeValue",
                "minValue": int(facts["low"]),
                "maxValue": int(facts["high"]),
                "unitText": "YEAR",
            },
        },
    }


def _job_jsonld(n: int) -> SiteAnswer:
    return page(job(n)["title"], f"{_script(_job_data(n))}<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_text(n: int) -> str:
    facts = {name: escape(value) for name, value in job(n).items()}
    return (
        f"<p class='company'>{facts['company']}</p><p class='location'>{facts['city']}, {facts['state']}</p>"
        f"<p class='salary'>${int(facts['low']):,} - ${int(facts['high']):,} a year</p>"
        f"<h2>Job description</h2><div class='description'><p>{facts['description']}</p></div>"
    )


def _job_microdata(n: int) -> SiteAnswer:
    facts = {name: escape(value) for name, value in job(n).items()}
    body = (
        "<div itemscope itemtype='https://schema.org/JobPosting'>"
        f"<h1 itemprop='title'>{facts['title']}</h1>"
        "<div itemprop='hiringOrganization' itemscope itemtype='https://schema.org/Organization'>"
        f"<span itemprop='name'>{facts['company']}</span></div>"
        "<div itemprop='jobLocation' itemscope itemtype='https://schema.org/Place'>"
        "<div itemprop='address' itemscope itemtype='https://schema.org/PostalAddress'>"
        f"<span itemprop='addressLocality'>{facts['city']}</span>, "
        f"<span itemprop='addressRegion'>{facts['state']}</span></div></div>"
        f"<div itemprop='description'>{facts['description']}</div></div>"
    )
    return page(job(n)["title"], body)


def _job_plain(n: int) -> SiteAnswer:
    return page(f"{job(n)['title']} - {job(n)['company']}", f"<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_script(n: int) -> SiteAnswer:
    """Nothing but a script, which brings the structured data and the text."""
    inner = json.dumps(f"<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")
    data = json.dumps(json.dumps(_job_data(n)))
    body = (
        "<div id='root'></div><script>var s=document.createElement('script');s.type='application/ld+json';"
        f"s.text={data};document.head.appendChild(s);document.getElementById('root').innerHTML={inner};</script>"
    )
    return page("Jobs", body)


def _job_lazy(n: int) -> SiteAnswer:
    """Return a skeleton; scripts load the posting itself on scrolling."""
    inner = json.dumps(_job_text(n))
    data = json.dumps(json.dumps(_job_data(n)))
    body = (
        f"<h1>{escape(job(n)['title'])}</h1><div style='height:3000px'></div><div id='rest'></div><script>"
        "addEventListener('scroll',function(){if(window.filled)return;window.filled=true;"
        f"var s=document.createElement('script');s.type='application/ld+json';s.text={data};"
        f"document.head.appendChild(s);document.getElementById('rest').innerHTML={inner};}});</script>"
    )
    return page(job(n)["title"], body)


def _job_sparse(n: int) -> SiteAnswer:
    data = {name: value for name, value in _job_data(n).items() if name not in ("baseSalary", "jobLocation")}
    return page(job(n)["title"], f"{_script(data)}<h1>{escape(job(n)['title'])}</h1>")


def _job_foreign(n: int) -> SiteAnswer:
    data = {**_job_data(n), "title": f"Bärenführer:in {n}", "description": "<p>Für Menschen, die früh aufstehen.</p>"}
    return page(f"Bärenführer:in {n}", f"{_script(data)}<h1>Bärenführer:in {n}</h1><p>Standort: München</p>")


def _job_banner(n: int) -> SiteAnswer:
    banner = "<div id='consent'><p>We value your privacy.</p><button id='accept'>Accept all</button></div>"
    return page(job(n)["title"], f"{banner}{_script(_job_data(n))}<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_malformed(n: int) -> SiteAnswer:
    """Unclosed tags, and structured data that ends in the middle of a word."""
    broken = json.dumps(_job_data(n))[:-40]
    body = f"<script type='application/ld+json'>{broken}</script><h1>{escape(job(n)['title'])}<div><p>{_job_text(n)}"
    return page(job(n)["title"], body)


# ── people ──


def _profile_jsonld(n: int) -> SiteAnswer:
    facts = person(n)
    data = {
        "@context": "https://schema.org",
        "@type": "Person",
        "name": facts["name"],
        "jobTitle": facts["headline"],
        "description": facts["summary"],
        "worksFor": {"@type": "Organization", "name": facts["company"]},
        "address": {"@type": "PostalAddress", "addressLocality": facts["city"], "addressRegion": facts["state"]},
    }
    return page(f"{facts['name']} - {facts['headline']}", f"{_script(data)}{_profile_text(n)}")


def _profile_text(n: int) -> str:
    facts = {name: escape(value) for name, value in person(n).items()}
    return (
        f"<main><h1 class='top-card-layout__title'>{facts['name']}</h1>"
        f"<h2 class='top-card-layout__headline'>{facts['headline']}</h2>"
        f"<div class='profile-info-subheader'><span>{facts['city']}, {facts['state']}</span></div>"
        f"<section class='summary'><h2>About</h2><p>{facts['summary']}</p></section></main>"
    )


def _profile_plain(n: int) -> SiteAnswer:
    return page(person(n)["name"], _profile_text(n))


def _profile_script(n: int) -> SiteAnswer:
    inner = json.dumps(_profile_text(n))
    return page("Profile", f"<div id='root'></div><script>document.getElementById('root').innerHTML={inner};</script>")


def _profile_sparse(n: int) -> SiteAnswer:
    return page(person(n)["name"], f"<main><h1>{escape(person(n)['name'])}</h1></main>")


def _profile_wall(_: int) -> SiteAnswer:
    body = (
        "<h1>Sign in to see the full profile</h1><form method='post' action='/login'>"
        "<input name='session_key'><input type='password' name='session_password'><button>Sign in</button></form>"
    )
    return page("Sign in", body)


# ── companies ──


def _company_data(n: int) -> dict[str, object]:
    facts = company(n)
    return {
        "@context": "https://schema.org",
        "@type": "Organization",
        "name": facts["name"],
        "description": facts["description"],
        "email": facts["email"],
        "telephone": facts["phone"],
        "address": {
            "@type": "PostalAddress",
            "streetAddress": facts["street"],
            "addressLocality": facts["city"],
            "addressRegion": facts["state"],
            "addressCountry": "US",
        },
    }


def _company_jsonld(n: int) -> SiteAnswer:
    facts = company(n)
    return page(
        facts["name"], f"{_script(_company_data(n))}<h1>{escape(facts['name'])}</h1><p>{facts['description']}</p>"
    )


def _company_pages(n: int) -> SiteAnswer:
    """Return a home page without an address: that is on the contact page, which it links to."""
    facts = company(n)
    links = f"<a href='/companies/pages/{n}/about'>About us</a> <a href='/companies/pages/{n}/contact'>Contact</a>"
    data = {name: value for name, value in _company_data(n).items() if name in ("@context", "@type", "name")}
    return page(facts["name"], f"{_script(data)}<h1>{escape(facts['name'])}</h1><nav>{links}</nav><p>{_FILL * 4}</p>")


def _company_contact(n: int) -> SiteAnswer:
    facts = company(n)
    body = (
        f"<h1>Contact</h1><p><a href='mailto:{facts['email']}'>{facts['email']}</a></p>"
        f"<p><a href='tel:{facts['phone'].replace(' ', '')}'>{facts['phone']}</a></p>"
        f"<address>{facts['street']}, {facts['city']}, {facts['state']}</address>"
    )
    return page(f"Contact - {facts['name']}", body)


def _company_about(n: int) -> SiteAnswer:
    facts = company(n)
    return page(
        f"About - {facts['name']}", f"<h1>About us</h1><p>{facts['description']}</p>{_script(_company_data(n))}"
    )


def _company_script(n: int) -> SiteAnswer:
    data = json.dumps(json.dumps(_company_data(n)))
    head = json.dumps(f"<h1>{escape(company(n)['name'])}</h1>")
    body = (
        "<div id='app'></div><script>var s=document.createElement('script');s.type='application/ld+json';"
        f"s.text={data};document.head.appendChild(s);"
        f"document.getElementById('app').innerHTML={head};</script>"
    )
    return page("Welcome", body)


def _company_sparse(n: int) -> SiteAnswer:
    return page(company(n)["name"], f"<h1>{escape(company(n)['name'])}</h1><p>{_FILL * 4}</p>")


def _script(data: Mapping[str, object]) -> str:
    return f"<script type='application/ld+json'>{json.dumps(data)}</script>"


_UNDER: dict[str, Callable[[int], SiteAnswer]] = {"contact": _company_contact, "about": _company_about}
_KINDS: dict[str, dict[str, Callable[[int], SiteAnswer]]] = {
    "jobs": {
        "jsonld": _job_jsonld,
        "microdata": _job_microdata,
        "plain": _job_plain,
        "script": _job_script,
        "lazy": _job_lazy,
        "sparse": _job_sparse,
        "foreign": _job_foreign,
        "banner": _job_banner,
        "malformed": _job_malformed,
    },
    "profiles": {
        "jsonld": _profile_jsonld,
        "plain": _profile_plain,
        "script": _profile_script,
        "sparse": _profile_sparse,
        "wall": _profile_wall,
    },
    "companies": {
        "jsonld": _company_jsonld,
        "pages": _company_pages,
        "script": _company_script,
        "sparse": _company_sparse,
    },
}
