"""How advertised jobs are read: applicant tracking systems, job boards, and pages without markup. Pure."""
