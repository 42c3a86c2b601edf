"""Words that job pages use, in the languages that are read: labels, generic headlines, ends of an advertisement."""

import re

PLACE_LABELS = (
    r"(?:job |work(?:ing)? |office |primary )?locations?|place of work|city|(?:arbeits|dienst|stand)ort|einsatzort|"
    r"lieu(?: de travail)?|"
    r"localisation|ubicación|lugar(?: de trabajo)?|localização|sede di lavoro|luogo di lavoro|(?:arbejds)?sted|"
    r"placering|lokation|plats|ort|locatie|standplaats|lokalizacja|miejsce pracy|место работы|город|勤務地"
)
_PART_OF_PLACE = r"(?:(?:job |work |primary )?location(?: name)?\s*[:/–-]\s*)?"
CITY_LABELS = rf"{_PART_OF_PLACE}(?:city|town|city/town|stadt|ville|ciudad|cidade|città|by|stad|miasto)"
REGION_LABELS = (
    rf"{_PART_OF_PLACE}(?:state|province|region|state\s?/\s?province|bundesland|kanton|département|provincia|estado)"
)
COUNTRY_LABELS = rf"{_PART_OF_PLACE}(?:country|land|pays|país|paese|kraj)"
A_PART_OF_PLACE = re.compile(rf"^(?:{CITY_LABELS}|{REGION_LABELS}|{COUNTRY_LABELS})$", re.IGNORECASE)
"""Labels of forms that have a field for each part of a place: `Location: City`."""
COMPANY_LABELS = (
    r"company(?: name)?|employer|organi[sz]ation|hiring organi[sz]ation|unternehmen|arbeitgeber|firma|entreprise|"
    r"employeur|société|empresa|azienda|virksomhed|arbejdsgiver|företag|arbetsgivare|bedrijf|werkgever|pracodawca|"
    r"компания|работодатель|会社名"
)
PAY_LABELS = (
    r"salary(?: range)?|pay(?: range| rate)?|(?:base )?compensation|remuneration|rate(?: of pay)?|wage|gehalt|"
    r"vergütung|lohn|salaire|rémunération|salario|salário|retribuzione|løn|lön|salaris|wynagrodzenie|mzda|plat|"
    r"зарплата|給与"
)
TITLE_LABELS = (
    r"(?:(?:external |internal |official |working )?(?:job|position|posting|vacancy|role|requisition)[ -]?"
    r"(?:posting )?(?:title|name)(?: ?/ ?\w+)?|title(?: of (?:the )?(?:job|position|vacancy))?|position|vacancy|role)|"
    r"stellenbezeichnung|intitulé(?: du poste)?|puesto|stillingsbetegnelse|functietitel|stanowisko|должность|職種"
)
CLIENT = re.compile(
    r"\bour (?:\w+[ -]){0,4}client\b|on behalf of (?:our|a) (?:\w+ ){0,3}client|employment (?:agency|business)",
    re.IGNORECASE,
)
NOT_A_TITLE = re.compile(
    r"^(?:job(?:s| postings?| details?| descriptions?| offers?| openings?| search| summary| information)?"
    r"|vacanc(?:y|ies)|careers?(?: (?:opportunit(?:y|ies)|at .*|page|site|portal|center))?"
    r"|employment(?: opportunities)?|work with us"
    r"|join (?:us|our team)|apply(?: now| here| online)?|(?:current |job )?openings?|opportunit(?:y|ies)|requirements?"
    r"|stellenangebote?|karriere|ledige stillinger|jobannonce|offres? d.emploi|recruitment|responsibilities|overview"
    r"|sign in|log ?in|home|error|not found|page not found|menu|search|about(?: us| the (?:job|role|company))?"
    r"|description|benefits|share|cookies?.*|we (?:use|value).*|your privacy.*|privacy.*)$",
    re.IGNORECASE,
)
ENDS = re.compile(
    r"^(?:(?:similar|related|recommended|other|more) (?:jobs|positions|vacancies|openings|opportunities)\b.*"
    r"|(?:people|others) also (?:viewed|applied).*|share (?:this )?(?:job|vacancy|position|page|via|on)\b.*"
    r"|apply (?:now|online|for this (?:job|position|role))\b.{0,20}|(?:ähnliche|weitere) (?:jobs|stellen)\b.*"
    r"|(?:apply to this|add to job|send (?:this )?job to|view similar|e-?mail this|save this)\b.{0,30}"
    r"|get (?:job )?alerts.*|sign up for (?:job )?alerts.*|back to (?:jobs|search|results|list).*)$",
    re.IGNORECASE,
)
"""A line after which an advertisement is over."""
PAY_WORD = re.compile(
    r"\b(?:salary|base pay|pay (?:range|rate)|compensation|remuneration|wages?|hourly rate|rate of pay|gehalt|vergütung"
    r"|lohn|salaire|rémunération|salario|salário|retribuzione|salaris|wynagrodzenie|mzda|зарплата|løn|lön)\b",
    re.IGNORECASE,
)
NOT_PAY = re.compile(
    r"\b(?:bonus|stipend|allowance|sign[ -]?on|relocation|reimburse\w*|referral|revenue|funding|raised|budget|insurance"
    r"|voucher|401|equity|stock|prämie|zuschuss|prime|turnover|million|billion|discount)\b",
    re.IGNORECASE,
)
