"""Whether a text speaks of a job: the matters that advertisements have, each by its words in many languages. Pure.

A page without markup has a headline, and often a place and a company: so have the pages of shops, homes and firms. Only
an advertisement speaks of applying, duties, qualifications, hours and pay as well.
"""

from itertools import islice

_MATTERS: tuple[tuple[str, ...], ...] = (
    (  # how to apply
        "apply now", "apply for", "apply online", "apply here", "apply today", "apply by", "to apply", "applicant",
        "application deadline", "closing date", "cover letter", "your cv", "your resume", "your résumé", "bewerb",
        "postule", "candidat", "inscríbete", "inscribirse", "solicitar empleo", "candidatura", "sollicit", "ansøg",
        "ansök", "søknad", "hakemus", "aplikuj", "životopis", "aplică", "отклик", "резюме", "başvur", "応募", "投递",
        "应聘", "应徵", "지원",
    ),
    (  # duties
        "responsibilit", "duties", "your role", "the role", "what you'll do", "what you’ll do", "what you will do",
        "you will ", "job description", "job summary", "position summary", "aufgaben", "tätigkeit", "vos missions",
        "votre mission", "responsabilidad", "responsabilité", "funciones", "mansioni", "atividades", "werkzaamheden",
        "takenpakket", "opgaver", "arbetsuppgifter", "arbeidsoppgaver", "työtehtäv", "obowiązk", "náplň práce",
        "feladatok", "обязанности", "обов'язки", "görev", "仕事内容", "業務内容", "岗位职责", "工作内容", "담당업무",
    ),
    (  # who is sought
        "qualification", "year experience", "years experience", "years' experience", "years’ experience",
        "experience in", "experience with", "bachelor", "master's degree", "degree in", "your profile",
        "what you'll need", "what you’ll need", "what you bring", "skills", "anforderung", "qualifikation",
        "dein profil", "ihr profil", "kenntnisse", "profil recherché", "expérience", "requisitos", "experiencia",
        "requisiti", "esperienza", "experiência", "functie-eisen", "ervaring", "kvalifika", "erfaring", "erfarenhet",
        "kokemus", "wymagania", "doświadcze", "požadavky", "požadujeme", "elvárás", "cerințe", "experiență",
        "требования", "опыт работы", "вимоги", "nitelik", "deneyim", "応募資格", "経験", "任职要求", "任职资格",
        "자격요건",
    ),
    (  # hours and contract
        "full-time", "full time", "part-time", "part time", "fixed-term", "permanent position", "permanent contract",
        "permanent role", "contract type", "employment type", "hours per week", "vollzeit", "teilzeit", "befristet",
        "festanstellung", "feste stelle", " cdi ", " cdd ", "temps plein", "temps partiel", "tiempo completo",
        "jornada completa", "tiempo parcial", "indefinido", "tempo indeterminato", "tempo pieno", "tempo integral",
        " clt ", "fulltime", "parttime", "uur per week", "fuldtid", "deltid", "heltid", "tillsvidare", "kokoaikai",
        "vakituinen", "pełny etat", "umowa o pracę", "plný úvazek", "teljes munkaidő", "normă întreagă",
        "полная занятость", "повна зайнятість", "tam zamanlı", "正社員", "全职", "정규직",
    ),
    (  # pay
        "salary", "salaries", "remuneration", "compensation", " wage", "hourly rate", "per annum", "per hour",
        "gehalt", "vergütung", "entgelt", "salaire", "rémunération", "salario", "sueldo", "retribuzione", "salário",
        "remuneração", "salaris", " løn ", " lön ", "lønn ", "palkka", "wynagrodzeni", "mzda", "salariu", "зарплат",
        "maaş", "給与", "年収", "薪资", "薪酬", "급여", "연봉",
    ),
    (  # the employer's own words
        "equal opportunity", "we are looking", "we are seeking", "we are hiring", "we're looking", "we’re looking",
        "we're hiring", "we’re hiring", "is looking for", "we offer", "is seeking", "is hiring",
        "successful candidate", "ideal candidate", "reports to", "reporting to", "wir suchen", "wir bieten",
        "gesucht", "verstärkung", "nous recherchons", "join our team", "nous rejoindre", "rejoignez", "recrute",
        "buscamos", "ofrecemos", "cerchiamo", "offriamo", "procuramos", "oferecemos", "wij zoeken", "wij bieden",
        "we zoeken", "vi søger", "vi tilbyder", "vi söker", "vi erbjuder", "vi søker", "haemme", "etsimme",
        "poszukujemy", "oferujemy", "hledáme", "nabízíme", "keresünk", "căutăm", "мы ищем", "мы предлагаем",
        "шукаємо", "arıyoruz", "募集", "招聘", "모집", "채용",
    ),
    (  # the posting itself
        "job id", "requisition id", "requisition number", "job number", "job ref", "job type", "job title",
        "job category", "job posting", "job details", "vacanc", "arbeitgeber", "employeur", "position title",
        "position type", "this position", "this job", "stellenan", "offre d'emploi", "offre d’emploi",
        "oferta de empleo", "oferta de trabajo", "offerta di lavoro", "vaga de emprego", "vacature", "stilling",
        "tjänst", "työpaik", "oferta pracy", "pracovní pozice", "állás", "loc de muncă", "вакансия", "вакансія",
        "iş ilanı", "求人", "职位", "채용공고",
    ),
)  # fmt: skip
LANGUAGES = frozenset("en de fr es pt it nl da sv nb nn no fi pl cs sk hu ro ru uk tr ja zh ko".split())
"""Languages whose words are known here. A page in another one is not judged by its words."""


def speaks_of_a_job(text: str, *, least: int) -> bool:
    """Whether a text has words of at least `least` different matters. Stops reading as soon as that is certain."""
    plain = f" {' '.join(text.casefold().split())} "
    found = (True for words in _MATTERS if any(word in plain for word in words))
    return sum(islice(found, least)) == least
