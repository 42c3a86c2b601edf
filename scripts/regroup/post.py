"""Text edits after the codemod: configuration and places that a codemod cannot see. usage: post.py TREE"""
import pathlib, sys, re
T = pathlib.Path(sys.argv[1])
def edit(path, *pairs, must=True):
    p = T / path; s = p.read_text()
    for a, b in pairs:
        if a not in s:
            if must: print('POST: not found', path, repr(a)[:80])
            continue
        s = s.replace(a, b)
    p.write_text(s)
edit('pyproject.toml',
 ('"forager.kit -> forager.core",', '"forager.sdk -> forager.core",'),
 ('"forager.offload -> forager.core",', '"forager.reading -> forager.core",'),
 ('"forager.ledger -> forager.core, forager.kit.queries, forager.kit.reports"', '"forager.ledger -> forager.core, forager.sdk.queries, forager.sdk.reports"'),
 ('"forager.pipelines -> forager.core, forager.extract, forager.kit"', '"forager.pipelines -> forager.core, forager.extract, forager.sdk"'),
 ('forager.kit.settings, forager.kit.setting_types', 'forager.sdk.settings'),
 ('"forager.sinks -> forager.core, forager.kit, forager.storage"', '"forager.sinks -> forager.core, forager.sdk, forager.storage"'),
 ('    "forager.politeness -> forager.core",\n', ''),
 ('"forager.logs -> forager.core"', '"forager.logging -> forager.core"'),
 ('    "forager.features -> forager.kit, forager.pipelines, forager.sinks",\n    "forager.config -> forager.features, forager.settings, forager.storage",\n    "forager.waiting -> forager.core, forager.engine, forager.ledger, forager.politeness",\n    "forager.lane_switch -> forager.core, forager.ledger, forager.app",\n    "forager.wiring -> *",\n', ''),
 ('    "forager.reading -> forager.core, forager.kit, forager.config, forager.cli",\n', '    "forager.client -> *",  # opens the application in this process where no service runs\n'),
 ('edges_may_import = ["forager.kit"]', 'edges_may_import = ["forager.sdk"]'),
 (' "forager.politeness",', ''), (' "forager.config",', ''),
 ('source_modules = ["forager.core", "forager.kit"]', 'source_modules = ["forager.core", "forager.sdk"]'),
 ('# (app, wiring, config, features) and the front doors (api, cli) know several of them.', '# (app) and the front doors (api, cli, client) know several of them.'),
)
