"""The files of the dashboard: ES modules, style sheets and one page, served by `forager.api.dashboard` as they are.

`lib/` has the signals and templates, the requests and the addresses; `parts/` what several pages use; `pages/` one file
for each page. A pipeline's own page is in its folder (`pipelines/<name>/page/`) and is named by its feature. Nothing
is built, and nothing is loaded from elsewhere.
"""
