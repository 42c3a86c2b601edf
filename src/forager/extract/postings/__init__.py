"""Reads job postings: applicant tracking systems, job boards, and pages without markup. Pure."""
