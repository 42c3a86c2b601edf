"""The extractors that ship. Another package adds its own by an entry point (`extractor.ENTRY_POINTS`)."""

from forager.pipelines.scrape.extractor import Extractor
from forager.pipelines.scrape.extractors.company_website import company_website
from forager.pipelines.scrape.extractors.job_posting import job_posting
from forager.pipelines.scrape.extractors.linkedin_profile import linkedin_profile
from forager.pipelines.scrape.extractors.listing import listing
from forager.pipelines.scrape.extractors.page import page
from forager.pipelines.scrape.extractors.product import product

EXTRACTORS: tuple[Extractor, ...] = (linkedin_profile, company_website, job_posting, product, listing, page)
