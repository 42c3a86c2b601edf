"""Profile, company and job-posting pages of a sandbox site, by path: the same data in the layouts of the web. Pure.

`/jobs/<layout>/<n>`       a posting; `layout` is one of `JOB_LAYOUTS`
`/profiles/<layout>/<n>`   a person; `layout` is one of `PROFILE_LAYOUTS`
`/companies/<layout>/<n>`  a company's home page; its contact and about pages lie under it

What a page says is known beforehand (`job`, `person`, `company`), so that a test can tell a right answer from a wrong.
"""

import json
from collections.abc import Callable, Mapping
from html import escape

from forager.sandbox.site_pages import Answer, page
from forager.sandbox.wire import Request

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


def scrape_answer(request: Request) -> Answer | None:
    """The page of a path, or None if it is not one of these."""
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


def _job_jsonld(n: int) -> Answer:
    return page(job(n)["title"], f"{_script(_job_data(n))}<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_text(n: int) -> str:
    facts = {name: escape(value) for name, value in job(n).items()}
    return (
        f"<p class='company'>{facts['company']}</p><p class='location'>{facts['city']}, {facts['state']}</p>"
        f"<p class='salary'>${int(facts['low']):,} - ${int(facts['high']):,} a year</p>"
        f"<h2>Job description</h2><div class='description'><p>{facts['description']}</p></div>"
    )


def _job_microdata(n: int) -> Answer:
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


def _job_plain(n: int) -> Answer:
    return page(f"{job(n)['title']} - {job(n)['company']}", f"<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_script(n: int) -> Answer:
    """Nothing but a script, which brings the structured data and the text."""
    inner = json.dumps(f"<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")
    data = json.dumps(json.dumps(_job_data(n)))
    body = (
        "<div id='root'></div><script>var s=document.createElement('script');s.type='application/ld+json';"
        f"s.text={data};document.head.appendChild(s);document.getElementById('root').innerHTML={inner};</script>"
    )
    return page("Jobs", body)


def _job_lazy(n: int) -> Answer:
    """A skeleton; scripts load the posting itself on scrolling."""
    inner = json.dumps(_job_text(n))
    data = json.dumps(json.dumps(_job_data(n)))
    body = (
        f"<h1>{escape(job(n)['title'])}</h1><div style='height:3000px'></div><div id='rest'></div><script>"
        "addEventListener('scroll',function(){if(window.filled)return;window.filled=true;"
        f"var s=document.createElement('script');s.type='application/ld+json';s.text={data};"
        f"document.head.appendChild(s);document.getElementById('rest').innerHTML={inner};}});</script>"
    )
    return page(job(n)["title"], body)


def _job_sparse(n: int) -> Answer:
    data = {name: value for name, value in _job_data(n).items() if name not in ("baseSalary", "jobLocation")}
    return page(job(n)["title"], f"{_script(data)}<h1>{escape(job(n)['title'])}</h1>")


def _job_foreign(n: int) -> Answer:
    data = {**_job_data(n), "title": f"Bärenführer:in {n}", "description": "<p>Für Menschen, die früh aufstehen.</p>"}
    return page(f"Bärenführer:in {n}", f"{_script(data)}<h1>Bärenführer:in {n}</h1><p>Standort: München</p>")


def _job_banner(n: int) -> Answer:
    banner = "<div id='consent'><p>We value your privacy.</p><button id='accept'>Accept all</button></div>"
    return page(job(n)["title"], f"{banner}{_script(_job_data(n))}<h1>{escape(job(n)['title'])}</h1>{_job_text(n)}")


def _job_malformed(n: int) -> Answer:
    """Unclosed tags, and structured data that ends in the middle of a word."""
    broken = json.dumps(_job_data(n))[:-40]
    body = f"<script type='application/ld+json'>{broken}</script><h1>{escape(job(n)['title'])}<div><p>{_job_text(n)}"
    return page(job(n)["title"], body)


# ── people ──


def _profile_jsonld(n: int) -> Answer:
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


def _profile_plain(n: int) -> Answer:
    return page(person(n)["name"], _profile_text(n))


def _profile_script(n: int) -> Answer:
    inner = json.dumps(_profile_text(n))
    return page("Profile", f"<div id='root'></div><script>document.getElementById('root').innerHTML={inner};</script>")


def _profile_sparse(n: int) -> Answer:
    return page(person(n)["name"], f"<main><h1>{escape(person(n)['name'])}</h1></main>")


def _profile_wall(_: int) -> Answer:
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


def _company_jsonld(n: int) -> Answer:
    facts = company(n)
    return page(
        facts["name"], f"{_script(_company_data(n))}<h1>{escape(facts['name'])}</h1><p>{facts['description']}</p>"
    )


def _company_pages(n: int) -> Answer:
    """A home page without an address: that is on the contact page, which it links to."""
    facts = company(n)
    links = f"<a href='/companies/pages/{n}/about'>About us</a> <a href='/companies/pages/{n}/contact'>Contact</a>"
    data = {name: value for name, value in _company_data(n).items() if name in ("@context", "@type", "name")}
    return page(facts["name"], f"{_script(data)}<h1>{escape(facts['name'])}</h1><nav>{links}</nav><p>{_FILL * 4}</p>")


def _company_contact(n: int) -> Answer:
    facts = company(n)
    body = (
        f"<h1>Contact</h1><p><a href='mailto:{facts['email']}'>{facts['email']}</a></p>"
        f"<p><a href='tel:{facts['phone'].replace(' ', '')}'>{facts['phone']}</a></p>"
        f"<address>{facts['street']}, {facts['city']}, {facts['state']}</address>"
    )
    return page(f"Contact - {facts['name']}", body)


def _company_about(n: int) -> Answer:
    facts = company(n)
    return page(
        f"About - {facts['name']}", f"<h1>About us</h1><p>{facts['description']}</p>{_script(_company_data(n))}"
    )


def _company_script(n: int) -> Answer:
    data = json.dumps(json.dumps(_company_data(n)))
    head = json.dumps(f"<h1>{escape(company(n)['name'])}</h1>")
    body = (
        "<div id='app'></div><script>var s=document.createElement('script');s.type='application/ld+json';"
        f"s.text={data};document.head.appendChild(s);"
        f"document.getElementById('app').innerHTML={head};</script>"
    )
    return page("Welcome", body)


def _company_sparse(n: int) -> Answer:
    return page(company(n)["name"], f"<h1>{escape(company(n)['name'])}</h1><p>{_FILL * 4}</p>")


def _script(data: Mapping[str, object]) -> str:
    return f"<script type='application/ld+json'>{json.dumps(data)}</script>"


_UNDER: dict[str, Callable[[int], Answer]] = {"contact": _company_contact, "about": _company_about}
_KINDS: dict[str, dict[str, Callable[[int], Answer]]] = {
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
