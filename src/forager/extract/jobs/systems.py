"""Applicant tracking systems and job boards: what each calls the parts of a posting. Pure; a new one is one entry.

The keys are those of a system's own JSON; a path such as `location.name` goes through mappings and into the first entry
of a list. `css` has the selectors of its pages. Both are used wherever they fit: many employers show a system's pages
under an address of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class System:
    name: str
    keys: frozenset[str] = frozenset()
    """Keys that every posting of it has in JSON, and none of another system. Empty: it has no JSON of its own."""
    title: tuple[str, ...] = ()
    company: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    pay: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Each is one path, or several with `+` whose texts belong together."""
    css: Mapping[str, str] = field(default_factory=dict)
    """By field of the result: a selector of its pages."""
    hosts: tuple[str, ...] = ()
    """Domains that belong to the system and never to an employer."""
    employer: str | None = None
    """A pattern for addresses of postings, whose first group is the employer's short name."""


SYSTEMS: tuple[System, ...] = (
    System(
        "Greenhouse",
        keys=frozenset({"absolute_url", "internal_job_id"}),
        title=("title",),
        company=("company_name",),
        place=("location.name", "offices.location", "offices.name"),
        pay=("pay_input_ranges",),
        text=("content",),
        css={
            "job_title": "h1.app-title, .job__title h1",
            "company_name": "#header .company-name, .job__header .company-name",
            "location": "#header .location, .job__location",
            "description": "#app_body #content, .job__description",
        },
        hosts=("greenhouse.io",),
        employer=r"greenhouse\.io/(?:embed/job_app\?for=)?([\w-]+)",
    ),
    System(
        "Lever",
        keys=frozenset({"categories", "hostedUrl"}),
        title=("text",),
        place=("categories.location", "categories.allLocations"),
        pay=("salaryRange", "salaryDescriptionPlain"),
        text=("description+lists.content+additional", "descriptionPlain+additionalPlain"),
        css={
            "job_title": ".posting-headline h2",
            "location": ".posting-categories .location, .posting-category.location",
            "salary_range": "[data-qa='salary-range']",
            "description": "[data-qa='job-description'], .section-wrapper.page-full-width",
        },
        hosts=("lever.co",),
        employer=r"jobs\.(?:eu\.)?lever\.co/([\w-]+)",
    ),
    System(
        "SmartRecruiters",
        keys=frozenset({"company", "refNumber"}),
        title=("name",),
        company=("company.name",),
        place=("location",),
        text=(
            (
                "jobAd.sections.companyDescription.text+jobAd.sections.jobDescription.text"
                "+jobAd.sections.qualifications.text+jobAd.sections.additionalInformation.text"
            ),
        ),
        css={"job_title": "h1.job-title", "location": "spl-job-location, [itemprop='jobLocation']"},
        hosts=("smartrecruiters.com",),
    ),
    System(
        "Workable",
        keys=frozenset({"shortcode"}),
        title=("title", "full_title"),
        company=("company.name", "account.name"),
        place=("location", "locations", "@"),
        pay=("salary",),
        text=("description+requirements+benefits",),
        css={
            "job_title": "[data-ui='job-title']",
            "company_name": "[data-ui='company-name']",
            "location": "[data-ui='job-location']",
            "description": "[data-ui='job-description']",
        },
        hosts=("workable.com",),
        employer=r"apply\.workable\.com/([\w-]+)/j/",
    ),
    System(
        "Personio",
        keys=frozenset({"jobDescriptions"}),
        title=("name",),
        company=("subcompany",),
        place=("office",),
        text=("jobDescriptions.jobDescription.value", "jobDescriptions.value"),
        css={
            "job_title": "h1.detail-title, .job-detail-title",
            "location": ".detail-subtitle [class*='office' i]",
            "description": ".detail-content, .job-detail-desc",
        },
        hosts=("personio.de", "personio.com"),
        employer=r"//([\w-]+)\.jobs\.personio\.(?:de|com)",
    ),
    System(
        "Ashby",
        keys=frozenset({"jobUrl", "descriptionHtml"}),
        title=("title",),
        place=("address.postalAddress", "location"),
        pay=("compensation.scrapeableCompensationSalarySummary", "compensation.compensationTierSummary"),
        text=("descriptionHtml", "descriptionPlain"),
        css={"job_title": "h1.ashby-job-posting-heading", "description": "[class*='_descriptionText']"},
        hosts=("ashbyhq.com",),
        employer=r"jobs\.ashbyhq\.com/([^/?#]+)",
    ),
    System(
        "Recruitee",
        keys=frozenset({"careers_url"}),
        title=("title",),
        company=("company_name",),
        place=("locations", "@", "location"),
        pay=("salary",),
        text=("description+requirements",),
        hosts=("recruitee.com",),
        employer=r"//([\w-]+)\.recruitee\.com",
    ),
    System(
        "Teamtailor",
        keys=frozenset({"_jobposting"}),
        title=("title", "_jobposting.title"),
        company=("_jobposting.hiringOrganization.name",),
        place=("_jobposting.jobLocation",),
        pay=("_jobposting.baseSalary",),
        text=("content_html", "_jobposting.description"),
        css={"description": "section.company-links ~ section .prose, [data-controller='careersite--jobs'] .prose"},
        hosts=("teamtailor.com",),
        employer=r"//([\w-]+)\.(?:\w{2}\.)?teamtailor\.com",
    ),
    System(
        "iCIMS",
        keys=frozenset({"jobtitle", "joblocation"}),
        title=("jobtitle",),
        company=("hiringorganization", "company"),
        place=("joblocation",),
        text=("overview+responsibilities+qualifications",),
        css={
            "job_title": ".iCIMS_Header h1, h1.iCIMS_Header",
            "location": ".iCIMS_JobHeader .header.left span + span, .iCIMS_JobHeaderGroup .iCIMS_JobHeaderData",
            "description": ".iCIMS_JobContent",
        },
        hosts=("icims.com",),
        employer=r"//(?:[\w]+-)?([\w]+)\.icims\.com",
    ),
    System(
        "Workday",
        keys=frozenset({"jobPostingInfo"}),
        title=("jobPostingInfo.title",),
        company=("hiringOrganization.name",),
        place=("jobPostingInfo.location", "jobPostingInfo.jobRequisitionLocation.descriptor"),
        text=("jobPostingInfo.jobDescription",),
        css={
            "job_title": "[data-automation-id='jobPostingHeader']",
            "location": "[data-automation-id='locations'] dd",
            "description": "[data-automation-id='jobPostingDescription']",
        },
        hosts=("myworkdayjobs.com", "myworkdaysite.com"),
        employer=r"//([\w-]+)\.(?:wd\d+\.)?myworkday(?:jobs|site)\.com",
    ),
    System(
        "SuccessFactors",
        css={
            "job_title": "[data-careersite-propertyid='title'], #job-title",
            "company_name": "[data-careersite-propertyid='company']",
            "location": "[data-careersite-propertyid='location'], .jobGeoLocation",
            "description": "[data-careersite-propertyid='description'], .jobdescription",
        },
        hosts=("successfactors.com", "successfactors.eu"),
    ),
    System(
        "SEEK",
        keys=frozenset({"advertiser", "content", "listedAt"}),
        title=("title",),
        company=("advertiser.name",),
        place=("location.label",),
        pay=("salary.label",),
        text=("content",),
        css={
            "job_title": "[data-automation='job-detail-title']",
            "company_name": "[data-automation='advertiser-name']",
            "location": "[data-automation='job-detail-location']",
            "salary_range": "[data-automation='job-detail-salary']",
            "description": "[data-automation='jobAdDetails']",
        },
        hosts=("seek.com.au", "seek.co.nz", "jobstreet.com"),
    ),
    System(
        "Indeed",
        css={
            "job_title": ".jobsearch-JobInfoHeader-title",
            "company_name": "[data-testid='inlineHeader-companyName'], .jobsearch-InlineCompanyRating-companyHeader",
            "location": "[data-testid='inlineHeader-companyLocation'], [data-testid='job-location']",
            "salary_range": "#salaryInfoAndJobType",
            "description": "#jobDescriptionText",
        },
        hosts=("indeed.com",),
    ),
    System(
        "StepStone",
        css={
            "job_title": "[data-at='header-job-title']",
            "company_name": "[data-at='metadata-company-name']",
            "location": "[data-at='metadata-location']",
            "salary_range": "[data-at='metadata-salary']",
            "description": "[data-at='job-ad-content']",
        },
        hosts=("stepstone.de", "stepstone.com"),
    ),
    System(
        "LinkedIn",
        css={
            "job_title": ".top-card-layout__title, .topcard__title",
            "company_name": ".topcard__org-name-link",
            "location": ".topcard__flavor--bullet",
            "salary_range": ".compensation__salary",
            "description": ".show-more-less-html__markup",
        },
        hosts=("linkedin.com",),
    ),
    System(
        "BambooHR",
        keys=frozenset({"jobOpeningName"}),
        title=("jobOpeningName",),
        place=("location", "atsLocation"),
        pay=("compensation",),
        text=("description",),
        hosts=("bamboohr.com",),
        employer=r"//([\w-]+)\.bamboohr\.com",
    ),
    System(
        "Rippling",
        keys=frozenset({"workLocation", "uuid"}),
        title=("name",),
        place=("workLocation.label", "workLocations"),
        text=("description.company+description.role",),
        hosts=("rippling.com", "rippling-ats.com"),
        employer=r"ats\.rippling\.com/(?:\w\w-\w\w/)?([\w-]+)",
    ),
    System(
        "Comeet",
        keys=frozenset({"url_comeet_hosted_page"}),
        title=("name",),
        company=("company_name",),
        place=("location",),
        text=("details.value",),
        hosts=("comeet.com", "comeet.co"),
        employer=r"comeet\.com?/jobs/([\w-]+)",
    ),
    System(
        "Eightfold",
        keys=frozenset({"canonicalPositionUrl"}),
        title=("name", "posting_name"),
        place=("location", "locations"),
        text=("job_description",),
        hosts=("eightfold.ai",),
        employer=r"//([\w-]+)\.eightfold\.ai",
    ),
    System(
        "BrassRing",
        css={
            "job_title": "span.TEXT[id='Job Title' i], span.TEXT[id='Position Title' i]",
            "description": "span.TEXT[id='Job Description' i]",
        },
        hosts=("brassring.com", "kenexa.com"),
    ),
    System(
        "Himalayas",
        keys=frozenset({"companySlug", "locationRestrictions"}),
        title=("title",),
        company=("companyName",),
        place=("locationRestrictions",),
        pay=("@",),
        text=("description",),
        hosts=("himalayas.app",),
    ),
    System(
        "Torre",
        keys=frozenset({"objective", "organizations"}),
        title=("objective",),
        company=("organizations.name",),
        place=("locations",),
        pay=("compensation.data",),
        hosts=("torre.ai", "torre.co"),
    ),
)
BOARDS = frozenset(
    "glassdoor monster xing jobnet totaljobs reed careerbuilder ziprecruiter dice simplyhired jobteaser jobindex finn "
    "infojobs pracuj naukri bayt gulftalent kenexa taleo jobvite jazzhr breezyhr easycruit hrmanager emply "
    "softgarden concludis umantis zohorecruit pinpointhq dayforce paylocity paycom phenom avature cornerstone "
    "oraclecloud weworkremotely remoteok welcometothejungle".split()
) | {system.name.casefold() for system in SYSTEMS}
"""Names of systems and boards: none of them is the employer, unless structured data has it so."""
